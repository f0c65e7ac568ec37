"""The data that a phase collects during evaluation, as the source of its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.runtime.usage_totals import UsageTotals


@dataclass(frozen=True)
class StepRecords:
    """The records of a step's documents, the fields that were requested, and the paths of the documents."""

    records: tuple[Mapping[str, Any], ...]
    requested_fields: frozenset[str]
    paths: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Longest:
    """The longest prompt of a step: its characters, and the tokens of its parts."""

    length: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, order=True)
class Omission:
    """Material that did not fit into a prompt: its tokens, and its description."""

    tokens: int = 0
    text: str = ""


@dataclass
class Prompts:
    """The number of a phase's prompts, the longest of each step, and what did not fit into them."""

    count: int = 0
    longest: dict[str, Longest] = field(default_factory=dict)
    omissions: dict[tuple[str, str], Omission] = field(default_factory=dict)  # by step and title: the largest
    dropped_records: list[Any] = field(default_factory=list)  # records that did not fit into the latest prompt

    def is_longest(self, step: str, length: int) -> bool:
        """Return whether a prompt of `length` characters is the longest of its step."""
        return length > self.longest.get(step, Longest()).length

    def add_omission(self, step: str, title: str, omission: Omission) -> None:
        """Record what a prompt of a step omits, if it is the largest omission."""
        if omission.tokens > self.omissions.get((step, title), Omission()).tokens:
            self.omissions[step, title] = omission

    def add(self, other: Prompts) -> None:
        """Add the prompts of a branch of the phase."""
        for step, longest in other.longest.items():
            if self.is_longest(step, longest.length):
                self.longest[step] = longest
        for place, omission in other.omissions.items():
            self.omissions[place] = max(self.omissions.get(place, Omission()), omission)
        if other.count:
            self.dropped_records = other.dropped_records
        self.count += other.count


@dataclass
class PhaseRecord:
    """What a phase has used, set, written and reported so far."""

    usage: UsageTotals = field(default_factory=UsageTotals)
    sets: dict[str, object] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    degraded_reasons: list[str] = field(default_factory=list)
    question_ids: list[str] = field(default_factory=list)
    dropped_counts: dict[str, int] = field(default_factory=dict)  # number of values dropped from replies, by address
    step_records: dict[str, StepRecords] = field(default_factory=dict)  # by step, across passes of loops and items
    prompts: Prompts = field(default_factory=Prompts)

    def degrade(self, reason: str) -> None:
        """Record that the phase is degraded, and why."""
        if reason not in self.degraded_reasons:
            self.degraded_reasons.append(reason)


@dataclass
class Attempts:
    """The attempts of a phase by address and request; kept when the phase is retried."""

    tries: dict[str, int] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    permanent_failures: dict[str, Any] = field(default_factory=dict)  # results that no immediate retry can change
