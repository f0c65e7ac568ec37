"""Checks a template's tree, and reports constructs that templates do not support.

This module checks the names and arguments of filters, functions and tests. It does not check whether variables exist.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from jinja2 import nodes

from skillrun.syntax.diagnostics import allowed_hint, did_you_mean
from skillrun.templates.interpreter import EXPRESSIONS, LOOP_FIELDS, STATEMENTS, error_offset
from skillrun.templates.limits import MAX_NUMBER
from skillrun.templates.tests import TESTS
from skillrun.templates.vocabulary import BUILTINS, CONTEXT_FUNCTIONS, FILTERS, FUNCTIONS, PYTHON_EQUIVALENTS

MAX_DEPTH: Final = 50  # nested tags and expressions
RESERVED: Final = frozenset({*FUNCTIONS, *CONTEXT_FUNCTIONS, "loop"})
_CALLABLES: Final[dict[type[nodes.Node], tuple[str, Mapping[str, Any], str]]] = {
    nodes.Call: ("function", {**FUNCTIONS, **CONTEXT_FUNCTIONS}, ""),
    nodes.Filter: ("filter", FILTERS, "x | "),
    nodes.Test: ("test", TESTS, "x is "),
}
_PARTS: Final = (nodes.Template, nodes.TemplateData, nodes.Pair, nodes.Keyword, nodes.Operand, nodes.Slice)
_NODES: Final = frozenset({*STATEMENTS, *EXPRESSIONS, *_PARTS})

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

Report = Callable[[int, str, str, str], None]  # offset, code, message, hint


def check_template(node: nodes.Node, report: Report, depth: int = 0) -> None:
    """Report the unsupported constructs of a tree."""
    if depth == MAX_DEPTH:
        return report(node.lineno, "too-deep", "the template is nested too deeply here", "use `set` for a part of it")
    match node:
        case nodes.Name():
            _check_name(node, report)
        case nodes.Getattr(node=nodes.Name(name="loop"), attr=name) if name not in LOOP_FIELDS:
            hint = did_you_mean(name, LOOP_FIELDS) or allowed_hint(LOOP_FIELDS)
            report(node.lineno, "unknown-field", f"`loop` has no `{name}`", hint)
        case nodes.Const(value=int() | float() as number) if abs(number) > MAX_NUMBER:
            report(node.lineno, "refused", "the number is too large", "")
        case nodes.Const(value=str() as text) if _SURROGATE.search(text):
            hint = "write the character itself, or its escape with `\\U` and eight digits"
            report(node.lineno, "refused", "the text contains half of a surrogate pair, which is not a character", hint)
        case nodes.Call() | nodes.Filter() | nodes.Test():
            _check_call(node, report)
        case _ if type(node) not in _NODES:
            report(node.lineno, "refused", f"`{getattr(node, 'operator', 'a.b =')}` is not supported", "")
    function = isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name)
    for child in node.iter_child_nodes(exclude=("node",) if function else None):
        check_template(child, report, depth + 1)
    return None


def _check_name(node: nodes.Name, report: Report) -> None:
    if node.name in RESERVED and node.ctx != "load":
        report(node.lineno, "reserved-name", f"`{node.name}` is reserved and cannot be set", "choose another name")
    elif node.name in RESERVED and node.name != "loop":
        report(node.lineno, "refused", f"`{node.name}` is a function", f"write `{_usage(nodes.Call, node.name)}`")


def _check_call(node: nodes.Call | nodes.Filter | nodes.Test, report: Report) -> None:
    """Report a function, filter or test that does not exist or does not accept the arguments."""
    sort, known, before = _CALLABLES[type(node)]
    called = node.node if isinstance(node, nodes.Call) else node
    name = str(getattr(called, "name", None) or getattr(called, "attr", "…"))
    if name not in known or isinstance(called, nodes.Getattr):
        uses: Iterable[str] = (_usage(kind, name) for kind, (_, names, _) in _CALLABLES.items() if name in names)
        uses = [f"write `{use}`" for use in (PYTHON_EQUIVALENTS.get(name), *uses) if use]
        is_method = isinstance(called, nodes.Getattr) and name not in known
        others = "values have no methods; use a filter, as in `x | lower`" if is_method else ""
        hint = next(iter(uses), "") or others or did_you_mean(name, known) or allowed_hint(known)
        return report(error_offset(node), f"unknown-{sort}", f"there is no {sort} `{name}`", hint)
    if node.dyn_args or node.dyn_kwargs:
        return report(error_offset(node), "refused", "arguments cannot be spread with `*`", "write them one by one")
    misfit = _argument_error(
        type(node), name, len(node.args) + bool(before), tuple(option.key for option in node.kwargs)
    )
    if misfit:
        return report(error_offset(node), "arguments", f"`{name}`: {misfit}", f"write `{_usage(type(node), name)}`")
    naming = BUILTINS[name].name_argument if isinstance(node, nodes.Filter) else None
    if naming is not None and len(node.args) > naming[1]:
        sort, at = naming
        inner, names = getattr(node.args[at], "value", "…"), FILTERS if sort == "filter" else TESTS
        if inner not in names:
            hint = did_you_mean(str(inner), names) or allowed_hint(names)
            report(node.args[at].lineno, f"unknown-{sort}", f"there is no {sort} `{inner}`", hint)
    return None


@cache
def _argument_error(sort: type[nodes.Node], name: str, count: int, named: tuple[str, ...]) -> str:
    """Return why `count` positional arguments and the `named` arguments are invalid, or "" if they are valid."""
    try:
        inspect.signature(_CALLABLES[sort][1][name]).bind(*[None] * count, **dict.fromkeys(named))
    except TypeError as error:
        return str(error)
    return ""


def _usage(sort: type[nodes.Node], name: str) -> str:
    """Return an example of how to write a function, filter or test."""
    _, known, before = _CALLABLES[sort]
    names = list(inspect.signature(known[name]).parameters)[1 if before else 0 :]
    return before + name + (f"({', '.join(names)})" if names or not before else "")
