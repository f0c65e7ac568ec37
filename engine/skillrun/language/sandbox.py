"""What templates may do to values, and how much of it: look-ups, operators, printing, and the limits of a render.

Every operation asks for room before it builds anything. Knows neither syntax nor positions: what goes wrong is a
`Fault`, and `expressions` says where it stands.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from skillrun.language.absent import ABSENT, Absent

MAX_TEXT: Final = 1_000_000  # characters of any one text
MAX_ITEMS: Final = 100_000  # items of any one list
MAX_WEIGHT: Final = 1_000_000  # items of any one value with all that is in it, 32 characters counting as one
MAX_NUMBER: Final = 10**18
MAX_LOOPS: Final = 20_000  # passes of all `for` loops of a render together
MAX_WORK: Final = 5_000_000  # items handled in a render, 32 characters counting as one


_CONTAINERS: Final = (list, tuple, Mapping)


class Fault(Exception):
    """What a template's author can mend, still without its place."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Budget:
    """What one render, with all renders inside it, may still spend."""

    __slots__ = ("loops", "work")

    def __init__(self) -> None:
        self.loops = MAX_LOOPS
        self.work = MAX_WORK


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget() -> Iterator[None]:
    """The budget of a render; one inside another shares the outer one's."""
    if _budget.get() is not None:
        yield
        return
    token = _budget.set(Budget())
    try:
        yield
    finally:
        _budget.reset(token)


def spend(work: int) -> None:
    """Account for work before it is done. Raises Fault when the render has none left."""
    current = _budget.get()
    if current is not None:
        current.work -= work
        if current.work < 0:
            raise Fault("this template does more work than a render may", "let it handle less text, or fewer items")


def each(items: Any) -> Iterator[Any]:
    """The items of a loop, counted."""
    return _counted(listed(items), _budget.get() or Budget())


def _counted(items: list[Any], current: Budget) -> Iterator[Any]:
    for item in items:
        current.loops -= 1
        if current.loops < 0:
            raise Fault(f"the loops of this template run more than {MAX_LOOPS:,} times", "loop over fewer items")
        yield item


def size(value: Any) -> int:
    """The work of handling a value once, not looking into lists and mappings."""
    if isinstance(value, str):
        return 1 + (len(value) >> 5)
    return 1 + len(value) if isinstance(value, (list, tuple, Mapping)) else 1


def weigh(value: Any, limit: int = MAX_WEIGHT) -> None:
    """Pay for walking through a value. Raises Fault when it is too large; small values that share parts can be."""
    total, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        total += size(item)
        if total > limit:
            raise Fault(f"this value is larger than {limit:,} items")
        if isinstance(item, (list, tuple)):
            waiting += item
        elif isinstance(item, Mapping):
            waiting += item.values()
    spend(total)


def room(characters: int) -> None:
    """Raises Fault when a text of that length may not be made."""
    if characters > MAX_TEXT:
        raise Fault(f"the text would be longer than {MAX_TEXT:,} characters", "clip what it is made of")
    spend(characters >> 5)


def room_for_items(count: int) -> None:
    """Raises Fault when a list of that length may not be made."""
    if count > MAX_ITEMS:
        raise Fault(f"the list would be longer than {MAX_ITEMS:,} items", "take fewer with `top`")
    spend(count)


def kind(value: Any) -> str:
    """What a value is, for messages."""
    match value:
        case Absent():
            return "an absent value"
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple() | range():
            return "a list"
        case Mapping():
            return "a mapping"
    return "something that is no plain value"


def listed(value: Any) -> list[Any]:
    """The value as a list: of a mapping its keys, of an absent value nothing."""
    if type(value) is list:
        return value
    if isinstance(value, Absent):
        return []
    if isinstance(value, (Mapping, list, tuple, range)):
        return list(value)
    raise Fault(f"{kind(value)} is not a list", "" if value is None else "put it in brackets: `[x]`")


def number(value: Any) -> int | float:
    """The value as a number to compute with."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Absent):
        raise Fault(value.why, "nothing can be computed with it; give it a `default`")
    raise Fault(f"{kind(value)} is not a number", "`| int` reads one from a text" if isinstance(value, str) else "")


def whole(value: Any) -> int:
    """The value as a whole number."""
    found = number(value)
    if isinstance(found, float) and not found.is_integer():
        raise Fault(f"{printed(found)} is not a whole number")
    return int(found)


# Look-ups


def look(owner: Any, name: str, path: str) -> Any:
    """The item of a mapping that an expression names; where none has the name, the one that writes `-` for its `_`.

    `path` is how the expression says it.
    """
    if isinstance(owner, Mapping):
        value = owner.get(name, ABSENT) if type(owner) is dict else _item(owner, name)
        if value is ABSENT and "_" in name:
            value = _hyphened(owner, name)
        return Absent(path) if value is ABSENT else value
    return Absent(path, owner.gap if isinstance(owner, Absent) else "")


def item(owner: Any, key: Any, path: str) -> Any:
    """The item of a mapping with exactly this key, or of a list or text at this index."""
    value: Any = ABSENT
    if isinstance(owner, Absent) or isinstance(key, Absent):
        return Absent(path, owner.gap if isinstance(owner, Absent) else key.gap)
    if isinstance(owner, Mapping) or (isinstance(owner, (list, tuple, str)) and type(key) is int):
        value = _item(owner, key)
    return Absent(path) if value is ABSENT else value


def field(owner: Any, path: str | int) -> Any:
    """The item at a dotted path such as a filter's `attribute` gives it."""
    if isinstance(path, int):
        return item(owner, path, f"….{path}")
    if not isinstance(path, str):
        raise Fault(f"{kind(path)} is not the name of a field")
    for part in path.split("."):
        owner = item(owner, int(part), f"….{path}") if part.isdecimal() else look(owner, part, f"….{path}")
    return owner


def cut(owner: Any, start: Any, stop: Any, step: Any, path: str) -> Any:
    """A slice of a list or text."""
    if isinstance(owner, Absent):
        return Absent(path, owner.gap)
    if not isinstance(owner, (list, tuple, str)):
        raise Fault(f"{kind(owner)} has no slices", "a list or a text has")
    bounds = [None if bound is None else whole(bound) for bound in (start, stop, step)]
    if bounds[2] == 0:
        raise Fault("a slice cannot have the step 0")
    spend(size(owner))
    return owner[slice(*bounds)]


def _item(owner: Any, key: Any) -> Any:
    try:
        return owner[key]
    except LookupError:
        return ABSENT
    except TypeError:
        raise Fault(f"{kind(key)} cannot be a key") from None


def _hyphened(owner: Mapping[str, Any], name: str) -> Any:
    found = owner.get(name.replace("_", "-"), ABSENT)
    if found is ABSENT:
        for key in owner:
            if isinstance(key, str) and key.replace("-", "_") == name:
                return owner[key]
    return found


# Operators


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
    if isinstance(left, _CONTAINERS) and isinstance(right, _CONTAINERS):
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
        return not isinstance(value, _CONTAINERS) and value in container
    items = listed(container)
    if isinstance(value, _CONTAINERS):
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


# Text


def printed(value: Any) -> str:
    """A value as it stands in a text: whole numbers without a point, others with at most two digits after it, lists and
    mappings as JSON. Raises Fault for what is absent or null."""
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _decimal(value)
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, Absent):
        raise Fault(value.why, "print it only `{% if … %}` it is there, or give it a `default`")
    if isinstance(value, _CONTAINERS):
        return to_json(value)
    raise Fault(f"{kind(value)} cannot be printed", "give it a `default`" if value is None else "")


def joined(parts: Iterable[Any], between: str = "") -> str:
    """The printed parts one after the other."""
    texts = [printed(part) for part in parts]
    room(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON with its keys in the order given and nothing escaped that needs no escaping."""
    weigh(value, MAX_ITEMS)
    text = json.dumps(plain(value), ensure_ascii=False, indent=indent)
    room(len(text))
    return text


def _decimal(value: float) -> str:
    if not math.isfinite(value):
        raise Fault("the number is too large")
    return str(int(value)) if value.is_integer() else f"{value:.2f}".rstrip("0").rstrip(".")


# What comes out


def plain(value: Any) -> Any:
    """The value as dicts, lists and single values; what is absent in a list or mapping is left out."""
    if isinstance(value, _CONTAINERS):
        weigh(value)
        return _plain(value)
    if value is None or isinstance(value, (str, int, float, Absent)):
        return value
    raise Fault(f"{kind(value)} cannot be the value of an expression")


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value if not isinstance(one, Absent)]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if not isinstance(one, Absent)}
    return value
