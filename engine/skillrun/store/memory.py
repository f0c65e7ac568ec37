"""A run in memory: its journal, files and lease, for dry runs, views and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from skillrun.repository.confined_folder import ConfinedFolder, WriteGuard
from skillrun.store.base_journal import RESTORE_HINT, ChainedJournal, Index, accept_any_body
from skillrun.store.files import check_run_exists
from skillrun.store.journal import BodyCheck, JournalDamaged, JournalRow
from skillrun.store.lease import LeaseLost
from skillrun.store.named_files import NamedFiles
from skillrun.syntax.diagnostics import SkillrunError


class MemoryJournal(ChainedJournal):
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

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The stored records, in order."""
        return self._rows

    def _check_place(self) -> None:
        if self._guard is not None:
            self._guard.check()

    def _check_rows(self, rows: Sequence[JournalRow]) -> None:  # noqa: ARG002 (all rows are checked alike)
        if self._guard is not None:
            self._guard.check(verify_path=False)

    def _persist(self, rows: Sequence[JournalRow]) -> None:
        self._rows.extend(rows)

    def _row(self, seq: int) -> JournalRow:
        if not 0 < seq <= len(self._rows):
            raise JournalDamaged(f"record {seq} of the journal is missing", RESTORE_HINT)
        return self._rows[seq - 1]


class MemoryFiles(NamedFiles):
    """The `Files` of a run in memory. `runs` is the folder in which to find other runs; without it, there are none."""

    def __init__(self, runs: Path | None = None, *, guard: WriteGuard | None = None) -> None:
        super().__init__(Path("run"))
        self._runs, self._guard = runs, guard
        self._kept: dict[str, bytes] = {}
        self._made = {"."}

    @property
    def _contents(self) -> dict[str, bytes]:
        return self._kept

    @property
    def _folders(self) -> set[str]:
        return self._made

    def open_other_run(self, name: str) -> ConfinedFolder:
        if self._runs is None:
            raise SkillrunError(f"no run is named `{name}`")
        check_run_exists(self._runs.resolve(), name)
        return ConfinedFolder(self._runs.resolve() / name)

    def _check(self) -> None:
        if self._guard is not None:
            self._guard.check()

    def _put(self, key: str, content: bytes, precondition: Callable[[], None]) -> None:
        precondition()
        self._contents[key] = content

    def _rename(self, key: str, new: str) -> None:
        self._contents[new] = self._contents.pop(key)

    def _drop(self, files: Iterable[str], folders: Iterable[str]) -> None:
        for file in files:
            del self._contents[file]
        self._folders.difference_update(folders)

    def _add_folder(self, key: str) -> None:
        self._folders.add(key)


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
        """Take the run from its holder."""
        self._is_held, self._is_lost = False, True

    def check(self, *, verify_path: bool = True) -> None:  # noqa: ARG002 (it has no path)
        if self._is_lost:
            raise LeaseLost("the run was taken from its holder", "hold it again")
