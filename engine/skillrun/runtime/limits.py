"""Budgets of a run: calls, tokens, price and minutes. A spent one pauses the run; nothing is cut off midway."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from skillrun.models.messages import Usage
from skillrun.runtime.errors import BudgetSpent

NAMES: Final = ("calls", "tokens", "price", "minutes")


class Limits:
    """What may still be spent. Counts new calls only: what the journal answers is free."""

    def __init__(self, budget: Mapping[str, Any], spent: Mapping[str, float] | None = None) -> None:
        self.budget = {name: float(budget[name]) for name in NAMES if isinstance(budget.get(name), int | float)}
        self.spent: dict[str, float] = {"calls": 0, "tokens": 0, "price": 0.0, **(spent or {})}
        self.in_flight = 0
        self.unknown_price = False
        self._started = time.monotonic()

    def check(self) -> None:
        """Raises BudgetSpent when one more call would pass a limit."""
        self.spent["minutes"] = (time.monotonic() - self._started) / 60
        for name, limit in self.budget.items():
            if self.spent[name] + (self.in_flight if name == "calls" else 0) >= limit:
                raise BudgetSpent(
                    f"the budget of {limit:g} {name} is spent",
                    f"go on with `skillrun resume RUN --budget {name}={_more(limit)}`",
                )

    def count(self, usage: Usage, price: float | None) -> None:
        self.spent["calls"] += 1
        self.spent["tokens"] += usage.input + usage.output
        if price is None:
            self.unknown_price = True
        else:
            self.spent["price"] += price


def _more(limit: float) -> str:
    return f"{limit * 2:g}"
