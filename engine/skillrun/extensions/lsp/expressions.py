"""Parses the template expression before the cursor and infers its type, for completion and hover.

Uses the checker's type inference and the scopes that the checker recorded. The template may be invalid at the cursor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from jinja2 import nodes

from skillrun.checker.inference import Inference
from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.source import Text
from skillrun.templates.expressions import Template
from skillrun.templates.limits import TemplateError
from skillrun.templates.syntax import parse_template
from skillrun.types.types import ANY, Type

QueryKind = Literal["name", "field", "filter", "test", "item", "argument", "tag", "value"]
_TAG: Final = re.compile(r"\{[{%#]-?|-?[}%#]\}")
_STATEMENT: Final = re.compile(r"\{%-?\s*(\w+)\b([^%]*)%\}")
_WORD: Final = re.compile(r"[A-Za-z_]\w*\Z|\Z")
_TEST: Final = re.compile(r"\bis\s+(?:not\s+)?\Z")
_COMPARED: Final = re.compile(r"(==|!=|\bnot\s+in|\bin)\s*[\[(]?[^\])=]*\Z")
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\Z")
_KEYWORD: Final = re.compile(r"([A-Za-z_]\w*)\s*=\s*\Z")
_STRING: Final = re.compile(r"(['\"])(?:(?!\1).)*(\1)?", re.DOTALL)
_PART: Final = re.compile(
    rf"{_STRING.pattern}|[()\[\]{{}}]|(?P<separator>"
    r"\b(?:if|else|elif|and|or|not|in|set\s+\w+\s*=|for\s+\w+(?:\s*,\s*\w+)?\s+in)\s|==|!=|<=|>=|[<>~+*/,=:])",
    re.DOTALL,
)


@dataclass(frozen=True)
class ExpressionQuery:
    """The part of an expression to complete at the cursor.

    `word` is the text already written. `owner` is the expression before a `.`, `|`, `[` or comparison. In a quoted
    argument, `function` is the called function, and `number` is the index of the argument. `prefix` is the template
    before the tag.
    """

    kind: QueryKind
    word: str
    owner: str = ""
    function: str = ""
    number: int = 0
    prefix: str = ""


def parse_query(text: str, *, bare: bool = False) -> ExpressionQuery | None:
    """Return the query at the end of a template or of a bare expression; None if the end is not in an expression."""
    prefix, expression = "", text
    if not bare:
        opening: re.Match[str] | None = None
        for tag in _TAG.finditer(text):
            opening = (opening or tag) if tag[0].startswith("{") else None
        if opening is None or opening[0].startswith("{#"):
            return None
        prefix, expression = text[: opening.start()], text[opening.end() :]
    quote = next((string.start() for string in _STRING.finditer(expression) if string[2] is None), None)
    if quote is not None:
        return _query_in_quotes(expression[:quote], expression[quote + 1 :], prefix)
    word = _WORD.search(expression)
    written = word[0] if word is not None else ""
    head = expression[: len(expression) - len(written)]
    tight = head.rstrip()
    if tight.endswith("."):
        return ExpressionQuery("field", written, trailing_chain(tight[:-1]), prefix=prefix)
    if tight.endswith("|"):
        return ExpressionQuery("filter", written, trailing_operand(tight[:-1]), prefix=prefix)
    if _TEST.search(head):
        return ExpressionQuery("test", written, prefix=prefix)
    if not bare and text[len(prefix) : len(prefix) + 2] == "{%" and not tight:
        return ExpressionQuery("tag", written, prefix=prefix)
    return ExpressionQuery("name", written, prefix=prefix)


def _query_in_quotes(head: str, inside: str, prefix: str) -> ExpressionQuery | None:
    tight = head.rstrip()
    if tight.endswith("[") and trailing_chain(tight[:-1]):
        return ExpressionQuery("item", inside, trailing_chain(tight[:-1]), prefix=prefix)
    if compared := _COMPARED.search(tight):
        return ExpressionQuery("value", inside, trailing_operand(tight[: compared.start()]), prefix=prefix)
    opening = _open_bracket(tight)
    if opening is None or tight[opening] != "(":
        return None
    call = _CALL.search(tight[:opening])
    if call is None:
        return None
    named = _KEYWORD.search(tight)
    number = sum(separator[0] == "," for separator in _separators(tight[opening + 1 :]))
    piped = tight[: call.start()].rstrip()
    owner = trailing_operand(piped[:-1]) if piped.endswith("|") else ""
    function = call[1]
    return ExpressionQuery("argument", inside, owner, f"{function}:{named[1]}" if named else function, number, prefix)


def _open_bracket(text: str) -> int | None:
    """Return the offset of the innermost open bracket."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        if text[place] in ")]}":
            depth += 1
        elif text[place] in "([{":
            if depth == 0:
                return place
            depth -= 1
    return None


def _separators(text: str) -> Iterator[re.Match[str]]:
    """Yield the operators, keywords and commas outside of brackets and quotes."""
    depth = 0
    for part in _PART.finditer(text):
        depth += (part[0] in "([{") - (part[0] in ")]}")
        if depth == 0 and part["separator"]:
            yield part


def trailing_chain(text: str) -> str:
    """Return the chain of names, fields, items and calls at the end of a text, such as `a.b[0]`."""
    end = place = len(text.rstrip())
    while place:
        sign = text[place - 1]
        if sign in ")]}":
            opening = _open_bracket(text[: place - 1])
            if opening is None:
                return ""
            place = opening
        elif sign.isalnum() or sign in "_.":
            place -= 1
        else:
            break
    return text[place:end]


def trailing_operand(text: str) -> str:
    """Return the expression at the end of a text to which a following `|` would apply, with its filters."""
    opening = _open_bracket(text)
    part = text[opening + 1 if opening is not None else 0 :]
    start = max((separator.end() for separator in _separators(part)), default=0)
    return part[start:].strip()


def infer_type(expression: str, names: Mapping[str, Type], prefix: str = "") -> Type:
    """Return the type of an expression that can use `names` and the names defined in the template part `prefix`."""
    probe = _probe(expression, names, prefix) or _probe(expression, names, "")
    return probe.last if probe is not None else ANY


def names_after(prefix: str, names: Mapping[str, Type]) -> Mapping[str, Type]:
    """Return `names` and the names defined in the template part `prefix`."""
    probe = _probe("0", names, prefix)
    return (probe.last_names if probe is not None else None) or names


class _Probe(Inference):
    """An inference that keeps the type of the last printed expression, and the names defined before the expression."""

    last: Type = ANY
    last_names: Mapping[str, Type] | None = None

    def check_printed_expression(self, node: nodes.Node) -> None:
        super().check_printed_expression(node)
        self.last = self.infer(node)
        self.last_names = dict(self.names)


def _probe(expression: str, names: Mapping[str, Type], prefix: str) -> _Probe | None:
    """Infer the types in a template that prints an expression after `prefix`; None if the template is invalid."""
    text = f"{prefix}{{{{ {expression} }}}}{_closing_tags(prefix)}"
    try:
        probe = _Probe(Template(Text.of(text), parse_template(text, False)), dict(names), Problems.without_limit())
        probe.check_statements(probe.template.tree.body)
    except (TemplateError, ParsingStopped, RecursionError):
        return None
    return probe


def _closing_tags(text: str) -> str:
    """Return the tags that close the statements still open at the end of a text."""
    stack: list[str] = []
    for match in _STATEMENT.finditer(text):
        word = match[1]
        if word in ("for", "if") or (word == "set" and "=" not in match[2]):
            stack.append(word)
        elif word.startswith("end") and stack:
            stack.pop()
    return "".join(f"{{% end{word} %}}" for word in reversed(stack))
