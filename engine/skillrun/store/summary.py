"""The record of a finished or waiting phase: the frontmatter of `summaries/<phase>.md`.

Templates, and code that writes the file, use the whole `record`, with the keys that a user has added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypedDict

from skillrun.store.artifact_names import is_artifact_name
from skillrun.store.state import MAX_ROUNDS
from skillrun.types.records import Bounds, NonNegativeFloat, NonNegativeInt, field_checks
from skillrun.types.schemas import quote_value

Count = Annotated[int, Bounds(0, MAX_ROUNDS)]
WAITING_STATUS: Final = "needs-user-input"
"""The status of a phase that waits for the user."""
REQUIRED_KEYS: Final = ("phase", "number", "checkpoint", "artifacts", "summary", "flags")
"""The keys of every summary that a run writes."""


class UsageRecord(TypedDict, total=False):
    """The usage of a phase; see `runtime.usage_totals.UsageTotals`."""

    calls: NonNegativeFloat
    input: NonNegativeFloat
    output: NonNegativeFloat
    cache_read: NonNegativeFloat
    cache_write: NonNegativeFloat
    price: NonNegativeFloat | None
    replayed: NonNegativeFloat
    kept: NonNegativeFloat


TOKENS: Final[tuple[Literal["input", "output", "cache_read", "cache_write"], ...]] = (
    "input",
    "output",
    "cache_read",
    "cache_write",
)


class Goto(TypedDict):
    """The phase to go back to, and the step that decided it."""

    target: str
    step: str


@dataclass(frozen=True)
class Summary:
    """The result of a phase. A missing or invalid value in its record is replaced by the field's default."""

    phase: str = ""
    number: Count = 0
    status: str = ""
    round: Count = 1
    checkpoint: str = ""
    summary: str = ""
    artifacts: Sequence[str] = ()
    flags: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""
    entry_type: str = ""
    key_decisions: Sequence[Mapping[str, object]] = ()
    open_questions: Sequence[Mapping[str, object]] = ()
    risks_identified: Sequence[Mapping[str, object]] = ()
    quality_warnings: Sequence[str] = ()
    prompts: Mapping[str, Mapping[str, NonNegativeInt]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    asked: Sequence[str] = ()
    outputs: Mapping[str, object] = field(default_factory=dict)
    set: Mapping[str, object] = field(default_factory=dict)
    failures: Mapping[str, Count] = field(default_factory=dict)
    usage: UsageRecord = field(default_factory=UsageRecord)
    goto: Goto | None = None
    record: Mapping[str, object] = field(default_factory=dict, repr=False)
    """The complete record of the file, with the keys that a user has added."""

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> Summary:
        """Create the summary of a valid record."""
        known: Any = {key: value for key, value in record.items() if key in FIELDS}
        return cls(**known, record=record)

    def with_fields(self, **more: object) -> Summary:
        """Return a copy with these fields."""
        return Summary.from_record({**self.record, **more})

    @property
    def is_over(self) -> bool:
        return self.status != WAITING_STATUS

    @property
    def missing_keys(self) -> list[str]:
        """The required keys that the record lacks."""
        return [key for key in REQUIRED_KEYS if self.record.get(key, "") == ""]


@dataclass(frozen=True)
class PastRound:
    """A finished round: its number, and its summaries by phase."""

    round: int
    phases: Mapping[str, Summary]

    def template_value(self) -> dict[str, object]:
        """Return the value that templates see."""
        return {"round": self.round, "phases": {name: dict(summary.record) for name, summary in self.phases.items()}}


InvalidFields = list[tuple[tuple[str | int, ...], str]]
"""The invalid values of a record: for each, its path of keys and item numbers, and a message."""


def read_summary(data: Mapping[str, object]) -> tuple[Summary, InvalidFields]:
    """Return a summary without invalid values, and the invalid values."""
    valid: dict[str, object] = {}
    invalid: InvalidFields = []
    for key, value in data.items():
        if value is None and key in FIELDS:
            continue
        if key == "artifacts" and isinstance(value, list):
            valid[key] = [name for name in value if is_artifact_name(name)]
            invalid += [
                ((key, at), f"{quote_value(name)} is not a valid artifact name")
                for at, name in enumerate(value)
                if not is_artifact_name(name)
            ]
        elif key not in FIELDS or field_checks(Summary)[key](value):
            valid[key] = value
        else:
            invalid.append(((key,), f"`{key}` has the invalid value {quote_value(value)}"))
    return Summary.from_record(valid), invalid


FIELDS: Final = frozenset(Summary.__dataclass_fields__) - {"record"}
