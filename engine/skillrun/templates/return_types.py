"""Rules that infer the result type of a filter or function from the types of its arguments.

A built-in has such a rule, or just a type if its result type is always the same.
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
    """Infer the result of filters that keep all items, such as `sort`. An absent list gives an empty list."""
    return _as_list_type(types[0])._replace(unless=None, values=None, filled=_is_filled(types[0]))


def fewer_items(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of filters that leave out items, such as `select`."""
    return _as_list_type(types[0])._replace(unless=None, values=None, filled=False)


def _as_list_type(type_: Type) -> Type:
    """Return the type as a list; a mapping becomes the list of its keys."""
    return list_of(TEXT) if type_.kind in ("map", "record") else type_


def _is_filled(type_: Type) -> bool:
    return type_.filled and type_.unless is None


def map_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `map`: a list with a field of each item, or with a filter's result for each item."""
    attribute, name = keyword_value(node, "attribute"), constant_value(_argument(node, 0))
    item = types[0].item or ANY
    each = ANY
    if isinstance(name, str):
        each = _filter_result(context, node, name, [item, *types[2:]])
    elif isinstance(attribute, str):
        each = context.infer_attribute(node, types[0], attribute)
    return list_of(each, filled=_is_filled(types[0]))


def _filter_result(context: InferenceContext, node: nodes.Call | nodes.Filter, name: str, types: list[Type]) -> Type:
    """Return the type of a filter's result for one item. The result for a present item is never absent."""
    if types[0].kind == "list" and name in types[0].fields:
        return types[0].fields[name]  # `first` and `last` of a pair
    each = nodes.Filter(node.node, name, node.args[1:], node.kwargs, None, None, lineno=node.lineno)
    result = context.infer_filter_result(each, types)
    return result.present() if types[0].unless is None else result


def top_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `top`: a list for a list, a mapping for a mapping."""
    type_ = types[0]
    if type_.kind not in ("record", "map"):
        return fewer_items(context, node, types)
    fields = {name: field.maybe() for name, field in type_.fields.items()}
    return type_._replace(unless=None, values=None, fields=fields)


def select_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `selectattr` and `rejectattr`: fewer items. `selectattr` keeps only items with the field."""
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
    source = node.node
    assert source is not None
    return (
        item
        if _is_filled(types[0]) or context.is_known_non_empty(source)
        else item.maybe(context.non_empty_facts(source))
    )


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
    return inner.present()._replace(values=None, filled=False) if inner.kind == "list" else list_of(ANY)


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
    return _match_input_shape(
        types[0], record({**inner.fields, **more}, inner.label) if inner.kind == "record" else ANY
    )


def zip_result(context: InferenceContext, node: nodes.Call | nodes.Filter, _: list[Type]) -> Type:
    """Infer the result of `zip`: a list of records that contain one item of each list."""
    columns = {str(argument.key): _as_list_type(context.infer(argument.value)).item or ANY for argument in node.kwargs}
    return list_of(record(columns, "zip"))


def _match_input_shape(input_type: Type, result: Type) -> Type:
    """Return `result` if the input is a record, or the type of a list of `result` if the input is a list."""
    return result if input_type.kind == "record" else list_of(result, filled=_is_filled(input_type))


def text_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of filters that turn a text into a text. An absent text stays absent."""
    return TEXT._replace(unless=types[0].unless) if types else TEXT


def default_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `default`: the present value, or the default."""
    return merge_types([types[0].present(), *types[1:2]])


def unique_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `unique`: a list of the same type. Report an invalid `keep`."""
    keep = keyword_value(node, "keep")
    if keep not in (None, "first", "last"):
        context.report(node, "arguments", f"`keep` is `{keep}`", allowed_hint(("first", "last")))
    return same_items(context, node, types)


def pairs_result(context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """Infer the result of `items` and `dictsort`: a list of pairs of key and value. Report an invalid `by`."""
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
    """Infer the result of `mean`: a number for each numeric field of the records."""
    item = types[0].item if types[0].kind == "list" else types[0]
    if item is None or item.kind != "record":
        return map_of(NUMBER)
    numeric = {name: type_ for name, type_ in item.fields.items() if type_.kind in ("number", "any")}
    return record(numeric, "the means")


def matches_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `matches`: lists of hits, keyed by the name of the pattern. A name may be absent."""
    patterns = types[1] if len(types) > 1 else ANY
    if patterns.kind != "record":
        return map_of(list_of(TEXT))
    return record({name: list_of(TEXT, filled=True).maybe() for name in patterns.fields}, patterns.label or "the hits")


def model_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `model`: a record for a name, a list of records for a list of names."""
    kind = types[0].kind if types else "any"
    return ANY if kind == "any" else list_of(MODEL) if kind == "list" else MODEL


def latest_result(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
    """Infer the result of `latest`: a list of replies. If all arguments have known replies, their types are merged."""
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
    """Return a rule that infers a list of records. The `kind` of a record is the name of one of the patterns."""

    def rule(_: InferenceContext, __: nodes.Node, types: list[Type]) -> Type:
        patterns = types[1] if len(types) > 1 else ANY
        if patterns.kind != "record" or not patterns.fields:
            return list_of(type_)
        kind = TEXT._replace(values=tuple(patterns.fields), tunable=patterns.tunable)
        return list_of(type_._replace(fields={**type_.fields, "kind": kind}))

    return rule
