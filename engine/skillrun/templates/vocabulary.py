"""What templates may call, in literal tables: an entry for each filter and function, and the one way they are called.

A name that is neither here nor among `TESTS` does not exist for authors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2 import filters as jinja
from jinja2.exceptions import UndefinedError

from skillrun.templates import filters, return_types, text_splitting
from skillrun.templates.absent import ABSENT, Absent
from skillrun.templates.builtin import Builtin
from skillrun.templates.functions import text_filter
from skillrun.templates.limits import Fault, size, spend
from skillrun.templates.project_builtins import OWN
from skillrun.templates.tests import TESTS
from skillrun.templates.values import kind, listed
from skillrun.types.types import ANY, NUMBER, TEXT, list_of


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
    if isinstance(value, Absent) or any(isinstance(argument, Absent) for argument in arguments):
        return False
    return TESTS[name](value, *arguments)


def map_items(value: Any, filter: str = "", /, *arguments: Any, **options: Any) -> list[Any]:  # noqa: A002
    """Each item's field (`map(attribute='x')`, absent where there is none), or each item through a filter."""
    if filter:
        return [apply(filter, item, *arguments, **options) for item in listed(value)]
    values = [item for item, _ in filters.keyed(value, options["attribute"], True)]
    missing = options.get("default", ABSENT)
    return [missing if isinstance(item, Absent) and missing is not ABSENT else item for item in values]


def select(wanted: bool) -> Callable[..., list[Any]]:
    """The items that pass a test, or are true; or those that do not."""

    def selecting(value: Any, test: str = "", /, *arguments: Any) -> list[Any]:
        return [item for item in listed(value) if passes(item, test, *arguments) is wanted]

    return selecting


def selectattr(wanted: bool) -> Callable[..., list[Any]]:
    """The items whose field passes a test, or is true; or those whose field does not."""

    def selecting(value: Any, attribute: Any, test: str = "", /, *arguments: Any) -> list[Any]:
        return [item for key, item in filters.keyed(value, attribute, True) if passes(key, test, *arguments) is wanted]

    return selecting


def passes(value: Any, test: str, *arguments: Any) -> bool:
    return apply_test(test, value, *arguments) if test else bool(value)


def _same(text: str) -> str:
    return text


BUILTINS: Final[Mapping[str, Builtin]] = {
    **OWN,
    "default": Builtin(filters.default, return_types.defaulted, group="any"),
    "dictsort": Builtin(filters.dictsort, return_types.pairs, group="mappings"),
    "flatten": Builtin(
        filters.flatten,
        return_types.flattened,
        takes="a list",
        written=("flatten",),
        line="the lists of a list one after the other",
    ),
    "groupby": Builtin(filters.groupby, ANY, takes="a list", group="lists"),
    "indent": Builtin(filters.indent, return_types.text_of_all, group="texts"),
    "items": Builtin(filters.items, return_types.pairs, group="mappings"),
    "length": Builtin(filters.length, NUMBER, takes="a list or text", group="lists"),
    "lines": Builtin(
        text_splitting.lines,
        list_of(TEXT),
        written=("lines",),
        line=(
            "the lines of a text that have something in them, as a list: a `{% for %}` in a text block makes a "
            "list of texts"
        ),
    ),
    "paragraphs": Builtin(
        text_splitting.paragraphs,
        list_of(TEXT),
        written=("paragraphs",),
        line="the parts of a text between empty lines, as a list; an empty line in a fence parts nothing",
    ),
    "pick": Builtin(
        filters.pick,
        return_types.picked,
        takes="a list",
        written=("pick('a', new='b')",),
        line="a record, or each of a list, with these fields alone; `new` is what is called `b` there",
    ),
    "plus": Builtin(
        filters.plus,
        return_types.extended,
        takes="a list",
        written=("plus(name=value)",),
        line="a record, or each of a list, with these fields more",
    ),
    "replace": Builtin(filters.replace, return_types.text_of_all, group="texts"),
    "sort": Builtin(filters.sort, return_types.same_items, takes="a list", group="lists"),
    "split": Builtin(
        text_splitting.split,
        list_of(TEXT),
        written=("split(by)",),
        line="the parts of a text between the places where the text `by` stands, as a list; empty ones are left out",
    ),
    "zip": Builtin(
        filters.zipped,
        return_types.zipped,
        use="function",
        written=("zip(a=list, b=other)",),
        line=(
            "records of what stands at the same place of lists, `a` of the first and `b` of the other, to the end of "
            "the shortest; `zip(id=range(1, 1000), text=texts)` numbers them"
        ),
    ),
    "unique": Builtin(filters.unique, return_types.unique_items, takes="a list", group="lists"),
    "abs": Builtin(filters.absolute, NUMBER, numbers=(0,), group="numbers"),
    "capitalize": Builtin(text_filter(str.capitalize), return_types.text_of_all, group="texts"),
    "count": Builtin(filters.length, NUMBER, takes="a list or text", group="lists"),
    "first": Builtin(filters.first, return_types.an_end, takes="a list or text", group="lists"),
    "float": Builtin(filters.reads(jinja.do_float, 0.0), NUMBER, group="numbers"),
    "format": Builtin(filters.format_values, TEXT, group="texts"),
    "int": Builtin(filters.reads(jinja.do_int, 0), NUMBER, group="numbers"),
    "join": Builtin(filters.join, TEXT, takes="a list", group="lists"),
    "last": Builtin(filters.last, return_types.an_end, takes="a list or text", group="lists"),
    "list": Builtin(listed, return_types.same_items, takes="a list", group="lists"),
    "lower": Builtin(text_filter(str.lower), return_types.text_of_all, group="texts"),
    "map": Builtin(map_items, return_types.mapped, takes="a list", naming=("filter", 0), group="fields of lists"),
    "max": Builtin(filters.extreme(True), return_types.an_end, takes="a list", group="lists"),
    "min": Builtin(filters.extreme(False), return_types.an_end, takes="a list", group="lists"),
    "reject": Builtin(
        select(False), return_types.fewer_items, takes="a list", naming=("test", 0), group="fields of lists"
    ),
    "rejectattr": Builtin(
        selectattr(False), return_types.selected, takes="a list", naming=("test", 1), group="fields of lists"
    ),
    "reverse": Builtin(filters.reverse, return_types.same_items, takes="a list or text", group="lists"),
    "round": Builtin(filters.rounded, NUMBER, numbers=(1, "precision"), group="numbers"),
    "select": Builtin(
        select(True), return_types.fewer_items, takes="a list", naming=("test", 0), group="fields of lists"
    ),
    "selectattr": Builtin(
        selectattr(True), return_types.selected, takes="a list", naming=("test", 1), group="fields of lists"
    ),
    "string": Builtin(text_filter(_same), TEXT, group="texts"),
    "sum": Builtin(filters.total, return_types.summed, takes="a list", group="lists"),
    "title": Builtin(filters.title, return_types.text_of_all, group="texts"),
    "tojson": Builtin(filters.to_json_text, TEXT, group="any"),
    "trim": Builtin(text_filter(str.strip), return_types.text_of_all, group="texts"),
    "upper": Builtin(text_filter(str.upper), return_types.text_of_all, group="texts"),
    "wordcount": Builtin(text_splitting.wordcount, ANY, group="texts"),
}
"""Every filter and function, by its name."""

FILTERS: Final = {name: builtin.runs for name, builtin in BUILTINS.items() if builtin.use != "function"}
FUNCTIONS: Final = {
    name: builtin.runs for name, builtin in BUILTINS.items() if builtin.use != "filter" and not builtin.needs_run
}
CONTEXT_FUNCTIONS: Final = {name: builtin.runs for name, builtin in BUILTINS.items() if builtin.needs_run}
"""Functions that depend on the run: here are the parameters that each takes."""

TEXT_FILTERS: Final = frozenset(name for name, builtin in BUILTINS.items() if builtin.gives is return_types.text_of_all)

ELSEWHERE: Final = {  # what Python has as methods and functions, and how it is written here
    **dict.fromkeys(("strip", "lstrip", "rstrip"), "x | trim"),
    **dict.fromkeys(("append", "extend", "add"), "x + [y]"),
    **dict.fromkeys(("find", "index", "contains"), "y in x"),
    "startswith": "matches(x, '^y')",
    "endswith": "matches(x, 'y$')",
    "get": "x.name | default('…')",
    "keys": "x | list",
    "values": "x | items",
    "splitlines": "x | lines",
    "len": "x | length",
    "str": "x | string",
}
