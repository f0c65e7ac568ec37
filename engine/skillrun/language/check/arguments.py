"""What filters and functions can take, by the kinds of what they are given: a wrong one fails in every run.

Owns the tables and the words; what they yield is in `results`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from jinja2 import nodes

from skillrun.language.check.comparisons import KINDS
from skillrun.language.types.types import Type

if TYPE_CHECKING:
    from skillrun.language.check.inference import Inference

LISTS: Final = frozenset(
    {"map", "select", "reject", "selectattr", "rejectattr", "sum", "join", "list", "unique", "sort", "groupby",
     "dedupe", "max", "min", "mean", "latest", "links_between", "new_in", "top", "flatten", "pick", "plus"}
)  # fmt: skip
"""What takes a list, or the keys of a mapping."""

COUNTED: Final = frozenset({"length", "count", "first", "last", "reverse"})  # these take a text as well
NUMBERS: Final[Mapping[str, tuple[int | str, ...]]] = {
    "clip": (1, "n"), "top": (1, "n"), "dedupe": (2, "threshold"), "round": (1, "precision"), "bank": (2, "n"),
    "abs": (0,), "new_in": (3, "least"), "range": (0, 1, 2),
}  # fmt: skip
"""The places and names of the arguments that are numbers; the value before the `|` counts as the first."""


def check_arguments(inference: Inference, node: nodes.Call | nodes.Filter, name: str, types: list[Type]) -> None:
    """Report what a filter or function is given and cannot take; `types` are those of its arguments in order."""
    value = [node.node] if isinstance(node, nodes.Filter) else []
    for place, (argument, one) in enumerate(zip([*value, *node.args], types, strict=True)):
        if argument is None:
            continue
        if place == 0 and isinstance(node, nodes.Filter) and one.kind in _refused(name):
            inference.report(node, "arguments", f"`{name}` takes a list; here is {KINDS[one.kind]}")
        elif place in NUMBERS.get(name, ()):
            _number(inference, argument, name, one)
    for option in node.kwargs:
        if option.key in NUMBERS.get(name, ()):
            _number(inference, option.value, name, inference.infer(option.value))
    if name == "matches" and types and types[0].kind in ("record", "list", "map"):
        message = f"`matches` searches a text; here is {KINDS[types[0].kind]}, which is searched as JSON"
        hint = "write `| tojson` where that is meant, or name the text in it"
        inference.report(node, "arguments", message, hint, "warning")


def _refused(name: str) -> tuple[str, ...]:
    if name in LISTS:
        return ("text", "number", "boolean")
    return ("number", "boolean") if name in COUNTED else ()


def _number(inference: Inference, node: nodes.Node, name: str, one: Type) -> None:
    if one.kind in ("text", "list", "record", "map"):
        inference.report(node, "arguments", f"`{name}` takes a number here, not {KINDS[one.kind]}", _hint(one))


def _hint(one: Type) -> str:
    literal = one.values[0] if one.kind == "text" and one.values and not one.tunable else ""
    return f"write `{literal}` without quotes" if str(literal).isdigit() else ""
