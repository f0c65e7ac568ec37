"""The table of template tests, used after `is` and in `selectattr`.

`vocabulary.apply_test` calls these tests, and makes sure that an absent value passes none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from skillrun.templates.values import compare, compute, to_integer

SIGNS: Final[Mapping[str, str]] = {
    "in": "in",
    **dict.fromkeys(("eq", "equalto"), "eq"),
    "ne": "ne",
    **dict.fromkeys(("lt", "lessthan"), "lt"),
    "le": "lteq",
    **dict.fromkeys(("gt", "greaterthan"), "gt"),
    "ge": "gteq",
}
"""Jinja's operator names, keyed by the names of the tests that compare."""


def _comparing(sign: str) -> Callable[[Any, Any], bool]:
    return lambda value, other: compare(value, sign, other)


def _divisible(value: Any, by: Any) -> bool:
    return bool(compute("%", to_integer(value), to_integer(by)) == 0)


TESTS: Final[dict[str, Callable[..., bool]]] = {
    "defined": lambda _value: True,
    "none": lambda value: value is None,
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "mapping": lambda value: isinstance(value, Mapping),
    "sequence": lambda value: isinstance(value, (list, tuple)),
    "even": lambda value: _divisible(value, 2),
    "odd": lambda value: not _divisible(value, 2),
    "divisibleby": _divisible,
    **{name: _comparing(sign) for name, sign in SIGNS.items()},
}
