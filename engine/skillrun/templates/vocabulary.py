"""Tables of the filters and functions that templates can call, and the code that calls filters, functions and tests.

Templates can use only the names in these tables and in `TESTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from jinja2 import filters as jinja
from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from skillrun.scoring.overlap import latest
from skillrun.templates import filters, functions, return_types
from skillrun.templates.document_search import hits_in
from skillrun.templates.filters import ARGUMENT_TESTS
from skillrun.templates.functions import text_filter
from skillrun.templates.ids import ids_in, links_between
from skillrun.templates.limits import TemplateError, handling_cost, spend
from skillrun.templates.numbers import numbers_in
from skillrun.templates.paths import paths_in
from skillrun.templates.return_types import InferenceContext, Rule
from skillrun.templates.values import ABSENT, Absent, describe_kind, to_list
from skillrun.types.types import ANY, NUMBER, TEXT, Type, list_of

Use = Literal["both", "filter", "function"]
AcceptedInput = Literal["anything", "a list", "a list or text", "a text"]
REJECTED_KINDS: Final[dict[AcceptedInput, frozenset[str]]] = {
    "anything": frozenset(),
    "a list": frozenset({"text", "number", "boolean"}),  # a mapping is used as the list of its keys
    "a list or text": frozenset({"number", "boolean"}),
    "a text": frozenset(),  # anything else is searched as JSON
}
"""For each accepted input, the kinds of values that are rejected as the first argument."""


@dataclass(frozen=True)
class Builtin:
    """A built-in that can be used as a filter, as a function, or as both.

    If `needs_run` is set, `function` only declares the parameters, and the run provides the implementation.
    `number_arguments` holds the positions and names of numeric arguments. `pattern_argument` is the position of the
    argument with regular expressions. The value before the `|` is at position 0. `name_argument` is set if an argument
    names a filter or a test: it says which of the two, and gives the argument's position, counted from 0 after the `|`.

    The manual lists Jinja's filters by `group`. MANUAL has a row for each of the project's own built-ins.
    """

    function: Callable[..., Any]
    result_type: Type | Rule = ANY
    use: Use = "filter"
    accepts: AcceptedInput = "anything"
    number_arguments: tuple[int | str, ...] = ()
    pattern_argument: int | None = None
    name_argument: tuple[Literal["filter", "test"], int] | None = None
    needs_run: bool = False
    group: str = ""

    def infer_result(self, context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
        """Return the result type for arguments of these types."""
        return self.result_type if isinstance(self.result_type, Type) else self.result_type(context, node, types)


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
    """Whether a value passes a test. An absent value or argument never passes."""
    spend(sum(map(handling_cost, arguments)))
    if isinstance(value, Absent) or any(isinstance(argument, Absent) for argument in arguments):
        return False
    return ARGUMENT_TESTS[name](value, *arguments)


def map_items(value: Any, filter: str = "", /, *arguments: Any, **options: Any) -> list[Any]:  # noqa: A002
    """Return a filter's result for each item, or a field of each item (`map(attribute='x')`).

    For an item without the field, return `default` or, if no default is given, an absent value.
    """
    if filter:
        return [apply(filter, item, *arguments, **options) for item in to_list(value)]
    values = [item for item, _ in filters.pair_with_keys(value, options["attribute"], True)]
    missing = options.get("default", ABSENT)
    return [missing if isinstance(item, Absent) and missing is not ABSENT else item for item in values]


def select_items(passing: bool, value: Any, test: str = "", /, *arguments: Any) -> list[Any]:
    """Keep the items that pass a test, or those that fail it if `passing` is false.

    Without a test, an item passes if it is neither false nor empty.
    """
    return [item for item in to_list(value) if _passes_test(item, test, *arguments) is passing]


def select_by_field(passing: bool, value: Any, attribute: Any, test: str = "", /, *arguments: Any) -> list[Any]:
    """Like `select_items`, but test the field `attribute` of each item."""
    pairs = filters.pair_with_keys(value, attribute, True)
    return [item for key, item in pairs if _passes_test(key, test, *arguments) is passing]


def _passes_test(value: Any, test: str, *arguments: Any) -> bool:
    return apply_test(test, value, *arguments) if test else bool(value)


_dual_use = partial(Builtin, use="both")
_run_function = partial(Builtin, use="function", needs_run=True)
_text_filter = partial(Builtin, group="texts")
_list_filter = partial(Builtin, accepts="a list", group="lists")
_sequence_filter = partial(Builtin, accepts="a list or text", group="lists")
_field_filter = partial(Builtin, accepts="a list", group="fields of lists")
BUILTINS: Final[Mapping[str, Builtin]] = {
    "range": Builtin(functions.number_range, ANY, use="function", number_arguments=(0, 1, 2)),
    "clip": _dual_use(functions.clip, return_types.text_result, number_arguments=(1, "n")),
    "convergence": _dual_use(functions.convergence, return_types.CONVERGENCE.maybe()),
    "dedupe": _dual_use(
        functions.dedupe, return_types.fewer_items, accepts="a list", number_arguments=(2, "threshold")
    ),
    "hits": _dual_use(functions.hits, list_of(TEXT), accepts="a text", pattern_argument=1),
    "matches": _dual_use(functions.matches, return_types.matches_result, accepts="a text", pattern_argument=1),
    "mean": _dual_use(functions.mean, return_types.mean_result, accepts="a list"),
    "new_in": _dual_use(
        functions.new_in,
        list_of(return_types.NEWS),
        accepts="a list",
        number_arguments=(3, "least"),
        pattern_argument=4,
    ),
    "overlap": _dual_use(functions.overlap, NUMBER),
    "section": _dual_use(functions.section, TEXT.maybe()),
    "sentence": _dual_use(functions.sentence, TEXT),
    "slug": _dual_use(functions.slug, TEXT),
    "tokens": _dual_use(functions.tokens, NUMBER),
    "top": _dual_use(functions.top, return_types.top_result, accepts="a list", number_arguments=(1, "n")),
    "untrusted": _dual_use(functions.wrap_untrusted_text, return_types.text_result),
    "amended": _dual_use(functions.apply_text_edits, return_types.AMENDED),
    "hits_in": _dual_use(hits_in, return_types.records_by_kind(return_types.HIT), pattern_argument=1),
    "ids_in": _dual_use(ids_in, return_types.records_by_kind(return_types.ID), pattern_argument=1),
    "links_between": _dual_use(links_between, list_of(return_types.LINKED), accepts="a list"),
    "numbers_in": _dual_use(numbers_in, list_of(return_types.AMOUNT)),
    "paths_in": _dual_use(paths_in, list_of(return_types.PATH), pattern_argument=1),
    "latest": _dual_use(latest, return_types.latest_result, accepts="a list"),
    "bank": _run_function(lambda name, group, n=3: None, list_of(return_types.QUESTION), number_arguments=(2, "n")),  # noqa: ARG005
    "members": _run_function(lambda role, models: None, list_of(TEXT)),  # noqa: ARG005
    "model": _run_function(lambda name: None, return_types.model_result),  # noqa: ARG005
    "others": _run_function(lambda step: None, list_of(return_types.REPLY)),  # noqa: ARG005
    "default": Builtin(filters.default, return_types.default_result, group="any"),
    "dictsort": Builtin(filters.dictsort, return_types.pairs_result, group="mappings"),
    "flatten": Builtin(filters.flatten, return_types.flatten_result, accepts="a list"),
    "groupby": _list_filter(filters.groupby, ANY),
    "indent": _text_filter(filters.indent, return_types.text_result),
    "items": Builtin(filters.items, return_types.pairs_result, group="mappings"),
    "length": _sequence_filter(filters.length, NUMBER),
    "lines": Builtin(functions.lines, list_of(TEXT)),
    "paragraphs": Builtin(functions.paragraphs, list_of(TEXT)),
    "pick": Builtin(filters.pick, return_types.pick_result, accepts="a list"),
    "plus": Builtin(filters.plus, return_types.plus_result, accepts="a list"),
    "replace": _text_filter(filters.replace, return_types.text_result),
    "sort": _list_filter(filters.sort, return_types.same_items),
    "split": Builtin(functions.split, list_of(TEXT)),
    "zip": Builtin(filters.zip_lists, return_types.zip_result, use="function"),
    "unique": _list_filter(filters.unique, return_types.unique_result),
    "abs": Builtin(filters.absolute, NUMBER, number_arguments=(0,), group="numbers"),
    "capitalize": _text_filter(text_filter(str.capitalize), return_types.text_result),
    "count": _sequence_filter(filters.length, NUMBER),
    "first": _sequence_filter(partial(filters.end_item, 0), return_types.end_item_result),
    "float": Builtin(partial(filters.read_number, jinja.do_float, 0.0), NUMBER, group="numbers"),
    "format": _text_filter(filters.format_values, TEXT),
    "int": Builtin(partial(filters.read_number, jinja.do_int, 0), NUMBER, group="numbers"),
    "join": _list_filter(filters.join, TEXT),
    "last": _sequence_filter(partial(filters.end_item, -1), return_types.end_item_result),
    "list": _list_filter(to_list, return_types.same_items),
    "lower": _text_filter(text_filter(str.lower), return_types.text_result),
    "map": _field_filter(map_items, return_types.map_result, name_argument=("filter", 0)),
    "max": _list_filter(partial(filters.extreme_item, True), return_types.end_item_result),
    "min": _list_filter(partial(filters.extreme_item, False), return_types.end_item_result),
    "reject": _field_filter(partial(select_items, False), return_types.fewer_items, name_argument=("test", 0)),
    "rejectattr": _field_filter(partial(select_by_field, False), return_types.select_result, name_argument=("test", 1)),
    "reverse": _sequence_filter(filters.reverse, return_types.same_items),
    "round": Builtin(filters.round_number, NUMBER, number_arguments=(1, "precision"), group="numbers"),
    "select": _field_filter(partial(select_items, True), return_types.fewer_items, name_argument=("test", 0)),
    "selectattr": _field_filter(partial(select_by_field, True), return_types.select_result, name_argument=("test", 1)),
    "string": _text_filter(text_filter(str.__str__), TEXT),
    "sum": _list_filter(filters.total, return_types.sum_result),
    "title": _text_filter(filters.title, return_types.text_result),
    "tojson": Builtin(filters.to_json_text, TEXT, group="any"),
    "trim": _text_filter(text_filter(str.strip), return_types.text_result),
    "upper": _text_filter(text_filter(str.upper), return_types.text_result),
    "wordcount": _text_filter(functions.wordcount, ANY),
}
"""All filters and functions, keyed by name."""

MANUAL: Final[Mapping[str, str]] = {
    "range": "`range(n)`, `range(start, stop, step)`: a list of numbers",
    "clip": "`clip(n)`: the text cut to at most n tokens; a cut text ends in ` […]`",
    "convergence": (
        "`convergence(settings)`: how far replies agree: `score`, `ratio`, `stability`, `level` (high, medium, low), "
        "and the number of words of agreement (`agree`) and of disagreement (`disagree`); absent for fewer than two "
        "replies"
    ),
    "dedupe": (
        "`dedupe(field, threshold)`: the items that do not nearly repeat an earlier item (threshold 0.6); at the end "
        "of a very long list, an item is removed only if it has exactly the words of an earlier item"
    ),
    "hits": "`hits(patterns)`: the distinct [hits](#patterns) of the regular expressions in a text; case is ignored",
    "matches": (
        "`matches(patterns)`: the named regular expressions that match, each with its [hits](#patterns); case is "
        "ignored"
    ),
    "mean": "`mean`: the mean of each numeric field of a list of records",
    "new_in": (
        "`new_in(earlier, fields, least, idle)`: a record for each reply of a list, compared with the same member's "
        "reply in the list `earlier`: `member`, `status`, `new` and `alike`. `new` lists the items of the named "
        "fields, which are lists or texts, with at least `least` (5) words that do not occur in the earlier reply; "
        "words that match the patterns `idle` do not count. `alike` is the `overlap` of each text field with the "
        "earlier one"
    ),
    "overlap": "`overlap(other)`: the share of words that two texts have in common, 0 to 1",
    "section": "`section(heading)`: the text under a markdown heading; absent if there is no such heading",
    "sentence": "`sentence`: the text with a full stop at its end, unless it ends with punctuation",
    "slug": "`slug`: the text as a name of lower-case letters of all scripts, digits and hyphens",
    "tokens": "`tokens`: an estimate of the number of tokens",
    "top": "`top(n)`: the first n items of a list, or the first n pairs of a mapping",
    "untrusted": (
        "`untrusted`: the text between tags that the text cannot close; similar tags in the text are broken up. Use "
        "it for a short text in the middle of a section; [material](#material) is always fenced"
    ),
    "amended": (
        "`amended(changes)`: `text` with words replaced, and the changes that were `made` and `missed`. Each change "
        "has `says`, words that must occur exactly once in the text (white space may differ), and `instead`, the new "
        "words"
    ),
    "hits_in": "`hits_in(patterns)`: each [place](#checks-of-texts) where one of the named regular expressions matches",
    "ids_in": (
        "`ids_in(patterns, where, to)`: each id, with the places where it is [defined and cited](#checks-of-texts)"
    ),
    "links_between": (
        "`links_between(document, other)`: applied to the result of `ids_in`, gives the ids that `document` defines, "
        "each with its links to the document `other`"
    ),
    "numbers_in": "`numbers_in(code)`: each [number](#checks-of-texts) with its unit",
    "paths_in": "`paths_in(new)`: each [path](#checks-of-texts), and whether it is marked as new",
    "latest": "`latest(a, b, …)`: each member's last reply in the arguments, which are steps or lists of replies"
    " (`a.replies`)",
    "bank": "`bank(name, group, n)`: the first n (default 3) of a group's questions that the run has not asked yet",
    "members": "`members(role, models)`: one role on several models: `['judge@opus', 'judge@haiku']`",
    "model": (
        "`model(name)`: the model that a name resolves to for the whole run: `name`, `id` (`provider:name`), "
        "`provider`, `model` (as in `member`), `window`, `tools` (whether it supports them); for a list of names, a "
        "list. `model(inputs.models) | map(attribute='id') | unique` lists each model once. If no tier, role or input "
        "of the run has the name, it is resolved with the [lists](running.md#models) fetched so far"
    ),
    "others": (
        "`others(step)`: the replies of the other members in a step or in a list of replies. A reader who is not a "
        "member gets all replies. Use it in `material:`"
    ),
    "flatten": "`flatten`: the lists in a list, concatenated",
    "lines": (
        "`lines`: a list of the non-empty lines of a text; a text block with a `{% for %}`, followed by `lines`, "
        "creates a list of texts"
    ),
    "paragraphs": (
        "`paragraphs`: the parts of a text between empty lines, as a list; an empty line in a code fence is not a "
        "separator"
    ),
    "pick": (
        "`pick('a', new='b')`: a record, or each record of a list, with only the named fields; the field `b` is "
        "renamed to `new`"
    ),
    "plus": "`plus(name=value)`: a record, or each record of a list, with additional fields",
    "split": "`split(by)`: the non-empty parts of a text between occurrences of the text `by`, as a list",
    "zip": (
        "`zip(a=list, b=other)`: a record for each position, up to the end of the shortest list; `a` is from the first "
        "list and `b` from the other. `zip(id=range(1, 1000), text=texts)` numbers texts"
    ),
}
"""How to write each of the project's own built-ins, and what it returns."""


def manual_entry(name: str) -> tuple[str, str]:
    """Return the usage of a built-in and the description of its result. For a filter of Jinja, describe its input."""
    if name not in MANUAL:
        return f"`{name}`", f"for {BUILTINS[name].group}"
    usages, _, description = MANUAL[name].partition(": ")
    return usages, description


def manual_row(name: str) -> str:
    """Return the manual's table row for one of the project's own built-ins."""
    usages, description = manual_entry(name)
    cells = (usages, BUILTINS[name].use, description)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


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
