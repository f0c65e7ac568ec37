"""What a phase records and counts during its evaluation. The phase's summary is built from this record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from skillrun.models.messages import Usage
from skillrun.store.summaries import Summary, UsageRecord


@dataclass(frozen=True)
class UsageTotals:
    """Totals of calls, tokens and price. If the price of any call is unknown, the total price is None.

    `replayed` is the number of replies that were paid for in an earlier round. Only the earlier round counts their
    tokens and price. `kept` is the number of tokens that calls in a persistent conversation read from a provider's
    cache.
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    price: float | None = 0.0
    replayed: int = 0
    kept: int = 0

    @classmethod
    def from_summaries(cls, summaries: Iterable[Summary]) -> UsageTotals:
        """Return the sum of the usage that the summaries record."""
        total = cls()
        for summary in summaries:
            used = summary.usage
            tokens = used.get("input", 0), used.get("output", 0), used.get("cache_read", 0), used.get("cache_write", 0)
            usage = Usage(*map(int, tokens))
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
        """Return the value of the totals in templates."""
        return {**self.to_dict(), "saved": {"cache": self.usage.cache_read, "sessions": self.kept}}


@dataclass(frozen=True)
class StepRecords:
    """The records in a step's documents, the fields that the step requested, and the paths of the documents."""

    records: tuple[Mapping[str, Any], ...]
    requested_fields: frozenset[str]
    paths: frozenset[str] = frozenset()


@dataclass(frozen=True, order=True)
class Omission:
    """Material that did not fit into a prompt: the number of omitted tokens, and a description."""

    tokens: int = 0
    text: str = ""


@dataclass
class Prompts:
    """Statistics of a phase's prompts: their number, the longest prompt of each step, and what was omitted.

    Of the longest prompt, `longest` has the number of characters, and the tokens of each part.
    """

    count: int = 0
    longest: dict[str, tuple[int, Mapping[str, int]]] = field(default_factory=dict)
    omissions: dict[tuple[str, str], Omission] = field(default_factory=dict)  # keyed by step, title: the largest
    dropped_records: list[Any] = field(default_factory=list)  # records that did not fit into the latest prompt

    def is_longest(self, step: str, length: int) -> bool:
        """Return whether a prompt of `length` characters is longer than all earlier prompts of the step."""
        return length > self.longest.get(step, (0, {}))[0]

    def add(self, other: Prompts) -> None:
        """Add the statistics of a branch of the phase."""
        for step, longest in other.longest.items():
            if self.is_longest(step, longest[0]):
                self.longest[step] = longest
        for place, omission in other.omissions.items():
            self.omissions[place] = max(self.omissions.get(place, Omission()), omission)
        if other.count:
            self.dropped_records = other.dropped_records
        self.count += other.count


@dataclass
class PhaseRecord:
    """What a phase has done so far: its usage, the state it has set, the files it has written, and its warnings."""

    usage: UsageTotals = field(default_factory=UsageTotals)
    sets: dict[str, object] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    degraded_reasons: list[str] = field(default_factory=list)
    question_ids: list[str] = field(default_factory=list)
    dropped_counts: dict[str, int] = field(default_factory=dict)  # keyed by address: dropped values
    step_records: dict[str, StepRecords] = field(default_factory=dict)  # one entry for all passes and items
    prompts: Prompts = field(default_factory=Prompts)
    checkpoint: str = ""  # the step that started last
    branch_label: str = ""  # in a branch: the label of its `each` item

    def degrade(self, reason: str) -> None:
        """Record a reason why the phase is degraded."""
        if reason not in self.degraded_reasons:
            self.degraded_reasons.append(reason)


@dataclass
class Attempts:
    """The attempts and results of a phase's requests, keyed by address and fingerprint. A retry of the phase keeps
    them."""

    tries: dict[str, int] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    permanent_failures: dict[str, Any] = field(default_factory=dict)  # failures that an immediate retry cannot change


Action = Literal["fall back", "skip", "ask", "sequential"]
ACTIONS: Final[tuple[Action, ...]] = ("fall back", "skip", "ask", "sequential")


@dataclass(frozen=True)
class BreakerSettings:
    """The settings of a breaker: how many consecutive failures it allows, what it does then, and the wording of the
    question and choices if it asks the user."""

    limit: int = 2
    then: Action = "fall back"
    ask: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)


class Breakers:
    """The circuit breakers of one phase: each counts consecutive failures, and acts when its limit is reached.

    A phase continues the counts of earlier phases (`initial`), and records in its summary which counts it has changed.
    Source: the circuit breaker pattern (M. Nygard, "Release It!"), with success resetting the count.
    """

    def __init__(self, settings: Mapping[str, Any], initial: Mapping[str, int] | None = None) -> None:
        self._settings = {
            name: _parse_settings(entry) for name, entry in settings.items() if isinstance(entry, Mapping)
        }
        self._initial = dict(initial or {})
        self.failures: dict[str, int] = dict(self._initial)

    def settings_for(self, name: str) -> BreakerSettings:
        return self._settings.get(name, BreakerSettings())

    def is_defined(self, name: str) -> bool:
        return name in self._settings

    def record_failure(self, name: str) -> bool:
        """Count a failure, and return whether the limit is reached."""
        self.failures[name] = self.failures.get(name, 0) + 1
        return self.failures[name] >= self.settings_for(name).limit

    def record_success(self, name: str) -> None:
        self.failures.pop(name, None)

    def changes(self) -> dict[str, int]:
        """Return the counts that have changed in this phase. A success sets a count to 0."""
        names = sorted(self._initial.keys() | self.failures.keys())
        counts = {name: self.failures.get(name, 0) for name in names}
        return {name: count for name, count in counts.items() if count != self._initial.get(name, 0)}


def _parse_settings(entry: Mapping[str, Any]) -> BreakerSettings:
    then, choices = entry.get("then"), entry.get("choices")
    words = {str(way): str(word) for way, word in choices.items()} if isinstance(choices, Mapping) else {}
    ask = str(entry.get("ask") or "")
    return BreakerSettings(int(entry.get("limit", 2)), then if then in ACTIONS else "fall back", ask, words)
