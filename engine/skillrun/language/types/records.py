"""The types of records' fields, as pydantic checks them of the plain data that a file or the journal holds.

A record is a frozen dataclass or a TypedDict; nothing is converted, and numbers count from 0 and are finite. Pydantic
is imported when the first record is read: a run that begins reads none (docs/decisions/043-pydantic.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, TypeVar, get_args, get_origin

from annotated_types import Ge
from typing_extensions import get_type_hints

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

Whole = Annotated[int, Ge(0)]
Number = Annotated[float, Ge(0)]
Check = Callable[[object], bool]
Record = TypeVar("Record", bound=type)
_CONFIG: Final[ConfigDict] = {"strict": True, "allow_inf_nan": False}


def closed(record: Record) -> Record:
    """Mark a TypedDict as one that takes no other keys."""
    record.__pydantic_config__ = {**_CONFIG, "extra": "forbid"}  # type: ignore[attr-defined]
    return record


def opened(record: Record) -> Record:
    """Mark a TypedDict as one that may have other keys, which nothing reads."""
    record.__pydantic_config__ = _CONFIG  # type: ignore[attr-defined]
    return record


def fits(record: type, data: object) -> bool:
    """Whether the data has what a TypedDict needs, and nothing that its fields do not allow."""
    return bool(_adapter(record).validator.isinstance_python(data))


def checks_of(record: type) -> Mapping[str, Check]:
    """A check of the value of each field, by its name."""
    return _checks(record)


def misfits(record: type, data: Mapping[str, object]) -> Iterable[str]:
    """The known keys whose values the record does not allow, in the order of the data."""
    checks = checks_of(record)
    return (key for key, value in data.items() if key in checks and not checks[key](value))


def required(record: type) -> frozenset[str]:
    """The fields that a dataclass cannot do without."""
    return frozenset(
        field.name for field in fields(record) if field.default is MISSING and field.default_factory is MISSING
    )


def words_of(record: type, name: str) -> str:
    """What a field allows, in words."""
    return _words(_types(record)[name])


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_number(value: object) -> bool:
    """A number from 0 that is finite."""
    return is_whole(value) or (isinstance(value, float) and 0 <= value < float("inf"))


def is_whole(value: object) -> bool:
    """A whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    has_its_own = hasattr(annotation, "__pydantic_config__")
    return TypeAdapter(annotation) if has_its_own else TypeAdapter(annotation, config=_CONFIG)


@cache
def _checks(record: type) -> Mapping[str, Check]:
    return {name: _adapter(kind).validator.isinstance_python for name, kind in _types(record).items()}


@cache
def _types(record: type) -> Mapping[str, Any]:
    return {name: _value(kind) for name, kind in get_type_hints(record, include_extras=True).items()}


def _value(annotation: Any) -> Any:
    origin: Any = get_origin(annotation)
    return get_args(annotation)[0] if origin is NotRequired else annotation


def _words(annotation: Any) -> str:
    if annotation in _NAMED:
        return _NAMED[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {', '.join(parts)}"
    if origin is Annotated:
        return f"{_words(parts[0])} from {parts[1].ge} to {parts[1].le:,}"
    if origin in (list, tuple, Sequence):
        return f"a list of {_MANY.get(parts[0], 'values')}"
    if origin in (dict, Mapping):
        return f"a mapping of names to {_MANY.get(parts[1], 'values')}"
    return " or ".join(_words(part) for part in parts if part is not type(None)) or "a mapping"


_NAMED: Final[Mapping[Any, str]] = {
    str: "a text",
    int: "a whole number",
    Whole: "a whole number from 0",
    Number: "a number from 0",
    bool: "true or false",
}
_MANY: Final[Mapping[Any, str]] = {str: "texts", Whole: "numbers from 0", Number: "numbers from 0"}
