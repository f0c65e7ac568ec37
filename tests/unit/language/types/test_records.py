"""What the types of a record's fields allow: of dataclasses and TypedDicts, with the words for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired

import pytest
from annotated_types import Interval
from typing_extensions import TypedDict

from skillrun.language.types.records import Number, Whole, checks_of, closed, fits, misfits, opened, required, words_of
from skillrun.runtime.store.journal import KINDS
from skillrun.runtime.store.journal_bodies import BODIES
from skillrun.runtime.store.state import State
from skillrun.runtime.store.summary import Summary


@opened
class Open(TypedDict):
    name: str
    size: NotRequired[Whole]


@closed
class Closed(TypedDict, total=False):
    size: Whole


@dataclass
class Record:
    name: str
    of: Annotated[int, Interval(ge=1, le=3)] = 1
    way: Literal["up", "down"] = "up"
    parts: Sequence[Open] = field(default_factory=list)
    sizes: Mapping[str, Number | None] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (str, ["", "a"], [None, 1, b"a"]),
        (Whole, [0, 7], [-1, 1.0, True, "1"]),
        (Number, [0, 0.5], [-0.1, float("nan"), float("inf"), True]),
        (bool, [True], [1, "yes"]),
        (object, [None, 1, []], []),
        (str | None, ["a", None], [1]),
        (Literal["a", "b"], ["a"], ["c", ["a"], None]),
        (Annotated[int, Interval(ge=1, le=3)], [1, 3], [0, 4, "1", True]),
        (list[str], [[], ["a"]], ["a", [1], ("a",)]),
        (Sequence[Whole], [[1], (1,)], [["a"], 1, "1"]),
        (dict[str, Whole], [{}, {"a": 1}], [{"a": "b"}, []]),
        (list[dict[str, object]], [[{"a": None}]], [[1]]),
        (Open, [{"name": "a"}, {"name": "a", "size": 1, "more": None}], [{}, {"name": 1}, {"name": "a", "size": -1}]),
        (Closed, [{}, {"size": 1}], [{"more": 1}]),
    ],
)
def test_a_type_allows_these_values_and_not_those(kind: Any, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not fits(kind, value)] == []
    assert [value for value in bad if fits(kind, value)] == []


def test_what_a_record_needs_is_what_has_no_default() -> None:
    assert required(Record) == {"name"}


def test_the_values_that_do_not_fit_are_named_and_what_may_stand_there() -> None:
    data = {"way": "left", "name": "a", "of": 9, "sizes": {"a": "b"}, "unknown": 1}
    assert list(misfits(Record, data)) == ["way", "of", "sizes"]
    assert [words_of(Record, name) for name in ("name", "of", "way", "parts")] == [
        "a text", "a whole number from 1 to 3", "one of up, down", "a list of values"
    ]  # fmt: skip


@pytest.mark.parametrize("record", [State, Summary, *BODIES.values()])
def test_every_record_of_a_run_can_be_checked(record: type) -> None:
    assert checks_of(record)
    assert list(misfits(record, dict.fromkeys(checks_of(record), object())))


def test_every_kind_of_record_with_a_body_is_one_of_the_journal() -> None:
    assert BODIES.keys() < KINDS
