"""Enforces a run's budget of calls, tokens, price and minutes. If the budget is spent, the run pauses between calls.

From its admission until its reply arrives, a call reserves the maximum usage that it can have.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from skillrun.library.settings import LIMIT_NAMES, WORDS
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Usage
from skillrun.runtime.errors import BudgetExhausted
from skillrun.store.journal import Journal
from skillrun.store.outcome import NextStep, ResumeCommand


@dataclass(eq=False)
class Reservation:
    """The part of the budget that is reserved for a call.

    The call itself is reserved until it is sent; its maximum tokens and price are reserved until its usage is known.
    """

    calls: float = 1
    tokens: float = 0
    price: float = 0


class RunBudget:
    """The budget of a run, and how much of it is spent. A reply from the journal costs nothing in this evaluation.

    A call is admitted if its maximum usage and all reservations together are within every limit. If they are not, the
    call waits until active calls end. If no other call is active, a call is admitted while any budget remains. So a
    small budget does not stop a run only because a reply could be long. Waiting calls are admitted in order of arrival.
    """

    def __init__(self, budget: Mapping[str, Any], journal: Journal) -> None:
        self.limits = {name: float(budget[name]) for name in LIMIT_NAMES if isinstance(budget.get(name), int | float)}
        self.spent = dict.fromkeys(LIMIT_NAMES, 0.0)
        self.spent["calls"] = journal.call_count
        self._under_way: set[Reservation] = set()
        self._reserved = dict.fromkeys(("calls", "tokens", "price"), 0.0)  # in all; a sum per call would be quadratic
        self._waiting: deque[tuple[Reservation, asyncio.Future[None]]] = deque()
        self._refused_calls = 0
        self._started = time.monotonic()
        for entry in chain(journal.entries("reply", texts=False), journal.entries("tried", texts=False)):
            if "usage" in entry.body:
                self.add(Usage(**entry.body["usage"]), entry.body["price"])

    async def reserve(self, estimate: Callable[[bool], Reservation]) -> Reservation:
        """Wait until a call is admitted, and return its reservation. Raises BudgetExhausted if the budget is spent.

        The caller frees the reservation with `release`. `estimate(True)` returns the call's maximum usage, and
        `estimate(False)` an upper bound of it that is faster to compute.
        """
        self.check_minutes()
        held = estimate(False)
        if self._waiting or not self._fits(held):
            held = estimate(True)
        if self._waiting or not self._fits(held):
            if self._under_way:
                await self._wait_for_room(held)
                return held
            if self._over():
                raise self._budget_error()
        self._admit(held)
        return held

    def count_call(self, reservation: Reservation) -> None:
        """Count a call that is about to be sent. It counts even if it fails."""
        self.spent["calls"] += reservation.calls
        self._reserved["calls"] -= reservation.calls
        reservation.calls = 0

    def record_usage(self, reservation: Reservation, usage: Usage, price: float | None) -> None:
        """Record the usage of a call, and free the tokens and the price that were reserved for it."""
        self._reserved["tokens"] -= reservation.tokens
        self._reserved["price"] -= reservation.price
        reservation.tokens = reservation.price = 0
        self.add(usage, price)

    def release(self, reservation: Reservation) -> None:
        """End the reservation of a call, and admit waiting calls for which there is now room."""
        self._under_way.discard(reservation)
        for name in self._reserved:
            self._reserved[name] = self._reserved[name] - getattr(reservation, name) if self._under_way else 0.0
        while self._waiting:
            held, admission = self._waiting[0]
            over = bool(self._over())
            if not over and self._under_way and not self._fits(held):
                return
            self._waiting.popleft()
            if admission.done():
                continue
            if over:
                admission.set_exception(self._budget_error())
            else:
                self._admit(held)
                admission.set_result(None)

    def check_minutes(self) -> None:
        """Raise BudgetExhausted if the time limit is reached."""
        if self._minutes() >= self.limits.get("minutes", math.inf):
            raise self._budget_error()

    def _minutes(self) -> float:
        return (time.monotonic() - self._started) / 60

    def next_step(self) -> NextStep:
        """Return the command that resumes the run with at least twice the spent limits, and room for refused calls."""
        raised = []
        for name in self._over():
            limit, spent = self.limits[name], self.spent[name] if name != "minutes" else 0
            kept_back = self._refused_calls if name == "calls" else 0
            raised.append(f"{name}={_number(name, max(2 * max(limit, spent), spent + kept_back) or 1)}")
        return NextStep.of("resume with ", ResumeCommand(f"--budget {','.join(raised)}" if raised else ""))

    async def _wait_for_room(self, reservation: Reservation) -> None:
        admission: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((reservation, admission))
        try:
            await admission
        except asyncio.CancelledError:
            if admission.done() and not admission.cancelled() and admission.exception() is None:
                self.release(reservation)
            raise

    def _admit(self, reservation: Reservation) -> None:
        self._under_way.add(reservation)
        for name in self._reserved:
            self._reserved[name] += getattr(reservation, name)

    def _fits(self, reservation: Reservation) -> bool:
        """Return whether a call and all reservations together are within every limit."""
        return all(
            self.spent[name] + reserved + getattr(reservation, name) <= self.limits.get(name, math.inf)
            for name, reserved in self._reserved.items()
        )

    def _over(self) -> list[str]:
        """Return the names of the limits that allow no other call, even if no call is active."""
        self.spent["minutes"] = self._minutes()
        least = {"calls": self.spent["calls"] + 1 > self.limits.get("calls", math.inf)}
        return [name for name, limit in self.limits.items() if least.get(name, self.spent[name] >= limit)]

    def _budget_error(self) -> BudgetExhausted:
        """Count a refused call, and return the error for it."""
        self._refused_calls += 1
        spent = []
        for name in self._over():
            number = _plain(self.limits[name])
            spent.append(f"{number} {WORDS[name].removesuffix('s') if number == '1' else WORDS[name]}")
        return BudgetExhausted(f"the budget of {' and '.join(spent)} is spent", str(self.next_step()))

    def add(self, usage: Usage, price: float | None) -> None:
        """Count tokens and a price, in dollars, as spent."""
        self.spent["tokens"] += usage.input + usage.output
        self.spent["price"] += price or 0.0


def unpriced_warning(models: Iterable[str], catalogue: Catalogue, limit: float) -> str:
    """Return a warning which names the models whose calls the price limit does not cover; empty if it covers all."""
    unpriced = sorted({model for model in models if catalogue.price(model, Usage()) is None})
    if not unpriced:
        return ""
    entry = f'models: {{"{unpriced[0]}": {{input: 1.0, output: 2.0}}}}'
    return (
        f"the price limit of ${limit:g} does not cover calls to {', '.join(unpriced)}, whose price is unknown; set the "
        f"price in config/models.yaml, in dollars per million tokens (`{entry}`), or limit `tokens` or `calls`"
    )


def _number(name: str, amount: float) -> str:
    """Return an amount, rounded up, in the form that `--budget` takes."""
    if name in ("calls", "tokens"):
        return str(math.ceil(amount))
    return _plain(math.ceil(amount * 100) / 100 if name == "price" else amount)


def _plain(amount: float) -> str:
    return f"{amount:.6f}".rstrip("0").rstrip(".")
