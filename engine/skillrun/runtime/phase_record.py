"""What a phase has to say of itself while it is evaluated; its summary is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.runtime.usage_totals import UsageTotals


@dataclass(frozen=True)
class StepRecords:
    """What a step has put on record beside its documents, what it was asked for, and where the documents are."""

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
    """What a prompt had no room for: its tokens, and the words for it."""

    tokens: int = 0
    text: str = ""


@dataclass
class Prompts:
    """How many prompts a phase has made, the longest of each step, and what they had no room for."""

    count: int = 0
    longest: dict[str, Longest] = field(default_factory=dict)
    omissions: dict[tuple[str, str], Omission] = field(default_factory=dict)  # by step and title, the most
    dropped_records: list[Any] = field(default_factory=list)  # of what is on record, from the one that was made last

    def is_longest(self, step: str, length: int) -> bool:
        """Whether a prompt of so many characters is longer than all others of the step."""
        return length > self.longest.get(step, Longest()).length

    def add_omission(self, step: str, title: str, omission: Omission) -> None:
        """Note what a prompt of a step has no room for, if it is the most."""
        if omission.tokens > self.omissions.get((step, title), Omission()).tokens:
            self.omissions[step, title] = omission

    def add(self, other: Prompts) -> None:
        """Take over what a branch of the phase has made."""
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
    """What a phase has come to so far."""

    usage: UsageTotals = field(default_factory=UsageTotals)
    sets: dict[str, object] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    degraded_reasons: list[str] = field(default_factory=list)
    question_ids: list[str] = field(default_factory=list)  # the ids of questions
    dropped_counts: dict[str, int] = field(default_factory=dict)  # how much was left out of replies, by their address
    step_records: dict[str, StepRecords] = field(
        default_factory=dict
    )  # by step, whatever the pass of a loop or the item
    prompts: Prompts = field(default_factory=Prompts)

    def degrade(self, reason: str) -> None:
        """Put on record that the phase is worth less than it would be, and why."""
        if reason not in self.degraded_reasons:
            self.degraded_reasons.append(reason)


@dataclass
class Attempts:
    """What was tried in a phase, by what was asked of whom: it outlives an attempt of the phase that has failed."""

    tries: dict[str, int] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    permanent_failures: dict[str, Any] = field(
        default_factory=dict
    )  # answers of members whom asking again at once is no use
