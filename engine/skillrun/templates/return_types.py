"""Rules that infer the result type of filters and functions from the types of the arguments.

An entry of the vocabulary names a rule, or a type if the result type is always the same.
"""

from __future__ import annotations

from typing import Any

from jinja2 import nodes

from skillrun.syntax.diagnostics import allowed_hint
from skillrun.templates.builtin import InferenceContext, Rule
from skillrun.templates.records import MODEL, REPLY
from skillrun.templates.tests import SIGNS
from skillrun.types.types import ANY, NUMBER, TEXT, Type, list_of, map_of, merge_types, record


def constant_value(node: nodes.Node | None) -> Any:
    """Return the value of a literal; None for any other node."""
    return node.value if isinstance(node, nodes.Const) else None


def keyword_value(node: nodes.Call | nodes.Filter, name: str) -> Any:
    """Return the `constant_value` of the keyword argument with this name."""
    return next((constant_value(argument.value) for argument in node.kwargs if argument.key == name), None)


def _argument(node: nodes.Call | nodes.Filter, number: int) -> nodes.Node | None:
    return node.args[number] if len(node.args) > number else None


def same_items(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """For filters that keep all items, such as `sort`; an absent list becomes an empty one."""
    return _as_list_type(types[0])._replace(unless=None, values=None, filled=_is_filled(types[0]))


def fewer_items(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """For filters that leave out items, such as `select`."""
    return _as_list_type(types[0])._replace(unless=None, values=None, filled=False)


def _as_list_type(type_: Type) -> Type:
    """Return the type as a list; a mapping becomes the list of its keys."""
    return list_of(TEXT) if type_.kind in ("map", "record") else type_


def _is_filled(type_: Type) -> bool:
    return type_.filled and type_.unless is None


def map_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`map`: a field of each item, or the result of a filter for each item."""
    attribute, name = keyword_value(node, "attribute"), constant_value(_argument(node, 0))
    item = types[0].item or ANY
    each = ANY
    if isinstance(name, str):
        each = _filter_result(context, node, name, [item, *types[2:]])
    elif isinstance(attribute, str):
        each = context.infer_attribute(node, types[0], attribute)
    return list_of(each, filled=_is_filled(types[0]))


def _filter_result(context: InferenceContext, node: nodes.Call | nodes.Filter, name: str, types: list[Type]) -> Type:
    """Return a filter's result type for each item; for a present item it is never absent."""
    if types[0].kind == "list" and name in types[0].fields:
        return types[0].fields[name]  # `first` and `last` of a pair
    each = nodes.Filter(node.node, name, node.args[1:], node.kwargs, None, None, lineno=node.lineno)
    result = context.infer_filter_result(each, types)
    return result.present() if types[0].unless is None else result


def top_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`top`: a list for a list, a mapping for a mapping."""
    type_ = types[0]
    if type_.kind not in ("record", "map"):
        return fewer_items(context, node, types)
    fields = {name: field.maybe() for name, field in type_.fields.items()}
    return type_._replace(unless=None, values=None, fields=fields)


def select_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`selectattr`, `rejectattr`: fewer items; after `selectattr` the tested field is present."""
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
    """`first`, `last`, `min`, `max`: absent for an empty list."""
    item = _as_list_type(types[0]).item or ANY
    source = node.node
    assert source is not None
    return (
        item
        if _is_filled(types[0]) or context.is_known_non_empty(source)
        else item.maybe(context.non_empty_facts(source))
    )


def sum_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`sum`: a number, or with a list as `start` the concatenated lists."""
    item, attribute = types[0].item, keyword_value(node, "attribute")
    if item is None or not any(argument.key == "start" for argument in node.kwargs):
        return NUMBER
    if attribute is not None:
        item = context.infer_attribute(node, types[0], attribute) if isinstance(attribute, str) else ANY
    return NUMBER if item.kind == "number" else item.present()


def flatten_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """`flatten`: a list of the items of the inner lists."""
    inner = types[0].item or ANY
    return inner.present()._replace(values=None, filled=False) if inner.kind == "list" else list_of(ANY)


def pick_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`pick`: records with only the named fields."""
    records = types[0] if types[0].kind == "list" else list_of(types[0])
    fields = {}
    for name, source in (*((name, name) for name in node.args), *((pair.key, pair.value) for pair in node.kwargs)):
        path, output_name = constant_value(source), name if isinstance(name, str) else constant_value(name)
        kept = context.infer_attribute(node, records, path) if isinstance(path, str) else ANY
        fields[str(output_name)] = kept.maybe() if kept.kind == "any" and kept.unless is None else kept
    return _match_input_shape(types[0], record(fields, "the record"))


def plus_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`plus`: records with additional fields."""
    inner = (types[0].item or ANY) if types[0].kind == "list" else types[0]
    more = {str(argument.key): context.infer(argument.value) for argument in node.kwargs}
    return _match_input_shape(
        types[0], record({**inner.fields, **more}, inner.label) if inner.kind == "record" else ANY
    )


def zip_result(context: InferenceContext, node: nodes.Call | nodes.Filter, _: list[Type]) -> Type:
    """`zip`: a list of records with an item of each list."""
    columns = {str(argument.key): _as_list_type(context.infer(argument.value)).item or ANY for argument in node.kwargs}
    return list_of(record(columns, "zip"))


def _match_input_shape(input_type: Type, result: Type) -> Type:
    """Return `result` for a record, and a list of it for a list."""
    return result if input_type.kind == "record" else list_of(result, filled=_is_filled(input_type))


def text_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """For filters from text to text: an absent text stays absent."""
    return TEXT._replace(unless=types[0].unless) if types else TEXT


def default_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """`default`: the value or its default."""
    return merge_types([types[0].present(), *types[1:2]])


def unique_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`unique`: the same type of items."""
    keep = keyword_value(node, "keep")
    if keep not in (None, "first", "last"):
        context.report(node, "arguments", f"`keep` is `{keep}`", allowed_hint(("first", "last")))
    return same_items(context, node, types)


def pairs_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`items`, `dictsort`: a list of pairs of key and value."""
    by = keyword_value(node, "by")
    if by not in (None, "key", "value"):
        context.report(node, "arguments", f"`by` is `{by}`", allowed_hint(("key", "value")))
    type_ = types[0]
    if type_.kind != "record":
        return list_of(ANY)
    key, value = TEXT._replace(values=tuple(type_.fields)), merge_types(type_.fields.values())
    return list_of(
        Type("list", {"first": key, "last": value}, item=merge_types([key, value])), filled=bool(type_.fields)
    )


def mean_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """`mean`: a number for each numeric field of the records."""
    item = types[0].item if types[0].kind == "list" else types[0]
    if item is None or item.kind != "record":
        return map_of(NUMBER)
    numeric = {name: type_ for name, type_ in item.fields.items() if type_.kind in ("number", "any")}
    return record(numeric, "the means")


def matches_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """`matches`: the hits of each matching pattern, by name."""
    patterns = types[1] if len(types) > 1 else ANY
    if patterns.kind != "record":
        return map_of(list_of(TEXT))
    return record({name: list_of(TEXT, filled=True).maybe() for name in patterns.fields}, patterns.label or "the hits")


def model_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """`model`: a record for a name, a list of records for a list of names."""
    kind = types[0].kind if types else "any"
    return ANY if kind == "any" else list_of(MODEL) if kind == "list" else MODEL


def latest_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """`latest`: the replies of steps or lists of replies, with the known type of their data."""
    lists = [type_.fields.get("replies", ANY) if type_.kind == "record" else type_ for type_ in types]
    known = all(
        replies.kind == "list" and replies.item is not None and replies.item.kind == "record" for replies in lists
    )
    return list_of(
        merge_types(replies.item for replies in lists if replies.item is not None).present()
        if known and lists
        else REPLY
    )


def records_by_kind(type_: Type) -> Rule:
    """Return a rule for a list of records whose `kind` is the name of one of the patterns."""

    def rule(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
        patterns = types[1] if len(types) > 1 else ANY
        if patterns.kind != "record" or not patterns.fields:
            return list_of(type_)
        kind = TEXT._replace(values=tuple(patterns.fields), tunable=patterns.tunable)
        return list_of(type_._replace(fields={**type_.fields, "kind": kind}))

    return rule
