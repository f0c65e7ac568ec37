"""What the types of a record's fields allow: of dataclasses and TypedDicts, with the words for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NotRequired, TypedDict

import pytest

from skillrun.runtime.store.bodies import BODIES
from skillrun.runtime.store.field_types import check_of, checks_of, closed, fits, misfits, required, words_of
from skillrun.runtime.store.journal import KINDS
from skillrun.runtime.store.state import State
from skillrun.runtime.store.summary import Summary


class Open(TypedDict):
    name: str
    size: NotRequired[int]


@closed
class Closed(TypedDict, total=False):
    size: int


@dataclass
class Record:
    name: str
    of: Annotated[int, range(1, 4)] = 1
    way: Annotated[str, ("up", "down")] = "up"
    parts: Sequence[Open] = field(default_factory=list)
    sizes: Mapping[str, float | None] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (str, ["", "a"], [None, 1, b"a"]),
        (int, [0, 7], [-1, 1.0, True, "1"]),
        (float, [0, 0.5, 10**400], [-0.1, float("nan"), float("inf"), True]),
        (bool, [True], [1, "yes"]),
        (object, [None, 1, []], []),
        (str | None, ["a", None], [1]),
        (Literal["a", "b"], ["a"], ["c", ["a"], None]),
        (Annotated[int, range(1, 4)], [1, 3], [0, 4, "1", True]),
        (list[str], [[], ["a"]], ["a", [1], ("a",)]),
        (tuple[int, ...], [[1]], [["a"], 1]),
        (dict[str, int], [{}, {"a": 1}], [{"a": "b"}, []]),
        (list[dict[str, object]], [[{"a": None}]], [[1]]),
        (Open, [{"name": "a"}, {"name": "a", "size": 1, "more": None}], [{}, {"name": 1}, {"name": "a", "size": -1}]),
        (Closed, [{}, {"size": 1}], [{"more": 1}]),
        (Record, [{"name": "a"}, {"name": "a", "parts": [{"name": "b"}]}], [{}, {"name": "a", "more": 1}]),
    ],
)
def test_a_type_allows_these_values_and_not_those(kind: type, good: list[object], bad: list[object]) -> None:
    check = check_of(kind)
    assert [value for value in good if not check(value)] == []
    assert [value for value in bad if check(value)] == []


def test_what_a_record_needs_is_what_has_no_default() -> None:
    assert required(Record) == {"name"}
    assert required(Open) == {"name"}
    assert required(Closed) == frozenset()


def test_the_values_that_do_not_fit_are_named_and_what_may_stand_there() -> None:
    data = {"way": "left", "name": "a", "of": 9, "sizes": {"a": "b"}, "unknown": 1}
    assert list(misfits(Record, data)) == ["way", "of", "sizes"]
    assert [words_of(Record, name) for name in ("name", "of", "way", "parts")] == [
        "a text", "a whole number from 1 to 3", "one of up, down", "a list of values"
    ]  # fmt: skip


def test_a_type_that_says_nothing_of_plain_data_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="no type of a record's field"):
        check_of(bytes)


@pytest.mark.parametrize("record", [State, Summary, *BODIES.values()])
def test_every_record_of_a_run_can_be_checked(record: type) -> None:
    assert checks_of(record)
    assert not fits(record, dict.fromkeys(checks_of(record), object()))


def test_every_kind_of_record_with_a_body_is_one_of_the_journal() -> None:
    assert BODIES.keys() < KINDS
