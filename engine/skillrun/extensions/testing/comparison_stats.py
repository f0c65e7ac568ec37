"""Statistics for comparing two versions: mean, standard deviation, wins and significance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean, stdev
from typing import Final

SIGNIFICANCE_LEVEL: Final = 0.05  # p-values below it are significant
MIN_DECIDED_PAIRS: Final = 6  # with fewer, even unanimous pairs can be chance


@dataclass(frozen=True)
class Spread:
    """Count, mean and standard deviation of some numbers; a single number has no deviation."""

    count: int
    mean: float
    deviation: float | None


def compute_spread(numbers: Sequence[float]) -> Spread | None:
    """Return the count, mean and standard deviation of `numbers`; None for an empty sequence."""
    if not numbers:
        return None
    return Spread(len(numbers), fmean(numbers), stdev(numbers) if len(numbers) > 1 else None)


@dataclass(frozen=True)
class Verdict:
    """How often each side was better. `undecided` counts ties and pairs whose two judgements disagree."""

    before: int
    after: int
    undecided: int = 0

    @property
    def decided(self) -> int:
        return self.before + self.after

    @property
    def p_value(self) -> float:
        """The p-value of the two-sided sign test."""
        most, all_ = max(self.before, self.after), self.decided
        tail = sum(comb(all_, wins) for wins in range(most, all_ + 1))
        return min(1.0, float(2 * tail / 2**all_))

    @property
    def is_significant(self) -> bool:
        """Whether the difference is statistically significant."""
        return self.decided >= MIN_DECIDED_PAIRS and self.p_value < SIGNIFICANCE_LEVEL
