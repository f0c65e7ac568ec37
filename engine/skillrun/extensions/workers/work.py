"""Work on one run of a store, on whatever machine this is: begin it or go on with it, to where it ends or waits."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

from skillrun.checker.program import Program
from skillrun.events import Listener
from skillrun.extensions.workers.bundle import unpacked
from skillrun.extensions.workers.commit import Commit
from skillrun.extensions.workers.fetching import Commits, Unfetchable
from skillrun.extensions.workers.postgres.queue import MOST_TAKES, Queue, Wanted
from skillrun.extensions.workers.postgres.stored_run import StoreRuns
from skillrun.extensions.workers.submission import Request
from skillrun.models.concurrency import Slots
from skillrun.models.messages import Gateway
from skillrun.questions.responder import open_person
from skillrun.runtime.listeners import RunContext, close_listeners, observe_gateway, open_listeners
from skillrun.runtime.run import Respondent, Session
from skillrun.runtime.session import begin_run, resume_run
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import UsageError

KEPT: Final = 8  # workflows that stay read and checked


class Loaded(Protocol):
    """A workflow of an unpacked project that may be run."""

    @property
    def program(self) -> Program: ...

    def for_a_thread(self) -> Self:
        """The same, of which one thread may look up what another has not."""
        ...

    def check_worker(self, override: str, inputs: Mapping[str, Any], pinned: Mapping[str, str]) -> None:
        """Raises SkillrunError where this machine lacks a key for a run, also for what it has `pinned` elsewhere."""
        ...

    def gateway(self, script: None, progress: Callable[[str], None], slots: Slots | None = None) -> Gateway: ...

    def session(
        self, gateway: Gateway, person: Respondent, listener: Listener | None = None, cache: Path | None = None
    ) -> Session: ...


@dataclass
class Workplace:
    """A machine's part of the work: its store, its folder for projects, and how a project's workflow is loaded."""

    runs: StoreRuns
    queue: Queue
    folder: Path
    load: Callable[[Path, str], Loaded]
    commits: Commits
    limited: Callable[[Gateway], Gateway] = lambda gateway: gateway
    say: Callable[[str], None] = lambda _text: None
    slots: Slots | None = None
    queues: Sequence[str] | None = None
    """The queues whose runs are worked on once they are due; None for whatever is named, here and now."""
    heard: Callable[[Wanted], Listener] | None = None
    """What hears the events of a run beside its transcript."""
    loaded_before: dict[tuple[str, str], Loaded] = field(default_factory=dict)
    loading: threading.Lock = field(default_factory=threading.Lock)

    def takes(self, wanted: Wanted) -> bool:
        """Whether a run is for here, whatever has told of it."""
        return self.queues is None or (wanted.queue in self.queues and wanted.is_due)

    def loaded(self, wanted: Wanted) -> Loaded:
        """The workflow of a run, read once for all runs of the same project, in their threads. Raises SkillrunError."""
        key = wanted.bundle, wanted.workflow
        with self.loading:
            if key not in self.loaded_before:
                place = self.folder / wanted.bundle
                if not place.is_dir():
                    place = unpacked(wanted.bundle, self.queue.content(wanted.bundle), self.folder)
                loaded = self.load(place, wanted.workflow)
                while len(self.loaded_before) >= KEPT:
                    del self.loaded_before[next(iter(self.loaded_before))]
                self.loaded_before[key] = loaded
            return self.loaded_before[key].for_a_thread()


async def work_on(place: Workplace, name: str) -> Outcome | None:
    """Begin the run, or go on with it; None where there is nothing to do: it is over, not for here, or not yet.

    Raises SkillrunError where it cannot be worked on here, which changes nothing of it: another machine may.
    """
    wanted = place.queue.wanted(name)
    if wanted is None or wanted.status not in ("queued", "running") or not place.takes(wanted):
        return None
    reason = f"{wanted.takes} workers took it up and died, with no reply in between"
    if wanted.takes >= MOST_TAKES and place.queue.give_up(name, reason):
        return None
    request = Request.of(wanted.request)
    try:
        loaded = await _prepared(place, wanted, request, name)
    except Unfetchable as error:
        return Outcome("failed", error.message) if place.queue.fail(name, error.message) else None
    with ExitStack() as stack:
        person = open_person(unattended=request.unattended, answers=_answers(request, stack), terminal=False)
        listeners = open_listeners(RunContext(name, os.environ), place.say)
        gateway = observe_gateway(place.limited(loaded.gateway(None, place.say, place.slots)), listeners)
        heard = place.heard(wanted) if place.heard is not None else None
        try:
            session = loaded.session(gateway, person, heard, place.folder)
            session = replace(
                session,
                listeners=[*session.listeners, *(each.on_event for each in listeners)],
                override=request.model,
                budget=request.budget,
                estimate=request.estimate,
                typed=frozenset(request.typed),
                minds_signals=False,
            )
            return await _begun_or_resumed(place, session, request, name)
        finally:
            close_listeners(listeners)
            await gateway.close()


async def _prepared(place: Workplace, wanted: Wanted, request: Request, name: str) -> Loaded:
    """The run's workflow, where all that the run needs is here. Raises SkillrunError, Unfetchable."""
    loaded = place.loaded(wanted)
    pinned = place.runs.existing(name).state().models if place.runs.has(name) else {}
    loaded.check_worker(request.model, request.inputs, pinned)
    for typed in request.repositories.values():
        await place.commits.have(Commit.of(typed))
    return loaded


async def _begun_or_resumed(place: Workplace, session: Session, request: Request, name: str) -> Outcome:
    if not place.runs.has(name):
        try:
            return await begin_run(session, request.inputs, place.runs, name)
        except UsageError:
            if not place.runs.has(name):
                raise  # else another has begun it in this moment: it has it, or has let it go
    return await resume_run(session, place.runs.existing(name))


def _answers(request: Request, stack: ExitStack) -> Path | None:
    """The prepared answers as the file that they were."""
    if not request.answers:
        return None
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skillrun-")))
    file = folder / "answers.yaml"
    file.write_text(request.answers, encoding="utf-8")
    return file
