"""What a phase has to say of itself while it is evaluated; its summary is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.runtime.usage_totals import Spent


@dataclass(frozen=True)
class StepRecords:
    """What a step has put on record beside its documents, what it was asked for, and where the documents are."""

    records: tuple[Mapping[str, Any], ...]
    asked: frozenset[str]
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

    made: int = 0
    longest: dict[str, Longest] = field(default_factory=dict)
    left_out: dict[tuple[str, str], Omission] = field(default_factory=dict)  # by step and title, the most
    dropped: list[Any] = field(default_factory=list)  # of what is on record, from the one that was made last

    def is_longest(self, step: str, length: int) -> bool:
        """Whether a prompt of so many characters is longer than all others of the step."""
        return length > self.longest.get(step, Longest()).length

    def leave_out(self, step: str, title: str, omission: Omission) -> None:
        """Note what a prompt of a step has no room for, if it is the most."""
        if omission.tokens > self.left_out.get((step, title), Omission()).tokens:
            self.left_out[step, title] = omission

    def add(self, other: Prompts) -> None:
        """Take over what a branch of the phase has made."""
        for step, longest in other.longest.items():
            if self.is_longest(step, longest.length):
                self.longest[step] = longest
        for place, omission in other.left_out.items():
            self.left_out[place] = max(self.left_out.get(place, Omission()), omission)
        if other.made:
            self.dropped = other.dropped
        self.made += other.made


@dataclass
class Account:
    """What a phase has come to so far."""

    spent: Spent = field(default_factory=Spent)
    sets: dict[str, object] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # the ids of questions
    dropped: dict[str, int] = field(default_factory=dict)  # how much was left out of replies, by their address
    recorded: dict[str, StepRecords] = field(default_factory=dict)  # by step, whatever the pass of a loop or the item
    prompts: Prompts = field(default_factory=Prompts)

    def degrade(self, reason: str) -> None:
        """Put on record that the phase is worth less than it would be, and why."""
        if reason not in self.degraded:
            self.degraded.append(reason)


@dataclass
class Attempts:
    """What was tried in a phase, by what was asked of whom: it outlives an attempt of the phase that has failed."""

    tries: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    vain: dict[str, Any] = field(default_factory=dict)  # answers of members whom asking again at once is no use
