"""What a call costs, from a table of prices in dollars per million tokens. An unknown price is None, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillrun.models.messages import Usage


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens. Where a cache rate is unknown, those tokens cost what other input does.

    A call whose whole input is more than `above` tokens is charged at the `long` rates, all of it.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    above: int = 0
    long: Price | None = None

    def of(self, usage: Usage) -> float:
        if self.long is not None and usage.input > self.above:
            return self.long.of(usage)
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input - usage.cache_read - usage.cache_write
        spent = fresh * self.input + usage.output * self.output + usage.cache_read * read + usage.cache_write * write
        return spent / 1_000_000


def read_price(entry: Mapping[str, Any]) -> Price | None:
    """The price that an entry of the model table states; None when it names no rate for input and output."""
    if entry.get("input") is None or entry.get("output") is None:
        return None
    rates = {name: entry[name] for name in ("input", "output", "cache_read", "cache_write", "above") if name in entry}
    return Price(**rates, long=read_price(entry.get("long", {})))
