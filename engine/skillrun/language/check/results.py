"""What functions and filters yield, by name, for the types of what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from jinja2 import nodes

from skillrun.language.check.comparisons import TESTS as SIGNS
from skillrun.language.check.facts import fact
from skillrun.language.text.diagnostics import allowed
from skillrun.language.types.types import ANY, BOOLEAN, NUMBER, TEXT, Type, list_of, map_of, merged, record

if TYPE_CHECKING:
    from skillrun.language.check.inference import Inference

STATUSES: Final = ("success", "error", "timeout", "truncated", "refused", "parse_error", "empty")
FAILURES: Final = (
    *STATUSES[1:], "auth", "not_found", "rate_limit", "overloaded", "connection", "invalid_request", "too_long",
    "other", "failed",
)  # fmt: skip
"""Kinds of failures: what became of a reply, what became of a call, and everything else."""
_STATUS: Final = TEXT._replace(values=STATUSES)
_KIND: Final = TEXT._replace(values=FAILURES)
READ_LINES: Final = record({"path": TEXT, "from": NUMBER, "lines": NUMBER}, "what was read")
_DROPPED: Final = {"path": TEXT, "reason": TEXT, "text": TEXT}
DROPPED: Final = record({"member": TEXT, **_DROPPED}, "what was dropped")
REPLY: Final = record(
    {
        "member": TEXT, "status": _STATUS, "text": TEXT.maybe(), "data": ANY.maybe(),
        "reason": TEXT.maybe(), "kind": _KIND.maybe(), "reads": list_of(READ_LINES),
        "dropped": list_of(record(_DROPPED, "what was dropped")), "record": ANY.maybe(), "points": ANY.maybe(),
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
"""What `otherwise` sees of the step that it stands in for."""
CONVERGENCE: Final = record(
    {"score": NUMBER, "ratio": ANY, "stability": NUMBER, "level": _LEVEL, "agree": NUMBER, "disagree": NUMBER},
    "the convergence",
)
AMENDED: Final = record({"text": TEXT, "made": list_of(ANY), "missed": list_of(ANY)}, "the amended text")
MODEL: Final = record(
    {"name": TEXT, "id": TEXT, "provider": TEXT, "model": TEXT, "window": NUMBER, "tools": BOOLEAN},
    "the model",
)
NEWS: Final = record(
    {"member": TEXT, "status": _STATUS, "new": list_of(ANY), "alike": map_of(NUMBER)}, "what a member says anew"
)
_PLACE: Final = {"document": TEXT, "line": NUMBER, "text": TEXT}
_LINES: Final = list_of(record({"first": NUMBER, "last": NUMBER}, "the lines"))
_CITED: Final = list_of(record(_PLACE, "the place"))
_WITHIN: Final = {**_PLACE, "within": list_of(TEXT)}
_PLACES: Final = list_of(record(_WITHIN, "the place"))
CHECKS: Final[Mapping[str, Type]] = {  # functions that give records with places
    "hits_in": record({"kind": TEXT, "hit": TEXT, **_PLACE}, "the hit"),
    "ids_in": record({"id": TEXT, "kind": TEXT, "defined": _PLACES, "cited": _PLACES}, "the id"),
    "links_between": record(
        {"id": TEXT, "kind": TEXT, **_WITHIN, "links": list_of(record({"id": TEXT.maybe(), **_WITHIN}, "the link"))},
        "the id",
    ),
    "paths_in": record({"path": TEXT, "new": BOOLEAN, "lines": _LINES, "cited": _CITED}, "the path"),
    "numbers_in": record({"number": TEXT, "value": NUMBER, "unit": TEXT, "cited": _CITED}, "the number"),
}

Rule = Callable[["Inference", nodes.Call | nodes.Filter, list[Type]], Type]
"""Makes the type of a result; a filter's own value is the first of the arguments."""


def constant(node: nodes.Node | None) -> Any:
    return node.value if isinstance(node, nodes.Const) else None


def keyword(node: nodes.Call | nodes.Filter, name: str) -> Any:
    return next((constant(one.value) for one in node.kwargs if one.key == name), None)


def _argument(node: nodes.Call | nodes.Filter, number: int) -> nodes.Node | None:
    return node.args[number] if len(node.args) > number else None


def _same(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """What keeps the items it is given, such as `sort`; an absent list becomes an empty one."""
    return _listed(types[0])._replace(unless=None, values=None, filled=_filled(types[0]))


def _fewer(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    return _listed(types[0])._replace(unless=None, values=None, filled=False)


def _listed(one: Type) -> Type:
    """The list that a mapping is when its keys are listed."""
    return list_of(TEXT) if one.kind in ("map", "record") else one


def _filled(one: Type) -> bool:
    return one.filled and one.unless is None


def _mapped(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    attribute, name = keyword(node, "attribute"), constant(_argument(node, 0))
    item = types[0].item or ANY
    found = ANY
    if isinstance(name, str):
        found = _filtered(inference, node, name, [item, *types[2:]])
    elif isinstance(attribute, str):
        found = inference.attribute(node, types[0], attribute)
    return list_of(found, filled=_filled(types[0]))


def _filtered(inference: Inference, node: nodes.Call | nodes.Filter, name: str, types: list[Type]) -> Type:
    """What a filter makes of each item; an item that is there is never said to be absent then."""
    rule = RESULTS.get(name)
    if types[0].kind == "list" and name in types[0].fields:
        return types[0].fields[name]  # the ends of a pair
    if rule is None:
        return ANY
    inner = nodes.Filter(node.node, name, node.args[1:], node.kwargs, None, None, lineno=node.lineno)
    found = rule(inference, inner, types)
    return found.present() if types[0].unless is None else found


def _beginning(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`top`: of a list its first items, of a mapping its first pairs, which is a mapping."""
    one = types[0]
    if one.kind not in ("record", "map"):
        return _fewer(inference, node, types)
    fields = {name: field.maybe() for name, field in one.fields.items()}
    return one._replace(unless=None, values=None, fields=fields)


def _selected(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    attribute, test, value = (_argument(node, number) for number in range(3))
    path, found = constant(attribute), ANY
    if attribute is not None and isinstance(path, str):
        found = inference.attribute(attribute, types[0], path)
        if value is not None and (sign := SIGNS.get(str(constant(test)))):
            inference.compared(value, found, sign, types[3], path)
    kept = _fewer(inference, node, types)
    selects = isinstance(node, nodes.Filter) and node.name == "selectattr"  # no test holds for an absent value
    if selects and kept.item is not None and path in kept.item.fields:
        kept = kept._replace(item=kept.item._replace(fields={**kept.item.fields, path: found.present()}))
    return kept


def _one(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`first`, `last`, `min`, `max`: absent for an empty list."""
    item = _listed(types[0]).item or ANY
    source = node.node
    assert source is not None
    certain = _filled(types[0]) or fact(source) in inference.known
    return item if certain else item.maybe(frozenset({fact(source)}))


def _summed(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    item, attribute = types[0].item, keyword(node, "attribute")
    if item is None or not any(one.key == "start" for one in node.kwargs):
        return NUMBER
    if attribute is not None:
        item = inference.attribute(node, types[0], attribute) if isinstance(attribute, str) else ANY
    return NUMBER if item.kind == "number" else item.present()


def _flattened(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """The items of the lists in a list."""
    inner = types[0].item or ANY
    return inner.present()._replace(values=None, filled=False) if inner.kind == "list" else list_of(ANY)


def _picked(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`pick`: records of the fields that are named, from those that they have."""
    records = types[0] if types[0].kind == "list" else list_of(types[0])
    fields = {}
    for name, source in (*((one, one) for one in node.args), *((one.key, one.value) for one in node.kwargs)):
        path, written = constant(source), name if isinstance(name, str) else constant(name)
        found = inference.attribute(node, records, path) if isinstance(path, str) else ANY
        fields[str(written)] = found.maybe() if found.kind == "any" and found.unless is None else found
    return _as_given(types[0], record(fields, "the record"))


def _extended(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """`plus`: records with some fields more."""
    inner = (types[0].item or ANY) if types[0].kind == "list" else types[0]
    more = {str(one.key): inference.infer(one.value) for one in node.kwargs}
    return _as_given(types[0], record({**inner.fields, **more}, inner.label) if inner.kind == "record" else ANY)


def _as_given(given: Type, found: Type) -> Type:
    """A list of what was found where a list was given."""
    return found if given.kind == "record" else list_of(found, filled=_filled(given))


def _text(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """What turns text into text: nothing comes of an absent one."""
    return TEXT._replace(unless=types[0].unless) if types else TEXT


def _default(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    return merged([types[0].present(), *types[1:2]])


def _pairs(inference: Inference, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
    """A list of pairs, each of a key and its value."""
    by = keyword(node, "by")
    if by not in (None, "key", "value"):
        inference.report(node, "arguments", f"`by` is `{by}`", allowed(("key", "value")))
    one = types[0]
    if one.kind != "record":
        return list_of(ANY)
    key, value = TEXT._replace(values=tuple(one.fields)), merged(one.fields.values())
    return list_of(Type("list", {"first": key, "last": value}, item=merged([key, value])), filled=bool(one.fields))


def _means(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """A number for each numeric field of the records; of no records, none."""
    item = types[0].item if types[0].kind == "list" else types[0]
    if item is None or item.kind != "record":
        return map_of(NUMBER)
    numeric = {name: one for name, one in item.fields.items() if one.kind in ("number", "any")}
    return record(numeric, "the means")


def _hits(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """The hits of each pattern that has some, by its name."""
    patterns = types[1] if len(types) > 1 else ANY
    if patterns.kind != "record":
        return map_of(list_of(TEXT))
    return record({name: list_of(TEXT, filled=True).maybe() for name in patterns.fields}, patterns.label or "the hits")


def _model(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """A record for a name, and for a list of names a list of them."""
    kind = types[0].kind if types else "any"
    return ANY if kind == "any" else list_of(MODEL) if kind == "list" else MODEL


def _last_words(_: Inference, __: nodes.Node, types: list[Type]) -> Type:
    """The replies of steps, or of lists of replies, with what is known of their data."""
    lists = [one.fields.get("replies", ANY) if one.kind == "record" else one for one in types]
    known = all(one.kind == "list" and one.item is not None and one.item.kind == "record" for one in lists)
    return list_of(merged(one.item for one in lists if one.item is not None).present() if known and lists else REPLY)


def _always(one: Type) -> Rule:
    return lambda _inference, _node, _types: one


def _kinds(name: str) -> Rule:
    """Records whose `kind` is one of the names that the patterns have."""

    def rule(_inference: Inference, _node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
        patterns = types[1] if len(types) > 1 else ANY
        one = CHECKS[name]
        if patterns.kind == "record" and patterns.fields:
            kind = TEXT._replace(values=tuple(patterns.fields), tunable=patterns.tunable)
            one = one._replace(fields={**one.fields, "kind": kind})
        return list_of(one)

    return rule


TEXT_FILTERS: Final = (
    "clip", "untrusted", "lower", "upper", "title", "capitalize", "trim", "replace", "indent",
)  # fmt: skip

RESULTS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("sort", "unique", "list", "reverse"), _same),
    **dict.fromkeys(("dedupe", "select", "reject"), _fewer),
    "top": _beginning,
    **dict.fromkeys(("selectattr", "rejectattr"), _selected),
    **dict.fromkeys(("first", "last", "min", "max"), _one),
    **dict.fromkeys(TEXT_FILTERS, _text),
    **dict.fromkeys(("length", "count", "tokens", "overlap", "round", "int", "float", "abs"), _always(NUMBER)),
    **dict.fromkeys(("join", "string", "tojson", "format", "slug"), _always(TEXT)),
    **dict.fromkeys(("dictsort", "items"), _pairs),
    "default": _default,
    "map": _mapped,
    "sum": _summed,
    "flatten": _flattened,
    "lines": _always(list_of(TEXT)),
    "pick": _picked,
    "plus": _extended,
    "section": _always(TEXT.maybe()),
    "matches": _hits,
    **{name: _always(list_of(one)) for name, one in CHECKS.items()},
    **{name: _kinds(name) for name in ("hits_in", "ids_in")},
    "amended": _always(AMENDED),
    "mean": _means,
    "convergence": _always(CONVERGENCE.maybe()),
    "latest": _last_words,
    "new_in": _always(list_of(NEWS)),
    "others": _always(list_of(REPLY)),
    "bank": _always(list_of(QUESTION)),
    "members": _always(list_of(TEXT)),
    "model": _model,
}
