"""Checks plain data from files and the journal against the field types of records.

A record is a dataclass or TypedDict whose annotations are valid for pydantic too. A test compares the results with
those of pydantic. docs/decisions/043-pydantic.md says why pydantic is not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

MAX_VALUES: Final = 1_000_000
"""Most values in a JSON text of a journal or transcript. Parsing takes up to 200 bytes for each. A reply, whose texts,
keys and values count towards its maximum length, has fewer."""
ValueCheck = Callable[[object], bool]
Record = TypeVar("Record", bound=type)


def count_values(text: str | bytes) -> int:
    """Return the number of commas and opening brackets in a JSON text, also those in strings. The text, which is not
    parsed, has at most one value more, since every value but the first follows one of them."""
    return sum(map(text.count, ",[{")) if isinstance(text, str) else sum(map(text.count, (b",", b"[", b"{")))


def check_values(text: str | bytes) -> None:
    """Raise ValueError for a JSON text with more than `MAX_VALUES` values."""
    if len(text) > MAX_VALUES and count_values(text) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def parse_json(text: str | bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Return the value of a JSON text that others may have written. Raises ValueError, also for more than `MAX_VALUES`
    values, and RecursionError."""
    check_values(text)
    return json.loads(text, object_hook=object_hook)


MAX_NUMBER: Final = 10**18
"""The largest number in records and templates. JSON and YAML allow integers that are too large for a float."""


class Bounds(NamedTuple):
    """The minimum and the maximum of a number, for use in an annotation."""

    least: int = 0
    most: int = MAX_NUMBER


NonNegativeInt = Annotated[int, Bounds()]
NonNegativeFloat = Annotated[float, Bounds()]
_CLOSED: Final[set[type]] = set()


def forbid_extra_keys(record: Record) -> Record:
    """Mark a TypedDict as a record that allows no extra keys. Use this function as a decorator."""
    _CLOSED.add(record)
    return record


def forbids_extra_keys(record: type) -> bool:
    """Whether extra keys are invalid in the record. They are always invalid in a dataclass."""
    return record in _CLOSED or is_dataclass(record)


def matches_record(record: type, data: object) -> bool:
    """Whether the data has all required fields of the record and only valid values."""
    return _build_check(record)(data)


def field_checks(record: type) -> Mapping[str, ValueCheck]:
    """Return the checks for the values of the fields, keyed by field name."""
    return _checks(record)


def invalid_keys(record: type, data: Mapping[str, object]) -> Iterable[str]:
    """Return the keys of fields with invalid values, in the order of the data. Unknown keys are ignored."""
    checks = field_checks(record)
    return (key for key, value in data.items() if key in checks and not checks[key](value))


@cache
def required_fields(record: type) -> frozenset[str]:
    """Return the names of the required fields of a record."""
    if is_dataclass(record):
        alone = (field for field in fields(record) if field.default is MISSING and field.default_factory is MISSING)
        return frozenset(field.name for field in alone)
    if not getattr(record, "__total__", True):
        return frozenset()
    hints = get_type_hints(record, include_extras=True)  # `__required_keys__` is wrong for string annotations
    return frozenset(name for name, annotation in hints.items() if get_origin(annotation) is not NotRequired)


def describe_field(record: type, name: str) -> str:
    """Return a description of the values that a field allows, for a message."""
    return _describe_type(_types(record)[name])


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_number(value: object) -> bool:
    """Whether a value is a number from 0 to `MAX_NUMBER`."""
    return _is_finite(value) and value >= 0


def _is_finite(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number from -`MAX_NUMBER` to `MAX_NUMBER`. NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -MAX_NUMBER <= value <= MAX_NUMBER


def is_whole(value: object) -> bool:
    """Whether a value is an integer from 0 to `MAX_NUMBER`."""
    return isinstance(value, int) and is_number(value)


@cache
def _checks(record: type) -> Mapping[str, ValueCheck]:
    return {name: _build_check(annotation) for name, annotation in _types(record).items()}


@cache
def _types(record: type) -> Mapping[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    return {name: get_args(kind)[0] if get_origin(kind) is NotRequired else kind for name, kind in hints.items()}


@cache
def _build_check(annotation: Any) -> ValueCheck:
    """Return a function that checks whether the annotation allows a value."""
    if annotation in _SINGLE:
        return _SINGLE[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        either = [_build_check(part) for part in parts]
        return lambda value: any(check(value) for check in either)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in parts
    if origin is Annotated:
        check, (least, most) = _build_check(parts[0]), parts[1]
        return lambda value: check(value) and least <= value <= most
    if origin in _LISTS:
        check, list_types = _build_check(parts[0]), (list, tuple) if origin is Sequence else origin
        return lambda value: isinstance(value, list_types) and all(map(check, value))
    if origin in _MAPPINGS:
        check = _build_check(parts[1])
        return lambda value: isinstance(value, dict) and all(map(check, value.values()))
    if is_dataclass(annotation) or is_typeddict(annotation):
        checks, needed = field_checks(annotation), required_fields(annotation)
        others = not forbids_extra_keys(annotation)
        return lambda data: (
            isinstance(data, dict)
            and needed <= data.keys()
            and all(checks[key](value) if key in checks else others for key, value in data.items())
        )
    raise TypeError(f"{annotation} is not supported as a type of a record field")


def _describe_type(annotation: Any) -> str:
    if annotation in _NAMED:
        return _NAMED[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {', '.join(parts)}"
    if origin is Annotated:
        return f"{_describe_type(parts[0])} from {parts[1].least} to {parts[1].most:,}"
    if origin in _LISTS:
        return f"a list of {_MANY.get(parts[0], 'values')}"
    if origin in _MAPPINGS:
        return f"a mapping of names to {_MANY.get(parts[1], 'values')}"
    return " or ".join(_describe_type(part) for part in parts if part is not NoneType) or "a mapping"


_LISTS: Final = (list, Sequence)
_MAPPINGS: Final = (dict, Mapping)
_SINGLE: Final[Mapping[Any, ValueCheck]] = {
    str: is_text,
    int: lambda value: isinstance(value, int) and _is_finite(value),
    float: _is_finite,
    NonNegativeInt: is_whole,
    NonNegativeFloat: is_number,
    bool: lambda value: isinstance(value, bool),
    NoneType: lambda value: value is None,
    object: lambda _: True,
    Any: lambda _: True,
}
_NAMED: Final[Mapping[Any, str]] = {
    str: "a text",
    int: "a whole number",
    NonNegativeInt: "a whole number from 0 to 10^18",
    NonNegativeFloat: "a number from 0 to 10^18",
    bool: "true or false",
}
_MANY: Final[Mapping[Any, str]] = {
    str: "texts",
    NonNegativeInt: "numbers from 0 to 10^18",
    NonNegativeFloat: "numbers from 0 to 10^18",
}
