"""Jinja's filters and tests for templates, adapted to absent values and to the work limit of a render.

Filters return lists where Jinja's return iterators. They look up fields as expressions do, so a missing field is
absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from jinja2 import filters as jinja

from skillrun.templates.functions import text_filter
from skillrun.templates.limits import TemplateError, handling_cost, spend, spend_on_text, spend_on_values
from skillrun.templates.values import (
    ABSENT,
    Absent,
    check_number_size,
    compare,
    compute,
    describe_kind,
    join_texts,
    lookup_path,
    to_integer,
    to_json,
    to_list,
    to_number,
    to_text,
)

# Texts, numbers and single values


def default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    """Replace an absent or null value with the default. With `boolean`, replace every empty or false value."""
    missing = not value if boolean else value is None or isinstance(value, Absent)
    return default_value if missing else value


def length(value: Any) -> int:
    if isinstance(value, (str, list, tuple, Mapping, Absent)):
        return len(value)
    raise TemplateError(f"{describe_kind(value)} has no length")


@text_filter
def replace(text: str, old: str, new: Any, count: int = -1) -> str:
    inserted = to_text(new)
    spend_on_text(len(text) + text.count(old) * len(inserted))
    return text.replace(old, inserted, count)


@text_filter
def indent(text: str, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(to_integer(width), 1000)
    spend_on_text(len(text) + len(margin) * (1 + text.count("\n")))
    return jinja.do_indent(text, margin, first, blank)


@text_filter
def format_values(text: str, *values: Any, **named: Any) -> str:
    """Fill in `%s`, `%d`, `%i`, `%f`, `%x` and `%%`.

    Flags, a width of up to 3 digits, a precision of up to 2 digits and a name, as in `%(name)s`, are allowed.
    """
    if "%" in _DIRECTIVE.sub("", text):
        raise TemplateError(
            f"`{text}` is not a valid format", "allowed: %s, %d, %i, %f, %x, %%, with a width such as %03d"
        )
    filled = [value if type(value) in (int, float) else to_text(value) for value in (*values, *named.values())]
    spend_on_text(len(text) + text.count("%") * (1000 + sum(len(part) for part in filled if isinstance(part, str))))
    return text % (dict(zip(named, filled, strict=True)) if named else tuple(filled))


_DIRECTIVE: Final = re.compile(r"%(?:\(\w+\))?[-#0 +]*\d{0,3}(?:\.\d{1,2})?([sdifx%])")


def read_number(convert: Callable[[Any, Any], Any], otherwise: Any, /, value: Any, default: Any = ABSENT) -> Any:
    """Return the value as a number.

    `default` replaces an invalid or absent value. If no default is given, `otherwise` replaces an invalid value, and an
    absent value stays absent.
    """
    if isinstance(value, Absent):
        return value if default is ABSENT else default
    return check_number_size(convert(value, otherwise if default is ABSENT else default))


def absolute(value: Any) -> Any:
    """Return the absolute value of a number. An absent value stays absent."""
    return value if isinstance(value, Absent) else abs(to_number(value))


def round_number(value: Any, precision: int = 0, method: str = "common") -> Any:
    """Round to `precision` decimals, or to an integer if `precision` is 0.

    The method `common` rounds half to even, as Python does. `ceil` rounds up, and `floor` rounds down.
    """
    if isinstance(value, Absent):
        return value
    if not 0 <= precision <= 15 or method not in _ROUNDING:
        raise TemplateError("`round` takes a precision from 0 to 15, and the method common, ceil or floor")
    result = _ROUNDING[method](check_number_size(to_number(value)) * 10**precision) / 10**precision
    return result if precision else int(result)


_ROUNDING: Final[dict[str, Callable[[float], int]]] = {"common": round, "ceil": math.ceil, "floor": math.floor}


def to_json_text(value: Any, indent: Any = None) -> Any:
    """Return the value as JSON without needless escapes. Keys keep their order, and an absent value stays absent."""
    if isinstance(value, Absent):
        return value
    return to_json(value, None if indent is None else min(to_integer(indent), 8))


@text_filter
def title(text: str) -> str:
    spend(len(text) >> 2)
    return jinja.do_title(text)


# Lists and mappings


def end_item(at: int, /, value: Any) -> Any:
    """Return the item or character at the index `at`, or an absent value if `value` is empty."""
    items = value if isinstance(value, str) else to_list(value)
    return items[at] if items else ABSENT


def reverse(value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else to_list(value)[::-1]


def join(value: Any, d: Any = "", attribute: Any = None) -> str:
    """Convert the items to text and join them with `d`. If `attribute` is given, join that field of each item."""
    return join_texts([item for item, _ in pair_with_keys(value, attribute, True)], d)


def items(value: Any) -> list[Any]:
    """Return a list `[key, value]` for each entry of a mapping."""
    if not isinstance(value, (Mapping, Absent)):
        raise TemplateError(f"{describe_kind(value)} is not a mapping")
    return [[key, value[key]] for key in value]


def dictsort(value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False) -> list[Any]:
    """Return a list `[key, value]` for each entry of a mapping, sorted by `by`: `key` or `value`."""
    return sort(items(value), reverse, case_sensitive, ("key", "value").index(by))


def sort(
    value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: Any = None, order: Any = None
) -> list[Any]:
    """Sort stably by the field `attribute`, or by several fields, as in `priority,id`.

    Items without the field come last, even in reverse. `order` lists the values of the field in the wanted order. Items
    with other values come last.
    """
    items = to_list(value)
    if order is not None:
        places = {_equality_key(key): place for place, key in enumerate(to_list(order))}
        last = -1 if reverse else len(places)
        keys = [_equality_key(key) for key, _ in pair_with_keys(items, attribute, case_sensitive=True)]
        ranked = [(places.get(key, last), item) for key, item in zip(keys, items, strict=True)]
        return [item for _, item in sorted(ranked, key=lambda pair: pair[0], reverse=reverse)]
    for name in reversed(attribute.split(",") if isinstance(attribute, str) else [attribute]):
        pairs = pair_with_keys(items, name, case_sensitive)
        present = [pair for pair in pairs if not isinstance(pair[0], Absent)]
        spend_on_values([key for key, _ in present])
        try:
            present.sort(key=lambda pair: pair[0], reverse=reverse)
        except TypeError:
            kinds = dict.fromkeys(describe_kind(key) for key, _ in present)
            raise TemplateError(f"{' and '.join(kinds)} cannot be sorted together") from None
        items = [item for _, item in present] + [item for key, item in pairs if isinstance(key, Absent)]
    return items


def extreme_item(largest: bool, /, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    """Return the largest or smallest item; among equal items, the first.

    An item without the field `attribute` is returned only if no item has the field.
    """
    return end_item(0, sort(value, largest, case_sensitive, attribute))


def unique(value: Any, case_sensitive: bool = False, attribute: Any = None, keep: str = "first") -> list[Any]:
    """Return the items without duplicates. Items are compared as a whole, or by the field `attribute`.

    `keep` says which of several equal items stays: `first` or `last`.
    """
    if keep not in _KEEP_STEPS:
        raise TemplateError(f"`keep` is `{to_text(keep)}`", f"allowed: {', '.join(_KEEP_STEPS)}")
    pairs = pair_with_keys(value, attribute, case_sensitive)[:: _KEEP_STEPS[keep]]
    kept: dict[tuple[Any, ...], Any] = {}
    for key, item in pairs:
        kept.setdefault(_equality_key(key), item)
    return list(kept.values())[:: _KEEP_STEPS[keep]]


_KEEP_STEPS: Final = {"first": 1, "last": -1}  # the slice step with which the item to keep comes first


def groupby(value: Any, attribute: Any, default: Any = ABSENT, case_sensitive: bool = False) -> list[Any]:
    """Return a pair for each value of the field `attribute`: the value, and the items with that value.

    The pairs are sorted by value. Items without the field have the value `default`. If no default is given, they form
    the last pair.
    """
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for key, item in pair_with_keys(value, attribute, True):
        named = default if isinstance(key, Absent) else key
        groups.setdefault(_equality_key(_fold_case(named, case_sensitive)), [named, []])[1].append(item)
    return sort(list(groups.values()), False, case_sensitive, 0)


def total(value: Any, attribute: Any = None, start: Any = 0) -> Any:
    """Return the sum of numbers. With `start=[]`, concatenate lists instead, and ignore absent lists."""
    parts = [part for part, _ in pair_with_keys(value, attribute, True)]
    if isinstance(start, list):
        lists = [to_list(part) for part in (start, *parts)]
        spend(sum(map(len, lists)))
        return [item for part in lists for item in part]
    for part in parts:
        start = compute("+", start, part)
    return start


def flatten(value: Any) -> list[Any]:
    """Concatenate the lists in a list. Absent lists are ignored."""
    items: list[Any] = total(value, start=[])
    return items


def pick(value: Any, /, *names: Any, **renamed: Any) -> Any:
    """Keep the fields `names` of a record, or of each record in a list. `new='old'` keeps the field `old` as `new`."""
    fields = {str(name): name for name in names} | renamed

    def pick_fields(record: Mapping[str, Any]) -> dict[str, Any]:
        return drop_absent_fields({name: lookup_path(record, source) for name, source in fields.items()})

    return _map_records(value, len(fields), pick_fields)


def plus(value: Any, /, **fields: Any) -> Any:
    """Add or replace fields of a record, or of each record in a list. Absent values are ignored."""
    given = drop_absent_fields(fields)
    return _map_records(value, len(given), lambda record: {**record, **given})


def zip_lists(**lists: Any) -> list[dict[str, Any]]:
    """Return one record for each position, up to the end of the shortest list.

    A record contains the item of each list at that position, keyed by the list's name. Absent items are left out.
    """
    if not lists:
        raise TemplateError("`zip` takes its lists as named arguments", "`zip(source=a, target=b)`")
    columns = [to_list(value) for value in lists.values()]
    spend(len(columns) * min(map(len, columns)))
    return [drop_absent_fields(dict(zip(lists, row, strict=True))) for row in zip(*columns, strict=False)]


def drop_absent_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if not isinstance(value, Absent)}


def _map_records(value: Any, fields: int, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """Apply `change` to a record, or to each record of a list."""
    records = [value] if isinstance(value, Mapping) else to_list(value)
    spend(sum(1 + fields + len(record) for record in records if isinstance(record, Mapping)))
    changed = []
    for record in records:
        if not isinstance(record, Mapping):
            raise TemplateError(f"{describe_kind(record)} is not a record")
        changed.append(change(record))
    return changed[0] if isinstance(value, Mapping) else changed


def pair_with_keys(value: Any, attribute: Any, case_sensitive: bool) -> list[tuple[Any, Any]]:
    """Return the pair `(key, item)` for each item.

    The key is the field `attribute` of the item or, without `attribute`, the item itself. Text keys are case folded
    unless `case_sensitive` is set.
    """
    items = to_list(value)
    spend(4 * len(items))
    keys = items if attribute is None else [lookup_path(item, attribute) for item in items]
    return [(_fold_case(key, case_sensitive), item) for key, item in zip(keys, items, strict=True)]


def _fold_case(value: Any, case_sensitive: bool) -> Any:
    if case_sensitive or not isinstance(value, str):
        return value
    spend(handling_cost(value))  # casefold creates a new text
    return value.casefold()


def _equality_key(key: Any) -> tuple[Any, ...]:
    """Return a hashable key that is the same for equal values. True and 1 differ, and all absent values are equal."""
    if isinstance(key, Absent):
        return ()
    return (key, isinstance(key, bool)) if isinstance(key, (str, int, float)) else (to_json(key), None)


# Tests

SIGNS: Final[Mapping[str, str]] = {
    "in": "in",
    **dict.fromkeys(("eq", "equalto"), "eq"),
    "ne": "ne",
    **dict.fromkeys(("lt", "lessthan"), "lt"),
    "le": "lteq",
    **dict.fromkeys(("gt", "greaterthan"), "gt"),
    "ge": "gteq",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "lteq",
    ">": "gt",
    ">=": "gteq",
}
"""Jinja's names of comparison operators, keyed by the names of tests."""


def _compare(sign: str, /, value: Any, other: Any) -> bool:
    return compare(value, sign, other)


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
    **{name: partial(_compare, sign) for name, sign in SIGNS.items() if name.isidentifier()},
}
ARGUMENT_TESTS: Final[dict[str, Callable[..., bool]]] = {
    **TESTS,
    **{name: partial(_compare, sign) for name, sign in SIGNS.items()},
}
"""The tests that filters such as `selectattr` take as an argument: also the signs `==`, `<` and their like."""
