"""A worker: takes up runs of a store, each in a thread with a loop of its own, and hands them back when it is to end.

What it is told of, and what the sweep finds due, it claims by the run's row; what another has, it leaves alone.
"""

from __future__ import annotations

import asyncio
import os
import platform
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import shuffle
from typing import TYPE_CHECKING, Any, Final

from skillrun.extensions.workers.dispatch import Dispatch, serve
from skillrun.extensions.workers.postgres.database import StoreAway
from skillrun.extensions.workers.postgres.lease import RunHeld
from skillrun.extensions.workers.postgres.queue import BEGUN, DEFAULT, Due, Queue
from skillrun.extensions.workers.postgres.roster import Presence, Roster
from skillrun.extensions.workers.work import Workplace, work_on
from skillrun.models.concurrency import Slots
from skillrun.models.entries import Provider
from skillrun.models.messages import UNTOLD, AttemptListener, Gateway, Reply, Request
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.version import __version__

if TYPE_CHECKING:
    from skillrun.extensions.workers.metrics import Metrics

AGAIN: Final = 60.0  # seconds until a run is looked at again that cannot be worked on here
SWEEPS: Final = 3  # in the time of a lease
TOLD: Final = 200  # runs of a kind that one sweep tells of: those of many workers that died at once


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
            except StoreAway:  # no fault of the run: it is handed back, and goes on where the store answers
                self._drain.end_early()
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
    queues: tuple[str, ...] = (DEFAULT,)
    say: Callable[[str], None] = lambda _text: None
    metrics: Metrics | None = None
    name: str = field(default_factory=lambda: f"{platform.node()[:80]}-{os.getpid()}")
    _drains: dict[str, Drain] = field(default_factory=dict)
    _later: dict[str, float] = field(default_factory=dict)
    _works: set[asyncio.Task[None]] = field(default_factory=set)
    _threads: ThreadPoolExecutor = field(init=False)
    _stopping: asyncio.Event = field(init=False)
    _ended: asyncio.Event = field(init=False)

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping`; then hand back what is under way."""
        self._threads = ThreadPoolExecutor(self.most, thread_name_prefix="skillrun-run")
        self._stopping, self._ended = stopping, asyncio.Event()
        await asyncio.to_thread(self._beat, begins=True)
        sweep = asyncio.create_task(self._sweep())
        ending = asyncio.create_task(self._end())
        try:
            queues = self.queues
            await serve(self.url, self._told, name=self.name, queues=queues, stopping=stopping, say=self.say)
            await ending
            await asyncio.gather(*self._works)
        finally:
            sweep.cancel()
            ending.cancel()
            self._threads.shutdown(wait=False)
            with suppress(SkillrunError):
                await asyncio.to_thread(self.roster.leave, self.name)

    def _beat(self, *, begins: bool = False, draining: bool = False) -> None:
        """Have others see this worker; a store that is away hears of it the next time."""
        host = platform.node()[:80]
        with suppress(SkillrunError):
            presence = Presence(self.name, host, os.getpid(), self.most, self.lease, __version__, self.queues)
            self.roster.beat(presence, begins=begins, draining=draining)

    async def _told(self, name: str) -> None:
        """Begin with a run, and return once there is room for one more: what is fetched has a place."""
        await self._room()  # the sweep may have taken it
        self._begin(name)
        await self._room()

    def _begin(self, name: str) -> None:
        if self._stopping.is_set() or name in self._drains or self._later.get(name, 0) > time.monotonic():
            return
        self._drains[name] = Drain()
        work = asyncio.create_task(self._work(name))
        self._works.add(work)
        work.add_done_callback(self._works.discard)

    async def _room(self) -> None:
        while len(self._drains) >= self.most:
            self._ended.clear()
            await self._ended.wait()

    async def _work(self, name: str) -> None:
        """One run, in a thread: nothing of it can hold up another."""
        if self.metrics is not None:
            self.metrics.under_way.inc()
        try:
            worked = partial(self._worked, name, self._drains[name])
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, worked)
        except RunHeld:
            pass  # another is at it; should it die, the sweep of any worker tells
        except StoreAway as error:
            self.say(f"{name}: left for now: {error.message}")
        except Exception as error:  # noqa: BLE001 (whatever is wrong with one run, others are worked on)
            self._later[name] = time.monotonic() + AGAIN
            why = error.message if isinstance(error, SkillrunError) else repr(error)
            self.say(f"{name}: not here: {why}")
            with suppress(SkillrunError):
                await asyncio.to_thread(self.queue.note, name, f"{self.name}: {why}")
        else:
            self._later.pop(name, None)
            if outcome is not None:
                self.say(f"{name}: {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
        finally:
            del self._drains[name]
            self._ended.set()
            if self.metrics is not None:
                self.metrics.under_way.dec()

    def _worked(self, name: str, drain: Drain) -> Outcome | None:
        metrics = self.metrics
        slots = DrainingSlots(self.place.slots, drain) if self.place.slots is not None else None

        def limited(gateway: Gateway) -> Gateway:
            return DrainingGateway(metrics.counting(gateway) if metrics is not None else gateway, drain)

        heard = metrics.of_run if metrics is not None else None
        place = replace(self.place, limited=limited, slots=slots, heard=heard, queues=self.queues)

        async def work() -> Outcome | None:
            task = asyncio.ensure_future(work_on(place, name))
            drain.begin(task)
            return await task

        try:
            outcome = asyncio.run(work())
        except asyncio.CancelledError:
            outcome = Outcome("interrupted")
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

    async def _sweep(self) -> None:
        """Have runs gone on with that nobody works on: of dead workers, and whose job was lost."""
        dispatch: Dispatch | None = None
        try:
            while not self._stopping.is_set():
                try:
                    if dispatch is None:
                        dispatch = await asyncio.to_thread(Dispatch, self.url)
                    due = self._taken(await asyncio.to_thread(self._due))
                    await asyncio.to_thread(dispatch.wake_all, due)
                except StoreAway:
                    pass  # it is looked for again
                except Exception as error:  # noqa: BLE001 (without a sweep, runs of dead workers would be lost)
                    self.say(f"the sweep failed, and is tried again: {error!r}")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), self.lease / SWEEPS)
                await asyncio.to_thread(self._beat, draining=self._stopping.is_set())
        finally:
            if dispatch is not None:
                dispatch.close()

    def _due(self) -> list[Due]:
        """What is due, but for what cannot be worked on here."""
        now = time.monotonic()
        self._later = {name: until for name, until in self._later.items() if until > now}
        return self.queue.due(TOLD, tuple(self._later), self.queues)

    def _taken(self, due: list[Due]) -> list[Due]:
        """Begin with runs of dead workers for which there is room: a job may die with its worker, too. The others."""
        begun = [each for each in due if each.priority == BEGUN and each.name not in self._drains]
        shuffle(begun)  # other workers sweep as well
        taken = begun[: max(0, self.most - len(self._drains))]
        for each in taken:
            self._begin(each.name)
        return [each for each in due if each not in taken]

    async def _end(self) -> None:
        await self._stopping.wait()
        for drain in list(self._drains.values()):
            drain.end_early()
