"""Checks that the arguments of filters and functions have the kinds that the vocabulary declares.

An argument of the wrong kind would fail in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import nodes

from skillrun.checker.comparisons import KINDS
from skillrun.templates.builtin import REJECTED_KINDS, Builtin, InferenceContext
from skillrun.types.types import ANY, TEXT, Type, identifier


def check_arguments(
    context: InferenceContext, node: nodes.Call | nodes.Filter, name: str, builtin: Builtin, types: list[Type]
) -> None:
    """Report invalid arguments of a filter or function.

    `types` lists the argument types in order; for a filter, the first is the type of the filtered value.
    """
    is_filter = isinstance(node, nodes.Filter)
    value = [node.node] if is_filter else []
    for place, (argument, given) in enumerate(zip([*value, *node.args], types, strict=True)):
        if argument is None:
            continue
        if place == 0 and is_filter and given.kind in REJECTED_KINDS[builtin.accepts]:
            context.report(node, "arguments", f"`{name}` takes a list, not {KINDS[given.kind]}")
        elif place in builtin.number_arguments:
            _check_number(context, argument, name, given)
    for option in node.kwargs:
        if option.key in builtin.number_arguments:
            _check_number(context, option.value, name, context.infer(option.value))
    if builtin.accepts == "a text" and types and types[0].kind in ("record", "list", "map"):
        message = f"`{name}` searches text; this value is {KINDS[types[0].kind]}, which is searched as JSON"
        hint = "add `| tojson` if the JSON is meant, or pass text instead"
        context.report(node, "arguments", message, hint, "warning")


def _check_number(context: InferenceContext, node: nodes.Node, name: str, given: Type) -> None:
    if given.kind in ("text", "list", "record", "map"):
        message = f"`{name}` takes a number here, not {KINDS[given.kind]}"
        context.report(node, "arguments", message, _without_quotes(given))


def _without_quotes(given: Type) -> str:
    """Return the hint to remove the quotes around a number; empty for any other value."""
    literal = given.values[0] if given.kind == "text" and given.values and not given.tunable else ""
    return f"write `{literal}` without quotes" if str(literal).isdigit() else ""


def find_hyphenated_name(node: nodes.Sub, names: Mapping[str, Type]) -> str:
    """Return the name meant by a subtraction, such as `a_b` for `a-b`; empty if `names` has no such name."""
    right: Any = node.right
    while isinstance(right, nodes.Getattr | nodes.Getitem | nodes.Filter):
        right = right.node
    match node.left, right:
        case nodes.Name(name=left), nodes.Name(name=base) if names.get(left, TEXT).kind not in ("number", "any"):
            return f"{left}_{base}" if f"{left}_{base}" in names else ""
        case nodes.Getattr(node=owner, attr=left), nodes.Name(name=base) if _is_path(owner):
            fields = _type_at(owner, names).fields
            return f"{left}_{base}" if left not in fields and f"{left}_{base}" in fields else ""
    return ""


def _is_path(node: nodes.Node) -> bool:
    """Whether the node is a name, or a chain of fields that starts with a name."""
    while isinstance(node, nodes.Getattr):
        node = node.node
    return isinstance(node, nodes.Name)


def _type_at(path: nodes.Node, names: Mapping[str, Type]) -> Type:
    """Return the type at a path; `any` if it is unknown. Reports no problems."""
    if isinstance(path, nodes.Name):
        return names.get(path.name, ANY)
    assert isinstance(path, nodes.Getattr)
    owner = _type_at(path.node, names)
    return owner.fields.get(identifier(path.attr), ANY) if owner.kind == "record" else owner.item or ANY
