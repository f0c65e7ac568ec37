"""Evaluates a template's tree with plain values, without generating Python code.

Only node types in STATEMENTS and EXPRESSIONS can run, so these tables are the sandbox. Each step is charged
to the render budget. A failure is a `TemplateError` with the offset of the innermost node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from skillrun.syntax.diagnostics import allowed_hint, did_you_mean
from skillrun.templates.limits import RenderBudget, TemplateError
from skillrun.templates.values import (
    ABSENT,
    Absent,
    compare,
    compute,
    join_texts,
    lookup_item,
    lookup_name,
    slice_value,
    to_list,
    to_number,
    to_text,
)
from skillrun.templates.vocabulary import FUNCTIONS, apply, apply_test


class Bindings:
    """The names that are known during a render. The caller passes `names`, and the template sets `local_names`."""

    __slots__ = ("block", "budget", "local_names", "names")

    def __init__(self, names: Mapping[str, Any], budget: RenderBudget, own: dict[str, Any]) -> None:
        self.names = names
        self.budget = budget
        self.local_names = own
        self.block = ""  # the text of the `{% set %}` whose filters are running

    def nested_scope(self) -> Bindings:
        """Return an inner scope. Assignments in the inner scope do not change this scope."""
        self.budget.spend(8 + len(self.local_names))
        return Bindings(self.names, self.budget, dict(self.local_names))


def render_text(tree: nodes.Template, bindings: Bindings) -> str:
    """Render a template to text."""
    out: list[str] = []
    _execute(tree.body, bindings, out)
    return join_texts(out)


def evaluate(node: nodes.Node, bindings: Bindings) -> Any:
    """Evaluate an expression."""
    bindings.budget.spend(1)
    try:
        result = EXPRESSIONS[type(node)](node, bindings)
    except TemplateError as fault:
        raise fault.with_offset(error_offset(node)) from None
    return Absent(expression_text(node)) if result is ABSENT else result


def error_offset(node: nodes.Node) -> int:
    """Return the offset at which to report an expression.

    A call is reported at its function, and a comparison at its left side.
    """
    first = node.expr if isinstance(node, nodes.Compare) else node.node if isinstance(node, nodes.Call) else node
    return first.lineno


# Statements


LOOP_FIELDS: Final = ("index", "index0", "revindex", "revindex0", "first", "last", "length")
STATEMENTS: Final = (nodes.Output, nodes.If, nodes.For, nodes.Assign, nodes.AssignBlock)


def _execute(body: Iterable[nodes.Node], bindings: Bindings, out: list[str]) -> None:
    for node in body:
        try:
            match node:
                case nodes.Output():
                    _print(node, bindings, out)
                case nodes.If():
                    branches = (branch for branch in (node, *node.elif_) if evaluate(branch.test, bindings))
                    branch = next(branches, None)
                    _execute(node.else_ if branch is None else branch.body, bindings, out)
                case nodes.For():
                    _loop(node, bindings, out)
                case nodes.Assign():
                    _set(node.target, evaluate(node.node, bindings), bindings)
                case nodes.AssignBlock():
                    parts: list[str] = []
                    _execute(node.body, bindings.nested_scope(), parts)
                    bindings.block = join_texts(parts)
                    value = bindings.block if node.filter is None else evaluate(node.filter, bindings)
                    _set(node.target, value, bindings)
        except TemplateError as fault:
            raise fault.with_offset(node.lineno) from None


def _print(node: nodes.Output, bindings: Bindings, out: list[str]) -> None:
    for part in node.nodes:
        bindings.budget.spend(1)
        try:
            out.append(part.data if isinstance(part, nodes.TemplateData) else to_text(evaluate(part, bindings)))
        except TemplateError as fault:
            raise fault.with_offset(part.lineno) from None


def _loop(node: nodes.For, bindings: Bindings, out: list[str]) -> None:
    items = to_list(evaluate(node.iter, bindings))
    if (test := node.test) is not None:
        items = [item for item in items if evaluate(test, _set(node.target, item, bindings.nested_scope()))]
    count = len(items)
    for at, item in enumerate(items):
        inner = _set(node.target, item, bindings.nested_scope())
        positions = (at + 1, at, count - at, count - at - 1, at == 0, at == count - 1, count)
        inner.local_names["loop"] = dict(zip(LOOP_FIELDS, positions, strict=True))
        _execute(node.body, inner, out)
    if not items:
        _execute(node.else_, bindings.nested_scope(), out)


def _set(target: nodes.Node, value: Any, bindings: Bindings) -> Bindings:
    if isinstance(target, nodes.Tuple):
        parts = to_list(value)
        if len(parts) != len(target.items):
            raise TemplateError(
                f"cannot unpack {len(parts)} values into {len(target.items)} names", offset=target.lineno
            )
        for name, part in zip(target.items, parts, strict=True):
            _set(name, part, bindings)
    elif isinstance(target, nodes.Name):
        bindings.local_names[target.name] = value
    return bindings


# Expressions


def _name(node: nodes.Name, bindings: Bindings) -> Any:
    if node.name in bindings.local_names:
        return bindings.local_names[node.name]
    value = lookup_name(bindings.names, node.name, _UNKNOWN)
    if value is _UNKNOWN:
        hint = did_you_mean(node.name, bindings.names) or allowed_hint(bindings.names)
        raise TemplateError(f"unknown name `{node.name}`", hint, node.lineno, "unknown-name")
    return value


_UNKNOWN: Final = object()


def _lookup(node: nodes.Getattr | nodes.Getitem, bindings: Bindings) -> Any:
    owner = evaluate(node.node, bindings)
    if isinstance(owner, Absent):
        return Absent(expression_text(node), owner.gap)
    if isinstance(node, nodes.Getattr):
        return lookup_name(owner, node.attr)
    if isinstance(node.arg, nodes.Slice):
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        return slice_value(owner, *(None if bound is None else evaluate(bound, bindings) for bound in bounds))
    key = evaluate(node.arg, bindings)
    return Absent(expression_text(node), key.gap) if isinstance(key, Absent) else lookup_item(owner, key)


def _choice(node: nodes.CondExpr, bindings: Bindings) -> Any:
    if evaluate(node.test, bindings):
        return evaluate(node.expr1, bindings)
    return ABSENT if node.expr2 is None else evaluate(node.expr2, bindings)


def _pairs(node: nodes.Dict, bindings: Bindings) -> dict[Any, Any]:
    try:
        return {evaluate(pair.key, bindings): evaluate(pair.value, bindings) for pair in node.items}
    except TypeError as error:
        raise TemplateError(f"a key of this mapping is a list or a mapping: {error}") from None


def _comparison(node: nodes.Compare, bindings: Bindings) -> bool:
    left = evaluate(node.expr, bindings)
    for operand in node.ops:
        right = evaluate(operand.expr, bindings)
        if not compare(left, operand.op, right):
            return False
        left = right
    return True


def _arithmetic(node: nodes.BinExpr | nodes.UnaryExpr, bindings: Bindings) -> Any:
    if isinstance(node, nodes.BinExpr):
        return compute(node.operator, evaluate(node.left, bindings), evaluate(node.right, bindings))
    operand = to_number(evaluate(node.node, bindings))
    return -operand if node.operator == "-" else operand


def _call(node: nodes.Call | nodes.Filter | nodes.Test, bindings: Bindings) -> Any:
    """Call a function, filter or test. The value before a filter or test is its first argument."""
    subject: list[Any] = []
    if not isinstance(node, nodes.Call):
        subject = [bindings.block if node.node is None else evaluate(node.node, bindings)]
    options = {str(argument.key): evaluate(argument.value, bindings) for argument in node.kwargs}
    arguments = subject + [evaluate(argument, bindings) for argument in node.args]
    if isinstance(node, nodes.Test):
        return apply_test(node.name, *arguments)
    name = node.node.name if isinstance(node, nodes.Call) else node.name  # type: ignore[attr-defined]
    if isinstance(node, nodes.Filter) or name in FUNCTIONS:
        return apply(name, *arguments, **options)
    function = bindings.names.get(name)
    if not callable(function):
        raise TemplateError(f"`{name}` cannot be used here", "it needs a running step")
    try:
        return function(*arguments, **options)
    except UndefinedError as error:
        raise TemplateError(str(error), "give it a `default`") from None


EXPRESSIONS: Final[dict[type[nodes.Node], Callable[[Any, Bindings], Any]]] = {
    nodes.Name: _name,
    nodes.Const: lambda node, _: node.value,
    nodes.List: lambda node, bindings: [evaluate(item, bindings) for item in node.items],
    nodes.Tuple: lambda node, bindings: [evaluate(item, bindings) for item in node.items],
    nodes.Dict: _pairs,
    nodes.Getattr: _lookup,
    nodes.Getitem: _lookup,
    nodes.And: lambda node, bindings: evaluate(node.left, bindings) and evaluate(node.right, bindings),
    nodes.Or: lambda node, bindings: evaluate(node.left, bindings) or evaluate(node.right, bindings),
    nodes.Not: lambda node, bindings: not evaluate(node.node, bindings),
    nodes.CondExpr: _choice,
    nodes.Compare: _comparison,
    nodes.Concat: lambda node, bindings: join_texts([evaluate(part, bindings) for part in node.nodes]),
    **dict.fromkeys((nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod), _arithmetic),
    **dict.fromkeys((nodes.Neg, nodes.Pos), _arithmetic),
    **dict.fromkeys((nodes.Call, nodes.Filter, nodes.Test), _call),
}


def expression_text(node: nodes.Node | None) -> str:
    """Return an expression as an author writes it, with `…` in place of long parts."""
    match node:
        case nodes.Name(name=name):
            return str(name)
        case nodes.Getattr(node=owner, attr=name):
            return f"{expression_text(owner)}.{name}"
        case nodes.Getitem(node=owner, arg=key):
            return f"{expression_text(owner)}[{expression_text(key)}]"
        case nodes.Const(value=value) if len(repr(value)) <= 40:
            return repr(value)
        case nodes.Filter(node=value, name=name):
            return f"{expression_text(value)} | {name}"
        case nodes.Call(node=nodes.Name(name=name)):
            return f"{name}(…)"
        case nodes.CondExpr(test=test, expr1=value, expr2=None):
            return f"{expression_text(value)} if {expression_text(test)}"
    return "…"
