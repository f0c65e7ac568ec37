"""Templates and bare expressions: compiled from a text with its places, rendered to a value, failing at a line.

What templates may do is in `sandbox`, what they may call in `vocabulary`, how they read in `syntax` and `vetting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from skillrun.language.absent import ABSENT, Absent
from skillrun.language.diagnostics import Problem, Problems, SkillrunError, allowed, did_you_mean
from skillrun.language.source import Span, Text
from skillrun.language.templates.codegen import (
    ENVIRONMENT,
    VALUE,
    Run,
    Scope,
    UnknownName,
    compiled,
    culprit,
    leaving_a_value,
    raised_by_template,
)
from skillrun.language.templates.limits import MAX_TEXT, Fault, budget
from skillrun.language.templates.syntax import read
from skillrun.language.templates.tokens import Misread
from skillrun.language.templates.values import plain, printed
from skillrun.language.templates.vetting import vet
from skillrun.language.templates.vocabulary import CONTEXT_FUNCTIONS, FILTERS, FUNCTIONS, TESTS

__all__ = [
    "ABSENT",
    "CONTEXT_FUNCTIONS",
    "FILTERS",
    "FUNCTIONS",
    "TESTS",
    "Absent",
    "RenderError",
    "Template",
    "compile_bare",
    "compile_string",
]


class RenderError(SkillrunError):
    """A template could not be rendered; `problem` says where and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.path}:{problem.line}:{problem.column}: {problem.message}", problem.hint)
        self.problem = problem


class Template:
    """A compiled string or bare expression.

    A node's `lineno` is its offset in `text`; `span` gives its place in the file. `expression` is the single expression
    of a template whose value keeps its type, `free` the places where it reads names from outside.
    """

    __slots__ = ("_run", "bare", "expression", "free", "text", "tree")

    def __init__(self, text: Text, tree: nodes.Template, bare: bool = False, free: tuple[nodes.Name, ...] = ()) -> None:
        self.text = text
        self.tree = tree
        self.bare = bare
        self.expression = _single(tree)
        self.free = free
        self._run: Run | None = None

    @property
    def undeclared(self) -> frozenset[str]:
        """The top-level names that it reads."""
        return frozenset(node.name for node in self.free)

    @property
    def constant(self) -> bool:
        """Whether it is plain text, without anything to render."""
        return self.tree is _CONSTANT

    def span(self, node: nodes.Node) -> Span:
        return self.text.at(node.lineno)

    def render(self, names: Mapping[str, Any]) -> Any:
        """The value of a single expression as plain data, or else the text. Raises RenderError.

        An absent value of a single expression comes out as an `Absent`; those in lists and mappings are left out.
        """
        return self._rendered(names, plain)

    def render_text(self, names: Mapping[str, Any]) -> str:
        """The text, also of a single expression. Raises RenderError, also where that is absent."""
        found: str = self._rendered(names, printed)
        return found

    def _rendered(self, names: Mapping[str, Any], finish: Any) -> Any:
        if self.tree is _CONSTANT:
            return self.text.value.removesuffix("\n")
        scope = Scope(names)
        try:
            if self._run is None:
                self._run = compiled(self._program)
            with budget():
                text = _gathered(self._run(scope))
                return text if self.expression is None else finish(scope.vars[VALUE])
        except (Fault, UndefinedError, ArithmeticError, TypeError, ValueError, RecursionError, MemoryError) as error:
            raise self._located(error, names) from error

    @property
    def _program(self) -> nodes.Template:
        return self.tree if self.expression is None else leaving_a_value(self.expression)

    def _located(self, error: Exception, names: Mapping[str, Any]) -> Exception:
        """The error with its place in the file, or itself when it is none of the template's."""
        code, hint = "expression", ""
        match error:
            case UnknownName():
                hint = did_you_mean(error.name, names) or allowed(names)
                code, message = "unknown-name", error.message
            case Fault():
                message, hint = error.message, error.hint
            case UndefinedError():
                message = str(error)
            case RecursionError() | MemoryError():
                message = "the values are too large, or too deep inside one another"
            case _ if raised_by_template(error.__traceback__):
                message = f"this cannot be computed: {error}"
            case _:
                return error
        node = culprit(self._program, error.__traceback__) or self.expression
        span = self.text.at(node.lineno if node is not None else 0)
        line, column = span.source.position(span.offset)
        return RenderError(Problem(span.path, line, column, code, message, hint, "error", span.source.line(line)))


def compile_string(text: Text, problems: Problems) -> Template | None:
    """A string as a template; None when it has problems."""
    value = text.value
    if "{{" not in value and "{%" not in value and "{#" not in value:
        return Template(text, _CONSTANT)
    return _compiled(text, False, problems)


def compile_bare(text: Text, problems: Problems) -> Template | None:
    """A condition, which is an expression without braces; None when it has problems."""
    value = text.value
    if value.lstrip().startswith(("{{", "{%")):
        start = len(value) - len(value.lstrip())
        problems.report(text.at(start), "syntax", "a condition is written without braces", "leave out `{{` and `}}`")
        return None
    return _compiled(text, True, problems)


_CONSTANT: Final = nodes.Template([], lineno=0)


def _compiled(text: Text, bare: bool, problems: Problems) -> Template | None:
    if "\r" in text.value:
        text = _without_returns(text)
    found = True

    def report(offset: int, code: str, message: str, hint: str) -> None:
        nonlocal found
        found = False
        problems.report(text.at(offset), code, message, hint)

    try:
        tree = read(ENVIRONMENT, text.value, bare)
    except Misread as error:
        report(error.offset, "syntax", error.message, error.hint)
        return None
    free = vet(tree, report)
    return Template(text, tree, bare, free) if found else None


def _without_returns(text: Text) -> Text:
    """The text with `\\n` line ends, as the parser takes it, each character where it was."""
    kept = [at for at in range(len(text.value)) if not text.value.startswith("\r\n", at)]
    value = "".join(text.value[at] for at in kept).replace("\r", "\n")
    return Text(value, text.source, tuple((now, text.at(at).offset) for now, at in enumerate(kept)))


def _single(tree: nodes.Template) -> nodes.Expr | None:
    """The expression of a tree that is nothing else but whitespace."""
    match tree.body:
        case [nodes.Output(nodes=parts)]:
            told = [one for one in parts if not (isinstance(one, nodes.TemplateData) and not one.data.strip())]
            return told[0] if len(told) == 1 and not isinstance(told[0], nodes.TemplateData) else None
    return None


def _gathered(pieces: Iterable[str]) -> str:
    length, parts = 0, []
    for piece in pieces:
        length += len(piece)
        if length > MAX_TEXT:
            raise Fault(f"the text is longer than {MAX_TEXT:,} characters", "clip what it is made of")
        parts.append(piece)
    return "".join(parts)
