"""Compiles templates and bare expressions, and renders them to values. Errors have a line and a column.

`syntax` parses and checks templates with the names in `vocabulary`, and `interpreter` evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final

from jinja2 import nodes

from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problem, Problems, SkillrunError
from skillrun.syntax.source import Node, Scalar, Sequence, Span, Text
from skillrun.syntax.yaml import report_rewritten_numbers
from skillrun.templates import interpreter
from skillrun.templates.limits import TemplateError, render_budget
from skillrun.templates.syntax import check_template, parse_template
from skillrun.templates.values import Absent, drop_absent, to_text

_SIGN: Final = re.compile(r"\{[{%#]?|%\}|\}\}|\}")
_RAW: Final = re.compile(r"\{%-? *raw *-?%\}")
_END_RAW: Final = re.compile(r"\{%-? *endraw *-?%\}")
# Up to the first `}}` outside quotes, without backtracking.
_VALUE: Final = re.compile(r"\{\{(?:'[^'\n]*'|\"[^\"\n]*\"|(?!\}\}).)*+\}\}", re.DOTALL)
_CLOSED_BY: Final = {"{%": "%}", "{{": "}}", "{#": "#}"}
_MAX_UNCLOSED_QUOTES: Final = 20  # after this many values with unclosed quotes, quotes are ignored


def find_unbalanced_tags(text: str, start: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """Yield a problem for each closing delimiter without an opening one, and for each tag that is only half closed.

    Closing delimiters that can be literal braces of the text are not reported. A problem consists of an offset, a code,
    a message and a hint. `start` is added to the offset.
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
    """Finds where tags end. After a search for a delimiter fails, that delimiter is not searched for again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.missing: set[str] = set()
        self.unclosed_quotes = 0
        self.line = (0, 0)  # the end of the line examined last: first with trailing blanks, then without them

    def half_closed_end(self, place: int, sign: str) -> int | None:
        """Return the end of the line if the tag at `place` ends there with only half of its delimiter."""
        end, closing = self._line_end(place), _CLOSED_BY[sign]
        is_half_closed = sign != "{#" and end - place >= 3 and self.text[end - 1] == closing[0]
        return end if is_half_closed and self.text.find(closing, place + 2, end) < 0 else None

    def tag_end(self, place: int, sign: str) -> int | None:
        """Return the end of the tag that starts at `place`, or None if the tag is never closed."""
        if sign == "{%" and (raw := _RAW.match(self.text, place)) and "raw" not in self.missing:
            if match := _END_RAW.search(self.text, raw.end()):
                return match.end()
            self.missing.add("raw")
        if sign == "{{" and self.unclosed_quotes < _MAX_UNCLOSED_QUOTES and sign not in self.missing:
            if match := _VALUE.match(self.text, place):
                return match.end()
            self.unclosed_quotes += 1
        end = self.text.find(_CLOSED_BY[sign], place + 2) if sign not in self.missing else -1
        if end < 0:
            self.missing.add(sign)
        return end + 2 if end >= 0 else None

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


class RenderError(SkillrunError):
    """Raised if a template cannot be rendered. `problem` contains the position and the reason."""

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

    In `tree`, the `lineno` of a node is its offset in `text`; `span` returns the node's position in the file. If the
    template consists of a single expression, `expression` is set, and `render` returns the expression's value instead
    of text.
    """

    __slots__ = ("_names", "bare", "expression", "text", "tree")

    def __init__(self, text: Text, tree: nodes.Template, bare: bool = False) -> None:
        self.text = text
        self.tree = tree
        self.bare = bare
        parts = tree.body[0].nodes if len(tree.body) == 1 and isinstance(tree.body[0], nodes.Output) else []
        shown = [part for part in parts if not isinstance(part, nodes.TemplateData) or part.data.strip()]
        self.expression = shown[0] if len(shown) == 1 and not isinstance(shown[0], nodes.TemplateData) else None
        self._names: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"Template({self.text.value!r})"

    @property
    def is_constant(self) -> bool:
        """Whether the template is plain text without tags."""
        return self.tree is _CONSTANT

    def mentions_any(self, *names: str) -> bool:
        """Whether the template reads or sets one of the names."""
        if self._names is None:
            self._names = frozenset(name.name for name in self.tree.find_all(nodes.Name))
        return not self._names.isdisjoint(names)

    def span(self, node: nodes.Node) -> Span:
        return self.text.at(node.lineno)

    def render(self, names: Mapping[str, Any]) -> Any:
        """Return the value of a single expression as plain data, or the text of any other template.

        A single expression may have the value `Absent`. Absent items of lists and mappings are left out. Raises
        RenderError.
        """
        return self._render(names, drop_absent)

    def render_text(self, names: Mapping[str, Any]) -> str:
        """Return the result as text, even for a single expression. Raises RenderError, also for an absent value."""
        return str(self._render(names, to_text))

    def _render(self, names: Mapping[str, Any], finish: Callable[[Any], Any]) -> Any:
        if self.tree is _CONSTANT:
            return self.text.value.removesuffix("\n")
        try:
            with render_budget() as active_budget:
                scope = interpreter.Bindings(names, active_budget, {})
                if self.expression is None:
                    return interpreter.render_text(self.tree, scope)
                return finish(interpreter.evaluate(self.expression, scope))
        except (TemplateError, RecursionError, MemoryError) as error:
            too_large = TemplateError("the values are too large or too deeply nested")
            fault = error if isinstance(error, TemplateError) else too_large
            start = 0 if self.expression is None else self.expression.lineno
            raise RenderError.at(self.text.at(start if fault.offset is None else fault.offset), fault) from error


@dataclass(frozen=True)
class Value:
    """A YAML value in which each string is a template. For a mapping, `key_spans` holds the positions of the keys."""

    span: Span
    plain: Any = None
    template: Template | None = None
    items: tuple[Value, ...] | None = None
    entries: Mapping[str, Value] | None = None
    key_spans: Mapping[str, Span] = field(default_factory=dict)

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Return the value with every string rendered. Absent values of mappings are left out. Raises RenderError."""
        if self.template is not None:
            return self.template.render(names)
        if self.items is not None:
            return [item.evaluate(names) for item in self.items]
        if self.entries is not None:
            values = {key: value.evaluate(names) for key, value in self.entries.items()}
            return {key: value for key, value in values.items() if not isinstance(value, Absent)}
        return self.plain

    def text(self, names: Mapping[str, Any]) -> str:
        """Return the value as text. Raises RenderError, for example if the value is absent."""
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
        """The plain value, or None if a string in the value contains tags."""
        return None if self.is_computed else self.evaluate({})

    @property
    def is_computed(self) -> bool:
        """Whether any string in the value contains tags."""
        return not all(template.is_constant for template in self.templates())


def compile_string(text: Text, problems: Problems) -> Template | None:
    """Compile a string as a template. If it has problems, such as a missing brace, report them and return None."""
    return _compile(text, False, problems)


def compile_condition(text: Text, problems: Problems) -> Template | None:
    """Compile a condition, which is an expression without braces. If it has problems, report them and return None."""
    value = text.value
    if value.lstrip().startswith(("{{", "{%")):
        start = len(value) - len(value.lstrip())
        problems.report(text.at(start), "syntax", "a condition is written without braces", "leave out `{{` and `}}`")
        return None
    return _compile(text, True, problems)


def compile_value(node: Node, problems: Problems, *, may_be_text: bool = True) -> Value:
    """Compile each string of a node. A string with problems is reported and becomes null.

    With `may_be_text`, warn of numbers that are printed otherwise than they are written.
    """
    compile_part = partial(compile_value, problems=problems, may_be_text=may_be_text)
    if isinstance(node, source.Mapping):
        for key, entry in node.entries.items():
            if isinstance(entry.value, Scalar) and entry.value.value is None:
                hint = "a value with a comma needs quotes inside `{ }`"
                problems.report(entry.key.span, "empty", f"`{key}` has no value", hint)
        entries = {key: compile_part(entry.value) for key, entry in node.entries.items()}
        return Value(node.span, entries=entries, key_spans={key: entry.key.span for key, entry in node.entries.items()})
    if isinstance(node, Sequence):
        return Value(node.span, items=tuple(map(compile_part, node.items)))
    if node.text is None:
        if may_be_text:
            report_rewritten_numbers(node, problems, "warning")
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
    """Return the tree of a text, and a list of problems. A problem consists of an offset, a code, a message and a hint.

    Equal texts share one tree, so the tree must not be changed.
    """
    faults: list[tuple[int, str, str, str]] = []
    unmatched = not bare and text.count("}}") + text.count("%}") != text.count("{{") + text.count("{%")
    if not bare and "{{" not in text and "{%" not in text and "{#" not in text:
        return _CONSTANT, list(find_unbalanced_tags(text)) if unmatched else faults
    try:
        tree = parse_template(text.replace("\r", " "), bare)  # a space instead of a carriage return keeps all offsets
    except TemplateError as fault:
        tag_problems, at = list(find_unbalanced_tags(text)) if unmatched else [], fault.offset or 0
        if any(0 <= place - at <= 1 for place, *_ in tag_problems):
            return None, tag_problems  # they describe the same problem with a better message
        return None, [*tag_problems, (at, "syntax", fault.message, fault.hint)]
    check_template(tree, lambda *fault: faults.append(fault))
    if unmatched and not faults:
        for data in tree.find_all(nodes.TemplateData):
            faults += find_unbalanced_tags(data.data, data.lineno)
    return tree, faults
