"""Slots over all workers: granted in order of request, never above the limit, released when their holder dies."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from skillrun.extensions.workers.postgres.database import Database, StoreUnavailable
from skillrun.extensions.workers.postgres.migrations import migrate
from skillrun.extensions.workers.postgres.slots import ProviderLimits
from skillrun.extensions.workers.slots import LeasedSlots
from skillrun.extensions.workers.worker import Drain, DrainingSlots
from skillrun.models.entries import ProviderConfig
from tests.servers.postgres import empty

pytestmark = pytest.mark.row("W4")
ADA = ProviderConfig("ada", "openai", concurrency=2)
PATIENCE = 20.0  # seconds


@pytest.fixture
def url(postgres: None) -> Iterator[str]:
    with empty() as place:
        yield place


@pytest.fixture
def limits(url: str) -> Iterator[ProviderLimits]:
    database = Database(url)
    migrate(database)
    yield ProviderLimits(database)
    database.close()


class Held:
    """The current holders of slots, and their maximum number."""

    def __init__(self) -> None:
        self.now: set[str] = set()
        self.order: list[str] = []
        self.most = 0

    async def hold(self, slots: Any, name: str, until: asyncio.Event | None = None) -> None:
        async with slots.slot(ADA):
            self.now.add(name)
            self.order.append(name)
            self.most = max(self.most, len(self.now))
            await (until.wait() if until is not None else asyncio.sleep(0.01))
            self.now.discard(name)


async def until(what: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def waiting(limits: ProviderLimits) -> int:
    return limits.list_limits()[0].waiting


def test_calls_of_all_workers_are_let_through_in_the_order_of_asking(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    workers, held = [LeasedSlots(url, limits) for _ in range(3)], Held()

    async def ask() -> None:
        done, tasks = asyncio.Event(), []
        for number in range(9):
            tasks.append(asyncio.create_task(held.hold(workers[number % 3], str(number), None if number else done)))
            await until(lambda asked=number: (limits.list_limits()[0].held, waiting(limits)) == (1, asked))  # type: ignore[misc]
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert held.order == list("012345678")
    assert held.most == 1
    assert (limits.list_limits()[0].held, waiting(limits)) == (0, 0)


def test_there_are_never_more_calls_than_the_limit(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 3)
    workers, held = [LeasedSlots(url, limits) for _ in range(4)], Held()

    async def ask() -> None:
        await asyncio.gather(*(held.hold(workers[number % 4], str(number)) for number in range(60)))

    asyncio.run(ask())
    assert len(held.order) == 60
    assert held.most == 3


def test_a_limit_that_is_raised_lets_those_who_wait_go(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, held = LeasedSlots(url, limits), Held()

    async def ask() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(held.hold(slots, str(number), done)) for number in range(4)]
        await until(lambda: waiting(limits) == 3)
        limits.set_limit("ada", 3)
        await until(lambda: len(held.now) == 3)
        limits.set_limit("ada", None)
        await until(lambda: len(held.now) == 4)
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())


def test_what_a_dead_worker_held_is_given_on_when_its_lease_is_over(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    assert limits.acquire("ada", "dead", 0.3) is not None
    held = Held()
    asyncio.run(held.hold(LeasedSlots(url, limits, lease=0.6), "next"))
    assert held.order == ["next"]


def test_what_is_held_for_longer_than_the_lease_is_kept(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    first, second, held = LeasedSlots(url, limits, 0.3), LeasedSlots(url, limits, 0.3), Held()

    async def ask() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(held.hold(first, "first", done))]
        await until(lambda: held.now)
        tasks.append(asyncio.create_task(held.hold(second, "second")))
        await asyncio.sleep(1)
        assert held.now == {"first"}
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert held.most == 1


def test_a_place_in_the_order_that_was_lost_is_asked_for_anew(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, held = LeasedSlots(url, limits, 0.6), Held()

    async def ask() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(held.hold(slots, "first", done))]
        await until(lambda: held.now)
        tasks.append(asyncio.create_task(held.hold(slots, "second")))
        await until(lambda: waiting(limits) == 1)
        limits.database.rows("DELETE FROM tickets WHERE NOT is_held")
        await until(lambda: waiting(limits) == 1)
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert held.order == ["first", "second"]


@pytest.mark.parametrize("most", [None, 4])
def test_a_pause_holds_for_every_worker_and_ends_by_itself(url: str, limits: ProviderLimits, most: int | None) -> None:
    limits.set_limit("ada", most)
    first, second, held = LeasedSlots(url, limits), LeasedSlots(url, limits), Held()
    first.pause(ADA, 0.5)
    first.pause(ADA, 0.1)
    asked = time.monotonic()
    asyncio.run(held.hold(second, "second"))
    assert time.monotonic() - asked >= 0.45
    assert held.order == ["second"]


def test_those_who_wait_are_told_of_a_pause(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, held = LeasedSlots(url, limits), Held()

    async def ask() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(held.hold(slots, "first", done))]
        await until(lambda: held.now)
        tasks.append(asyncio.create_task(held.hold(slots, "second")))
        await until(lambda: waiting(limits) == 1)
        slots.pause(ADA, 0.5)
        asked = time.monotonic()
        done.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)  # long before the next renewal, a third of a lease
        assert time.monotonic() - asked >= 0.4

    asyncio.run(ask())
    assert held.order == ["first", "second"]


def test_who_gives_up_waiting_leaves_no_place_behind(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, held = LeasedSlots(url, limits), Held()

    async def ask() -> None:
        done = asyncio.Event()
        first = asyncio.create_task(held.hold(slots, "first", done))
        await until(lambda: held.now)
        second = asyncio.create_task(held.hold(slots, "second"))
        await until(lambda: waiting(limits) == 1)
        second.cancel()
        await until(lambda: waiting(limits) == 0)
        done.set()
        await first

    asyncio.run(ask())
    assert held.order == ["first"]


def test_without_a_limit_the_providers_own_holds_for_all_runs_of_a_process(url: str, limits: ProviderLimits) -> None:
    slots, held = LeasedSlots(url, limits), Held()

    async def ask(name: str) -> None:
        await asyncio.gather(*(held.hold(slots, f"{name}{number}") for number in range(10)))

    threads = [threading.Thread(target=asyncio.run, args=(ask(name),)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(held.order) == 30
    assert held.most == ADA.concurrency
    assert limits.list_limits() == []


def test_a_worker_that_ends_waits_for_no_slot(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    drain, held, slots = Drain(), Held(), LeasedSlots(url, limits)

    async def ask() -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(slots.slot(ADA))

            async def call() -> None:
                with drain.track_call():
                    await held.hold(DrainingSlots(slots, drain), "second")

            task = asyncio.create_task(call())
            drain.attach(task)
            await until(lambda: waiting(limits) == 1)
            drain.start()
            await asyncio.wait({task}, timeout=PATIENCE)
            assert task.cancelled()

    asyncio.run(ask())
    assert held.order == []
    assert (limits.list_limits()[0].held, waiting(limits)) == (0, 0)


def test_a_run_that_gets_no_slot_since_the_store_is_away_is_handed_back() -> None:
    class Away:
        @asynccontextmanager
        async def slot(self, provider: ProviderConfig) -> AsyncIterator[None]:
            if provider == ADA:
                raise StoreUnavailable("it does not answer")
            yield

        def pause(self, _provider: ProviderConfig, _seconds: float) -> None:
            raise NotImplementedError

    drain, held, under_way = Drain(), Held(), asyncio.Event()

    async def ask() -> None:
        async def other() -> None:
            with drain.track_call():
                await asyncio.sleep(0.2)
            under_way.set()

        async def call() -> None:
            with drain.track_call():
                await held.hold(DrainingSlots(Away(), drain), "first")

        async def work() -> None:
            await asyncio.gather(other(), call())

        task = asyncio.create_task(work())
        drain.attach(task)
        await asyncio.wait({task}, timeout=PATIENCE)
        assert task.cancelled()

    asyncio.run(ask())
    assert under_way.is_set()  # the pending requests ended
    assert held.order == []


def test_a_connection_that_breaks_is_made_again(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, held = LeasedSlots(url, limits), Held()
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skillrun slots'"

    async def ask() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(held.hold(slots, "first", done))]
        await until(lambda: held.now)
        tasks.append(asyncio.create_task(held.hold(slots, "second")))
        await until(lambda: waiting(limits) == 1)
        await until(lambda: limits.database.rows(end))
        done.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)

    asyncio.run(ask())
    assert held.order == ["first", "second"]
