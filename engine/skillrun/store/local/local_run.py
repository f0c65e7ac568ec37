"""A run on the disk, from outside: what beginning it, going on with it and looking at it ask of its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from skillrun.checker.program import Program
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.base_journal import RESTORE_HINT
from skillrun.store.errors import file_error
from skillrun.store.event_lines import Record
from skillrun.store.files import LARGEST, Files, walk_folders
from skillrun.store.journal import Journal
from skillrun.store.journal_bodies import body_fits
from skillrun.store.local.atomic import apply_shared_modes
from skillrun.store.local.journal import SqliteJournal, read_journal, read_snapshot
from skillrun.store.local.local_files import LocalFiles, check_folder
from skillrun.store.local.lock import ENGINE_FOLDER, LocalLease
from skillrun.store.local.migration import migrate_from_v1, read_v1_state
from skillrun.store.local.signing_key import ensure_signing_key, read_signing_key
from skillrun.store.local.transcript import LocalTranscript, read_events, read_lines
from skillrun.store.local.verification import JOURNAL, WITNESS, JournalShortened, check_journal_files
from skillrun.store.memory import MemoryJournal
from skillrun.store.run_data import RunData, format_run_argument
from skillrun.store.seal import is_sealed
from skillrun.store.state import STATE, State
from skillrun.syntax.diagnostics import SkillrunError

MAX_COPY_BYTES: Final = 500_000_000  # bytes
NOT_STARTED_HINT: Final = "nothing was begun; mend that, and type the command again"


class LocalRun:
    """The folder of a run. Nobody holds it by this alone."""

    def __init__(self, folder: ConfinedFolder | Path) -> None:
        self._tree = folder if isinstance(folder, ConfinedFolder) else ConfinedFolder(folder)
        self.lease = LocalLease(self._tree)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tree.close()

    @property
    def name(self) -> str:
        return self._tree.path.name

    @property
    def path(self) -> Path:
        return self._tree.path

    @property
    def folder(self) -> Path:
        return self._tree.path

    @property
    def location(self) -> str:
        """Where people find it."""
        return str(self._tree.path)

    def belongs_to(self, project: Path) -> bool:
        """Whether it is kept where that project keeps its runs."""
        return self._tree.path.parent == project.resolve() / "runs"

    def command_argument(self, project: Path) -> str:
        """What a command takes for this run when it is typed in the project."""
        return format_run_argument(self._tree.path, project)

    @property
    def has_state(self) -> bool:
        """Whether the run has begun."""
        return self._tree.stat_file(STATE) is not None

    @property
    def has_journal(self) -> bool:
        return check_journal_files(self._tree)

    def check(self) -> None:
        """Raises PathRefused where something that a run's own files should be is a link or nothing regular."""
        check_folder(self._tree)

    def is_sealed(self, program: Program, state: State, project: Path) -> bool:
        """Whether this user's own run has written the state, in this project. A broken key seals nothing."""
        try:
            key = read_signing_key()
        except (OSError, SkillrunError):
            return False
        return is_sealed(program, state, project, key)

    def sealing_key(self) -> bytes:
        """The user's key, made where there is none. Raises OSError, SkillrunError where it cannot be had."""
        return ensure_signing_key()

    def check_lease(self) -> None:
        """Raises LeaseLost where this process held the run and has lost it."""
        self._tree.check()

    def check_engine_files(self) -> None:
        """Raises JournalShortened where what the engine keeps was removed: made anew by the lock, it would stand in the
        way of the one that is put back."""
        if self._tree.identity(ENGINE_FOLDER) is None:
            raise JournalShortened(
                f"{self._tree.path / ENGINE_FOLDER} is missing, and the journal with it", RESTORE_HINT
            )

    # what is in it

    def open_or_create_journal(self) -> Journal:
        """The journal, made when there is none."""
        there = any(self._tree.stat_file(name) is not None for name in (JOURNAL, WITNESS))
        return SqliteJournal.open(self._tree, body_fits) if there else SqliteJournal.create(self._tree, body_fits)

    def open_journal(self) -> Journal:
        """The journal, for who holds the run. Raises SkillrunError where it is not whole."""
        return SqliteJournal.open(self._tree, body_fits)

    def read_only_journal(self) -> MemoryJournal:
        """The journal for who only looks. Raises SkillrunError, also while another process has the run."""
        return read_journal(self._tree, body_fits)

    def journal_snapshot(self) -> MemoryJournal:
        """The journal for who only looks, as far as it has come where a process has the run. Raises SkillrunError."""
        return read_snapshot(self._tree, body_fits)

    def data(self, journal: Journal | None = None, *, shared: bool = False) -> RunData:
        """Artifacts, summaries and state; without a journal they can be looked at."""
        return RunData(LocalFiles(self._tree, shared=shared), journal)

    def state(self) -> State:
        """The state that `state.md` holds. Raises SkillrunError."""
        return self.data().state.read()[0]

    def status(self, state: State) -> str:
        """The status; a run that says it is running and that no process holds was cut off."""
        return "interrupted" if state.status == "running" and not self.lease.is_held() else state.status

    def copy_files(self, target: Files) -> None:
        """Copy what it holds but `.run`: regular files only. Raises SkillrunError where they are too many."""
        remaining = MAX_COPY_BYTES
        for folder in walk_folders(self._tree):
            if folder == ".run" or folder.startswith(".run/"):
                continue
            for name, kind in self._tree.entries(folder):
                path = name if folder == "." else f"{folder}/{name}"
                if kind != "file" or not self._tree.is_file(path):
                    continue
                content = self._tree.read(path, min(remaining, LARGEST))
                remaining -= len(content)
                if remaining < 0 or len(content) > LARGEST:
                    message = f"the files in {self._tree.path} are too large to be looked through"
                    raise SkillrunError(message, f"move {path} away")
                target.write(path, content)

    def open_transcript(self) -> LocalTranscript:
        """What hears the events of the run from now on."""
        return LocalTranscript(self._tree)

    def transcript_lines(self) -> Iterator[str]:
        """The events so far, as they are kept. Raises OSError, SkillrunError."""
        return (line.decode() for line in read_lines(self._tree))

    def events(self, *, follow: bool = False) -> Iterator[Record]:
        """The events so far, and with `follow` those that come until the run ends."""
        return read_events(self._tree, follow=follow)

    # while it is begun, or gone on with

    def v1_state(self) -> Mapping[str, Any] | None:
        """The state of a run of the first version; None for any other."""
        return read_v1_state(self._tree)

    def migrate_v1_run(self, old: Mapping[str, Any], program: Program, now: str) -> list[str]:
        """Hold a run of the first version and bring it forward; what was done, a line each. Raises SkillrunError."""
        with self.lease.hold():
            return migrate_from_v1(self._tree, old, program, now)

    def apply_permissions(self, *, shared: bool) -> None:
        """Have the folder be its owner's alone or, with `shared`, readable by whom the umask allows."""
        with suppress(PermissionError):  # file systems of other machines, where modes mean nothing
            if shared:  # it may have begun as a private one
                apply_shared_modes(self._tree)
            else:
                self._tree.make_private()

    @contextmanager
    def rollback_on_failure(self) -> Iterator[None]:
        """Where beginning a run fails before it has a state, leave nothing of it; what was there before stays."""
        is_new = self._tree.stat_file(JOURNAL) is None and self._tree.stat_file(WITNESS) is None
        try:
            yield
        except BaseException as error:
            if not is_new or self.has_state:
                raise
            with suppress(OSError, SkillrunError):
                self._tree.remove(".run")
                self._tree.path.rmdir()
            if isinstance(error, OSError):
                raise SkillrunError(file_error(error).message, NOT_STARTED_HINT) from error
            if type(error) is SkillrunError:
                raise SkillrunError(error.message, NOT_STARTED_HINT) from error
            raise
