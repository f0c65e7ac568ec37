"""Figures of two versions that were compared: mean, spread, who is better how often, and whether that can be chance.

Pure functions of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean, stdev
from typing import Final

SIGNIFICANCE_LEVEL: Final = 0.05  # the probability below which a result is no chance any more
MIN_DECIDED_PAIRS: Final = 6  # decided pairs: with fewer even those that all agree may be chance


@dataclass(frozen=True)
class Spread:
    """Of several numbers how many there are, their mean, and their standard deviation, which one alone has not."""

    count: int
    mean: float
    deviation: float | None


def compute_spread(numbers: Sequence[float]) -> Spread | None:
    """The mean and spread of some numbers; None of none."""
    if not numbers:
        return None
    return Spread(len(numbers), fmean(numbers), stdev(numbers) if len(numbers) > 1 else None)


@dataclass(frozen=True)
class Verdict:
    """How often each side was better. `undecided` are pairs that are equal, or that two looks have seen otherwise."""

    before: int
    after: int
    undecided: int = 0

    @property
    def decided(self) -> int:
        return self.before + self.after

    @property
    def p_value(self) -> float:
        """How probable it is that two equal sides come out at least so unequal: the two-sided sign test."""
        most, all_ = max(self.before, self.after), self.decided
        tail = sum(comb(all_, wins) for wins in range(most, all_ + 1))
        return min(1.0, float(2 * tail / 2**all_))

    @property
    def is_significant(self) -> bool:
        """Whether this is more than chance."""
        return self.decided >= MIN_DECIDED_PAIRS and self.p_value < SIGNIFICANCE_LEVEL
