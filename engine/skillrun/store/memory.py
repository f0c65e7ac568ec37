"""A run in memory: its journal, files and lease, for dry runs, views and tests."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from posixpath import basename, dirname

from skillrun.repository.confined_folder import LONGEST, ConfinedFolder, EntryKind, WriteGuard
from skillrun.repository.matching import find_matching_files
from skillrun.repository.paths import PathRefused
from skillrun.store.files import LARGEST, Files, LeaseLost, check_run_exists, encode, normalize_path
from skillrun.store.journal import (
    RESTORE_HINT,
    BodyCheck,
    Index,
    Journal,
    JournalDamaged,
    JournalRow,
    accept_any_body,
)
from skillrun.store.kill_points import kill_point
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quote_value


class MemoryJournal(Journal):
    """A `Journal` in memory: empty, or with the `rows` and the index of another journal."""

    def __init__(
        self,
        rows: Iterable[JournalRow] = (),
        index: Index | None = None,
        fits: BodyCheck = accept_any_body,
        warning: str = "",
        *,
        guard: WriteGuard | None = None,
    ) -> None:
        super().__init__(Index() if index is None else index, fits, warning)
        self._rows = list(rows)
        self._guard = guard

    def _check_place(self) -> None:
        if self._guard is not None:
            self._guard.check()

    def _persist(self, rows: Sequence[JournalRow]) -> None:
        if self._guard is not None:
            self._guard.check(verify_path=False)
        self._rows.extend(rows)

    def _row(self, seq: int) -> JournalRow:
        if not 0 < seq <= len(self._rows):
            raise JournalDamaged(f"record {seq} of the journal is missing", RESTORE_HINT)
        return self._rows[seq - 1]


class MemoryFiles:
    """The `Files` of a run, stored by name: in memory or, in a subclass, in a database.

    Every change calls `_check` first, and is made completely or not at all. A subclass overrides the methods up to
    `_add_folder`. `runs` is the folder that contains other runs. A copy of a stored run has the name of its `original`,
    and finds the same other runs. Without both, there are no other runs.
    """

    def __init__(
        self, runs: Path | None = None, *, original: Files | None = None, guard: WriteGuard | None = None
    ) -> None:
        self.path = Path("run" if original is None else original.path.name)
        self._runs, self._original, self._guard = runs, original, guard
        self._kept: dict[str, bytes] = {}
        self._made = {"."}

    @property
    def _contents(self) -> Mapping[str, bytes]:
        """The contents of the current files, keyed by name."""
        return self._kept

    @property
    def _folders(self) -> set[str]:
        """The current folders, including `.`."""
        return self._made

    def open_other_run(self, name: str) -> ConfinedFolder:
        """Open the folder of another run in the same store. Raises SkillrunError if it does not exist."""
        if self._original is not None:
            return self._original.open_other_run(name)
        if self._runs is None:
            raise SkillrunError(f"no run is named `{name}`")
        check_run_exists(Path(os.path.realpath(self._runs)), name)
        return ConfinedFolder(Path(os.path.realpath(self._runs)) / name)

    def _check(self) -> None:
        """Raises LeaseLost if another process has claimed the run."""
        if self._guard is not None:
            self._guard.check()

    def _put(self, key: str, content: bytes, precondition: Callable[[], None]) -> None:
        """Call `precondition`, then write the file. Its parent folders exist."""
        precondition()
        self._kept[key] = content

    def _rename(self, key: str, new: str) -> None:
        """Rename a file, replacing any file at `new`."""
        self._kept[new] = self._kept.pop(key)

    def _drop(self, files: Iterable[str], folders: Iterable[str]) -> None:
        """Remove files and folders."""
        for file in files:
            del self._kept[file]
        self._made.difference_update(folders)

    def _add_folder(self, key: str) -> None:
        self._made.add(key)

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

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]:
        key = _key(name)
        if key not in self._folders:
            raise _error(errno.ENOTDIR, self.path / name) if key in self._contents else self._missing(name)
        paths: list[tuple[str, EntryKind]] = [(path, "file") for path in self._contents]
        paths += [(path, "folder") for path in self._folders if path != "."]
        return sorted((basename(path), kind) for path, kind in paths if (dirname(path) or ".") == key)

    def matching(self, pattern: str) -> list[str]:
        return find_matching_files(self, pattern)

    def write(self, name: str, content: str | bytes, *, precondition: Callable[[], None] = lambda: None) -> None:
        key = self._prepare_key(name)
        self._check()
        kill_point(f"rename {basename(key)}: before")
        self._put(key, encode(content), precondition)
        kill_point(f"rename {basename(key)}: after")

    def write_new(self, name: str, content: str | bytes) -> bool:
        if self.is_taken(name):
            return False
        self.write(name, content)
        return True

    def move(self, name: str, target: str) -> None:
        if not self.has(name):
            raise self._missing(name)
        new = self._prepare_key(target)
        self._check()
        kill_point(f"rename {name}: before")
        self._rename(_key(name), new)
        kill_point(f"rename {name}: after")

    def remove(self, name: str) -> None:
        key = _key(name)
        if not self.is_taken(name):
            raise self._missing(name)
        self._check()
        below = f"{key}/"
        inside = [[each for each in kept if f"{each}/".startswith(below)] for kept in (self._contents, self._folders)]
        self._drop(*inside)

    def make_folder(self, name: str) -> None:
        key = _key(name)
        self._make_parents(key, name)
        if key not in self._contents and key not in self._folders:
            self._add_folder(key)

    def remove_leftovers(self) -> None:
        """Nothing to remove: a killed write leaves nothing."""

    def _prepare_key(self, name: str) -> str:
        """Make the parent folders of a file, and return the file's key."""
        key = _key(name)
        if key in self._folders:
            raise _error(errno.EISDIR, self.path / name)
        self._make_parents(key, name)
        return key

    def _make_parents(self, key: str, name: str) -> None:
        for folder in _parent_folders(key):
            if folder in self._contents:
                raise _error(errno.ENOTDIR, self.path / name)
            if folder not in self._folders:
                self._add_folder(folder)

    def _missing(self, name: str) -> OSError:
        is_below = any(folder in self._contents for folder in _parent_folders(_key(name)))
        return _error(errno.ENOTDIR if is_below else errno.ENOENT, self.path / name)


def _key(name: str) -> str:
    """Return the canonical form of a name. Raises PathRefused for a name that leads out of the run."""
    if "\0" in name or len(name) > LONGEST:
        raise PathRefused(f"{quote_value(name)} is not a valid path")
    return normalize_path(name) or "."


def _parent_folders(key: str) -> list[str]:
    """Return the parent folders of a name, the outermost first."""
    return [key[:at] for at, sign in enumerate(key) if sign == "/"]


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


class MemoryLease:
    """The `Lease` of a run within a process, and the guard of its journal and files."""

    def __init__(self) -> None:
        self._is_held = self._is_lost = False

    @contextmanager
    def hold(self) -> Iterator[MemoryLease]:
        if self.is_held():
            raise SkillrunError("the run is held in this process", "Release it first.")
        self._is_held, self._is_lost = True, False
        try:
            yield self
        finally:
            self._is_held = False

    def is_held(self) -> bool:
        return self._is_held

    def lose(self) -> None:
        """End the lease, as if another process had taken the run."""
        self._is_held, self._is_lost = False, True

    def check(self, *, verify_path: bool = True) -> None:  # noqa: ARG002 (it has no path)
        if self._is_lost:
            raise LeaseLost("the run was taken from its holder", "hold it again")
