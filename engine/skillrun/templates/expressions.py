"""Compiles templates and bare expressions, and renders them to values; errors carry a line and column.

Parsing is in `syntax`, the allowed constructs in `validation` and `vocabulary`, evaluation in `interpreter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from jinja2 import nodes

from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problem, Problems, SkillrunError
from skillrun.syntax.source import Node, Scalar, Sequence, Span, Text
from skillrun.templates import interpreter
from skillrun.templates.absent import ABSENT, Absent
from skillrun.templates.limits import TemplateError, render_budget
from skillrun.templates.syntax import parse_template
from skillrun.templates.tests import TESTS
from skillrun.templates.validation import check_template
from skillrun.templates.values import drop_absent, to_text
from skillrun.templates.vocabulary import FILTERS, FUNCTIONS

_SIGN: Final = re.compile(r"\{[{%#]?|%\}|\}\}|\}")
_RAW: Final = re.compile(r"\{%-? *raw *-?%\}")
_END_RAW: Final = re.compile(r"\{%-? *endraw *-?%\}")
# Up to the first `}}` outside quotes, without backtracking.
_VALUE: Final = re.compile(r"\{\{(?:'[^'\n]*'|\"[^\"\n]*\"|(?!\}\}).)*+\}\}", re.DOTALL)
_CLOSED_BY: Final = {"{%": "%}", "{{": "}}", "{#": "#}"}
_MAX_UNCLOSED_QUOTES: Final = 20  # values with unclosed quotes after which quotes are ignored


def find_unbalanced_tags(text: str, start: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """Yield closing delimiters without a tag, unless they can be literal braces of the text, and tags left open.

    Each item is an offset (counted from `start`), a code, a message and a hint.
    """
    tags = _TagScanner(text)
    depth = at = 0
    while match := _SIGN.search(text, at):
        place, at = match.span()
        sign = match[0]
        if sign in _CLOSED_BY:
            if (end := tags.half_closed_end(place, sign)) is not None:
                hint = "a value ends with `}}`, a statement with `%}`"
                yield start + end, "syntax", "`}` is missing here", hint
                at = end
            elif (end := tags.tag_end(place, sign)) is not None:
                at = end
            else:
                depth += 1
                at = place + 1
        elif sign == "{":
            depth += 1
        elif sign == "%}" or (sign == "}}" and depth < 2):
            opening = "{%" if sign == "%}" else "{{"
            yield start + place, "syntax", f"`{sign}` closes nothing", f"open it with `{opening}`"
        else:
            depth = max(0, depth - len(sign))


class _TagScanner:
    """Finds where tags end. A delimiter missing after one position is not searched for again after a later one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.missing: set[str] = set()
        self.unclosed_quotes = 0
        self.line = (0, 0)  # end of the line examined last, with and without trailing blanks

    def half_closed_end(self, place: int, sign: str) -> int | None:
        """Return the end of the line if the tag at `place` ends there with only half of its closing delimiter."""
        if sign == "{#" or self._line_end(place) - place < 3:
            return None
        end, closing = self._line_end(place), _CLOSED_BY[sign]
        if self.text[end - 1] != closing[0] or self.text.find(closing, place + 2, end) >= 0:
            return None
        return end

    def tag_end(self, place: int, sign: str) -> int | None:
        """Return where the tag that starts at `place` ends; None if it is never closed."""
        if sign == "{%" and (raw := _RAW.match(self.text, place)) and "raw" not in self.missing:
            if match := _END_RAW.search(self.text, raw.end()):
                return match.end()
            self.missing.add("raw")
        if sign == "{{" and self.unclosed_quotes < _MAX_UNCLOSED_QUOTES and sign not in self.missing:
            if match := _VALUE.match(self.text, place):
                return match.end()
            self.unclosed_quotes += 1
        return self._plain_end(place, sign)

    def _plain_end(self, place: int, sign: str) -> int | None:
        if sign in self.missing:
            return None
        closing = _CLOSED_BY[sign]
        place_of_closing = self.text.find(closing, place + 2)
        if place_of_closing < 0:
            self.missing.add(sign)
            return None
        return place_of_closing + len(closing)

    def _line_end(self, place: int) -> int:
        """Return the end of the line that contains `place`, without trailing blanks."""
        if place >= self.line[0]:
            end = self.text.find("\n", place)
            end = len(self.text) if end < 0 else end
            stop = end
            while stop > place and self.text[stop - 1] in " \t":
                stop -= 1
            self.line = end, stop
        return self.line[1]


__all__ = [
    "ABSENT",
    "FILTERS",
    "FUNCTIONS",
    "TESTS",
    "Absent",
    "Template",
    "Value",
    "compile_condition",
    "compile_string",
]


class RenderError(SkillrunError):
    """A template could not be rendered; `problem` has the position and the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.path}:{problem.line}:{problem.column}: {problem.message}", problem.hint)
        self.problem = problem

    @staticmethod
    def at(span: Span, fault: TemplateError) -> RenderError:
        line, column = span.source.position(span.offset)
        quoted = span.source.line(line)
        return RenderError(Problem(span.path, line, column, fault.code, fault.message, fault.hint, "error", quoted))


class Template:
    """A compiled string or bare expression.

    A node's `lineno` is its offset in `text`; `span` returns its position in the file. `expression` is set if the
    template is a single expression, whose value keeps its type.
    """

    __slots__ = ("_names", "bare", "expression", "text", "tree")

    def __init__(self, text: Text, tree: nodes.Template, bare: bool = False) -> None:
        self.text = text
        self.tree = tree
        self.bare = bare
        self.expression = _single_expression(tree)
        self._names: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"Template({self.text.value!r})"

    @property
    def is_constant(self) -> bool:
        """Whether it is plain text without tags."""
        return self.tree is _CONSTANT

    def mentions_name(self, name: str) -> bool:
        """Whether it contains this name."""
        if self._names is None:
            self._names = frozenset(name.name for name in self.tree.find_all(nodes.Name))
        return name in self._names

    def span(self, node: nodes.Node) -> Span:
        return self.text.at(node.lineno)

    def render(self, names: Mapping[str, Any]) -> Any:
        """Return the value of a single expression as plain data, or else the text. Raises RenderError.

        An absent single expression returns an `Absent`; absent items of lists and mappings are left out.
        """
        return self._render(names, drop_absent)

    def render_text(self, names: Mapping[str, Any]) -> str:
        """Return the text, even of a single expression. Raises RenderError, also if its value is absent."""
        rendered: str = self._render(names, to_text)
        return rendered

    def _render(self, names: Mapping[str, Any], finish: Callable[[Any], Any]) -> Any:
        if self.tree is _CONSTANT:
            return self.text.value.removesuffix("\n")
        try:
            with render_budget() as active_budget:
                scope = interpreter.Bindings(names, active_budget, {})
                if self.expression is None:
                    return interpreter.render_text(self.tree, scope)
                return finish(interpreter.evaluate(self.expression, scope))
        except TemplateError as fault:
            raise self._error_at(fault) from fault
        except (RecursionError, MemoryError) as error:
            raise self._error_at(TemplateError("the values are too large or too deeply nested")) from error

    def _error_at(self, fault: TemplateError) -> RenderError:
        start = 0 if self.expression is None else self.expression.lineno
        return RenderError.at(self.text.at(start if fault.offset is None else fault.offset), fault)


@dataclass(frozen=True)
class Value:
    """A YAML value whose strings are templates; `key_spans` has the positions of a mapping's keys."""

    span: Span
    plain: Any = None
    template: Template | None = None
    items: tuple[Value, ...] | None = None
    entries: Mapping[str, Value] | None = None
    key_spans: Mapping[str, Span] = field(default_factory=dict)

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Render every string in it; absent entries of a mapping are left out. Raises RenderError."""
        if self.template is not None:
            return self.template.render(names)
        if self.items is not None:
            return [item.evaluate(names) for item in self.items]
        if self.entries is not None:
            values = {key: value.evaluate(names) for key, value in self.entries.items()}
            return {key: value for key, value in values.items() if not isinstance(value, Absent)}
        return self.plain

    def text(self, names: Mapping[str, Any]) -> str:
        """Return the value as text. Raises RenderError, also if it is absent."""
        if self.template is not None:
            return self.template.render_text(names)
        try:
            return to_text(self.evaluate(names))
        except TemplateError as fault:
            raise RenderError.at(self.span, fault) from fault

    def templates(self) -> Iterator[Template]:
        if self.template is not None:
            yield self.template
        for value in (*(self.items or ()), *(self.entries or {}).values()):
            yield from value.templates()

    @property
    def literal(self) -> Any:
        """The plain value if it contains no template; otherwise None."""
        return None if self.is_computed else self.evaluate({})

    @property
    def is_computed(self) -> bool:
        """Whether it contains a template."""
        return not all(template.is_constant for template in self.templates())


def compile_string(text: Text, problems: Problems) -> Template | None:
    """Compile a string as a template; return None if it has problems, such as a missing brace."""
    return _compile(text, False, problems)


def compile_condition(text: Text, problems: Problems) -> Template | None:
    """Compile a condition, an expression without braces; return None if it has problems."""
    value = text.value
    if value.lstrip().startswith(("{{", "{%")):
        start = len(value) - len(value.lstrip())
        problems.report(text.at(start), "syntax", "a condition is written without braces", "leave out `{{` and `}}`")
        return None
    return _compile(text, True, problems)


def compile_value(node: Node, problems: Problems) -> Value:
    """Compile the strings of a node; a string with problems becomes null."""
    if isinstance(node, source.Mapping):
        for key, entry in node.entries.items():
            if isinstance(entry.value, Scalar) and entry.value.value is None:
                hint = "a value with a comma needs quotes inside `{ }`"
                problems.report(entry.key.span, "empty", f"`{key}` has no value", hint)
        entries = {key: compile_value(entry.value, problems) for key, entry in node.entries.items()}
        return Value(node.span, entries=entries, key_spans={key: entry.key.span for key, entry in node.entries.items()})
    if isinstance(node, Sequence):
        return Value(node.span, items=tuple(compile_value(item, problems) for item in node.items))
    if node.text is None:
        return Value(node.span, node.value)
    template = compile_string(node.text, problems)
    return Value(node.span, node.value if template is not None else None, template)


_CONSTANT: Final = nodes.Template([], lineno=0)


def _compile(text: Text, bare: bool, problems: Problems) -> Template | None:
    tree, faults = _parse_tree(text.value, bare)
    for fault in faults:
        problems.report(text.at(fault[0]), *fault[1:])
    return Template(text, tree, bare) if tree is not None and not faults else None


@lru_cache(maxsize=10_000)
def _parse_tree(text: str, bare: bool) -> tuple[nodes.Template | None, list[tuple[int, str, str, str]]]:
    """Return the tree of a text, shared by equal texts, and its problems: offset, code, message, hint."""
    faults: list[tuple[int, str, str, str]] = []
    unmatched = not bare and text.count("}}") + text.count("%}") != text.count("{{") + text.count("{%")
    if not bare and "{{" not in text and "{%" not in text and "{#" not in text:
        return _CONSTANT, list(find_unbalanced_tags(text)) if unmatched else faults
    try:
        tree = parse_template(text.replace("\r", " "), bare)  # a space instead of a carriage return keeps all offsets
    except TemplateError as fault:
        tag_problems, at = list(find_unbalanced_tags(text)) if unmatched else [], fault.offset or 0
        if any(0 <= place - at <= 1 for place, *_ in tag_problems):
            return None, tag_problems  # the same problem with a better message
        return None, [*tag_problems, (at, "syntax", fault.message, fault.hint)]
    check_template(tree, lambda *fault: faults.append(fault))
    if unmatched and not faults:
        for data in tree.find_all(nodes.TemplateData):
            faults += find_unbalanced_tags(data.data, data.lineno)
    return tree, faults


def _single_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the only expression of a tree that otherwise contains just whitespace; None for any other tree."""
    match tree.body:
        case [nodes.Output(nodes=parts)]:
            visible_parts = [
                part for part in parts if not (isinstance(part, nodes.TemplateData) and not part.data.strip())
            ]
            return (
                visible_parts[0]
                if len(visible_parts) == 1 and not isinstance(visible_parts[0], nodes.TemplateData)
                else None
            )
    return None
