"""The filters of lists and mappings that templates share with Jinja, and the tests that stand after `is`.

Eager: lists in, lists out. A field is looked up as an expression looks it up, so what a record lacks is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from skillrun.language.absent import ABSENT, Absent
from skillrun.language.templates.limits import Fault, room_for_items, size, spend, weigh
from skillrun.language.templates.operators import compare, compute
from skillrun.language.templates.values import field, joined, kind, listed, to_json, whole


def join(value: Any, d: str = "", attribute: Any = None) -> str:
    return joined(_fields(value, attribute), d)


def first(value: Any) -> Any:
    found = value if isinstance(value, str) else listed(value)
    return found[0] if found else ABSENT


def last(value: Any) -> Any:
    found = value if isinstance(value, str) else listed(value)
    return found[-1] if found else ABSENT


def items(value: Any) -> list[Any]:
    """The pairs of a mapping, as lists of two."""
    if not isinstance(value, (Mapping, Absent)):
        raise Fault(f"{kind(value)} is not a mapping")
    return [[key, value[key]] for key in value]


def dictsort(value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False) -> list[Any]:
    """The pairs of a mapping in the order of their keys or values."""
    if by not in ("key", "value"):
        raise Fault(f"`dictsort` cannot sort by {by}", "allowed: key, value")
    return sort(items(value), reverse, case_sensitive, 0 if by == "key" else 1)


def sort(value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: Any = None) -> list[Any]:
    """Stable, by one field or by several (`priority,id`); items without the field come last either way."""
    found = listed(value)
    names = attribute.split(",") if isinstance(attribute, str) else [attribute]
    for name in reversed(names):
        keys = _keys(found, name, case_sensitive)
        there = [at for at, key in enumerate(keys) if not isinstance(key, Absent)]
        gone = [at for at, key in enumerate(keys) if isinstance(key, Absent)]
        found = [found[at] for at in [*_ordered(there, keys, reverse), *gone]]
    return found


def smallest(value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    """The first of the smallest items; those without the field do not count."""
    return first(sort(value, False, case_sensitive, attribute))


def largest(value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    """The first of the largest items; those without the field do not count."""
    return first(sort(value, True, case_sensitive, attribute))


def unique(value: Any, case_sensitive: bool = False, attribute: Any = None) -> list[Any]:
    """The items without those that equal an earlier one, or whose field does."""
    found = listed(value)
    kept: dict[tuple[Any, ...], Any] = {}
    for key, one in zip(_keys(found, attribute, case_sensitive), found, strict=True):
        kept.setdefault(_mark(key), one)
    return list(kept.values())


def groupby(value: Any, attribute: Any, default: Any = ABSENT, case_sensitive: bool = False) -> list[Any]:
    """Pairs of a field's value and the items with it, in the order of the values; what lacks the field comes last."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    found = listed(value)
    spend(8 * len(found))
    for one in found:
        key = field(one, attribute)
        named = default if isinstance(key, Absent) else key
        groups.setdefault(_mark(_folded(named, case_sensitive)), [named, []])[1].append(one)
    return sort(list(groups.values()), False, case_sensitive, 0)


def total(value: Any, attribute: Any = None, start: Any = 0) -> Any:
    """The sum of numbers; with `start=[]` the lists one after the other, where absent ones add nothing."""
    found = _fields(value, attribute)
    if isinstance(start, (list, tuple)):
        lists = [listed(part) for part in (start, *found)]
        room_for_items(sum(map(len, lists)))
        return [one for part in lists for one in part]
    for one in found:
        start = compute("+", start, one)
    return start


def _fields(value: Any, attribute: Any) -> list[Any]:
    found = listed(value)
    spend(len(found))
    return found if attribute is None else [field(one, attribute) for one in found]


def _keys(value: list[Any], attribute: Any, case_sensitive: bool) -> list[Any]:
    return [_folded(key, case_sensitive) for key in _fields(value, attribute)]


def _ordered(places: list[int], keys: list[Any], reverse: bool) -> list[int]:
    weigh(keys)
    try:
        return sorted(places, key=keys.__getitem__, reverse=reverse)
    except TypeError:
        kinds = dict.fromkeys(kind(keys[at]) for at in places)
        raise Fault(f"{' and '.join(kinds)} cannot be put into an order") from None


def _folded(value: Any, case_sensitive: bool) -> Any:
    return value if case_sensitive or not isinstance(value, str) else value.casefold()


def _mark(key: Any) -> tuple[Any, ...]:
    """The same for equal values, and hashable; true is not 1, and what is absent equals what is absent."""
    if isinstance(key, Absent):
        return ()
    return (key, isinstance(key, bool)) if isinstance(key, (str, int, float)) else (to_json(key), None)


# Tests. What is absent passes none of them; `apply_test` sees to that.


def divisible(value: Any, by: Any) -> bool:
    return bool(compute("%", whole(value), whole(by)) == 0)


def comparison(sign: str) -> Callable[[Any, Any], bool]:
    return lambda value, other: compare(value, sign, other)


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
    "even": lambda value: divisible(value, 2),
    "odd": lambda value: not divisible(value, 2),
    "divisibleby": divisible,
    "in": comparison("in"),
    "eq": comparison("eq"),
    "equalto": comparison("eq"),
    "ne": comparison("ne"),
    "lt": comparison("lt"),
    "lessthan": comparison("lt"),
    "le": comparison("lteq"),
    "gt": comparison("gt"),
    "greaterthan": comparison("gt"),
    "ge": comparison("gteq"),
}


def apply_test(name: str, value: Any, *arguments: Any) -> bool:
    """Whether a value passes a test; nothing absent does."""
    spend(sum(map(size, arguments)) + 1)
    if isinstance(value, Absent) or any(isinstance(one, Absent) for one in arguments):
        return False
    return TESTS[name](value, *arguments)
