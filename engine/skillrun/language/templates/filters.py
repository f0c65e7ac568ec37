"""The filters of texts, numbers and single values that templates share with Jinja.

They ask `sandbox` for room before they build anything. What the project adds is in `functions`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec

from skillrun.language.absent import ABSENT, Absent
from skillrun.language.templates.limits import Fault, room, size
from skillrun.language.templates.operators import bounded
from skillrun.language.templates.values import kind, listed, number, printed, to_json, whole

P = ParamSpec("P")


def text_filter(change: Callable[Concatenate[str, P], Any]) -> Callable[Concatenate[Any, P], Any]:
    """A filter of one text: an absent value stays absent, anything else is taken as it prints."""

    @wraps(change)
    def filtered(value: Any, /, *arguments: P.args, **options: P.kwargs) -> Any:
        return value if isinstance(value, Absent) else change(printed(value), *arguments, **options)

    return filtered


def default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    """Stands in for what is absent or null; with `boolean` for all that is empty or false."""
    missing = not value if boolean else value is None or isinstance(value, Absent)
    return default_value if missing else value


def length(value: Any) -> int:
    if isinstance(value, (str, list, tuple, Mapping, Absent)):
        return len(value)
    raise Fault(f"{kind(value)} has no length")


def reverse(value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else listed(value)[::-1]


@text_filter
def lower(text: str) -> str:
    return text.lower()


@text_filter
def upper(text: str) -> str:
    return text.upper()


@text_filter
def capitalize(text: str) -> str:
    return text.capitalize()


@text_filter
def title(text: str) -> str:
    return "".join(part[:1].upper() + part[1:].lower() for part in re.split(r"([-\s({\[<]+)", text))


@text_filter
def trim(text: str, chars: str | None = None) -> str:
    return text.strip(chars)


@text_filter
def string(text: str) -> str:
    return text


@text_filter
def replace(text: str, old: str, new: Any, count: int = -1) -> str:
    inserted = printed(new)
    times = text.count(old) if count < 0 else min(count, text.count(old))
    room(len(text) + times * len(inserted))
    return text.replace(old, inserted, times)


@text_filter
def indent(text: str, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(whole(width), 1000)
    lines = text.split("\n")
    room(len(text) + len(margin) * len(lines))
    margined = [margin + line if line or blank else line for line in lines]
    return "\n".join(margined if first else [lines[0], *margined[1:]])


@text_filter
def format_values(text: str, *values: Any, **named: Any) -> str:
    """`%s`, `%d`, `%i`, `%f`, `%x` and `%%` with flags and a short width or precision; `%(name)s` with names."""
    signs = [sign for sign in _DIRECTIVE.findall(text) if sign != "%"]
    if "%" in _DIRECTIVE.sub("", text):
        raise Fault(f"`{text}` is not a format", "allowed: %s, %d, %i, %f, %x, %%, with a width such as %03d")
    room(len(text) + 1000 * len(signs) + sum(size(one) << 5 for one in (*values, *named.values())))
    try:
        if named:
            return text % {name: one if isinstance(one, (int, float)) else printed(one) for name, one in named.items()}
        pairs = zip(values, signs, strict=True)
        return text % tuple(printed(one) if sign == "s" else number(one) for one, sign in pairs)
    except (TypeError, ValueError, KeyError) as error:
        raise Fault(f"`{text}` and its values do not fit together: {error}") from None


_DIRECTIVE: Final = re.compile(r"%(?:\(\w+\))?[-#0 +]*\d{0,3}(?:\.\d{1,2})?([sdifx%])")


def wordcount(value: Any) -> int:
    return 0 if isinstance(value, Absent) else len(re.findall(r"\w+", printed(value)))


def to_float(value: Any, default: Any = ABSENT) -> Any:
    """The number that a text holds; 0.0 when it holds none, unless there is a default. Absent stays absent."""
    if isinstance(value, Absent):
        return value if default is ABSENT else default
    if isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip())):
        return bounded(float(value))
    return 0.0 if default is ABSENT else default


def to_int(value: Any, default: Any = ABSENT) -> Any:
    """As `to_float`, without what follows the point."""
    if isinstance(value, int):
        return int(value)
    found = to_float(value, default)
    return int(found) if isinstance(found, float) else found


_NUMBER: Final = re.compile(r"[-+]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})")


def rounded(value: Any, precision: int = 0, method: str = "common") -> Any:
    """Half to even as Python rounds; `method` may also be `ceil` or `floor`. A whole number without a precision."""
    if isinstance(value, Absent):
        return value
    if not 0 <= precision <= 15 or method not in ("common", "ceil", "floor"):
        raise Fault("`round` takes a precision from 0 to 15, and the method common, ceil or floor")
    if method == "common":
        found = round(number(value), precision)
    else:
        found = {"ceil": math.ceil, "floor": math.floor}[method](number(value) * 10**precision) / 10**precision
    return found if precision else int(found)


def absolute(value: Any) -> Any:
    return value if isinstance(value, Absent) else abs(number(value))


def to_json_text(value: Any, indent: Any = None) -> Any:
    """JSON as a person would write it, keys in their order."""
    return value if isinstance(value, Absent) else to_json(value, None if indent is None else min(whole(indent), 8))
