"""What the types of a record's fields allow, as checks of the plain data that a file or the journal holds.

A record is a dataclass or a TypedDict. Whole numbers and other numbers count from 0, as all that a run counts does.
Knows no record by name, and reads no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Check = Callable[[object], bool]
Record = TypeVar("Record", bound=type)
_CLOSED: set[type] = set()


def checks_of(record: type) -> Mapping[str, Check]:
    """A check of the value of each field, by its name."""
    return _checks(record)


def check_of(annotation: Any) -> Check:
    """Whether a value is one that the annotation allows."""
    if annotation in _SINGLE:
        return _SINGLE[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        either = [check_of(part) for part in parts]
        return lambda value: any(check(value) for check in either)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in parts
    if origin is Annotated:
        check, bounds = check_of(parts[0]), parts[1]
        return lambda value: check(value) and value in bounds
    if origin in _LISTS:
        check = check_of(parts[0])
        return lambda value: isinstance(value, list) and all(map(check, value))
    if origin in _MAPPINGS:
        check = check_of(parts[1])
        return lambda value: isinstance(value, dict) and all(map(check, value.values()))
    if is_dataclass(annotation) or is_typeddict(annotation):
        return lambda value: isinstance(value, dict) and fits(annotation, value)
    raise TypeError(f"{annotation} is no type of a record's field")


def closed(record: Record) -> Record:
    """Mark a TypedDict as one that takes no other keys; a dataclass takes none anyway."""
    _CLOSED.add(record)
    return record


def fits(record: type, data: Mapping[str, object]) -> bool:
    """Whether the data has what the record needs, and nothing that its fields do not allow."""
    checks, is_closed = checks_of(record), record in _CLOSED or is_dataclass(record)
    return required(record) <= data.keys() and all(
        checks[key](value) if key in checks else not is_closed for key, value in data.items()
    )


@cache
def required(record: type) -> frozenset[str]:
    """The fields that a record cannot do without."""
    if not is_dataclass(record):  # what a TypedDict says of itself is wrong where its annotations are texts
        hints = get_type_hints(record, include_extras=True) if getattr(record, "__total__", True) else {}
        return frozenset(name for name, kind in hints.items() if get_origin(kind) is not NotRequired)
    return frozenset(one.name for one in fields(record) if one.default is MISSING and one.default_factory is MISSING)


def misfits(record: type, data: Mapping[str, object]) -> Iterable[str]:
    """The known keys whose values the record does not allow, in the order of the data."""
    checks = checks_of(record)
    return (key for key, value in data.items() if key in checks and not checks[key](value))


def words_of(record: type, name: str) -> str:
    """What a field allows, in words."""
    return _words(_types(record)[name])


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_number(value: object) -> bool:
    """A number from 0 that is finite."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value) and value >= 0)


def is_whole(value: object) -> bool:
    """A whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@cache
def _checks(record: type) -> Mapping[str, Check]:
    return {name: check_of(kind) for name, kind in _types(record).items()}


@cache
def _types(record: type) -> Mapping[str, Any]:
    return {
        name: get_args(annotation)[0] if get_origin(annotation) is NotRequired else annotation
        for name, annotation in get_type_hints(record, include_extras=True).items()
    }


def _words(annotation: Any) -> str:
    if annotation in _NAMED:
        return _NAMED[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal or (origin is Annotated and isinstance(parts[1], tuple)):
        return f"one of {', '.join(parts if origin is Literal else parts[1])}"
    if origin is Annotated:
        return f"{_words(parts[0])} from {parts[1].start} to {parts[1].stop - 1:,}"
    if origin in _LISTS:
        return f"a list of {_several(parts[0])}"
    if origin in _MAPPINGS:
        return f"a mapping of names to {_several(parts[1])}"
    if origin in (Union, UnionType):
        return " or ".join(_words(part) for part in parts if part is not NoneType)
    return "a mapping"


def _several(annotation: Any) -> str:
    return _MANY.get(annotation, "values")


_LISTS = (list, tuple, Sequence)
_MAPPINGS = (dict, Mapping)
_SINGLE: Mapping[Any, Check] = {
    str: is_text,
    int: is_whole,
    float: is_number,
    bool: lambda value: isinstance(value, bool),
    NoneType: lambda value: value is None,
    object: lambda _: True,
    Any: lambda _: True,
}
_NAMED: Mapping[Any, str] = {str: "a text", int: "a whole number", float: "a number from 0", bool: "true or false"}
_MANY: Mapping[Any, str] = {str: "texts", int: "numbers from 0", float: "numbers from 0"}
