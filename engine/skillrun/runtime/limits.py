"""Budgets of a run: calls, tokens, price and minutes. A spent one pauses the run; nothing is cut off midway."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from skillrun.language.library import Library
from skillrun.language.source import plain
from skillrun.models.messages import Usage
from skillrun.runtime.errors import BudgetSpent
from skillrun.runtime.journal import Journal

NAMES: Final = ("calls", "tokens", "price", "minutes")


def budgets(library: Library) -> dict[str, float]:
    """What a run may spend without a flag, by name. A project may lower what the user and the library say."""
    config = library.config("skillrun")
    layers = zip(config.roots, config.layers, strict=True) if config is not None else ()
    own: dict[str, float] = {}
    projects: dict[str, float] = {}
    for root, layer in layers:  # the strongest first
        written = plain(layer).get("budgets") or {}
        found = {name: limit for name, limit in written.items() if isinstance(limit, int | float)}
        if root == "project":
            projects = found
        else:
            own = {**found, **own}
    return {**own, **{name: min(limit, own.get(name, limit)) for name, limit in projects.items()}}


class Limits:
    """What may still be spent. Counts new calls only: what the journal answers is free."""

    def __init__(self, budget: Mapping[str, Any], journal: Journal) -> None:
        self.budget = {name: float(budget[name]) for name in NAMES if isinstance(budget.get(name), int | float)}
        self.spent = dict.fromkeys(NAMES, 0.0)
        self.in_flight = 0
        self._started = time.monotonic()
        for entry in journal.entries("reply"):
            self.count(Usage(**entry.body["usage"]), entry.body["price"])

    def check(self) -> None:
        """Raises BudgetSpent when one more call would pass a limit."""
        self.spent["minutes"] = (time.monotonic() - self._started) / 60
        for name, limit in self.budget.items():
            if self.spent[name] + (self.in_flight if name == "calls" else 0) >= limit:
                raise BudgetSpent(
                    f"the budget of {limit:g} {name} is spent",
                    f"go on with `skillrun resume RUN --budget {name}={limit * 2:g}`",
                )

    def count(self, usage: Usage, price: float | None) -> None:
        self.spent["calls"] += 1
        self.spent["tokens"] += usage.input + usage.output
        self.spent["price"] += price or 0.0
