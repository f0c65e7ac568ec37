"""Checks of record fields from the type hints of dataclasses and TypedDicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bench.records import pydantic_models
from skillrun.store.journal import KINDS
from skillrun.store.journal_bodies import BODIES
from skillrun.store.state import State
from skillrun.store.summaries import Summary
from skillrun.types.records import (
    Bounds,
    NonNegativeFloat,
    NonNegativeInt,
    describe_field,
    field_checks,
    forbid_extra_keys,
    invalid_keys,
    matches_record,
    required_fields,
)


class Open(TypedDict):
    name: str
    size: NotRequired[NonNegativeInt]


@forbid_extra_keys
class Closed(TypedDict, total=False):
    size: NonNegativeInt


@dataclass
class Record:
    name: str
    of: Annotated[int, Bounds(1, 3)] = 1
    way: Literal["up", "down"] = "up"
    parts: Sequence[Open] = field(default_factory=list)
    sizes: Mapping[str, NonNegativeFloat | None] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("kind", "valid", "invalid"),
    [
        (str, ["", "a"], [None, 1, b"a"]),
        (NonNegativeInt, [0, 7], [-1, 1.0, True, "1"]),
        (NonNegativeFloat, [0, 0.5], [-0.1, float("nan"), float("inf"), True]),
        (bool, [True], [1, "yes"]),
        (object, [None, 1, []], []),
        (str | None, ["a", None], [1]),
        (Literal["a", "b"], ["a"], ["c", ["a"], None]),
        (Annotated[int, Bounds(1, 3)], [1, 3], [0, 4, "1", True]),
        (list[str], [[], ["a"]], ["a", [1], ("a",)]),
        (Sequence[NonNegativeInt], [[1], (1,)], [["a"], 1, "1"]),
        (dict[str, NonNegativeInt], [{}, {"a": 1}], [{"a": "b"}, []]),
        (list[dict[str, object]], [[{"a": None}]], [[1]]),
        (Open, [{"name": "a"}, {"name": "a", "size": 1, "more": None}], [{}, {"name": 1}, {"name": "a", "size": -1}]),
        (Closed, [{}, {"size": 1}], [{"more": 1}]),
    ],
)
def test_a_type_accepts_valid_and_rejects_invalid_values(kind: Any, valid: list[object], invalid: list[object]) -> None:
    assert [value for value in valid if not matches_record(kind, value)] == []
    assert [value for value in invalid if matches_record(kind, value)] == []


@pytest.mark.finding("FD7")
@pytest.mark.parametrize("kind", [int, float, NonNegativeInt, NonNegativeFloat, Annotated[int, Bounds(1)]], ids=str)
def test_no_number_of_a_record_is_too_large_for_arithmetic(kind: Any) -> None:
    too_large = (10**400, -(10**400), 10**18 + 1, float("inf"), float("-inf"), float("nan"), True, "5")
    assert [number for number in too_large if matches_record(kind, number)] == []
    assert matches_record(kind, 10**18)


JUNK = st.sampled_from(
    [None, True, 0, 1, -1, 2**70, 0.5, -0.5, float("nan"), "", "a", (), [], ["a"], [1], {}, {"a": 1}]
)


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values that an annotation allows, and some that it does not."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, NotRequired):
        return values(parts[0])
    if origin in (Union, UnionType):
        return st.one_of(*map(values, parts))
    if origin is Literal:
        return st.sampled_from(parts) | JUNK
    if origin in (list, Sequence):
        return st.lists(values(parts[0]), max_size=2) | JUNK
    if origin in (dict, Mapping):
        return st.dictionaries(st.text(max_size=2), values(parts[1]), max_size=2) | JUNK
    if is_dataclass(annotation) or is_typeddict(annotation):
        hints = get_type_hints(annotation, include_extras=True)
        extra = {"more": JUNK}
        return (
            st.fixed_dictionaries({}, optional={**{name: values(hint) for name, hint in hints.items()}, **extra}) | JUNK
        )
    return {str: st.text(max_size=2), int: st.integers(-1, 9), float: st.floats(-1, 9)}.get(annotation, JUNK) | JUNK


FIELDS = [
    (record, name) for record in (State, Summary, Open, Closed, *BODIES.values()) for name in field_checks(record)
]
MODELS = pydantic_models()


@pytest.mark.parametrize(("record", "name"), FIELDS, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_a_check_accepts_what_pydantic_accepts(record: type, name: str) -> None:
    hint = get_type_hints(record, include_extras=True)[name]
    hint = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
    model = MODELS(TypedDict("Holder", {"value": hint}))  # type: ignore[operator]

    @settings(max_examples=50)
    @given(values(hint))
    def agrees_with_pydantic(value: object) -> None:
        try:
            model.model_validate({"value": value})
        except ValidationError:
            assert not field_checks(record)[name](value)
        else:
            assert field_checks(record)[name](value)

    agrees_with_pydantic()


def test_required_fields_are_those_without_a_default() -> None:
    assert required_fields(Record) == {"name"}


def test_invalid_keys_are_listed_and_allowed_values_described() -> None:
    data = {"way": "left", "name": "a", "of": 9, "sizes": {"a": "b"}, "unknown": 1}
    assert list(invalid_keys(Record, data)) == ["way", "of", "sizes"]
    assert [describe_field(Record, name) for name in ("name", "of", "way", "parts")] == [
        "a text", "a whole number from 1 to 3", "one of up, down", "a list of values"
    ]  # fmt: skip


@pytest.mark.parametrize("record", [State, Summary, *BODIES.values()])
def test_every_record_of_a_run_can_be_checked(record: type) -> None:
    assert field_checks(record)
    assert list(invalid_keys(record, dict.fromkeys(field_checks(record), object())))


def test_every_record_body_belongs_to_a_journal_kind() -> None:
    assert BODIES.keys() < KINDS
