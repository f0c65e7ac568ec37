"""The operators of templates: arithmetic within limits, and comparisons, none of which holds with an absent value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from skillrun.language.absent import Absent
from skillrun.language.templates.limits import MAX_NUMBER, Fault, room, room_for_items, size, spend, weigh
from skillrun.language.templates.values import CONTAINERS, kind, listed, number


def compute(sign: str, left: Any, right: Any) -> Any:
    """`+` of numbers, texts or lists; `-`, `*`, `/`, `//` and `%` of numbers."""
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        room(len(left) + len(right))
        return left + right
    if sign == "+" and isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        room_for_items(len(left) + len(right))
        return [*left, *right]
    for side in (left, right):
        if isinstance(side, Absent):
            raise Fault(side.why, f"`{sign}` needs two values; give it a `default`, or write `(x or [])`")
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise Fault(f"`{sign}` cannot take {kind(left)} and {kind(right)}", _OTHER_MEANS.get(sign, ""))
    try:
        return bounded(_ARITHMETIC[sign](left, right))
    except ZeroDivisionError:
        raise Fault("division by zero", "write `x // (y or 1)`, or ask whether there is anything first") from None


def negate(sign: str, value: Any) -> Any:
    """A number with a sign."""
    return bounded(-number(value) if sign == "-" else +number(value))


def bounded(value: Any) -> Any:
    """A number that is not too large."""
    if not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise Fault("the number is too large")
    return value


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_OTHER_MEANS: Final = {"+": "`~` joins values into a text", "%": "the filter `format` puts values into a text"}


def compare(value: Any, *rest: Any) -> bool:
    """`value`, then operator and value by turns; all comparisons must hold, and one with an absent value does not."""
    for sign, right in zip(rest[::2], rest[1::2], strict=True):
        if not _holds(sign, value, right):
            return False
        value = right
    return True


def _holds(sign: str, left: Any, right: Any) -> bool:
    if isinstance(left, Absent) or isinstance(right, Absent):
        return False
    if sign in ("in", "notin"):
        return _contains(right, left) is (sign == "in")
    if isinstance(left, CONTAINERS) and isinstance(right, CONTAINERS):
        weigh(left)
        weigh(right)
    try:
        return bool(_COMPARISONS[sign](left, right))
    except TypeError:
        raise Fault(f"{kind(left)} cannot be compared with {kind(right)}") from None


def _contains(container: Any, value: Any) -> bool:
    if isinstance(container, str):
        if not isinstance(value, str):
            raise Fault(f"{kind(value)} cannot be in a text")
        spend(size(container))
        return value in container
    if isinstance(container, Mapping):
        return not isinstance(value, CONTAINERS) and value in container
    items = listed(container)
    if isinstance(value, CONTAINERS):
        weigh(items)
        weigh(value)
    spend(len(items))
    return any(value == other for other in items)


_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}
