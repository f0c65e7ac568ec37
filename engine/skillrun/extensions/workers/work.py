"""Executes one run of a store on this machine: starts or resumes the run, and continues until the run ends or waits.

A worker that shuts down drains the run: the run starts no new calls, and ends early.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillrun.cli.loading import LoadedWorkflow
from skillrun.extensions.workers.bundle import InvalidRun, unpack_project
from skillrun.extensions.workers.fetching import Commit, CommitCache
from skillrun.extensions.workers.postgres.database import StoreUnavailable
from skillrun.extensions.workers.postgres.queue import (
    MAX_CLAIMS,
    RESUBMIT_HINT,
    RunQueue,
    RunSubmission,
    SubmittedRun,
)
from skillrun.extensions.workers.postgres.stored_run import PostgresStore
from skillrun.library.settings import WORDS, limit_budget, load_budget
from skillrun.models.entries import ConcurrencyLimits, ProviderConfig
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, Reply, Request
from skillrun.questions.prepared_answers import read_answers
from skillrun.questions.responder import open_responder
from skillrun.repository.paths import require_slug
from skillrun.runtime.inputs import path_inputs, validate_inputs
from skillrun.runtime.listeners import RunContext, close_listeners, observe_gateway, open_listeners
from skillrun.runtime.run import Session
from skillrun.runtime.session import resume_run, start_run
from skillrun.store.journal import JournalDamaged
from skillrun.store.outcome import Outcome
from skillrun.store.state import State
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.fields import resolve_inputs
from skillrun.types.schemas import quote_value

if TYPE_CHECKING:
    from skillrun.extensions.workers.metrics import Metrics

MAX_LOADED_WORKFLOWS: Final = 8  # workflows kept in memory


class DrainingGateway:
    """A gateway that starts no new call while its worker shuts down. Running calls can end.

    If `metrics` is given, failed attempts are counted.
    """

    def __init__(self, inner: Gateway, drain: Drain, metrics: Metrics | None) -> None:
        self._inner, self._drain, self._metrics = inner, drain, metrics

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        await self._drain.wait_if_draining()
        if self._metrics is not None:
            attempts = self._metrics.count_attempts(attempts, request.model)
        with self._drain.track_calls(1):
            return await self._inner.send(request, address, attempts)

    async def close(self) -> None:
        await self._inner.close()


class Drain:
    """Ends a run early.

    Starts no new calls, waits until running calls have ended, and then cancels the run. All of this happens in the
    event loop of the run's thread.
    """

    def __init__(self) -> None:
        self._is_on = False
        self._calls = 0
        self._work: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()

    def attach(self, task: asyncio.Task[Any]) -> None:
        """Set the task to cancel. Must be called in the event loop of the task."""
        with self._lock:
            self._work = task
        self._cancel_if_idle()

    def start(self) -> None:
        """Start draining. Thread-safe."""
        with self._lock:
            self._is_on, work = True, self._work
        if work is not None:
            with suppress(RuntimeError):  # the loop has ended
                work.get_loop().call_soon_threadsafe(self._cancel_if_idle)

    async def wait_if_draining(self) -> None:
        """While draining, block until the run is cancelled."""
        if self._is_on:
            await asyncio.Event().wait()

    @contextmanager
    def track_calls(self, number: int) -> Iterator[None]:
        """Add `number`, which can be negative, to the count of running calls during the block."""
        self._add_calls(number)
        try:
            yield
        finally:
            self._add_calls(-number)

    def _add_calls(self, number: int) -> None:
        self._calls += number
        if self._is_on and not self._calls and self._work is not None:
            self._work.get_loop().call_later(0.05, self._cancel_if_idle)  # after the received replies are committed

    def _cancel_if_idle(self) -> None:
        if self._is_on and not self._calls and self._work is not None:
            self._work.cancel()


class DrainingSlots:
    """Slots that do not delay the shutdown of a worker: a call that waits for a slot does not count as running."""

    def __init__(self, inner: ConcurrencyLimits, drain: Drain) -> None:
        self._inner, self._drain = inner, drain

    @asynccontextmanager
    async def slot(self, provider: ProviderConfig) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            with self._drain.track_calls(-1):
                try:
                    await stack.enter_async_context(self._inner.slot(provider))
                except StoreUnavailable:  # the run has not failed: it is released, and resumes once the store answers
                    self._drain.start()
                await self._drain.wait_if_draining()
            yield

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        self._inner.pause(provider, seconds)


@dataclass
class WorkerHost:
    """What a machine needs to execute runs: the store, a folder for projects, and a loader for workflows."""

    store: PostgresStore
    queue: RunQueue
    folder: Path
    load: Callable[[Path, str], LoadedWorkflow]
    commits: CommitCache
    log: Callable[[str], None] = lambda _text: None
    slots: ConcurrencyLimits | None = None
    loaded_workflows: dict[tuple[str, str], LoadedWorkflow] = field(default_factory=dict)
    loading: threading.Lock = field(default_factory=threading.Lock)

    def load_workflow(self, submitted: SubmittedRun) -> LoadedWorkflow:
        """Return a copy of the run's workflow for this thread. Loads it once per project. Raises SkillrunError."""
        key = submitted.bundle, submitted.workflow
        with self.loading:
            if key not in self.loaded_workflows:
                submitted.check_bundle()
                project = self.folder / submitted.bundle
                if not project.is_dir():
                    with tempfile.TemporaryFile() as archive:
                        self.queue.copy_archive(submitted.bundle, archive)
                        project = unpack_project(submitted.bundle, archive, self.folder)
                workflow = self.load(project, submitted.workflow)
                while len(self.loaded_workflows) >= MAX_LOADED_WORKFLOWS:
                    del self.loaded_workflows[next(iter(self.loaded_workflows))]
                self.loaded_workflows[key] = workflow
            return self.loaded_workflows[key].copy_for_thread()


async def process_run(
    host: WorkerHost,
    name: str,
    drain: Drain | None = None,
    metrics: Metrics | None = None,
    queues: Sequence[str] | None = None,
) -> Outcome | None:
    """Start or resume the run, and return its outcome. With `queues`, execute only a due run of one of these queues.

    Returns None if the run has ended, is not in `queues`, or is not due. A run whose rows are invalid fails. Raises
    SkillrunError if this machine cannot execute the run. The run is then unchanged, and another machine can try.
    """
    try:
        return await _process_run(host, require_slug(name), drain, metrics, queues)
    except (InvalidRun, JournalDamaged) as error:
        return Outcome("failed", error.message) if host.queue.fail(name, error.message) else None


async def process_run_or_drain(
    host: WorkerHost,
    name: str,
    drain: Drain,
    metrics: Metrics | None = None,
    queues: Sequence[str] | None = None,
) -> Outcome | None:
    """Process the run until it ends or `drain` is started. The outcome is then `interrupted`."""
    task = asyncio.ensure_future(process_run(host, name, drain, metrics, queues))
    drain.attach(task)
    try:
        return await task
    except asyncio.CancelledError:
        return Outcome("interrupted")


async def _process_run(
    host: WorkerHost, name: str, drain: Drain | None, metrics: Metrics | None, queues: Sequence[str] | None
) -> Outcome | None:
    submitted = host.queue.find_run(name)
    if submitted is None or submitted.status not in ("queued", "running"):
        return None
    if queues is not None and not (submitted.queue in queues and submitted.is_due):
        return None
    reason = f"{submitted.takes} workers in a row claimed the run and died before a model replied"
    if submitted.takes >= MAX_CLAIMS and host.queue.give_up(name, reason):
        return None
    request = RunSubmission.from_json(submitted.request)
    workflow = host.load_workflow(submitted)
    state = _read_state(host, name)
    inputs, commits = _check_inputs(workflow, request, state)
    for commit in commits:
        await host.commits.ensure_available(commit)
    library = workflow.program.library
    wanted = {**load_budget(library), **(request.budget if state is None else state.budget)}
    budget = limit_budget(library, wanted)
    for limit in (limit for limit in wanted if wanted[limit] > budget[limit]):
        host.log(f"{name}: the budget for {WORDS[limit]} is {budget[limit]:g}, as the config of this machine says")
    with ExitStack() as stack:
        person = open_responder(unattended=request.unattended, answers=_answers_file(request, stack), terminal=False)
        listeners = open_listeners(RunContext(name, os.environ), host.log)
        slots = host.slots if drain is None or host.slots is None else DrainingSlots(host.slots, drain)
        gateway = workflow.open_gateway(None, host.log, slots)
        if drain is not None:
            gateway = DrainingGateway(gateway, drain, metrics)
        gateway = observe_gateway(gateway, listeners, host.log)

        async def find_estimate(_state: State, _given: object) -> dict[str, object] | None:
            return request.estimate  # computed when the run was submitted

        listener = metrics.listener_for(submitted) if metrics is not None else None
        try:
            # The store is another party: models and budget are the submitter's choice within the limits of this
            # machine, but no input counts as given.
            chosen = {"model": request.model, "budget": budget, "adopt": True}
            fetched = [commit.path for commit in commits]
            session = workflow.build_session(gateway, person, listener, host.folder, fetched_paths=fetched, **chosen)
            observers = [*session.services.listeners, *(each.on_event for each in listeners)]
            services = replace(session.services, listeners=observers, handle_signals=False, estimate=find_estimate)
            session = replace(session, services=services)
            return await _start_or_resume(host, session, inputs, name)
        finally:
            close_listeners(listeners, host.log)
            await gateway.close()


def _read_state(host: WorkerHost, name: str) -> State | None:
    """Return the state of a run, or None if it has not started. Raises InvalidRun if it cannot be read."""
    if not host.store.has(name):
        return None
    try:
        return host.store.open_run(name).state()
    except StoreUnavailable:
        raise
    except SkillrunError as error:
        raise InvalidRun(error.message, error.next_step) from error


def _check_inputs(
    workflow: LoadedWorkflow, request: RunSubmission, state: State | None
) -> tuple[dict[str, object], list[Commit]]:
    """Return the inputs of a run and its commits, checked as if a stranger had written them.

    Raises InvalidRun if they do not fit the workflow, or lead out of the project and the commits, and SkillrunError if
    this machine lacks a key or a model.
    """
    program, paths = workflow.program, {field.name for field in path_inputs(workflow.program.workflow)}
    try:
        commits = {name: Commit.parse(text) for name, text in request.repositories.items()}
        if unknown := commits.keys() - paths:
            raise InvalidRun(f"{quote_value(min(unknown))} is not an input for a repository", RESUBMIT_HINT)
        fetched = {name: commit.path for name, commit in commits.items()}
        inputs = {**(request.inputs if state is None else state.inputs), **fetched}
        _, errors, _ = resolve_inputs(program.workflow.inputs, inputs, {"config": program.config})
        if errors:
            raise InvalidRun("; ".join(errors), RESUBMIT_HINT)
        workflow.check_worker(request.model, inputs, state.models if state is not None else {})
        checked, _ = validate_inputs(program, inputs, workflow.project, commits, confined=True)
    except UsageError as error:
        raise InvalidRun(error.message, RESUBMIT_HINT) from error
    return checked, [*commits.values()]


def _answers_file(request: RunSubmission, stack: ExitStack) -> Path | None:
    """Return a temporary file with the prepared answers, if any. Raises InvalidRun if they are invalid."""
    if not request.answers:
        return None
    file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skillrun-"))) / "answers.yaml"
    file.write_text(request.answers, encoding="utf-8")
    try:
        read_answers(file)
    except SkillrunError as error:
        raise InvalidRun(f"the prepared answers of the run are invalid: {error.message}", RESUBMIT_HINT) from error
    return file


async def _start_or_resume(host: WorkerHost, session: Session, inputs: dict[str, object], name: str) -> Outcome:
    if not host.store.has(name):
        try:
            return await start_run(session, inputs, host.store, name)
        except UsageError:
            if not host.store.has(name):
                raise  # otherwise another worker has just started it
    return await resume_run(session, host.store.open_run(name))
