"""Interfaces of stores and runs: the operations that are needed to start, resume and view a run.

`local/` implements runs in folders, `extensions/workers/postgres/` runs in a store that several machines share.
`memory.py` has a lease in memory; the contract of leases is `tests/contract/test_lease.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from skillrun.models.entries import ConcurrencyLimits
from skillrun.repository.confined_folder import WriteGuard
from skillrun.store.event_lines import Record, Transcript
from skillrun.store.files import Files
from skillrun.store.journal import Journal
from skillrun.store.memory import MemoryJournal
from skillrun.store.run_data import RunData
from skillrun.store.state import STATE, State
from skillrun.syntax.diagnostics import UsageError
from skillrun.templates.functions import to_single_line
from skillrun.types.slugs import cut_slug, make_slug

MAX_NAME: Final = 40  # characters of a name that is made from a request
MAX_REQUEST: Final = 100  # characters of a request in a list of runs


def slug_from_request(request: str) -> str:
    """Return a slug made from the request. Callers append a number if the slug is taken."""
    return cut_slug(make_slug(request), MAX_NAME) or "run"


class Lease(Protocol):
    """The right to evaluate one run.

    A process has the lease from `hold` until the process releases or loses the run, or dies.
    """

    def hold(self) -> AbstractContextManager[WriteGuard]:
        """Hold the run while the context lasts.

        Raises SkillrunError, which names the holder, if another process holds the run. The guard raises an error if
        another process has taken the run or, with `verify_path`, if the run has moved. The journal calls the guard
        before every commit, and the files call it before every write. `verify_path` is used before a model call.
        """
        ...

    def is_held(self) -> bool:
        """Whether any process holds the run now; changes nothing."""
        ...


class RunNotStarted(UsageError):
    """A submitted run that no worker has started yet."""


class StoredRun(ABC):
    """One run. Opening the run does not take its lease."""

    lease: Lease
    folder: Path | None = None
    """The folder of the run; None if it is not in a folder."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def location(self) -> str:
        """The location, for messages."""

    @abstractmethod
    def command_argument(self, project: Path) -> str:
        """Return the argument that names the run in a command executed in `project`.

        It is the run's name if the run is stored where the project stores its runs.
        """

    @property
    def has_state(self) -> bool:
        """Whether the run has started."""
        return self.files().has(STATE)

    @property
    @abstractmethod
    def has_journal(self) -> bool: ...

    @abstractmethod
    def check(self) -> None:
        """Raises SkillrunError if the run contains a kind of file that no run writes, such as a link."""

    @abstractmethod
    def check_engine_files(self) -> None:
        """Raises SkillrunError if a started run lacks the files of the engine."""

    @abstractmethod
    def check_lease(self) -> None:
        """Raises LeaseLost if this process held the run and has lost it."""

    # contents

    @abstractmethod
    def open_journal(self, *, create: bool = False) -> Journal:
        """Open the journal, for the holder of the run. With `create`, create it if it is missing.

        Raises SkillrunError if the journal is damaged.
        """

    @abstractmethod
    def read_journal(self, *, while_held: bool = False) -> MemoryJournal:
        """Return the journal so far, for reading only.

        Raises SkillrunError if it is damaged or, without `while_held`, if another process holds the run.
        """

    @abstractmethod
    def files(self, *, shared: bool = False) -> Files:
        """Return the files. With `shared`, other users can read new files."""

    def data(self, journal: Journal | None = None, *, shared: bool = False) -> RunData:
        """Return the artifacts, summaries and state. Without a journal, they are read-only."""
        return RunData(self.files(shared=shared), journal)

    def state(self) -> State:
        """Return the state in `state.md`. Raises SkillrunError."""
        return self.data().state.read()[0]

    @abstractmethod
    def status(self, state: State) -> str:
        """Return the status from the state, or a more recent status that the store has.

        If the state is `running` but no process holds the run, the status is `interrupted`.
        """

    @abstractmethod
    def copy_files(self, target: Files) -> list[str]:
        """Copy the run's files, except those of the engine, and return the names that `check_name` refuses.

        Files with these names are left out. Raises SkillrunError if the files are too large.
        """

    @abstractmethod
    def open_transcript(self) -> Transcript:
        """Open the transcript for further events."""

    @abstractmethod
    def transcript_lines(self) -> Iterator[str]:
        """Yield the lines of the transcript so far. Raises OSError, SkillrunError."""

    @abstractmethod
    def events(self, *, follow: bool = False) -> Iterator[Record]:
        """Yield the events so far. With `follow`, continue until the run ends."""

    # starting and resuming

    @abstractmethod
    def rollback_on_failure(self) -> AbstractContextManager[None]:
        """If the context fails before the run has a state, remove all files that it created. Earlier files stay."""

    @abstractmethod
    def apply_permissions(self, *, shared: bool) -> None:
        """Make the run private to its owner or, with `shared`, readable by others.

        Has no effect in a store without file owners.
        """


@dataclass(frozen=True)
class RunListing:
    """A run in a list of runs. `unreadable` is the reason why the run cannot be read, or empty."""

    name: str
    status: str
    workflow: str = ""
    phase: tuple[str, ...] = ()
    round: int | None = None
    started_at: str = ""
    unreadable: str = ""
    request: str = ""
    """The beginning of the request, on one line. The request is the first text among the inputs."""

    @classmethod
    def from_state(cls, name: str, status: str, state: State) -> RunListing:
        texts = (value for value in state.inputs.values() if isinstance(value, str) and value.strip())
        request = to_single_line(next(texts, ""), MAX_REQUEST)
        return cls(name, status, state.workflow, tuple(state.phase), state.round, state.started_at, request=request)


class Store(Protocol):
    """Stores runs by name."""

    @property
    def location(self) -> str:
        """The location, for messages."""
        ...

    def create_run(self, name: str, *, shared: bool) -> StoredRun:
        """Return a run to start, under a free or reserved name. Raises UsageError if the name cannot be used."""
        ...

    def open_run(self, name: str) -> StoredRun:
        """Return a run that has started. Raises UsageError if it does not exist."""
        ...

    def list_runs(self) -> Iterator[tuple[str, StoredRun | Exception]]:
        """Yield the name of each run that has started, with the run, or with the error if the run cannot be read."""
        ...

    def overview(self, status: str = "", most: int = 0) -> list[RunListing]:
        """Return the runs, newest first. `status` selects runs by status; `most` is the maximum number, 0 for all."""
        ...

    def reserve_name(self, request: str, *, shared: bool = False) -> str:
        """Reserve a free name made from the request, and return it. The name stays reserved until `release_name`."""
        ...

    def release_name(self, name: str) -> None:
        """Release a reserved name. No run has started under this name."""
        ...

    def has(self, name: str) -> bool:
        """Whether a run with this name has started."""
        ...

    def run_location(self, name: str) -> str:
        """Return the location of a run, even if the run no longer exists."""
        ...

    def command_argument(self, name: str, project: Path) -> str:
        """Return the argument that names the run in a command executed in `project`."""
        ...


class SharedStore(Protocol):
    """An open store that several machines share. An extension provides it."""

    @property
    def runs(self) -> Store: ...

    def slots(self) -> ConcurrencyLimits:
        """Return the limits on parallel calls that all workers of the store share."""
        ...

    def requeue(self, name: str) -> bool:
        """Queue a run for the workers, and return whether it was queued.

        A run is not queued if it was never submitted, is already queued, has completed, or was cancelled.
        """
        ...
