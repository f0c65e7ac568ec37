"""What a call costs, from a table of prices in dollars per million tokens. An unknown price is None, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillrun.models.messages import Usage

MILLION = 1_000_000
RATES = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens. Where a cache rate is unknown, those tokens cost what other input does.

    A call whose whole input is more than `above` tokens is charged at the `long` rates, all of it.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    above: int | None = None
    long: Price | None = None

    def of(self, usage: Usage) -> float:
        if self.above is not None and self.long is not None and usage.input > self.above:
            return self.long.of(usage)
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input - usage.cache_read - usage.cache_write
        spent = fresh * self.input + usage.output * self.output + usage.cache_read * read + usage.cache_write * write
        return spent / MILLION


def read_price(entry: Mapping[str, Any]) -> Price | None:
    """The price that an entry of the model table states; None when it names no rate for input and output."""
    if entry.get("input") is None or entry.get("output") is None:
        return None
    long = entry.get("long")
    rates = {name: float(entry[name]) for name in RATES if entry.get(name) is not None}
    return Price(**rates, above=entry.get("above"), long=read_price(long) if long else None)


def price(usage: Usage, rates: Price | None) -> float | None:
    """Dollars for the usage, or None when the rates are unknown."""
    return None if rates is None else rates.of(usage)
