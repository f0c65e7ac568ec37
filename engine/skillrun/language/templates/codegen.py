"""Compiles the tree of a template to Python code whose every operation goes through the sandbox.

Jinja's code generator with its output, look-ups, operators, calls and loops replaced; and the way back from a place in
the generated code to the node that it came from.
"""

# Jinja gives the methods that are overridden here their names and parameters.
# ruff: noqa: ARG002, N802

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Final, NoReturn

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.environment import Template as JinjaTemplate
from jinja2.nodes import EvalContext
from jinja2.utils import missing

from skillrun.language.absent import ABSENT, Absent
from skillrun.language.templates.limits import Fault
from skillrun.language.templates.operators import compare, compute, negate
from skillrun.language.templates.syntax import SyntaxEnvironment
from skillrun.language.templates.values import cut, each, hyphened, item, joined, look, printed
from skillrun.language.templates.vocabulary import FUNCTIONS, apply, apply_test

FILE: Final = "<template>"
VALUE: Final = "the_value"  # the variable in which the code of a single expression leaves its value

Run = Callable[["Scope"], Iterator[str]]


class UnknownName(Fault):
    """A top-level name that nobody handed in."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown name `{name}`")
        self.name = name


class Scope:
    """The names of one render, as generated code asks for them."""

    __slots__ = ("eval_ctx", "exported_vars", "names", "vars")

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names
        self.vars: dict[str, Any] = {}
        self.exported_vars: set[str] = set()
        self.eval_ctx = _EVALUATION

    def resolve_or_missing(self, name: str) -> Any:
        """A name's value; one that is written with `-` is found by `_`. An absent value remembers the name."""
        value = self.names.get(name, missing)
        if value is missing and "_" in name:
            value = hyphened(self.names, name, missing)
        return Absent(name) if value is ABSENT else value


class _Generator(CodeGenerator):
    """Writes the code, and notes which part of it each expression became."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ranges: list[tuple[int, int, nodes.Node]] = []
        self._output_started = 0

    def visit(self, node: nodes.Node, *arguments: Any, **options: Any) -> Any:
        start = self.stream.tell()
        super().visit(node, *arguments, **options)
        if isinstance(node, nodes.Expr):
            self.ranges.append((start, self.stream.tell(), node))

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("undefined = environment.unknown")

    def pull_dependencies(self, nodes: Any) -> None:
        """Filters and tests are called by name."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.TemplateData):
            return node.data
        raise nodes.Impossible

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self._output_started = self.stream.tell()
        self.write("environment.printed(")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write(")")
        self.ranges.append((self._output_started, self.stream.tell(), _beginning(node)))

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        counted = nodes.Call(nodes.EnvironmentAttribute("each"), [node.iter], [], None, None, lineno=node.iter.lineno)
        super().visit_For(
            nodes.For(node.target, counted, node.body, node.else_, node.test, False, lineno=node.lineno), frame
        )

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        if isinstance(node.node, nodes.Name) and node.node.name == "loop":
            self.visit(node.node, frame)
            self.write(f".{node.attr}")
        else:
            self._call("look", frame, node.node, repr(node.attr), repr(shown(node)))

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            bounds = [bound or nodes.Const(None) for bound in (node.arg.start, node.arg.stop, node.arg.step)]
            self._call("cut", frame, node.node, *bounds, repr(shown(node)))
        else:
            self._call("item", frame, node.node, node.arg, repr(shown(node)))

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        self._call("compare", frame, node.expr, *[part for one in node.ops for part in (repr(one.op), one.expr)])

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self._call("joined", frame, nodes.List(node.nodes))

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self.visit(nodes.List(node.items, lineno=node.lineno), frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_CondExpr(self, node: nodes.CondExpr, frame: Frame) -> None:
        self.write("(")
        self.visit(node.expr1, frame)
        self.write(" if ")
        self.visit(node.test, frame)
        self.write(" else ")
        if node.expr2 is None:
            self._call("absent", frame, repr(shown(node)))
        else:
            self.visit(node.expr2, frame)
        self.write(")")

    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:
        source = node.node if node.node is not None else f"concat({frame.buffer})"
        self._call("apply", frame, repr(node.name), source, signature=node)

    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:
        self._call("apply_test", frame, repr(node.name), node.node, signature=node)

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        if isinstance(node.node, nodes.EnvironmentAttribute):
            self._call(node.node.name, frame, *node.args)
        elif isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS:
            self._call("apply", frame, repr(node.node.name), signature=node)
        else:
            assert isinstance(node.node, nodes.Name)
            self._call("call_given", frame, "context", repr(node.node.name), signature=node)

    def _call(
        self,
        name: str,
        frame: Frame,
        *arguments: nodes.Node | str,
        signature: nodes.Call | nodes.Filter | nodes.Test | None = None,
    ) -> None:
        """A call of the environment with nodes and literal code as arguments, and then those that an author wrote."""
        self.write(f"environment.{name}(")
        for place, argument in enumerate(arguments):
            self.write(", " if place else "")
            if isinstance(argument, str):
                self.write(argument)
            else:
                self.visit(argument, frame)
        if signature is not None:
            self.signature(signature, frame)
        self.write(")")


class Environment(SyntaxEnvironment):
    """What generated code calls."""

    code_generator_class = _Generator
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})
    intercepted_unops = frozenset({"+", "-"})

    absent = staticmethod(Absent)
    apply = staticmethod(apply)
    apply_test = staticmethod(apply_test)
    compare = staticmethod(compare)
    concat = staticmethod(joined)
    cut = staticmethod(cut)
    each = staticmethod(each)
    item = staticmethod(item)
    joined = staticmethod(joined)
    look = staticmethod(look)
    printed = staticmethod(printed)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        return compute(operator, left, right)

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        return negate(operator, arg)

    @staticmethod
    def call_given(scope: Scope, name: str, /, *arguments: Any, **options: Any) -> Any:
        """A function that came in among the names."""
        function = scope.names.get(name)
        if not callable(function):
            raise Fault(f"`{name}` cannot be used here", "it needs a running step")
        return function(*arguments, **options)

    @staticmethod
    def unknown(name: str) -> NoReturn:
        raise UnknownName(name)


ENVIRONMENT: Final = Environment(optimized=False, autoescape=False, cache_size=0)
_EVALUATION: Final = EvalContext(ENVIRONMENT)


def compiled(tree: nodes.Template) -> Run:
    """The code of a tree, which yields its text piece by piece."""
    code = ENVIRONMENT.compile(tree, None, FILE)
    return JinjaTemplate.from_code(ENVIRONMENT, code, {}).root_render_func  # type: ignore[return-value]


def leaving_a_value(expression: nodes.Expr) -> nodes.Template:
    """The tree that leaves an expression's value in the scope's variable `VALUE` instead of printing it."""
    target = nodes.Name(VALUE, "store", lineno=expression.lineno)
    return nodes.Template([nodes.Assign(target, expression, lineno=expression.lineno)], lineno=0)


def culprit(tree: nodes.Template, trace: TracebackType | None) -> nodes.Node | None:
    """The innermost expression of a tree whose code raised, if it was its code."""
    innermost = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            innermost = trace
        trace = trace.tb_next
    if innermost is None:
        return None
    place = next(islice(innermost.tb_frame.f_code.co_positions(), innermost.tb_lasti // 2, None))
    generator = _Generator(ENVIRONMENT, None, FILE, optimized=False)
    generator.visit(tree)
    start, end = _offsets(generator.stream.getvalue(), *place)  # type: ignore[attr-defined]
    around = [(right - left, node) for left, right, node in generator.ranges if left <= start and end <= right]
    within = [(left, node) for left, _, node in generator.ranges if start <= left <= end]
    return min(around or within, key=lambda found: found[0], default=(0, None))[1]


def raised_by_template(trace: TracebackType | None) -> bool:
    """Whether the generated code itself raised, and nothing that it called."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == FILE


def _beginning(node: nodes.Node) -> nodes.Node:
    """The node that stands first in the text of an expression."""
    for part in ("node", "left", "expr", "expr1"):
        inner = getattr(node, part, None)
        if isinstance(inner, nodes.Node) and inner.lineno <= node.lineno:
            return _beginning(inner)
    return node


def _offsets(
    source: str, line: int | None, end_line: int | None, column: int | None, end_column: int | None
) -> tuple[int, int]:
    """Where a range of code stands in its source; its columns count bytes."""
    lines = source.split("\n")

    def offset(number: int, bytes_before: int) -> int:
        before = lines[number - 1].encode()[:bytes_before].decode(errors="ignore")
        return sum(len(one) + 1 for one in lines[: number - 1]) + len(before)

    return offset(line or 1, column or 0), offset(end_line or line or 1, end_column or 0)


def shown(node: nodes.Node | None) -> str:
    """An expression as an author writes it, long parts left out."""
    match node:
        case nodes.Name(name=name):
            return str(name)
        case nodes.Getattr(node=owner, attr=name):
            return f"{shown(owner)}.{name}"
        case nodes.Getitem(node=owner, arg=nodes.Slice()):
            return f"{shown(owner)}[…:…]"
        case nodes.Getitem(node=owner, arg=key):
            return f"{shown(owner)}[{shown(key)}]"
        case nodes.Const(value=value):
            return repr(value) if len(repr(value)) <= 40 else "…"
        case nodes.Filter(node=value, name=name):
            return f"{shown(value)} | {name}"
        case nodes.Call(node=nodes.Name(name=name)):
            return f"{name}(…)"
        case nodes.CondExpr(test=test, expr1=value, expr2=None):
            return f"{shown(value)} if {shown(test)}"
    return "…"
