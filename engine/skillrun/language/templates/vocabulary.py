"""Every filter, test and function that templates have, as literal tables, and the one way in which they are called.

A name that is not here does not exist for authors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2.exceptions import UndefinedError

from skillrun.language.absent import ABSENT, Absent
from skillrun.language.templates import filters, functions, lists
from skillrun.language.templates.limits import MAX_ITEMS, MAX_TEXT, Fault, size, spend
from skillrun.language.templates.lists import TESTS, apply_test
from skillrun.language.templates.values import field, kind, listed

__all__ = ["CONTEXT_FUNCTIONS", "FILTERS", "FUNCTIONS", "TESTS", "apply", "apply_test"]


def map_items(value: Any, filter: str = "", /, *arguments: Any, **options: Any) -> list[Any]:  # noqa: A002
    """Each item's field (`map(attribute='x')`, absent where there is none), or each item through a filter."""
    found = listed(value)
    if filter:
        return [apply(filter, one, *arguments, **options) for one in found]
    attribute, missing = options["attribute"], options.get("default", ABSENT)
    values = [field(one, attribute) for one in found]
    return values if missing is ABSENT else [missing if isinstance(one, Absent) else one for one in values]


def select(value: Any, test: str = "", /, *arguments: Any) -> list[Any]:
    return [one for one in listed(value) if _passes(one, test, arguments)]


def reject(value: Any, test: str = "", /, *arguments: Any) -> list[Any]:
    return [one for one in listed(value) if not _passes(one, test, arguments)]


def selectattr(value: Any, attribute: Any, test: str = "", /, *arguments: Any) -> list[Any]:
    return [one for one in listed(value) if _passes(field(one, attribute), test, arguments)]


def rejectattr(value: Any, attribute: Any, test: str = "", /, *arguments: Any) -> list[Any]:
    return [one for one in listed(value) if not _passes(field(one, attribute), test, arguments)]


def _passes(value: Any, test: str, arguments: tuple[Any, ...]) -> bool:
    return apply_test(test, value, *arguments) if test else bool(value)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "clip": functions.clip,
    "convergence": functions.convergence,
    "dedupe": functions.dedupe,
    "latest": functions.latest,
    "matches": functions.matches,
    "mean": functions.mean,
    "overlap": functions.overlap,
    "range": functions.numbers,
    "section": functions.section,
    "slug": functions.slug,
    "tokens": functions.tokens,
    "top": functions.top,
    "untrusted": functions.untrusted,
}

# These depend on the run, which hands them in among the names; here are the parameters that each takes.
CONTEXT_FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "bank": ("name", "group", "n"),
    "members": ("role", "models"),
    "others": ("step",),
}

FILTERS: Final[dict[str, Callable[..., Any]]] = {
    **{name: function for name, function in FUNCTIONS.items() if name != "range"},
    "abs": filters.absolute,
    "capitalize": filters.capitalize,
    "count": filters.length,
    "default": filters.default,
    "dictsort": lists.dictsort,
    "first": lists.first,
    "float": filters.to_float,
    "format": filters.format_values,
    "groupby": lists.groupby,
    "indent": filters.indent,
    "int": filters.to_int,
    "items": lists.items,
    "join": lists.join,
    "last": lists.last,
    "length": filters.length,
    "list": listed,
    "lower": filters.lower,
    "map": map_items,
    "max": lists.largest,
    "min": lists.smallest,
    "reject": reject,
    "rejectattr": rejectattr,
    "replace": filters.replace,
    "reverse": filters.reverse,
    "round": filters.rounded,
    "select": select,
    "selectattr": selectattr,
    "sort": lists.sort,
    "string": filters.string,
    "sum": lists.total,
    "title": filters.title,
    "tojson": filters.to_json_text,
    "trim": filters.trim,
    "unique": lists.unique,
    "upper": filters.upper,
    "wordcount": filters.wordcount,
}

TAKES_A_TEST: Final = {"select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}  # the place of the test's name


def apply(name: str, /, *arguments: Any, **options: Any) -> Any:
    """The result of a filter or function. Raises Fault for what it cannot take, and for a result that is too large."""
    spend(sum(map(size, arguments)))
    function = FILTERS.get(name) or FUNCTIONS[name]
    try:
        result = function(*arguments, **options)
    except UndefinedError as error:
        raise Fault(str(error), "give it a `default`") from None
    except KeyError as error:
        raise Fault(f"`{name}` misses {error}") from error
    except ValueError as error:
        raise Fault(str(error)) from error
    except (TypeError, AttributeError) as error:
        raise Fault(f"`{name}` cannot take {' and '.join(map(kind, arguments))}: {error}") from error
    if result is ABSENT:
        return Absent(f"… | {name}")
    if (isinstance(result, str) and len(result) > MAX_TEXT) or (isinstance(result, list) and len(result) > MAX_ITEMS):
        raise Fault(f"what `{name}` makes of this is too large")
    return result
