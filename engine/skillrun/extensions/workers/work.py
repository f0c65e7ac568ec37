"""Executes one run of a store on this machine: starts or resumes the run, and continues until the run ends or waits."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from skillrun.cli.loading import LoadedWorkflow
from skillrun.events import Listener
from skillrun.extensions.workers.bundle import unpack_project
from skillrun.extensions.workers.fetching import Commit, CommitCache, Unfetchable
from skillrun.extensions.workers.postgres.queue import MAX_CLAIMS, RunQueue, RunSubmission, SubmittedRun
from skillrun.extensions.workers.postgres.stored_run import PostgresStore
from skillrun.models.entries import ConcurrencyLimits
from skillrun.models.messages import Gateway
from skillrun.questions.responder import open_responder
from skillrun.runtime.listeners import RunContext, close_listeners, observe_gateway, open_listeners
from skillrun.runtime.run import Session
from skillrun.runtime.session import resume_run, start_run
from skillrun.store.outcome import Outcome
from skillrun.store.state import State
from skillrun.syntax.diagnostics import UsageError

MAX_LOADED_WORKFLOWS: Final = 8  # workflows kept in memory


@dataclass
class WorkerHost:
    """What a machine needs to execute runs: the store, a folder for projects, and a loader for workflows."""

    store: PostgresStore
    queue: RunQueue
    folder: Path
    load: Callable[[Path, str], LoadedWorkflow]
    commits: CommitCache
    wrap_gateway: Callable[[Gateway], Gateway] = lambda gateway: gateway
    log: Callable[[str], None] = lambda _text: None
    slots: ConcurrencyLimits | None = None
    queues: Sequence[str] | None = None
    """The queues whose due runs are executed. With None, any run is executed, due or not."""
    listener_for: Callable[[SubmittedRun], Listener] | None = None
    """Returns a listener for a run's events, in addition to the run's transcript."""
    loaded_workflows: dict[tuple[str, str], LoadedWorkflow] = field(default_factory=dict)
    loading: threading.Lock = field(default_factory=threading.Lock)

    def accepts(self, submitted: SubmittedRun) -> bool:
        """Whether this host may execute the run now."""
        return self.queues is None or (submitted.queue in self.queues and submitted.is_due)

    def load_workflow(self, submitted: SubmittedRun) -> LoadedWorkflow:
        """Return a copy of the run's workflow for this thread. Loads it once per project. Raises SkillrunError."""
        key = submitted.bundle, submitted.workflow
        with self.loading:
            if key not in self.loaded_workflows:
                project = self.folder / submitted.bundle
                if not project.is_dir():
                    project = unpack_project(submitted.bundle, self.queue.content(submitted.bundle), self.folder)
                workflow = self.load(project, submitted.workflow)
                while len(self.loaded_workflows) >= MAX_LOADED_WORKFLOWS:
                    del self.loaded_workflows[next(iter(self.loaded_workflows))]
                self.loaded_workflows[key] = workflow
            return self.loaded_workflows[key].copy_for_thread()


async def process_run(host: WorkerHost, name: str) -> Outcome | None:
    """Start or resume the run, and return its outcome.

    Returns None if the run has ended, is not for this host, or is not due. Raises SkillrunError if this machine cannot
    execute the run. The run is then unchanged, and another machine can try.
    """
    submitted = host.queue.find_run(name)
    if submitted is None or submitted.status not in ("queued", "running") or not host.accepts(submitted):
        return None
    reason = f"{submitted.takes} workers in a row claimed the run and died before a model replied"
    if submitted.takes >= MAX_CLAIMS and host.queue.give_up(name, reason):
        return None
    request = RunSubmission.from_data(submitted.request)
    try:
        workflow = host.load_workflow(submitted)
        pinned = host.store.open_run(name).state().models if host.store.has(name) else {}
        workflow.check_worker(request.model, request.inputs, pinned)
        for repository in request.repositories.values():
            await host.commits.ensure_available(Commit.parse(repository))
    except Unfetchable as error:
        return Outcome("failed", error.message) if host.queue.fail(name, error.message) else None
    with ExitStack() as stack:
        answers = None
        if request.answers:
            answers = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skillrun-"))) / "answers.yaml"
            answers.write_text(request.answers, encoding="utf-8")
        person = open_responder(unattended=request.unattended, answers=answers, terminal=False)
        listeners = open_listeners(RunContext(name, os.environ), host.log)
        gateway = host.wrap_gateway(workflow.open_gateway(None, host.log, host.slots))
        gateway = observe_gateway(gateway, listeners, host.log)

        async def find_estimate(_state: State) -> dict[str, object] | None:
            return request.estimate  # computed when the run was submitted

        listener = host.listener_for(submitted) if host.listener_for is not None else None
        try:
            chosen = {"model": request.model, "budget": request.budget, "explicit_inputs": frozenset(request.typed)}
            session = workflow.build_session(gateway, person, listener, host.folder, **chosen)
            observers = [*session.services.listeners, *(each.on_event for each in listeners)]
            services = replace(session.services, listeners=observers, handle_signals=False, estimate=find_estimate)
            session = replace(session, services=services)
            return await _start_or_resume(host, session, request, name)
        finally:
            close_listeners(listeners, host.log)
            await gateway.close()


async def _start_or_resume(host: WorkerHost, session: Session, request: RunSubmission, name: str) -> Outcome:
    if not host.store.has(name):
        try:
            return await start_run(session, request.inputs, host.store, name)
        except UsageError:
            if not host.store.has(name):
                raise  # otherwise another worker has just started it
    return await resume_run(session, host.store.open_run(name))
