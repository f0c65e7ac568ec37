"""Budgets: calls that are admitted, wait or are refused, and the error of refused calls."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest

from skillrun.models.messages import Usage
from skillrun.runtime.errors import BudgetExhausted
from skillrun.runtime.run_budget import Reservation, RunBudget
from skillrun.store.memory import MemoryJournal

pytestmark = pytest.mark.finding("FM1")


def limits(**budget: float) -> RunBudget:
    with closing(MemoryJournal()) as journal:
        return RunBudget(budget, journal)


async def use(made: RunBudget, most: int, used: int, done: list[int], price: float = 0) -> None:
    """Make a call that may use `most` tokens and uses `used`; append the number of active calls to `done`."""
    held = await made.reserve(lambda _exactly: Reservation(1, most, price))
    try:
        done.append(len(made._under_way))
        made.count_call(held)
        await asyncio.sleep(0)
        made.record_usage(held, Usage(output=used), price and used / 1000)
    finally:
        made.release(held)


def crowd(made: RunBudget, calls: int, most: int = 100, used: int = 10, **more: Any) -> tuple[list[int], list[Any]]:
    """Return the number of active calls at each admission, and the errors of the other calls."""

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(
            *(use(made, most, used, done, **more) for _ in range(calls)), return_exceptions=True
        )

    done: list[int] = []
    return done, list(filter(None, asyncio.run(all_at_once())))


def test_calls_under_way_count_before_they_are_answered() -> None:
    made = limits(calls=3)
    done, errors = crowd(made, 10)
    assert done == [1, 2, 3]
    assert [type(error) for error in errors] == [BudgetExhausted] * 7
    assert str(made.next_step()) == "resume with `skillrun resume RUN --budget calls=10`"


def test_who_finds_no_room_waits_and_alone_may_use_more_than_is_left() -> None:
    made = limits(tokens=250)
    done, errors = crowd(made, 30)
    assert done[:4] == [1, 2, 2, 2]  # two fit at the same time
    assert done[-1] == 1
    assert made.spent["tokens"] == 250
    assert len(done) == 25
    assert len(errors) == 5
    assert "the budget of 250 tokens is spent" in str(errors[0])
    assert str(made.next_step()) == "resume with `skillrun resume RUN --budget tokens=500`"


def test_all_that_is_spent_is_raised_beyond_what_was_used() -> None:
    made = limits(tokens=5, price=0.004, calls=1)
    done, errors = crowd(made, 3, price=0.1)
    assert (len(done), len(errors)) == (1, 2)
    assert str(errors[0]) == "the budget of 1 call and 5 tokens and 0.004 dollars is spent"
    assert str(made.next_step()) == "resume with `skillrun resume RUN --budget calls=3,tokens=20,price=0.02`"


def test_a_call_that_was_not_sent_or_has_failed_gives_its_room_back() -> None:
    made = limits(calls=2, tokens=100)

    async def failing() -> None:
        for sent in (False, True, False):
            held = await made.reserve(lambda _exactly: Reservation(1, 90))
            if sent:
                made.count_call(held)
            made.release(held)

    asyncio.run(failing())
    assert made.spent["calls"] == 1
    done, errors = crowd(made, 2)
    assert (len(done), len(errors)) == (1, 1)


def test_who_gives_up_waiting_stands_in_nobodys_way() -> None:
    made = limits(tokens=100)

    async def story() -> list[int]:
        first = await made.reserve(lambda _exactly: Reservation(1, 90))
        waiting = [asyncio.create_task(use(made, 90, 10, done)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        made.release(first)
        waiting[1].cancel()  # it was admitted just now
        await asyncio.gather(*waiting, return_exceptions=True)
        return done

    done: list[int] = []
    assert asyncio.run(story()) == [1]
    assert made._under_way == set()


def test_the_exact_size_of_a_prompt_is_asked_for_where_the_quick_one_has_no_room() -> None:
    made, asked = limits(tokens=130), []

    def most(exactly: bool) -> Reservation:
        asked.append(exactly)
        return Reservation(1, 40 if exactly else 80)

    async def two() -> None:
        await made.reserve(most)
        await made.reserve(most)

    asyncio.run(asyncio.wait_for(two(), 5))
    assert asked == [False, False, True]


def test_known_usage_replaces_the_reservation_while_other_calls_are_active() -> None:
    budget = limits(tokens=100, price=1, calls=10)

    async def overlap() -> None:
        first = await budget.reserve(lambda _exactly: Reservation(1, 60, 0.6))
        second = await budget.reserve(lambda _exactly: Reservation(1, 30, 0.3))
        budget.count_call(first)
        budget.record_usage(first, Usage(output=10), 0.1)
        budget.release(first)
        third = await asyncio.wait_for(budget.reserve(lambda _exactly: Reservation(1, 50, 0.5)), 1)
        for call in (second, third):
            budget.release(call)

    asyncio.run(overlap())
    assert budget.spent["tokens"] == 10
