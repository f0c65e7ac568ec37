"""A worker: takes up runs of a store, each in a thread with a loop of its own, and hands them back when it is to end.

What it is told of, and what the sweep finds due, it claims by the run's row; what another has, it leaves alone.
"""

from __future__ import annotations

import asyncio
import os
import platform
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from skillrun import __version__
from skillrun.language.text.diagnostics import SkillrunError
from skillrun.models.entries import Provider
from skillrun.models.messages import UNTOLD, AttemptListener, Gateway, Reply, Request
from skillrun.models.slots import Slots
from skillrun.runtime.outcome import Outcome
from skillrun.runtime.store.postgres.queue import Queue
from skillrun.runtime.store.postgres.roster import Presence, Roster
from skillrun.workers.dispatch import Dispatch, serve
from skillrun.workers.work import Workplace, work_on

if TYPE_CHECKING:
    from skillrun.workers.metrics import Metrics

AGAIN: Final = 60.0  # seconds until a run is looked at again that cannot be worked on here
SWEEPS: Final = 3  # in the time of a lease


class DrainingGateway:
    """A gateway that lets calls under way end, and none out once its worker is to end."""

    def __init__(self, inner: Gateway, drain: Drain) -> None:
        self._inner, self._drain = inner, drain

    async def send(self, request: Request, address: str, attempts: AttemptListener = UNTOLD) -> Reply:
        await self._drain.passed()
        with self._drain.call():
            return await self._inner.send(request, address, attempts)

    async def close(self) -> None:
        await self._inner.close()


class Drain:
    """How a run ends early, in the loop of its thread: no call begins, those under way end, then it is interrupted."""

    def __init__(self) -> None:
        self._is_on = False
        self._calls = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()

    def begin(self, work: asyncio.Task[Any]) -> None:
        """From now on this is what is interrupted; called in its loop."""
        with self._lock:
            self._loop, self._work = asyncio.get_running_loop(), work
        if self._is_on:
            self._end()

    def end_early(self) -> None:
        """From any thread."""
        with self._lock:
            self._is_on, loop = True, self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(self._end)

    async def passed(self) -> None:
        """Wait for ever once the worker is to end: what waits here is interrupted."""
        if self._is_on:
            await asyncio.Event().wait()

    def call(self) -> _Call:
        return _Call(self)

    def add(self, number: int) -> None:
        self._calls += number
        if self._is_on and not self._calls and self._loop is not None:
            self._loop.call_later(0.05, self._end)  # behind the commit of what has come

    def _end(self) -> None:
        if self._is_on and not self._calls and self._work is not None:
            self._work.cancel()


class _Call:
    def __init__(self, drain: Drain) -> None:
        self._drain = drain

    def __enter__(self) -> None:
        self._drain.add(1)

    def __exit__(self, *_: object) -> None:
        self._drain.add(-1)


class DrainingSlots:
    """Slots that no call waits for any more once its worker is to end: one that waits has not begun."""

    def __init__(self, inner: Slots, drain: Drain) -> None:
        self._inner, self._drain = inner, drain

    @asynccontextmanager
    async def slot(self, provider: Provider) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            self._drain.add(-1)
            try:
                await stack.enter_async_context(self._inner.slot(provider))
                await self._drain.passed()
            finally:
                self._drain.add(1)
            yield

    def pause(self, provider: Provider, seconds: float) -> None:
        self._inner.pause(provider, seconds)


@dataclass
class Worker:
    """One process that works on runs, `most` at a time."""

    url: str
    queue: Queue
    roster: Roster
    place: Workplace
    most: int
    lease: float
    queues: tuple[str, ...] = ()
    say: Callable[[str], None] = lambda _text: None
    metrics: Metrics | None = None
    name: str = field(default_factory=lambda: f"{platform.node()[:80]}-{os.getpid()}")
    _drains: dict[str, Drain] = field(default_factory=dict)
    _later: dict[str, float] = field(default_factory=dict)

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping`; then hand back what is under way."""
        dispatch = await asyncio.to_thread(Dispatch, self.url)
        await asyncio.to_thread(self._beat, begins=True)
        sweep = asyncio.create_task(self._sweep(dispatch, stopping))
        ending = asyncio.create_task(self._end(stopping))
        try:
            await serve(
                self.url, self._work, name=self.name, most=self.most, queues=self.queues or None, stopping=stopping
            )
        finally:
            sweep.cancel()
            ending.cancel()
            await asyncio.to_thread(dispatch.close)
            with suppress(SkillrunError):
                await asyncio.to_thread(self.roster.leave, self.name)

    def _beat(self, *, begins: bool = False, draining: bool = False) -> None:
        """Have others see this worker; a store that is away hears of it the next time."""
        host = platform.node()[:80]
        with suppress(SkillrunError):
            presence = Presence(self.name, host, os.getpid(), self.most, self.lease, __version__)
            self.roster.beat(presence, begins=begins, draining=draining)

    async def _work(self, name: str) -> None:
        """One run, in a thread: nothing of it can hold up another."""
        if name in self._drains or self._later.get(name, 0) > time.monotonic():
            return
        drain = self._drains[name] = Drain()
        if self.metrics is not None:
            self.metrics.under_way.inc()
        try:
            outcome = await asyncio.to_thread(self._worked, name, drain)
        except SkillrunError as error:
            self._later[name] = time.monotonic() + AGAIN
            self.say(f"{name}: not here: {error.message}")
        else:
            if outcome is not None:
                self.say(f"{name}: {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
        finally:
            self._drains.pop(name, None)
            if self.metrics is not None:
                self.metrics.under_way.dec()

    def _worked(self, name: str, drain: Drain) -> Outcome | None:
        metrics = self.metrics
        slots = DrainingSlots(self.place.slots, drain) if self.place.slots is not None else None
        place = replace(self.place, limited=lambda gateway: DrainingGateway(gateway, drain), slots=slots)
        if metrics is not None:
            place.limited = lambda gateway: DrainingGateway(metrics.counting(gateway), drain)
            place.heard = metrics.of_run

        async def work() -> Outcome | None:
            task = asyncio.ensure_future(work_on(place, name))
            drain.begin(task)
            return await task

        try:
            outcome = asyncio.run(work())
        except asyncio.CancelledError:
            outcome = Outcome("interrupted")
        if outcome is not None and outcome.status == "interrupted":
            self.queue.go_on(name)
        if outcome is not None and metrics is not None:
            metrics.ended(self._end_of(name, outcome))
        return outcome

    def _end_of(self, name: str, outcome: Outcome) -> str:
        """How the run was let go: one that failed here may be another's by now."""
        wanted = None
        if outcome.status == "failed":
            with suppress(SkillrunError):
                wanted = self.queue.wanted(name)
        if wanted is None or wanted.status in ("failed", "waiting"):
            return outcome.status
        return "cancelled" if wanted.status == "cancelled" else "lost"

    async def _sweep(self, dispatch: Dispatch, stopping: asyncio.Event) -> None:
        """Have runs gone on with that nobody works on: of dead workers, and whose job was lost."""
        while not stopping.is_set():
            with suppress(SkillrunError):
                due: Iterable[tuple[str, int]] = await asyncio.to_thread(self.queue.due, self.most)
                for name, priority in due:
                    if self._later.get(name, 0) <= time.monotonic():
                        await asyncio.to_thread(dispatch.wake, name, priority=priority)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), self.lease / SWEEPS)
            await asyncio.to_thread(self._beat, draining=stopping.is_set())

    async def _end(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        for drain in list(self._drains.values()):
            drain.end_early()
