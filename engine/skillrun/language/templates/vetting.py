"""Looks through a template's tree: refuses what templates do not offer, and finds the names it reads from outside.

Knows filters, functions and tests by name and parameters; which names exist outside is not its concern.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from jinja2 import nodes

from skillrun.language.diagnostics import allowed, did_you_mean
from skillrun.language.templates.limits import MAX_NUMBER
from skillrun.language.templates.vocabulary import CONTEXT_FUNCTIONS, FILTERS, FUNCTIONS, TAKES_A_TEST, TESTS

MAX_DEPTH: Final = 40  # expressions inside one another
LOOP_FIELDS: Final = ("index", "index0", "revindex", "revindex0", "first", "last", "length")
RESERVED: Final = frozenset({*FUNCTIONS, *CONTEXT_FUNCTIONS, "loop"})

Report = Callable[[int, str, str, str], None]  # offset, code, message, hint


def vet(tree: nodes.Template, report: Report) -> tuple[nodes.Name, ...]:
    """The places where the template reads a name that it does not set itself; reports what is not offered."""
    vetting = _Vetting(report)
    vetting.body(tree.body, set())
    return tuple(vetting.free)


class _Vetting:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.free: list[nodes.Name] = []
        self.depth = 0

    # Statements; `bound` are the names set so far

    def body(self, statements: Iterable[nodes.Node], bound: set[str]) -> None:
        for statement in statements:
            match statement:
                case nodes.Output():
                    self.each(statement.nodes, bound)
                case nodes.If():
                    self.branches(statement, bound)
                case nodes.For():
                    self.loop(statement, bound)
                case nodes.Assign():
                    self.expression(statement.node, bound)
                    bound |= self.targets(statement.target)
                case nodes.AssignBlock():
                    self.body(statement.body, set(bound))
                    if statement.filter is not None:
                        self.expression(statement.filter, bound)
                    bound |= self.targets(statement.target)

    def branches(self, node: nodes.If, bound: set[str]) -> None:
        """A name is set after it only where every branch sets it."""
        ends = []
        for branch in (node, *node.elif_):
            self.expression(branch.test, bound)
            ends.append(set(bound))
            self.body(branch.body, ends[-1])
        ends.append(set(bound))
        self.body(node.else_, ends[-1])
        bound |= set.intersection(*ends)

    def loop(self, node: nodes.For, bound: set[str]) -> None:
        if node.recursive:
            self.report(node.lineno, "refused", "a loop cannot be recursive", "write one loop inside the other")
        self.expression(node.iter, bound)
        inside = bound | self.targets(node.target)
        if node.test is not None:
            self.expression(node.test, inside)
        self.body(node.body, inside | {"loop"})
        self.body(node.else_, set(bound))

    def targets(self, target: nodes.Node) -> set[str]:
        names = set()
        for name in (target, *target.find_all((nodes.Name, nodes.NSRef))):
            if isinstance(name, nodes.NSRef):
                self.report(name.lineno, "refused", f"`{name.name}.{name.attr}` cannot be set", "set a name of its own")
            elif isinstance(name, nodes.Name):
                names.add(name.name)
                if name.name in RESERVED:
                    message = f"`{name.name}` cannot be set: it is the name of a {_sort(name.name)}"
                    self.report(name.lineno, "reserved-name", message, "choose another name")
        return names

    # Expressions

    def each(self, found: Iterable[nodes.Node], bound: set[str]) -> None:
        for node in found:
            if not isinstance(node, nodes.TemplateData):
                self.expression(node, bound)

    def expression(self, node: nodes.Node, bound: set[str]) -> None:
        self.depth += 1
        if self.depth == MAX_DEPTH:
            self.report(node.lineno, "too-deep", "the expression is too deep", "use `set` for a part of it")
        elif self.depth < MAX_DEPTH:
            rule = _RULES.get(type(node))
            if rule is not None:
                rule(self, node, bound)
            else:
                self.each(node.iter_child_nodes(), bound)
        self.depth -= 1

    def name(self, node: nodes.Name, bound: set[str]) -> None:
        if node.name == "loop":
            hint = f"write `loop.index`; {allowed(LOOP_FIELDS)}" if "loop" in bound else "it is known inside a `for`"
            self.report(node.lineno, "refused", "`loop` is no value", hint)
        elif node.name in RESERVED:
            self.report(node.lineno, "refused", f"`{node.name}` is a function", f"write `{_usage(node.name)}`")
        elif node.name.startswith("__"):
            self.report(node.lineno, "refused", f"`{node.name}` is no name for a value", "")
        elif node.name not in bound:
            self.free.append(node)

    def attribute(self, node: nodes.Getattr, bound: set[str]) -> None:
        if node.attr.startswith("__"):
            self.report(node.lineno, "refused", f"`{node.attr}` is no name of an item", "")
        if isinstance(node.node, nodes.Name) and node.node.name == "loop" and "loop" in bound:
            if node.attr not in LOOP_FIELDS:
                hint = did_you_mean(node.attr, LOOP_FIELDS) or allowed(LOOP_FIELDS)
                self.report(node.lineno, "unknown-field", f"`loop` has no `{node.attr}`", hint)
            return
        self.expression(node.node, bound)

    def constant(self, node: nodes.Const, _bound: set[str]) -> None:
        value = node.value
        if isinstance(value, float) and (not math.isfinite(value) or abs(value) > MAX_NUMBER):
            self.report(node.lineno, "refused", "the number is too large", "")

    def power(self, node: nodes.Pow, bound: set[str]) -> None:
        self.report(node.right.lineno, "refused", "`**` is not offered", "multiply with `*`")
        self.each((node.left, node.right), bound)

    def call(self, node: nodes.Call, bound: set[str]) -> None:
        self.arguments(node, bound)
        match node.node:
            case nodes.Name(name=name) if name in FUNCTIONS or name in CONTEXT_FUNCTIONS:
                node.lineno = node.node.lineno
                self.fits(node, name, len(node.args))
            case nodes.Name(name=name) if name in FILTERS:
                self.report(node.node.lineno, "unknown-function", f"`{name}` is a filter", f"write `x | {name}`")
            case nodes.Name(name=name):
                hint = did_you_mean(name, _functions()) or allowed(_functions())
                self.report(node.node.lineno, "unknown-function", f"there is no function `{name}`", hint)
            case nodes.Getattr(attr=name):
                hint = f"write `x | {name}`" if name in FILTERS else f"a dot looks up items; {allowed(_functions())}"
                self.report(node.node.lineno, "unknown-function", f"`{name}` cannot be called", hint)
                self.expression(node.node, bound)
            case _:
                self.report(node.lineno, "unknown-function", "this cannot be called", allowed(_functions()))
                self.expression(node.node, bound)

    def filter(self, node: nodes.Filter, bound: set[str]) -> None:
        if node.node is not None:
            self.expression(node.node, bound)
        self.arguments(node, bound)
        if node.name not in FILTERS:
            function = f"write `{_usage(node.name)}`" if node.name in CONTEXT_FUNCTIONS else ""
            hint = function or did_you_mean(node.name, FILTERS) or allowed(FILTERS)
            self.report(node.lineno, "unknown-filter", f"there is no filter `{node.name}`", hint)
        elif self.fits(node, node.name, 1 + len(node.args)):
            self.named_in(node)

    def named_in(self, node: nodes.Filter) -> None:
        """The filter or test that is an argument of another filter."""
        if node.name == "map" and node.args:
            self.literal(node.args[0], FILTERS, "filter")
        elif node.name == "map" and not any(keyword.key == "attribute" for keyword in node.kwargs):
            self.report(node.lineno, "arguments", "`map` needs a field or a filter", "write `map(attribute='x')`")
        elif node.name in TAKES_A_TEST and len(node.args) > TAKES_A_TEST[node.name]:
            self.literal(node.args[TAKES_A_TEST[node.name]], TESTS, "test")

    def literal(self, node: nodes.Node, known: Iterable[str], sort: str) -> None:
        match node:
            case nodes.Const(value=str(name)) if name in known:
                return
            case nodes.Const(value=str(name)):
                message, hint = f"there is no {sort} `{name}`", did_you_mean(name, known)
            case _:
                message, hint = f"the name of a {sort} belongs here", ""
        self.report(node.lineno, f"unknown-{sort}", message, hint or allowed(known))

    def test(self, node: nodes.Test, bound: set[str]) -> None:
        self.expression(node.node, bound)
        self.arguments(node, bound)
        if node.name == "undefined":
            self.report(node.lineno, "unknown-test", "there is no test `undefined`", "write `not x`")
        elif node.name not in TESTS:
            hint = did_you_mean(node.name, TESTS) or allowed(TESTS)
            self.report(node.lineno, "unknown-test", f"there is no test `{node.name}`", hint)
        else:
            self.fits(node, node.name, 1 + len(node.args))

    def arguments(self, node: nodes.Call | nodes.Filter | nodes.Test, bound: set[str]) -> None:
        self.each(node.args, bound)
        for keyword in node.kwargs:
            self.expression(keyword.value, bound)
        for spread in (node.dyn_args, node.dyn_kwargs):
            if spread is not None:
                self.report(spread.lineno, "refused", "arguments cannot be spread with `*`", "write them one by one")

    def fits(self, node: nodes.Call | nodes.Filter | nodes.Test, name: str, count: int) -> bool:
        """Whether the arguments are as many, and named, as the parameters want."""
        spread = node.dyn_args or node.dyn_kwargs
        misfit = "" if spread else _misfit(type(node), name, count, tuple(keyword.key for keyword in node.kwargs))
        if misfit:
            self.report(node.lineno, "arguments", f"`{name}`: {misfit}", f"write `{_usage(name, type(node))}`")
        return not misfit


def _functions() -> list[str]:
    return sorted({*FUNCTIONS, *CONTEXT_FUNCTIONS})


def _sort(name: str) -> str:
    return "loop's own value" if name == "loop" else "function"


@cache
def _misfit(sort: type[nodes.Node], name: str, count: int, named: tuple[str, ...]) -> str:
    """What is wrong with a number of arguments and the names of further ones, or nothing."""
    try:
        _signature(sort, name).bind(*[None] * count, **dict.fromkeys(named))
    except TypeError as error:
        return str(error)
    return ""


@cache
def _signature(sort: type[nodes.Node], name: str) -> inspect.Signature:
    if sort is nodes.Call and name in CONTEXT_FUNCTIONS:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(parameter, kind) for parameter in CONTEXT_FUNCTIONS[name]])
    known: dict[type[nodes.Node], Mapping[str, Callable[..., Any]]]
    known = {nodes.Call: FUNCTIONS, nodes.Filter: FILTERS, nodes.Test: TESTS}
    return inspect.signature(known[sort][name])


def _usage(name: str, sort: type[nodes.Node] = nodes.Call) -> str:
    """How a function, filter or test is written."""
    before = "x | " if sort is nodes.Filter else "x is " if sort is nodes.Test else ""
    names = list(_signature(sort, name).parameters)[1 if before else 0 :]
    return before + name + (f"({', '.join(names)})" if names or not before else "")


_RULES: Final[dict[type[nodes.Node], Callable[[_Vetting, Any, set[str]], None]]] = {
    nodes.Name: _Vetting.name,
    nodes.Getattr: _Vetting.attribute,
    nodes.Const: _Vetting.constant,
    nodes.Pow: _Vetting.power,
    nodes.Call: _Vetting.call,
    nodes.Filter: _Vetting.filter,
    nodes.Test: _Vetting.test,
}
