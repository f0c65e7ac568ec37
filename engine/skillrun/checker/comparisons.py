"""Finds comparisons that are never true, and arguments whose kind is wrong in every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jinja2 import nodes

from skillrun.syntax.diagnostics import Severity, Suggestion, near_miss, suggest
from skillrun.templates.return_types import InferenceContext
from skillrun.templates.vocabulary import REJECTED_KINDS, Builtin
from skillrun.types.types import ANY, TEXT, Type, identifier

KINDS: Final[Mapping[str, str]] = {
    "text": "text", "number": "a number", "boolean": "a boolean", "list": "a list", "record": "a record",
    "map": "a mapping",
}  # fmt: skip
_ORDER: Final = {"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}
_SAME: Final = {"boolean": "number", "map": "record"}  # kinds that compare like another kind: `true` equals 1


class ComparisonProblem(NamedTuple):
    """Why a comparison is invalid: code, message, hint and severity."""

    code: str
    message: str
    hint: str = ""
    severity: Severity = "error"


def check_comparison(left: Type, sign: str, right: Type, name: str) -> ComparisonProblem | None:
    """Return the problem with a comparison of two types, or None.

    `name` is the left side as the author wrote it. A literal is passed as a type with a single known value.
    """
    if sign in ("in", "notin"):
        return _check_membership(left, right, name)
    left_sort, right_sort = _comparable_kind(left), _comparable_kind(right)
    if not left_sort or not right_sort:
        return None
    if sign in _ORDER:
        if left_sort != right_sort or left_sort == "record":
            message = f"`{name}` is {KINDS[left.kind]}; `{_ORDER[sign]}` cannot compare it with {KINDS[right.kind]}"
            return ComparisonProblem("type", message, _conversion_hint(left, right))
        return _check_order(left, sign, right, name)
    if left_sort != right_sort:
        message = f"`{name}` is {KINDS[left.kind]}, never {KINDS[right.kind]}"
        return ComparisonProblem("never", message, _conversion_hint(left, right))
    return _check_value(left, right, name)


def _comparable_kind(type_: Type) -> str:
    return _SAME.get(type_.kind, type_.kind) if type_.kind in KINDS else ""


def _check_membership(left: Type, right: Type, name: str) -> ComparisonProblem | None:
    if right.kind in ("number", "boolean"):
        hint = "`in` searches a list, text or the keys of a mapping"
        return ComparisonProblem("type", f"`in` cannot search {KINDS[right.kind]}", hint)
    if right.kind == "text" and _comparable_kind(left) not in ("", "text"):
        return ComparisonProblem("type", f"`{name}` is {KINDS[left.kind]}; `in` cannot find it in text")
    item = right.item if right.kind == "list" else None
    sorts = _comparable_kind(left), _comparable_kind(item) if item is not None else ""
    if item is not None and all(sorts) and sorts[0] != sorts[1]:
        kinds = f"`{name}` is {KINDS[left.kind]}, and each item of the list is {KINDS[item.kind]}"
        return ComparisonProblem("never", f"`in` is always false: {kinds}", _conversion_hint(left, item))
    return None


def _conversion_hint(left: Type, right: Type) -> str:
    for side, other in ((left, right), (right, left)):
        literal = _literal(other)
        if side.kind == "number" and isinstance(literal, str):
            return f"write `{literal}` without quotes" if _is_number(literal) else "compare it with a number"
        if side.kind == "number" and other.kind == "text" and other.tunable and other.values:
            return f"change `{other.values[0]}` in the config to a number"
        if side.kind == "number" and other.kind == "text":
            return "`| int` converts text to a number"
        if side.kind == "number" and other.kind == "list":
            return "`| length` returns the number of items"
    fields = (left if left.kind == "record" else right).fields
    if fields and "record" in (left.kind, right.kind):
        return suggest("", fields).replace("allowed:", "compare one of its fields:")
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _literal(type_: Type) -> Any:
    return type_.values[0] if type_.values is not None and len(type_.values) == 1 and not type_.tunable else None


def _check_value(left: Type, right: Type, name: str) -> ComparisonProblem | None:
    """Return the problem if the right side is a literal that the left side can never equal."""
    value = _literal(right)
    if isinstance(value, str) and left.kind == "text" and left.values:
        known = [str(each) for each in left.values]
        if value in known:
            return None
        if not left.tunable:
            return ComparisonProblem("never", f"`{name}` is never `{value}`", suggest(value, known))
        close = near_miss(value, known)
        message = f"`{name}` is never `{value}` with this config"
        return ComparisonProblem("never", message, Suggestion.of(value, close), "warning") if close else None
    if not isinstance(value, int | float) or isinstance(value, bool) or left.kind != "number" or left.tunable:
        return None
    if left.values and value not in left.values:
        return ComparisonProblem("never", f"`{name}` is never `{value}`", suggest("", map(str, left.values)))
    if left.bounds is None or left.bounds[0] <= value <= left.bounds[1]:
        return None
    hint = f"its range is {left.bounds[0]} to {left.bounds[1]}"
    return ComparisonProblem("never", f"`{name}` is never `{value}`", hint)


def _check_order(left: Type, sign: str, right: Type, name: str) -> ComparisonProblem | None:
    """Return the problem if an order comparison is false for every value in the left side's range."""
    value = _literal(right)
    if left.bounds is None or not isinstance(value, int | float):
        return None
    least, most = left.bounds
    holds = {"lt": least < value, "lteq": least <= value, "gt": most > value, "gteq": most >= value}[sign]
    message = f"`{name}` is never `{_ORDER[sign]} {value}`"
    return ComparisonProblem("never", message, f"its range is {least} to {most}") if not holds else None


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
        hint = "add `| tojson` to search the JSON, or pass text"
        context.report(node, "arguments", message, hint, "warning")


def _check_number(context: InferenceContext, node: nodes.Node, name: str, given: Type) -> None:
    if given.kind in ("text", "list", "record", "map"):
        message = f"this argument of `{name}` must be a number, not {KINDS[given.kind]}"
        literal = given.values[0] if given.kind == "text" and given.values and not given.tunable else ""
        context.report(
            node, "arguments", message, f"write `{literal}` without quotes" if str(literal).isdigit() else ""
        )


def find_hyphenated_name(node: nodes.Sub, names: Mapping[str, Type]) -> str:
    """Return the name that a subtraction probably means, such as `a_b` for `a-b`. Empty if `names` lacks this name."""
    right: Any = node.right
    while isinstance(right, nodes.Getattr | nodes.Getitem | nodes.Filter):
        right = right.node
    match node.left, right:
        case nodes.Name(name=left), nodes.Name(name=base) if names.get(left, TEXT).kind not in ("number", "any"):
            return f"{left}_{base}" if f"{left}_{base}" in names else ""
        case nodes.Getattr(node=owner, attr=left), nodes.Name(name=base):
            fields = _type_at(owner, names).fields
            return f"{left}_{base}" if left not in fields and f"{left}_{base}" in fields else ""
    return ""


def _type_at(path: nodes.Node, names: Mapping[str, Type]) -> Type:
    """Return the type of a name or of a path such as `a.b`; `any` if it is unknown. Reports no problems."""
    if isinstance(path, nodes.Getattr):
        owner = _type_at(path.node, names)
        return owner.fields.get(identifier(path.attr), ANY) if owner.kind == "record" else owner.item or ANY
    return names.get(path.name, ANY) if isinstance(path, nodes.Name) else ANY
