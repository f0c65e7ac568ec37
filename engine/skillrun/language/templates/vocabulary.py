"""Every filter and test of templates as literal tables, and the one way in which filters and functions are called.

A name that is neither here nor among `FUNCTIONS` does not exist for authors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2 import filters as jinja
from jinja2.exceptions import UndefinedError

from skillrun.language.templates import filters
from skillrun.language.templates.absent import ABSENT, Absent
from skillrun.language.templates.functions import FUNCTIONS, text_filter
from skillrun.language.templates.limits import Fault, size, spend
from skillrun.language.templates.values import compare, compute, joined, kind, listed, number, whole


def apply(name: str, /, *arguments: Any, **options: Any) -> Any:
    """The result of a filter or function. Raises Fault for what it cannot take."""
    spend(sum(map(size, arguments)))
    function = FILTERS.get(name) or FUNCTIONS[name]
    try:
        return function(*arguments, **options)
    except UndefinedError as error:
        raise Fault(str(error), "give it a `default`") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise Fault(f"`{name}` cannot take {' and '.join(map(kind, arguments))}: {error}") from error


def apply_test(name: str, value: Any, *arguments: Any) -> bool:
    """Whether a value passes a test; nothing absent does."""
    spend(sum(map(size, arguments)))
    if isinstance(value, Absent) or any(isinstance(one, Absent) for one in arguments):
        return False
    return TESTS[name](value, *arguments)


def map_items(value: Any, filter: str = "", /, *arguments: Any, **options: Any) -> list[Any]:  # noqa: A002
    """Each item's field (`map(attribute='x')`, absent where there is none), or each item through a filter."""
    if filter:
        return [apply(filter, one, *arguments, **options) for one in listed(value)]
    values = [one for one, _ in filters.keyed(value, options["attribute"], True)]
    missing = options.get("default", ABSENT)
    return [missing if isinstance(one, Absent) and missing is not ABSENT else one for one in values]


def select(wanted: bool) -> Callable[..., list[Any]]:
    """The items that pass a test, or are true; or those that do not."""

    def found(value: Any, test: str = "", /, *arguments: Any) -> list[Any]:
        return [one for one in listed(value) if passes(one, test, *arguments) is wanted]

    return found


def selectattr(wanted: bool) -> Callable[..., list[Any]]:
    """The items whose field passes a test, or is true; or those whose field does not."""

    def found(value: Any, attribute: Any, test: str = "", /, *arguments: Any) -> list[Any]:
        return [one for key, one in filters.keyed(value, attribute, True) if passes(key, test, *arguments) is wanted]

    return found


def passes(value: Any, test: str, *arguments: Any) -> bool:
    return apply_test(test, value, *arguments) if test else bool(value)


def _same(text: str) -> str:
    return text


_PLAIN: Final = (
    "default", "dictsort", "flatten", "groupby", "indent", "items", "length", "lines", "pick", "plus", "replace",
    "sort", "unique",
)  # fmt: skip
FILTERS: Final[dict[str, Callable[..., Any]]] = {
    **{name: function for name, function in FUNCTIONS.items() if name != "range"},
    **{name: getattr(filters, name) for name in _PLAIN},
    "abs": lambda value: value if isinstance(value, Absent) else abs(number(value)),
    "capitalize": text_filter(str.capitalize),
    "count": filters.length,
    "first": lambda value: filters.end(value, 0),
    "float": filters.reads(jinja.do_float, 0.0),
    "format": filters.format_values,
    "int": filters.reads(jinja.do_int, 0),
    "join": lambda value, d="", attribute=None: joined([one for one, _ in filters.keyed(value, attribute, True)], d),
    "last": lambda value: filters.end(value, -1),
    "list": listed,
    "lower": text_filter(str.lower),
    "map": map_items,
    "max": filters.extreme(True),
    "min": filters.extreme(False),
    "reject": select(False),
    "rejectattr": selectattr(False),
    "reverse": lambda value: value[::-1] if isinstance(value, str) else listed(value)[::-1],
    "round": filters.rounded,
    "select": select(True),
    "selectattr": selectattr(True),
    "string": text_filter(_same),
    "sum": filters.total,
    "title": filters.title,
    "tojson": filters.to_json_text,
    "trim": text_filter(str.strip),
    "upper": text_filter(str.upper),
    "wordcount": filters.wordcount,
}
NAMED_IN: Final = {  # filters with an argument that names a filter or test, and its place
    "map": ("filter", 0),
    **dict.fromkeys(("select", "reject"), ("test", 0)),
    **dict.fromkeys(("selectattr", "rejectattr"), ("test", 1)),
}
ELSEWHERE: Final = {  # what Python has as methods and functions, and how it is written here
    **dict.fromkeys(("strip", "lstrip", "rstrip"), "x | trim"),
    **dict.fromkeys(("append", "extend", "add"), "x + [y]"),
    **dict.fromkeys(("find", "index", "contains"), "y in x"),
    "startswith": "matches(x, '^y')",
    "endswith": "matches(x, 'y$')",
    "get": "x.name | default('…')",
    "keys": "x | list",
    "values": "x | items",
    "len": "x | length",
    "str": "x | string",
}


def _comparing(sign: str) -> Callable[[Any, Any], bool]:
    return lambda value, other: compare(value, sign, other)


def _divisible(value: Any, by: Any) -> bool:
    return bool(compute("%", whole(value), whole(by)) == 0)


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
    "in": _comparing("in"),
    **dict.fromkeys(("eq", "equalto"), _comparing("eq")),
    "ne": _comparing("ne"),
    **dict.fromkeys(("lt", "lessthan"), _comparing("lt")),
    "le": _comparing("lteq"),
    **dict.fromkeys(("gt", "greaterthan"), _comparing("gt")),
    "ge": _comparing("gteq"),
}
