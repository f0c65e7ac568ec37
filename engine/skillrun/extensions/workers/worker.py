"""A worker: executes runs of a store, each in a separate thread, and requeues unfinished runs on shutdown.

Each thread has its own event loop. The worker finds runs through jobs and through the sweep, claims each run in the
run's row, and skips runs that another worker holds.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import shuffle
from typing import TYPE_CHECKING, Final

from skillrun.extensions.workers.dispatch import Dispatcher, serve
from skillrun.extensions.workers.postgres.database import StoreUnavailable
from skillrun.extensions.workers.postgres.lease import RunUnavailable
from skillrun.extensions.workers.postgres.queue import DEFAULT_QUEUE, ORPHAN_PRIORITY, DueRun, RunQueue
from skillrun.extensions.workers.postgres.roster import Roster, WorkerHeartbeat
from skillrun.extensions.workers.work import Drain, WorkerHost, process_run_or_drain
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.version import __version__

if TYPE_CHECKING:
    from skillrun.extensions.workers.metrics import Metrics

RETRY_SECONDS: Final = 60.0  # seconds before retrying a run that cannot be executed here
SWEEPS_PER_LEASE: Final = 3
MAX_WAKES_PER_SWEEP: Final = 200  # runs of each kind per sweep: many workers may die at once


@dataclass
class Worker:
    """A process that executes runs, up to `max_runs` at a time."""

    url: str
    queue: RunQueue
    roster: Roster
    host: WorkerHost
    max_runs: int
    lease: float
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    log: Callable[[str], None] = lambda _text: None
    metrics: Metrics | None = None
    name: str = field(default_factory=lambda: f"{platform.node()[:80]}-{os.getpid()}")
    _drains: dict[str, Drain] = field(default_factory=dict)
    _retry_at: dict[str, float] = field(default_factory=dict)
    _works: set[asyncio.Task[None]] = field(default_factory=set)
    _threads: ThreadPoolExecutor = field(init=False)
    _stopping: asyncio.Event = field(init=False)
    _ended: asyncio.Event = field(init=False)

    async def run(self, stopping: asyncio.Event) -> None:
        """Execute runs until `stopping` is set, then return unfinished runs to the queue."""
        self._threads = ThreadPoolExecutor(self.max_runs, thread_name_prefix="skillrun-run")
        self._stopping, self._ended = stopping, asyncio.Event()
        await asyncio.to_thread(self._send_heartbeat, begins=True)
        sweep = asyncio.create_task(self._sweep())
        ending = asyncio.create_task(self._drain_on_stop())
        try:
            await serve(self.url, self._on_job, self.name, self.queues, stopping, self.log)
            await ending
            await asyncio.gather(*self._works)
        finally:
            sweep.cancel()
            ending.cancel()
            self._threads.shutdown(wait=False)
            with suppress(SkillrunError):
                await asyncio.to_thread(self.roster.remove_worker, self.name)

    def _send_heartbeat(self, *, begins: bool = False, draining: bool = False) -> None:
        """Report this worker to the store. If the store is unavailable, the next heartbeat reports the worker."""
        node, process = platform.node()[:80], os.getpid()
        with suppress(SkillrunError):
            presence = WorkerHeartbeat(self.name, node, process, self.max_runs, self.lease, __version__, self.queues)
            self.roster.record_heartbeat(presence, begins=begins, draining=draining)

    async def _on_job(self, name: str) -> None:
        """Start a run, and return only when there is capacity for another run.

        So every fetched job can start immediately.
        """
        await self._wait_for_capacity()  # the sweep may have used the capacity
        self._start_run(name)
        await self._wait_for_capacity()

    def _start_run(self, name: str) -> None:
        if self._stopping.is_set() or name in self._drains or self._retry_at.get(name, 0) > time.monotonic():
            return
        self._drains[name] = Drain()
        work = asyncio.create_task(self._process_run(name))
        self._works.add(work)
        work.add_done_callback(self._works.discard)

    async def _wait_for_capacity(self) -> None:
        while len(self._drains) >= self.max_runs:
            self._ended.clear()
            await self._ended.wait()

    async def _process_run(self, name: str) -> None:
        """Execute a run in a thread, so that it cannot block other runs."""
        if self.metrics is not None:
            self.metrics.under_way.inc()
        try:
            execute = partial(self._execute_run, name, self._drains[name])
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, execute)
        except RunUnavailable:
            pass  # another worker holds the run; if that worker dies, a sweep finds the run
        except StoreUnavailable as error:
            self.log(f"{name}: postponed: {error.message}")
        except Exception as error:  # noqa: BLE001 (an error in one run must not stop others)
            self._retry_at[name] = time.monotonic() + RETRY_SECONDS
            why = error.message if isinstance(error, SkillrunError) else repr(error)
            self.log(f"{name}: cannot be executed on this machine: {why}")
            with suppress(SkillrunError):
                await asyncio.to_thread(self.queue.set_reason, name, f"{self.name}: {why}")
        else:
            self._retry_at.pop(name, None)
            if outcome is not None:
                self.log(f"{name}: {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
        finally:
            del self._drains[name]
            self._ended.set()
            if self.metrics is not None:
                self.metrics.under_way.dec()

    def _execute_run(self, name: str, drain: Drain) -> Outcome | None:
        metrics = self.metrics

        outcome = asyncio.run(process_run_or_drain(self.host, name, drain, metrics, self.queues))
        if outcome is not None and metrics is not None:
            metrics.count_outcome(self._final_status(name, outcome))
        return outcome

    def _final_status(self, name: str, outcome: Outcome) -> str:
        """Return the status to count in the metrics.

        If the outcome is `failed`, the run may have been cancelled or taken over by another worker.
        """
        submitted = None
        if outcome.status == "failed":
            with suppress(SkillrunError):
                submitted = self.queue.find_run(name)
        if submitted is None or submitted.status in ("failed", "waiting"):
            return outcome.status
        return "cancelled" if submitted.status == "cancelled" else "lost"

    async def _sweep(self) -> None:
        """Regularly resume runs without a worker: those whose worker died, and those whose job was lost.

        Runs that this worker recently failed to execute are left out.
        """
        dispatch: Dispatcher | None = None
        try:
            while not self._stopping.is_set():
                try:
                    if dispatch is None:
                        dispatch = await asyncio.to_thread(Dispatcher, self.url)
                    now = time.monotonic()
                    self._retry_at = {name: until for name, until in self._retry_at.items() if until > now}
                    excluded = tuple(self._retry_at)
                    due = await asyncio.to_thread(self.queue.due_runs, MAX_WAKES_PER_SWEEP, excluded, self.queues)
                    await asyncio.to_thread(dispatch.wake_all, self._start_orphans(due))
                except StoreUnavailable:
                    pass  # retried by the next sweep
                except Exception as error:  # noqa: BLE001 (without a sweep, runs of dead workers would be lost)
                    self.log(f"the sweep failed and will be retried: {error!r}")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), self.lease / SWEEPS_PER_LEASE)
                await asyncio.to_thread(self._send_heartbeat, draining=self._stopping.is_set())
        finally:
            if dispatch is not None:
                dispatch.close()

    def _start_orphans(self, due: list[DueRun]) -> list[DueRun]:
        """Start as many runs of dead workers as there is capacity for, and return the other runs.

        Does not wait for the jobs of these runs, because the jobs may be lost too.
        """
        orphans = [each for each in due if each.priority == ORPHAN_PRIORITY and each.name not in self._drains]
        shuffle(orphans)  # other workers may start runs of the same list
        started = orphans[: max(0, self.max_runs - len(self._drains))]
        for each in started:
            self._start_run(each.name)
        return [each for each in due if each not in started]

    async def _drain_on_stop(self) -> None:
        await self._stopping.wait()
        for drain in list(self._drains.values()):
            drain.start()
