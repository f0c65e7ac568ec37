"""A run that nobody keeps: its journal, files and lease in memory, for what is walked through, looked at or tested."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from skillrun.language.text.diagnostics import SkillrunError
from skillrun.language.types.schemas import quoted
from skillrun.runtime.store.chained import KEPT, ChainedJournal, anything
from skillrun.runtime.store.checkpoints import reached
from skillrun.runtime.store.files import LARGEST, check_other, encoded
from skillrun.runtime.store.index import Index
from skillrun.runtime.store.journal import Fits, JournalDamaged
from skillrun.runtime.store.lease import RunLost
from skillrun.runtime.store.rows import JournalRow
from skillrun.tools.matching import matching
from skillrun.tools.paths import PathRefused
from skillrun.tools.tree import LONGEST, Guard, Kind, Tree


class MemoryJournal(ChainedJournal):
    """A `Journal` that lasts as long as the process: empty, or one that was read from elsewhere, `rows` and index."""

    def __init__(
        self,
        rows: Iterable[JournalRow] = (),
        index: Index | None = None,
        fits: Fits = anything,
        doubt: str = "",
        *,
        guard: Guard | None = None,
    ) -> None:
        super().__init__(Index() if index is None else index, fits, doubt)
        self._rows = list(rows)
        self._guard = guard

    def _check_place(self) -> None:
        if self._guard is not None:
            self._guard.check()

    def _check_rows(self, rows: Sequence[JournalRow]) -> None:  # noqa: ARG002 (the same for all)
        if self._guard is not None:
            self._guard.check(here=False)

    def _keep(self, rows: Sequence[JournalRow]) -> None:
        self._rows.extend(rows)

    def _row(self, seq: int) -> JournalRow:
        if not 0 < seq <= len(self._rows):
            raise JournalDamaged(f"record {seq} of the journal is not there", KEPT)
        return self._rows[seq - 1]


class MemoryFiles:
    """The `Files` of a run in memory. Other runs are those in the folder `runs`, or none."""

    def __init__(self, runs: Path | None = None, *, guard: Guard | None = None) -> None:
        self.path, self._runs, self._guard = Path("run"), runs, guard
        self._contents: dict[str, bytes] = {}
        self._folders: set[str] = {"."}

    def has(self, name: str) -> bool:
        key = _key(name)
        if key in self._folders:
            raise _error(errno.EISDIR, self.path / name)
        return key in self._contents

    def is_file(self, name: str) -> bool:
        try:
            return _key(name) in self._contents
        except PathRefused:
            return False

    def is_folder(self, name: str) -> bool:
        try:
            return _key(name) in self._folders
        except PathRefused:
            return False

    def is_taken(self, name: str) -> bool:
        return _key(name) in self._contents or _key(name) in self._folders

    def read(self, name: str, limit: int = LARGEST) -> bytes:
        if not self.has(name):
            raise self._missing(name)
        return self._contents[_key(name)][: limit + 1]

    def entries(self, name: str = ".") -> list[tuple[str, Kind]]:
        key = _key(name)
        if key not in self._folders:
            raise _error(errno.ENOTDIR, self.path / name) if key in self._contents else self._missing(name)
        inside: list[tuple[str, Kind]] = [(_leaf(path), "file") for path in self._contents if _parent(path) == key]
        inside += [(_leaf(path), "folder") for path in self._folders if path != "." and _parent(path) == key]
        return sorted(inside)

    def matching(self, pattern: str) -> list[str]:
        return matching(self, pattern)

    def write(self, name: str, content: str | bytes, *, last: Callable[[], None] = lambda: None) -> None:
        key = self._prepared(name)
        self._check()
        reached(f"rename {_leaf(key)}: before")
        last()
        self._contents[key] = encoded(content)
        reached(f"rename {_leaf(key)}: after")

    def write_new(self, name: str, content: str | bytes) -> bool:
        if self.is_taken(name):
            return False
        self.write(name, content)
        return True

    def move(self, name: str, target: str) -> None:
        if not self.has(name):
            raise self._missing(name)
        new = self._prepared(target)
        self._check()
        reached(f"rename {name}: before")
        self._contents[new] = self._contents.pop(_key(name))
        reached(f"rename {name}: after")

    def remove(self, name: str) -> None:
        key = _key(name)
        if not self.is_taken(name):
            raise self._missing(name)
        self._check()
        below = f"{key}/"
        self._contents = {each: kept for each, kept in self._contents.items() if not f"{each}/".startswith(below)}
        self._folders = {path for path in self._folders if not f"{path}/".startswith(below)}

    def make_folder(self, name: str) -> None:
        key = _key(name)
        for folder in _above(key):
            self._make(folder, name)
        if key not in self._contents:
            self._folders.add(key)

    def other(self, name: str) -> Tree:
        if self._runs is None:
            raise SkillrunError(f"there is no run `{name}` beside this one")
        check_other(self._runs.resolve(), name)
        return Tree(self._runs.resolve() / name)

    def sweep(self) -> None:
        """A write that is killed leaves nothing here."""

    def _check(self) -> None:
        if self._guard is not None:
            self._guard.check()

    def _prepared(self, name: str) -> str:
        """The key to write at, its folders made."""
        key = _key(name)
        if key in self._folders:
            raise _error(errno.EISDIR, self.path / name)
        for folder in _above(key):
            self._make(folder, name)
        return key

    def _make(self, folder: str, name: str) -> None:
        """A folder on the way to a name."""
        if folder in self._contents:
            raise _error(errno.ENOTDIR, self.path / name)
        self._folders.add(folder)

    def _missing(self, name: str) -> OSError:
        is_below = any(folder in self._contents for folder in _above(_key(name)))
        return _error(errno.ENOTDIR if is_below else errno.ENOENT, self.path / name)


class MemoryLease:
    """The `Lease` of a run that one process has, and the guard of its journal and files."""

    def __init__(self) -> None:
        self._is_held = self._is_lost = False

    @contextmanager
    def hold(self) -> Iterator[MemoryLease]:
        if self.is_held():
            raise SkillrunError("the run is held in this process", "Let it go first.")
        self._is_held, self._is_lost = True, False
        try:
            yield self
        finally:
            self._is_held = False

    def is_held(self) -> bool:
        return self._is_held

    def lose(self) -> None:
        """Take the run from who has it."""
        self._is_held, self._is_lost = False, True

    def check(self, *, here: bool = True) -> None:  # noqa: ARG002 (it is nowhere)
        if self._is_lost:
            raise RunLost("the run was taken from who had it", "hold it again")


def _key(name: str) -> str:
    """The one spelling of a name. Raises PathRefused for one that leads out."""
    if "\0" in name or len(name) > LONGEST:
        raise PathRefused(f"{quoted(name)} is no path")
    if name.startswith("/"):
        raise PathRefused(f"{quoted(name)} leads out of its folder", "It is absolute; write it from the folder on.")
    parts: list[str] = []
    for part in name.split("/"):
        if part == "..":
            if not parts:
                raise PathRefused(f"{quoted(name)} leads out of its folder", "It goes up with `..`.")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or "."


def _leaf(key: str) -> str:
    return key.rpartition("/")[2]


def _parent(key: str) -> str:
    return key.rpartition("/")[0] or "."


def _above(key: str) -> list[str]:
    """The folders on the way to a name, the outermost first."""
    return [key[:at] for at, sign in enumerate(key) if sign == "/"]


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
