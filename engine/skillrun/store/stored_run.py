"""Where runs are, and one of them from outside: what beginning it, going on with it and looking at it ask of its place.

Protocols; `disk/run_folder.py` has runs in folders, `postgres/stored_run.py` in a store that many machines share.
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
    """The slug of a request; a run that finds it taken has a number behind it."""
    return (slug(request)[:40].strip("-") or "run") if re.search(r"[A-Za-z0-9]", request) else "run"


class RunNotStarted(UsageError):
    """A run is there, and somebody has yet to begin it."""


class Transcript(Protocol):
    """What hears every event of a run and keeps it."""

    what: str

    @property
    def write_event(self) -> Listener: ...

    def restore(self, lines: Iterable[str]) -> None:
        """Take over the lines of another transcript."""
        ...

    def close(self) -> Exception | None:
        """Keep what is left; why not all of it was kept, where it was not."""
        ...


class StoredRun(Protocol):
    """One run. Nobody holds it by this alone."""

    @property
    def lease(self) -> Lease: ...

    @property
    def name(self) -> str: ...

    @property
    def location(self) -> str:
        """Where people find it."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder that it is in; None where it is in none."""
        ...

    def command_argument(self, project: Path) -> str:
        """What a command takes for this run when it is typed in the project."""
        ...

    def belongs_to(self, project: Path) -> bool:
        """Whether it is kept where that project keeps its runs."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def has_state(self) -> bool:
        """Whether the run has begun."""
        ...

    @property
    def has_journal(self) -> bool: ...

    def check(self) -> None:
        """Raises SkillrunError where something stands there that no run has written."""
        ...

    def check_engine_files(self) -> None:
        """Raises SkillrunError where a run that has begun lacks what the engine keeps of it."""
        ...

    def check_lease(self) -> None:
        """Raises LeaseLost where this process held the run and has lost it."""
        ...

    def is_sealed(self, program: Program, state: State, project: Path) -> bool:
        """Whether a run of this user's own, or of the store that both share, has written the state in this project."""
        ...

    def sealing_key(self) -> bytes | None:
        """What the state is sealed with; None where its place vouches for it. Raises OSError, SkillrunError."""
        ...

    # what is in it

    def open_or_create_journal(self) -> Journal:
        """The journal, made when there is none."""
        ...

    def open_journal(self) -> Journal:
        """The journal, for who holds the run. Raises SkillrunError where it is not whole."""
        ...

    def read_only_journal(self) -> MemoryJournal:
        """The journal for who only looks. Raises SkillrunError, also while another process has the run."""
        ...

    def journal_snapshot(self) -> MemoryJournal:
        """The journal for who only looks, as far as it has come where a process has the run. Raises SkillrunError."""
        ...

    def data(self, journal: Journal | None = None, *, shared: bool = False) -> RunData:
        """Artifacts, summaries and state; without a journal they can be looked at."""
        ...

    def state(self) -> State:
        """The state that `state.md` holds. Raises SkillrunError."""
        ...

    def status(self, state: State) -> str:
        """The status: what the state says, unless its place knows better; `interrupted` for one that was cut off."""
        ...

    def copy_files(self, target: Files) -> None:
        """Copy what it holds, but for what the engine keeps. Raises SkillrunError where that is too much."""
        ...

    def open_transcript(self) -> Transcript:
        """What hears the events of the run from now on."""
        ...

    def transcript_lines(self) -> Iterator[str]:
        """The events so far, as they are kept. Raises OSError, SkillrunError."""
        ...

    def events(self, *, follow: bool = False) -> Iterator[Record]:
        """The events so far, and with `follow` those that come until the run ends."""
        ...

    # while it is begun, or gone on with

    def rollback_on_failure(self) -> AbstractContextManager[None]:
        """Where beginning a run fails before it has a state, leave nothing of it; what was there before stays."""
        ...

    def apply_permissions(self, *, shared: bool) -> None:
        """Have the run be its owner's alone or, with `shared`, readable by others, where the place knows owners."""
        ...


@dataclass(frozen=True)
class RunListing:
    """A run in a list of runs. `unreadable` says why nothing more is known of it."""

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
    """A place that holds runs by their names."""

    @property
    def location(self) -> str:
        """Where people find it."""
        ...

    def create_run(self, name: str, *, shared: bool) -> StoredRun:
        """A run that begins, under a name that may be taken for it. Raises UsageError where it cannot be had."""
        ...

    def open_run(self, name: str) -> StoredRun:
        """A run that has begun. Raises UsageError where there is none."""
        ...

    def list_runs(self) -> Iterator[tuple[str, StoredRun | Exception]]:
        """The runs that have begun; or why one cannot be looked at."""
        ...

    def overview(self, status: str = "", most: int = 0) -> list[RunListing]:
        """The newest runs, of one status where one is named, at most so many where `most` is not 0."""
        ...

    def reserve_name(self, request: str, *, shared: bool = False) -> str:
        """A name that no run has yet, made from the request, and nobody else's until `give_back`."""
        ...

    def release_name(self, name: str) -> None:
        """Let a name be taken again that no run was begun under."""
        ...

    def has(self, name: str) -> bool:
        """Whether a run of that name has begun."""
        ...

    def run_location(self, name: str) -> str:
        """Where people find that run, also when it is there no more."""
        ...

    def command_argument(self, name: str, project: Path) -> str:
        """What a command takes for that run when it is typed in the project."""
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
