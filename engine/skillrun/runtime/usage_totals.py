"""Totals of calls, tokens and price."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from skillrun.models.messages import Usage
from skillrun.store.summary import TOKENS, Summary, UsageRecord


@dataclass(frozen=True)
class UsageTotals:
    """Calls, tokens and price. One call with an unknown price makes the total price None.

    `replayed` counts replies that were paid for in an earlier round, where their tokens and price are counted.
    `kept` counts the tokens that calls in a persistent conversation read from a provider's cache.
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    price: float | None = 0.0
    replayed: int = 0
    kept: int = 0

    @classmethod
    def from_summaries(cls, summaries: Iterable[Summary]) -> UsageTotals:
        """Return the totals that these summaries record."""
        total = cls()
        for summary in summaries:
            used = summary.usage
            usage = Usage(*(int(used.get(key, 0)) for key in TOKENS))
            calls, replayed, kept = int(used.get("calls", 0)), int(used.get("replayed", 0)), int(used.get("kept", 0))
            total += cls(calls, usage, used.get("price", 0.0), replayed, kept)
        return total

    def __add__(self, other: UsageTotals) -> UsageTotals:
        price = None if self.price is None or other.price is None else self.price + other.price
        again, kept = self.replayed + other.replayed, self.kept + other.kept
        return UsageTotals(self.calls + other.calls, self.usage + other.usage, price, again, kept)

    def to_dict(self) -> UsageRecord:
        price = None if self.price is None else round(self.price, 6)
        used = self.usage
        record: UsageRecord = {"calls": self.calls, "input": used.input, "output": used.output}
        record["cache_read"], record["cache_write"], record["price"] = used.cache_read, used.cache_write, price
        if self.replayed:
            record["replayed"] = self.replayed
        if self.kept:
            record["kept"] = self.kept
        return record

    def template_value(self) -> dict[str, object]:
        """Return the totals as templates see them."""
        return {**self.to_dict(), "saved": {"cache": self.usage.cache_read, "sessions": self.kept}}
