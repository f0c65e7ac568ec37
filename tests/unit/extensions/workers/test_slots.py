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
from skillrun.extensions.workers.postgres.maintenance import migrate
from skillrun.extensions.workers.postgres.slots import LeasedSlots, ProviderLimits
from skillrun.extensions.workers.work import Drain, DrainingSlots
from skillrun.models.entries import ProviderConfig
from tests.servers.postgres import empty

pytestmark = pytest.mark.row("W4")
ADA = ProviderConfig("ada", "openai", concurrency=2)
TIMEOUT = 20.0  # seconds


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


class SlotHolders:
    """Records the current holders of slots, their order and their maximum number."""

    def __init__(self) -> None:
        self.current: set[str] = set()
        self.order: list[str] = []
        self.max_count = 0

    async def hold(self, slots: Any, name: str, release: asyncio.Event | None = None) -> None:
        async with slots.slot(ADA):
            self.current.add(name)
            self.order.append(name)
            self.max_count = max(self.max_count, len(self.current))
            await (release.wait() if release is not None else asyncio.sleep(0.01))
            self.current.discard(name)


async def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def waiting_count(limits: ProviderLimits) -> int:
    return limits.list_limits()[0].waiting


def test_calls_of_all_workers_get_slots_in_the_order_of_their_requests(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    workers, holders = [LeasedSlots(url, limits.database) for _ in range(3)], SlotHolders()

    async def use_slots() -> None:
        done, tasks = asyncio.Event(), []
        for number in range(9):
            tasks.append(asyncio.create_task(holders.hold(workers[number % 3], str(number), None if number else done)))
            await wait_until(lambda count=number: (limits.list_limits()[0].held, waiting_count(limits)) == (1, count))  # type: ignore[misc]
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(use_slots())
    assert holders.order == list("012345678")
    assert holders.max_count == 1
    assert (limits.list_limits()[0].held, waiting_count(limits)) == (0, 0)


def test_there_are_never_more_calls_than_the_limit(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 3)
    workers, holders = [LeasedSlots(url, limits.database) for _ in range(4)], SlotHolders()

    async def use_slots() -> None:
        await asyncio.gather(*(holders.hold(workers[number % 4], str(number)) for number in range(60)))

    asyncio.run(use_slots())
    assert len(holders.order) == 60
    assert holders.max_count == 3


def test_raising_a_limit_releases_waiting_calls(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, holders = LeasedSlots(url, limits.database), SlotHolders()

    async def use_slots() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(holders.hold(slots, str(number), done)) for number in range(4)]
        await wait_until(lambda: waiting_count(limits) == 3)
        limits.set_limit("ada", 3)
        await wait_until(lambda: len(holders.current) == 3)
        limits.set_limit("ada", None)
        await wait_until(lambda: len(holders.current) == 4)
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(use_slots())


def test_the_slot_of_a_dead_worker_is_freed_when_its_lease_ends(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    assert limits.database.rows("SELECT granted FROM take_slot('ada', 'dead', 0.3)") == [(True,)]
    holders = SlotHolders()
    asyncio.run(holders.hold(LeasedSlots(url, limits.database, lease=0.6), "next"))
    assert holders.order == ["next"]


def test_a_slot_that_is_held_longer_than_the_lease_is_kept(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    first, second, holders = (
        LeasedSlots(url, limits.database, 0.3),
        LeasedSlots(url, limits.database, 0.3),
        SlotHolders(),
    )

    async def use_slots() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(holders.hold(first, "first", done))]
        await wait_until(lambda: holders.current)
        tasks.append(asyncio.create_task(holders.hold(second, "second")))
        await asyncio.sleep(1)
        assert holders.current == {"first"}
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(use_slots())
    assert holders.max_count == 1


def test_a_lost_ticket_is_requested_again(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, holders = LeasedSlots(url, limits.database, 0.6), SlotHolders()

    async def use_slots() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(holders.hold(slots, "first", done))]
        await wait_until(lambda: holders.current)
        tasks.append(asyncio.create_task(holders.hold(slots, "second")))
        await wait_until(lambda: waiting_count(limits) == 1)
        limits.database.rows("DELETE FROM tickets WHERE NOT is_held")
        await wait_until(lambda: waiting_count(limits) == 1)
        done.set()
        await asyncio.gather(*tasks)

    asyncio.run(use_slots())
    assert holders.order == ["first", "second"]


@pytest.mark.parametrize("most", [None, 4])
def test_a_pause_applies_to_every_worker_and_ends_by_itself(url: str, limits: ProviderLimits, most: int | None) -> None:
    limits.set_limit("ada", most)
    first, second, holders = LeasedSlots(url, limits.database), LeasedSlots(url, limits.database), SlotHolders()
    first.pause(ADA, 0.5)
    first.pause(ADA, 0.1)
    started = time.monotonic()
    asyncio.run(holders.hold(second, "second"))
    assert time.monotonic() - started >= 0.45
    assert holders.order == ["second"]


def test_waiting_calls_observe_a_pause(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, holders = LeasedSlots(url, limits.database), SlotHolders()

    async def use_slots() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(holders.hold(slots, "first", done))]
        await wait_until(lambda: holders.current)
        tasks.append(asyncio.create_task(holders.hold(slots, "second")))
        await wait_until(lambda: waiting_count(limits) == 1)
        slots.pause(ADA, 0.5)
        started = time.monotonic()
        done.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)  # long before the next renewal, a third of a lease
        assert time.monotonic() - started >= 0.4

    asyncio.run(use_slots())
    assert holders.order == ["first", "second"]


def test_a_cancelled_wait_leaves_no_ticket(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, holders = LeasedSlots(url, limits.database), SlotHolders()

    async def use_slots() -> None:
        done = asyncio.Event()
        first = asyncio.create_task(holders.hold(slots, "first", done))
        await wait_until(lambda: holders.current)
        second = asyncio.create_task(holders.hold(slots, "second"))
        await wait_until(lambda: waiting_count(limits) == 1)
        second.cancel()
        await wait_until(lambda: waiting_count(limits) == 0)
        done.set()
        await first

    asyncio.run(use_slots())
    assert holders.order == ["first"]


def test_without_a_limit_the_providers_concurrency_applies_to_all_runs_of_a_process(
    url: str, limits: ProviderLimits
) -> None:
    slots, holders = LeasedSlots(url, limits.database), SlotHolders()

    async def use_slots(name: str) -> None:
        await asyncio.gather(*(holders.hold(slots, f"{name}{number}") for number in range(10)))

    threads = [threading.Thread(target=asyncio.run, args=(use_slots(name),)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert len(holders.order) == 30
    assert holders.max_count == ADA.concurrency
    assert limits.list_limits() == []


def test_a_draining_worker_does_not_wait_for_a_slot(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    drain, holders, slots = Drain(), SlotHolders(), LeasedSlots(url, limits.database)

    async def use_slots() -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(slots.slot(ADA))

            async def call() -> None:
                with drain.track_calls(1):
                    await holders.hold(DrainingSlots(slots, drain), "second")

            task = asyncio.create_task(call())
            drain.attach(task)
            await wait_until(lambda: waiting_count(limits) == 1)
            drain.start()
            await asyncio.wait({task}, timeout=TIMEOUT)
            assert task.cancelled()

    asyncio.run(use_slots())
    assert holders.order == []
    assert (limits.list_limits()[0].held, waiting_count(limits)) == (0, 0)


def test_a_run_without_a_slot_is_returned_if_the_store_is_unavailable() -> None:
    class UnavailableSlots:
        @asynccontextmanager
        async def slot(self, provider: ProviderConfig) -> AsyncIterator[None]:
            if provider == ADA:
                raise StoreUnavailable("it does not answer")
            yield

        def pause(self, _provider: ProviderConfig, _seconds: float) -> None:
            raise NotImplementedError

    drain, holders, other_call_ended = Drain(), SlotHolders(), asyncio.Event()

    async def run_worker() -> None:
        async def other_call() -> None:
            with drain.track_calls(1):
                await asyncio.sleep(0.2)
            other_call_ended.set()

        async def call() -> None:
            with drain.track_calls(1):
                await holders.hold(DrainingSlots(UnavailableSlots(), drain), "first")

        async def work() -> None:
            await asyncio.gather(other_call(), call())

        task = asyncio.create_task(work())
        drain.attach(task)
        await asyncio.wait({task}, timeout=TIMEOUT)
        assert task.cancelled()

    asyncio.run(run_worker())
    assert other_call_ended.is_set()  # a call that already runs is completed
    assert holders.order == []


def test_a_broken_connection_is_restored(url: str, limits: ProviderLimits) -> None:
    limits.set_limit("ada", 1)
    slots, holders = LeasedSlots(url, limits.database), SlotHolders()
    terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skillrun slots'"

    async def use_slots() -> None:
        done = asyncio.Event()
        tasks = [asyncio.create_task(holders.hold(slots, "first", done))]
        await wait_until(lambda: holders.current)
        tasks.append(asyncio.create_task(holders.hold(slots, "second")))
        await wait_until(lambda: waiting_count(limits) == 1)
        await wait_until(lambda: limits.database.rows(terminate))
        done.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)

    asyncio.run(use_slots())
    assert holders.order == ["first", "second"]
