"""Stores and their runs: the operations that are needed to start, resume and view a run.

Protocols; `local/local_run.py` has runs in folders, `postgres/stored_run.py` in a store that several machines share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from skillrun.checker.program import Program
from skillrun.events import Listener
from skillrun.models.concurrency import ConcurrencyLimits
from skillrun.store.event_lines import Record
from skillrun.store.files import Files
from skillrun.store.journal import Journal
from skillrun.store.lease import Lease
from skillrun.store.memory import MemoryJournal
from skillrun.store.run_data import RunData
from skillrun.store.state import State
from skillrun.syntax.diagnostics import UsageError
from skillrun.templates.functions import slug


def slug_from_request(request: str) -> str:
    """Return the slug of a request; a run appends a number if it is taken."""
    return (slug(request)[:40].strip("-") or "run") if re.search(r"[A-Za-z0-9]", request) else "run"


class RunNotStarted(UsageError):
    """A submitted run that no worker has started yet."""


class Transcript(Protocol):
    """Stores every event of a run."""

    what: str

    @property
    def write_event(self) -> Listener: ...

    def restore(self, lines: Iterable[str]) -> None:
        """Add the lines of another transcript."""
        ...

    def close(self) -> Exception | None:
        """Write the remaining events; returns the error if some could not be written."""
        ...


class StoredRun(Protocol):
    """One run. Opening it does not hold it."""

    @property
    def lease(self) -> Lease: ...

    @property
    def name(self) -> str: ...

    @property
    def location(self) -> str:
        """Its location, for messages."""
        ...

    @property
    def folder(self) -> Path | None:
        """Its folder; None if it is not in a folder."""
        ...

    def command_argument(self, project: Path) -> str:
        """Return the argument for this run in a command that is run in the project."""
        ...

    def belongs_to(self, project: Path) -> bool:
        """Whether it is stored where that project stores its runs."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def has_state(self) -> bool:
        """Whether the run has started."""
        ...

    @property
    def has_journal(self) -> bool: ...

    def check(self) -> None:
        """Raises SkillrunError if it contains files of a kind that no run writes."""
        ...

    def check_engine_files(self) -> None:
        """Raises SkillrunError if a started run lacks the files of the engine."""
        ...

    def check_lease(self) -> None:
        """Raises LeaseLost if this process held the run and has lost it."""
        ...

    def is_sealed(self, program: Program, state: State, project: Path) -> bool:
        """Whether a run of this user, or of the shared store, wrote the state in this project."""
        ...

    def sealing_key(self) -> bytes | None:
        """Return the key that seals the state; None if the store vouches for it. Raises OSError, SkillrunError."""
        ...

    # contents

    def open_or_create_journal(self) -> Journal:
        """Open the journal, or create it if missing."""
        ...

    def open_journal(self) -> Journal:
        """Open the journal, for the holder of the run. Raises SkillrunError if it is damaged."""
        ...

    def read_only_journal(self) -> MemoryJournal:
        """Return the journal for reading only. Raises SkillrunError, also while another process holds the run."""
        ...

    def journal_snapshot(self) -> MemoryJournal:
        """Return the journal so far for reading only, also while a process holds the run. Raises SkillrunError."""
        ...

    def data(self, journal: Journal | None = None, *, shared: bool = False) -> RunData:
        """Return artifacts, summaries and state; read-only without a journal."""
        ...

    def state(self) -> State:
        """Return the state in `state.md`. Raises SkillrunError."""
        ...

    def status(self, state: State) -> str:
        """Return the status: that of the state, unless the store knows better; `interrupted` for an aborted run."""
        ...

    def copy_files(self, target: Files) -> None:
        """Copy its files, except the engine's own. Raises SkillrunError if they are too large."""
        ...

    def open_transcript(self) -> Transcript:
        """Open the transcript for further events."""
        ...

    def transcript_lines(self) -> Iterator[str]:
        """Yield the stored lines of the events so far. Raises OSError, SkillrunError."""
        ...

    def events(self, *, follow: bool = False) -> Iterator[Record]:
        """Yield the events so far; with `follow`, continue until the run ends."""
        ...

    # starting and resuming

    def rollback_on_failure(self) -> AbstractContextManager[None]:
        """If starting a run fails before it has a state, remove what it created; earlier files stay."""
        ...

    def apply_permissions(self, *, shared: bool) -> None:
        """Make the run private to its owner or, with `shared`, readable by others, if the store has owners."""
        ...


@dataclass(frozen=True)
class RunListing:
    """A run in a list of runs. `unreadable` is the reason if it cannot be read."""

    name: str
    status: str
    workflow: str = ""
    phase: tuple[str, ...] = ()
    round: int | None = None
    started_at: str = ""
    unreadable: str = ""

    @classmethod
    def from_state(cls, name: str, status: str, state: State) -> RunListing:
        return cls(name, status, state.workflow, tuple(state.phase), state.round, state.started_at)


class Store(Protocol):
    """Holds runs by name."""

    @property
    def location(self) -> str:
        """Its location, for messages."""
        ...

    def create_run(self, name: str, *, shared: bool) -> StoredRun:
        """Return a run to start, under a free or reserved name. Raises UsageError if the name cannot be used."""
        ...

    def open_run(self, name: str) -> StoredRun:
        """Return a run that has started. Raises UsageError if it does not exist."""
        ...

    def list_runs(self) -> Iterator[tuple[str, StoredRun | Exception]]:
        """Yield the runs that have started, or the error of one that cannot be read."""
        ...

    def overview(self, status: str = "", most: int = 0) -> list[RunListing]:
        """Return the newest runs, with this status if given, and at most `most` unless it is 0."""
        ...

    def reserve_name(self, request: str, *, shared: bool = False) -> str:
        """Reserve a free name made from the request, until `release_name`."""
        ...

    def release_name(self, name: str) -> None:
        """Release a name under which no run has started."""
        ...

    def has(self, name: str) -> bool:
        """Whether a run of that name has started."""
        ...

    def run_location(self, name: str) -> str:
        """Return the location of that run, even if it no longer exists."""
        ...

    def command_argument(self, name: str, project: Path) -> str:
        """Return the argument for that run in a command that is run in the project."""
        ...


class SharedStore(Protocol):
    """An open store that several machines share, as an extension provides it."""

    @property
    def runs(self) -> Store: ...

    def slots(self) -> ConcurrencyLimits:
        """The limits of parallel calls that all workers of the store share."""
        ...

    def requeue(self, name: str) -> bool:
        """Queue a waiting run for the workers. False for a run that was never submitted, or that has ended."""
        ...
