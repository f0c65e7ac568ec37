"""Runs the tree of a template over plain values, step by step: no Python code is made of it.

A kind of node without a rule here cannot be run, which is what makes the list of rules the sandbox. Each step is paid
for; what fails is a `Fault` at the innermost node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from skillrun.syntax.diagnostics import allowed, did_you_mean
from skillrun.templates.absent import ABSENT, Absent
from skillrun.templates.limits import Budget, Fault
from skillrun.templates.values import compare, compute, cut, item, joined, listed, look, number, printed
from skillrun.templates.vocabulary import FUNCTIONS, apply, apply_test


class Bindings:
    """The names at one point of a render: those handed in, and those that the template set."""

    __slots__ = ("block", "budget", "names", "own")

    def __init__(self, names: Mapping[str, Any], budget: Budget, own: dict[str, Any]) -> None:
        self.names = names
        self.budget = budget
        self.own = own
        self.block = ""  # the text of the `{% set %}` whose filters are running

    def inner(self) -> Bindings:
        """What is set in it is forgotten after it."""
        self.budget.spend(8 + len(self.own))
        return Bindings(self.names, self.budget, dict(self.own))


def text_of(tree: nodes.Template, bindings: Bindings) -> str:
    """The text of a template."""
    out: list[str] = []
    _statements(tree.body, bindings, out)
    return joined(out)


def value(node: nodes.Node, bindings: Bindings) -> Any:
    """The value of an expression."""
    bindings.budget.spend(1)
    try:
        result = EXPRESSIONS[type(node)](node, bindings)
    except Fault as fault:
        raise fault.at(offset_of(node)) from None
    return Absent(written(node)) if result is ABSENT else result


def offset_of(node: nodes.Node) -> int:
    """The offset where an expression is said to stand: a call at its function, a comparison at its beginning."""
    first = node.expr if isinstance(node, nodes.Compare) else node.node if isinstance(node, nodes.Call) else node
    return first.lineno


# Statements


def _statements(body: Iterable[nodes.Node], bindings: Bindings, out: list[str]) -> None:
    for node in body:
        try:
            STATEMENTS[type(node)](node, bindings, out)
        except Fault as fault:
            raise fault.at(node.lineno) from None


def _output(node: nodes.Output, bindings: Bindings, out: list[str]) -> None:
    for part in node.nodes:
        bindings.budget.spend(1)
        try:
            out.append(part.data if isinstance(part, nodes.TemplateData) else printed(value(part, bindings)))
        except Fault as fault:
            raise fault.at(part.lineno) from None


def _if(node: nodes.If, bindings: Bindings, out: list[str]) -> None:
    for branch in (node, *node.elif_):
        if value(branch.test, bindings):
            return _statements(branch.body, bindings, out)
    return _statements(node.else_, bindings, out)


def _for(node: nodes.For, bindings: Bindings, out: list[str]) -> None:
    items = listed(value(node.iter, bindings))
    if node.test is not None:
        items = [element for element in items if value(node.test, _set(node.target, element, bindings.inner()))]
    count = len(items)
    for at, element in enumerate(items):
        inner = _set(node.target, element, bindings.inner())
        positions = (at + 1, at, count - at, count - at - 1, at == 0, at == count - 1, count)
        inner.own["loop"] = dict(zip(LOOP_FIELDS, positions, strict=True))
        _statements(node.body, inner, out)
    if not items:
        _statements(node.else_, bindings.inner(), out)


LOOP_FIELDS: Final = ("index", "index0", "revindex", "revindex0", "first", "last", "length")


def _assign(node: nodes.Assign, bindings: Bindings, _out: list[str]) -> None:
    _set(node.target, value(node.node, bindings), bindings)


def _assign_block(node: nodes.AssignBlock, bindings: Bindings, _out: list[str]) -> None:
    parts: list[str] = []
    _statements(node.body, bindings.inner(), parts)
    bindings.block = joined(parts)
    _set(node.target, bindings.block if node.filter is None else value(node.filter, bindings), bindings)


def _set(target: nodes.Node, value: Any, bindings: Bindings) -> Bindings:
    if isinstance(target, nodes.Tuple):
        parts = listed(value)
        if len(parts) != len(target.items):
            raise Fault(f"{len(parts)} values cannot be set as {len(target.items)} names", offset=target.lineno)
        for name, part in zip(target.items, parts, strict=True):
            _set(name, part, bindings)
    elif isinstance(target, nodes.Name):
        bindings.own[target.name] = value
    return bindings


# Expressions


def _name(node: nodes.Name, bindings: Bindings) -> Any:
    value = bindings.own[node.name] if node.name in bindings.own else look(bindings.names, node.name, _UNKNOWN)
    if value is _UNKNOWN:
        hint = did_you_mean(node.name, bindings.names) or allowed(bindings.names)
        raise Fault(f"unknown name `{node.name}`", hint, node.lineno, "unknown-name")
    return value


_UNKNOWN: Final = object()


def _attribute(node: nodes.Getattr, bindings: Bindings) -> Any:
    owner = value(node.node, bindings)
    return Absent(written(node), owner.gap) if isinstance(owner, Absent) else look(owner, node.attr)


def _item(node: nodes.Getitem, bindings: Bindings) -> Any:
    owner = value(node.node, bindings)
    if isinstance(owner, Absent):
        return Absent(written(node), owner.gap)
    if isinstance(node.arg, nodes.Slice):
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        return cut(owner, *(None if bound is None else value(bound, bindings) for bound in bounds))
    key = value(node.arg, bindings)
    return Absent(written(node), key.gap) if isinstance(key, Absent) else item(owner, key)


def _choice(node: nodes.CondExpr, bindings: Bindings) -> Any:
    if value(node.test, bindings):
        return value(node.expr1, bindings)
    return ABSENT if node.expr2 is None else value(node.expr2, bindings)


def _pairs(node: nodes.Dict, bindings: Bindings) -> dict[Any, Any]:
    try:
        return {value(pair.key, bindings): value(pair.value, bindings) for pair in node.items}
    except TypeError as error:
        raise Fault(f"a key of this mapping is a list or a mapping: {error}") from None


def _comparison(node: nodes.Compare, bindings: Bindings) -> bool:
    left = value(node.expr, bindings)
    for operand in node.ops:
        right = value(operand.expr, bindings)
        if not compare(left, operand.op, right):
            return False
        left = right
    return True


def _binary(node: nodes.BinExpr, bindings: Bindings) -> Any:
    return compute(node.operator, value(node.left, bindings), value(node.right, bindings))


def _signed(node: nodes.UnaryExpr, bindings: Bindings) -> Any:
    operand = number(value(node.node, bindings))
    return -operand if node.operator == "-" else operand


def _given(node: nodes.Call | nodes.Filter | nodes.Test, bindings: Bindings) -> tuple[list[Any], dict[str, Any]]:
    options = {str(argument.key): value(argument.value, bindings) for argument in node.kwargs}
    return [value(argument, bindings) for argument in node.args], options


def _call(node: nodes.Call, bindings: Bindings) -> Any:
    arguments, options = _given(node, bindings)
    name = node.node.name  # type: ignore[attr-defined]
    if name in FUNCTIONS:
        return apply(name, *arguments, **options)
    function = bindings.names.get(name)
    if not callable(function):
        raise Fault(f"`{name}` cannot be used here", "it needs a running step")
    try:
        return function(*arguments, **options)
    except UndefinedError as error:
        raise Fault(str(error), "give it a `default`") from None


def _filter(node: nodes.Filter, bindings: Bindings) -> Any:
    subject = bindings.block if node.node is None else value(node.node, bindings)
    arguments, options = _given(node, bindings)
    return apply(node.name, subject, *arguments, **options)


def _test(node: nodes.Test, bindings: Bindings) -> bool:
    return apply_test(node.name, value(node.node, bindings), *_given(node, bindings)[0])


STATEMENTS: Final[dict[type[nodes.Node], Callable[[Any, Bindings, list[str]], None]]] = {
    nodes.Output: _output,
    nodes.If: _if,
    nodes.For: _for,
    nodes.Assign: _assign,
    nodes.AssignBlock: _assign_block,
}
EXPRESSIONS: Final[dict[type[nodes.Node], Callable[[Any, Bindings], Any]]] = {
    nodes.Name: _name,
    nodes.Const: lambda node, _: node.value,
    nodes.List: lambda node, bindings: [value(item, bindings) for item in node.items],
    nodes.Tuple: lambda node, bindings: [value(item, bindings) for item in node.items],
    nodes.Dict: _pairs,
    nodes.Getattr: _attribute,
    nodes.Getitem: _item,
    nodes.And: lambda node, bindings: value(node.left, bindings) and value(node.right, bindings),
    nodes.Or: lambda node, bindings: value(node.left, bindings) or value(node.right, bindings),
    nodes.Not: lambda node, bindings: not value(node.node, bindings),
    nodes.CondExpr: _choice,
    nodes.Compare: _comparison,
    nodes.Concat: lambda node, bindings: joined([value(part, bindings) for part in node.nodes]),
    **dict.fromkeys((nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod), _binary),
    **dict.fromkeys((nodes.Neg, nodes.Pos), _signed),
    nodes.Call: _call,
    nodes.Filter: _filter,
    nodes.Test: _test,
}


def written(node: nodes.Node | None) -> str:
    """An expression as an author writes it, long parts left out."""
    match node:
        case nodes.Name(name=name):
            return str(name)
        case nodes.Getattr(node=owner, attr=name):
            return f"{written(owner)}.{name}"
        case nodes.Getitem(node=owner, arg=key):
            return f"{written(owner)}[{written(key)}]"
        case nodes.Const(value=value) if len(repr(value)) <= 40:
            return repr(value)
        case nodes.Filter(node=value, name=name):
            return f"{written(value)} | {name}"
        case nodes.Call(node=nodes.Name(name=name)):
            return f"{name}(…)"
        case nodes.CondExpr(test=test, expr1=value, expr2=None):
            return f"{written(value)} if {written(test)}"
    return "…"
