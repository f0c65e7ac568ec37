"""The tables of the filters and functions that templates may call, and the code that calls a filter, function or test.

Templates can only use the names in these tables and in `TESTS`.
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
from skillrun.templates.limits import TemplateError, handling_cost, spend
from skillrun.templates.project_builtins import PROJECT_BUILTINS
from skillrun.templates.tests import TESTS
from skillrun.templates.values import describe_kind, to_list
from skillrun.types.types import ANY, NUMBER, TEXT, list_of


def apply(name: str, /, *arguments: Any, **options: Any) -> Any:
    """Call a filter or function. Raises TemplateError for invalid arguments."""
    spend(sum(map(handling_cost, arguments)))
    function = FILTERS.get(name) or FUNCTIONS[name]
    try:
        return function(*arguments, **options)
    except UndefinedError as error:
        raise TemplateError(str(error), "give it a `default`") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise TemplateError(f"`{name}` cannot take {' and '.join(map(describe_kind, arguments))}: {error}") from error


def apply_test(name: str, value: Any, *arguments: Any) -> bool:
    """Whether a value passes a test; an absent value never does."""
    spend(sum(map(handling_cost, arguments)))
    if isinstance(value, Absent) or any(isinstance(argument, Absent) for argument in arguments):
        return False
    return TESTS[name](value, *arguments)


def map_items(value: Any, filter: str = "", /, *arguments: Any, **options: Any) -> list[Any]:  # noqa: A002
    """Return a filter's result for each item, or a field of each item (`map(attribute='x')`).

    If an item lacks the field, the result is `default` if it is given, or else an absent value.
    """
    if filter:
        return [apply(filter, item, *arguments, **options) for item in to_list(value)]
    values = [item for item, _ in filters.pair_with_keys(value, options["attribute"], True)]
    missing = options.get("default", ABSENT)
    return [missing if isinstance(item, Absent) and missing is not ABSENT else item for item in values]


def item_filter(keep_passing: bool) -> Callable[..., list[Any]]:
    """Return a filter that keeps the items that pass a test, or the items that fail it if `keep_passing` is false.

    If the filter is called without a test, an item passes if it is neither false nor empty.
    """

    def select_items(value: Any, test: str = "", /, *arguments: Any) -> list[Any]:
        return [item for item in to_list(value) if passes_test(item, test, *arguments) is keep_passing]

    return select_items


def attribute_filter(keep_passing: bool) -> Callable[..., list[Any]]:
    """Return a filter that keeps the items of which a field passes a test, or the others if `keep_passing` is false.

    If the filter is called without a test, a field passes if it is neither false nor empty.
    """

    def select_items(value: Any, attribute: Any, test: str = "", /, *arguments: Any) -> list[Any]:
        return [
            item
            for key, item in filters.pair_with_keys(value, attribute, True)
            if passes_test(key, test, *arguments) is keep_passing
        ]

    return select_items


def passes_test(value: Any, test: str, *arguments: Any) -> bool:
    return apply_test(test, value, *arguments) if test else bool(value)


def _same(text: str) -> str:
    return text


BUILTINS: Final[Mapping[str, Builtin]] = {
    **PROJECT_BUILTINS,
    "default": Builtin(filters.default, return_types.default_result, group="any"),
    "dictsort": Builtin(filters.dictsort, return_types.pairs_result, group="mappings"),
    "flatten": Builtin(
        filters.flatten,
        return_types.flatten_result,
        accepts="a list",
        usages=("flatten",),
        description="the concatenated lists of a list",
    ),
    "groupby": Builtin(filters.groupby, ANY, accepts="a list", group="lists"),
    "indent": Builtin(filters.indent, return_types.text_result, group="texts"),
    "items": Builtin(filters.items, return_types.pairs_result, group="mappings"),
    "length": Builtin(filters.length, NUMBER, accepts="a list or text", group="lists"),
    "lines": Builtin(
        text_splitting.lines,
        list_of(TEXT),
        usages=("lines",),
        description=(
            "the non-empty lines of a text, as a list: a `{% for %}` in a text block followed by `lines` creates a "
            "list of texts"
        ),
    ),
    "paragraphs": Builtin(
        text_splitting.paragraphs,
        list_of(TEXT),
        usages=("paragraphs",),
        description="the parts of a text between empty lines, as a list; an empty line in a code fence does not split",
    ),
    "pick": Builtin(
        filters.pick,
        return_types.pick_result,
        accepts="a list",
        usages=("pick('a', new='b')",),
        description="a record, or each record of a list, with only these fields; `new` is the field `b` renamed",
    ),
    "plus": Builtin(
        filters.plus,
        return_types.plus_result,
        accepts="a list",
        usages=("plus(name=value)",),
        description="a record, or each record of a list, with these additional fields",
    ),
    "replace": Builtin(filters.replace, return_types.text_result, group="texts"),
    "sort": Builtin(filters.sort, return_types.same_items, accepts="a list", group="lists"),
    "split": Builtin(
        text_splitting.split,
        list_of(TEXT),
        usages=("split(by)",),
        description="the non-empty parts of a text between occurrences of the text `by`, as a list",
    ),
    "zip": Builtin(
        filters.zip_lists,
        return_types.zip_result,
        use="function",
        usages=("zip(a=list, b=other)",),
        description=(
            "a record for each position of the lists, with `a` from the first and `b` from the other, up to the end "
            "of the shortest; `zip(id=range(1, 1000), text=texts)` numbers texts"
        ),
    ),
    "unique": Builtin(filters.unique, return_types.unique_result, accepts="a list", group="lists"),
    "abs": Builtin(filters.absolute, NUMBER, number_arguments=(0,), group="numbers"),
    "capitalize": Builtin(text_filter(str.capitalize), return_types.text_result, group="texts"),
    "count": Builtin(filters.length, NUMBER, accepts="a list or text", group="lists"),
    "first": Builtin(filters.first, return_types.end_item_result, accepts="a list or text", group="lists"),
    "float": Builtin(filters.number_reader(jinja.do_float, 0.0), NUMBER, group="numbers"),
    "format": Builtin(filters.format_values, TEXT, group="texts"),
    "int": Builtin(filters.number_reader(jinja.do_int, 0), NUMBER, group="numbers"),
    "join": Builtin(filters.join, TEXT, accepts="a list", group="lists"),
    "last": Builtin(filters.last, return_types.end_item_result, accepts="a list or text", group="lists"),
    "list": Builtin(to_list, return_types.same_items, accepts="a list", group="lists"),
    "lower": Builtin(text_filter(str.lower), return_types.text_result, group="texts"),
    "map": Builtin(
        map_items, return_types.map_result, accepts="a list", name_argument=("filter", 0), group="fields of lists"
    ),
    "max": Builtin(filters.extreme_item(True), return_types.end_item_result, accepts="a list", group="lists"),
    "min": Builtin(filters.extreme_item(False), return_types.end_item_result, accepts="a list", group="lists"),
    "reject": Builtin(
        item_filter(False),
        return_types.fewer_items,
        accepts="a list",
        name_argument=("test", 0),
        group="fields of lists",
    ),
    "rejectattr": Builtin(
        attribute_filter(False),
        return_types.select_result,
        accepts="a list",
        name_argument=("test", 1),
        group="fields of lists",
    ),
    "reverse": Builtin(filters.reverse, return_types.same_items, accepts="a list or text", group="lists"),
    "round": Builtin(filters.round_number, NUMBER, number_arguments=(1, "precision"), group="numbers"),
    "select": Builtin(
        item_filter(True),
        return_types.fewer_items,
        accepts="a list",
        name_argument=("test", 0),
        group="fields of lists",
    ),
    "selectattr": Builtin(
        attribute_filter(True),
        return_types.select_result,
        accepts="a list",
        name_argument=("test", 1),
        group="fields of lists",
    ),
    "string": Builtin(text_filter(_same), TEXT, group="texts"),
    "sum": Builtin(filters.total, return_types.sum_result, accepts="a list", group="lists"),
    "title": Builtin(filters.title, return_types.text_result, group="texts"),
    "tojson": Builtin(filters.to_json_text, TEXT, group="any"),
    "trim": Builtin(text_filter(str.strip), return_types.text_result, group="texts"),
    "upper": Builtin(text_filter(str.upper), return_types.text_result, group="texts"),
    "wordcount": Builtin(text_splitting.wordcount, ANY, group="texts"),
}
"""All filters and functions, keyed by name."""

FILTERS: Final = {name: builtin.function for name, builtin in BUILTINS.items() if builtin.use != "function"}
FUNCTIONS: Final = {
    name: builtin.function for name, builtin in BUILTINS.items() if builtin.use != "filter" and not builtin.needs_run
}
CONTEXT_FUNCTIONS: Final = {name: builtin.function for name, builtin in BUILTINS.items() if builtin.needs_run}
"""The functions that depend on the run. These entries only declare parameters."""

TEXT_FILTERS: Final = frozenset(
    name for name, builtin in BUILTINS.items() if builtin.result_type is return_types.text_result
)

PYTHON_EQUIVALENTS: Final = {  # what to write in a template instead of a Python method or function
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
