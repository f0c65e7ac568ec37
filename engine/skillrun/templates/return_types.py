"""Types of the records that functions and steps return, and rules that infer the result types of built-ins.

A built-in whose result type is always the same has a type instead of a rule. A rule takes the types of the arguments.
The first argument of a filter is the value before the `|`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final, Protocol

from jinja2 import nodes

from skillrun.syntax.diagnostics import Severity, allowed_hint
from skillrun.templates.filters import SIGNS
from skillrun.types.types import ANY, BOOLEAN, NUMBER, TEXT, Facts, Type, list_of, map_of, merge_types, record

STATUSES: Final = ("success", "error", "timeout", "truncated", "refused", "parse_error", "empty")
FAILURES: Final = (
    *STATUSES[1:], "auth", "not_found", "rate_limit", "overloaded", "connection", "invalid_request", "too_long",
    "refusal", "other", "failed",
)  # fmt: skip
"""The kinds of failures: of replies, then of calls, then all others."""
_STATUS: Final = TEXT._replace(values=STATUSES)
_KIND: Final = TEXT._replace(values=FAILURES)
READ_LINES: Final = record({"path": TEXT, "from": NUMBER, "lines": NUMBER}, "the lines read")
_DROPPED: Final = {"path": TEXT, "reason": TEXT, "text": TEXT}
DROPPED: Final = record({"member": TEXT, **_DROPPED}, "the dropped item")
REPLY: Final = record(
    {
        "member": TEXT, "status": _STATUS, "text": TEXT.maybe(), "data": ANY.maybe(),
        "reason": TEXT.maybe(), "kind": _KIND.maybe(), "reads": list_of(READ_LINES),
        "dropped": list_of(record(_DROPPED, "the dropped item")), "record": ANY.maybe(), "points": ANY.maybe(),
    },
    "the reply",
)  # fmt: skip
QUESTION: Final = record(
    {
        "id": TEXT, "text": TEXT, "choices": list_of(ANY).maybe(), "multiple": BOOLEAN.maybe(), "priority": ANY.maybe(),
        "section": TEXT.maybe(), "notes": ANY.maybe(), "default": ANY.maybe(), "group": TEXT.maybe(),
        "recommended": TEXT.maybe(), "depends": TEXT.maybe(),
    },
    "the question",
)  # fmt: skip
ANSWER: Final[Mapping[str, Type]] = {
    "id": TEXT, "asked_at": TEXT, "confidence": TEXT.maybe(), "comment": TEXT.maybe(), "round": NUMBER,
    "answered_by": TEXT._replace(values=("person", "prepared", "default")).maybe(),
}  # fmt: skip
_LEVEL: Final = TEXT._replace(values=("high", "medium", "low"))
FAILURE: Final = record({"kind": _KIND, "reason": TEXT, "text": TEXT.maybe(), "replies": list_of(REPLY)}, "the failure")
"""The failure of a step, which the step's `otherwise` can read."""
CONVERGENCE: Final = record(
    {"score": NUMBER, "ratio": ANY, "stability": NUMBER, "level": _LEVEL, "agree": NUMBER, "disagree": NUMBER},
    "the convergence",
)
AMENDED: Final = record({"text": TEXT, "made": list_of(ANY), "missed": list_of(ANY)}, "the amended text")
MODEL: Final = record(
    {"name": TEXT, "id": TEXT, "provider": TEXT, "model": TEXT, "window": NUMBER, "tools": BOOLEAN}, "the model"
)
NEWS: Final = record({"member": TEXT, "status": _STATUS, "new": list_of(ANY), "alike": map_of(NUMBER)}, "the new items")
_PLACE: Final = {"document": TEXT, "line": NUMBER, "text": TEXT}
_LINES: Final = list_of(record({"first": NUMBER, "last": NUMBER}, "the lines"))
_CITED: Final = list_of(record(_PLACE, "the place"))
_WITHIN: Final = {**_PLACE, "within": list_of(TEXT)}
_PLACES: Final = list_of(record(_WITHIN, "the place"))
HIT: Final = record({"kind": TEXT, "hit": TEXT, **_PLACE}, "the hit")
ID: Final = record({"id": TEXT, "kind": TEXT, "defined": _PLACES, "cited": _PLACES}, "the id")
LINKED: Final = record(
    {"id": TEXT, "kind": TEXT, **_WITHIN, "links": list_of(record({"id": TEXT.maybe(), **_WITHIN}, "the link"))},
    "the id",
)
PATH: Final = record({"path": TEXT, "new": BOOLEAN, "lines": _LINES, "cited": _CITED}, "the path")
AMOUNT: Final = record({"number": TEXT, "value": NUMBER, "unit": TEXT, "cited": _CITED}, "the number")


class InferenceContext(Protocol):
    """The methods of the checker's type inference. Rules call them."""

    def infer(self, node: nodes.Node) -> Type: ...

    def infer_filter_result(self, node: nodes.Filter, types: list[Type]) -> Type: ...

    def infer_attribute(self, node: nodes.Node, items: Type, path: str) -> Type: ...

    def report_comparison(self, node: nodes.Node, left: Type, sign: str, right: Type, name: str) -> None: ...

    def non_empty_facts(self, node: nodes.Node) -> Facts: ...

    def is_known_non_empty(self, node: nodes.Node) -> bool: ...

    def report(
        self, node: nodes.Node, code: str, message: str, hint: str = "", severity: Severity = "error"
    ) -> None: ...


Rule = Callable[[InferenceContext, nodes.Call | nodes.Filter, list[Type]], Type]


def constant_value(node: nodes.Node | None) -> Any:
    """Return the value of a literal; None for any other node."""
    return node.value if isinstance(node, nodes.Const) else None


def keyword_value(node: nodes.Call | nodes.Filter, name: str) -> Any:
    """Return the `constant_value` of the keyword argument with this name."""
    return next((constant_value(argument.value) for argument in node.kwargs if argument.key == name), None)


def _argument(node: nodes.Call | nodes.Filter, number: int) -> nodes.Node | None:
    return node.args[number] if len(node.args) > number else None


def same_items(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of filters that keep all items, such as `sort`. An absent list gives an empty list."""
    return _as_list_type(types[0])._replace(unless=None, values=None, filled=_is_filled(types[0]))


def fewer_items(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of filters that leave out items, such as `select`."""
    return _as_list_type(types[0])._replace(unless=None, values=None, filled=False)


def _as_list_type(type_: Type) -> Type:
    """Return the type of the list of keys for a mapping or record, or any other type unchanged."""
    return list_of(TEXT) if type_.kind in ("map", "record") else type_


def _map_values(type_: Type, change: Callable[[Any], Any]) -> tuple[Any, ...] | None:
    """Return what `change` makes of each possible value. None if the values are not known."""
    return None if type_.values is None else tuple(change(value) for value in type_.values)


def _is_filled(type_: Type) -> bool:
    return type_.filled and type_.unless is None


def map_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `map`: a list with a field of each item, or with a filter's result for each item."""
    attribute, name = keyword_value(node, "attribute"), constant_value(_argument(node, 0))
    item = types[0].item or ANY
    result, values = ANY, None
    if isinstance(name, str) and item.kind == "list" and name in item.fields:
        result = item.fields[name]  # `first` and `last` of a pair
        place = 0 if name == "first" else -1
        values = _map_values(types[0], lambda pairs: [pair[place] for pair in pairs])
    elif isinstance(name, str):
        call = nodes.Filter(node.node, name, node.args[1:], node.kwargs, None, None, lineno=node.lineno)
        result = context.infer_filter_result(call, [item, *types[2:]])
        if item.unless is None:
            result = result.present()  # the result for a present item is never absent
    elif isinstance(attribute, str):
        result = context.infer_attribute(node, types[0], attribute)
    return list_of(result, filled=_is_filled(types[0]))._replace(values=values, tunable=types[0].tunable)


def top_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `top`: a list for a list, a mapping for a mapping."""
    type_ = types[0]
    if type_.kind not in ("record", "map"):
        return fewer_items(context, node, types)
    fields = {name: field.maybe() for name, field in type_.fields.items()}
    return type_._replace(unless=None, values=None, fields=fields)


def select_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `selectattr` and `rejectattr`: fewer items. After `selectattr`, all items have the field."""
    attribute, test, value = (_argument(node, number) for number in range(3))
    path, tested = constant_value(attribute), ANY
    if attribute is not None and isinstance(path, str):
        tested = context.infer_attribute(attribute, types[0], path)
        if value is not None and (sign := SIGNS.get(str(constant_value(test)))):
            context.report_comparison(value, tested, sign, types[3], path)
    kept = fewer_items(context, node, types)
    selects = isinstance(node, nodes.Filter) and node.name == "selectattr"  # no test holds for an absent value
    if selects and kept.item is not None and path in kept.item.fields:
        kept = kept._replace(item=kept.item._replace(fields={**kept.item.fields, path: tested.present()}))
    return kept


def end_item_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `first`, `last`, `min` and `max`: an item, which is absent if the list is empty."""
    item = _as_list_type(types[0]).item or ANY
    assert node.node is not None
    if _is_filled(types[0]) or context.is_known_non_empty(node.node):
        return item
    return item.maybe(context.non_empty_facts(node.node))


def sum_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `sum`: a number, or a list if `start` is given and the items are lists."""
    item, attribute = types[0].item, keyword_value(node, "attribute")
    if item is None or not any(argument.key == "start" for argument in node.kwargs):
        return NUMBER
    if attribute is not None:
        item = context.infer_attribute(node, types[0], attribute) if isinstance(attribute, str) else ANY
    return NUMBER if item.kind == "number" else item.present()


def flatten_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `flatten`: a list with the items of all inner lists."""
    inner = types[0].item or ANY
    if inner.kind != "list":
        return list_of(ANY)
    values = _map_values(types[0], lambda lists: list(chain.from_iterable(lists)))
    return inner.present()._replace(values=values, filled=False)


def pick_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `pick`: a record with only the named fields, or a list of such records."""
    records = types[0] if types[0].kind == "list" else list_of(types[0])
    fields = {}
    for name, source in (*((name, name) for name in node.args), *((pair.key, pair.value) for pair in node.kwargs)):
        path, output_name = constant_value(source), name if isinstance(name, str) else constant_value(name)
        kept = context.infer_attribute(node, records, path) if isinstance(path, str) else ANY
        fields[str(output_name)] = kept.maybe() if kept.kind == "any" and kept.unless is None else kept
    return _match_input_shape(types[0], record(fields, "the record"))


def plus_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `plus`: a record with additional fields, or a list of such records."""
    inner = (types[0].item or ANY) if types[0].kind == "list" else types[0]
    more = {str(argument.key): context.infer(argument.value) for argument in node.kwargs}
    result = record({**inner.fields, **more}, inner.label) if inner.kind == "record" else ANY
    return _match_input_shape(types[0], result)


def zip_result(context: InferenceContext, node: nodes.Call | nodes.Filter, _: list[Type]) -> Type:
    """Infer the result of `zip`: a list of records that contain one item of each list."""
    columns = {str(argument.key): _as_list_type(context.infer(argument.value)).item or ANY for argument in node.kwargs}
    return list_of(record(columns, "zip"))


def _match_input_shape(input_type: Type, result: Type) -> Type:
    """Return `result` if the input is a record, or else the type of a list of `result`."""
    return result if input_type.kind == "record" else list_of(result, filled=_is_filled(input_type))


def text_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of filters that turn a text into a text. An absent text stays absent."""
    return TEXT._replace(unless=types[0].unless) if types else TEXT


def default_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `default`: the value if it is present, or else the default."""
    return merge_types([types[0].present(), *types[1:2]])


def unique_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `unique`: a list of the same type. Report an invalid `keep`."""
    _check_option(context, node, "keep", "first", "last")
    return same_items(context, node, types)


def pairs_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `items` and `dictsort`: a list of pairs of key and value. Report an invalid `by`."""
    _check_option(context, node, "by", "key", "value")
    fields = types[0].fields
    if types[0].kind != "record":
        return list_of(ANY)
    key, value = TEXT._replace(values=tuple(fields)), merge_types(fields.values())
    pair = Type("list", {"first": key, "last": value}, item=merge_types([key, value]))
    values = _map_values(types[0], lambda mapping: list(mapping.items()))
    return list_of(pair, filled=bool(fields))._replace(values=values, tunable=types[0].tunable)


def _check_option(context: InferenceContext, node: nodes.Call | nodes.Filter, name: str, *allowed: str) -> None:
    value = keyword_value(node, name)
    if value is not None and value not in allowed:
        context.report(node, "arguments", f"`{name}` is `{value}`", allowed_hint(allowed))


def mean_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `mean`: a number for each numeric field of the records."""
    item = types[0].item if types[0].kind == "list" else types[0]
    if item is None or item.kind != "record":
        return map_of(NUMBER)
    numeric = {name: type_ for name, type_ in item.fields.items() if type_.kind in ("number", "any")}
    return record(numeric, "the means")


def matches_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `matches`: lists of hits, keyed by pattern name. A pattern without hits is absent."""
    patterns = types[1] if len(types) > 1 else ANY
    if patterns.kind != "record":
        return map_of(list_of(TEXT))
    return record({name: list_of(TEXT, filled=True).maybe() for name in patterns.fields}, patterns.label or "the hits")


def model_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `model`: a record for a name, a list of records for a list of names."""
    kind = types[0].kind if types else "any"
    return ANY if kind == "any" else list_of(MODEL) if kind == "list" else MODEL


def latest_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `latest`: a list of replies. If the reply types of all arguments are known, merge them."""
    lists = [type_.fields.get("replies", ANY) if type_.kind == "record" else type_ for type_ in types]
    replies = [type_.item for type_ in lists if type_.item is not None and type_.item.kind == "record"]
    is_known = bool(lists) and len(replies) == len(lists) and all(type_.kind == "list" for type_ in lists)
    return list_of(merge_types(replies).present() if is_known else REPLY)


def records_by_kind(type_: Type) -> Rule:
    """Return a rule that infers a list of records. The `kind` of each record is one of the pattern names."""

    def rule(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
        patterns = types[1] if len(types) > 1 else ANY
        if patterns.kind != "record" or not patterns.fields:
            return list_of(type_)
        kind = TEXT._replace(values=tuple(patterns.fields), tunable=patterns.tunable)
        return list_of(type_._replace(fields={**type_.fields, "kind": kind}))

    return rule
