"""What is written in a template up to the cursor, and of what type it is: for completion and hover in `{{ … }}`.

Infers with the checker's own rules against what it has noted to be known; the template may be broken at the cursor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from jinja2 import nodes

from skillrun.checker.inference import Inference
from skillrun.syntax.diagnostics import GivenUp, Problems
from skillrun.syntax.source import Text
from skillrun.templates.expressions import Template
from skillrun.templates.limits import Fault
from skillrun.templates.syntax import read
from skillrun.types.types import ANY, Type

Asked = Literal["name", "field", "filter", "test", "item", "argument", "tag", "value"]
_TAG: Final = re.compile(r"\{[{%#]-?|-?[}%#]\}")
_STATEMENT: Final = re.compile(r"\{%-?\s*(\w+)\b([^%]*)%\}")
_WORD: Final = re.compile(r"[A-Za-z_]\w*\Z|\Z")
_TEST: Final = re.compile(r"\bis\s+(?:not\s+)?\Z")
_COMPARED: Final = re.compile(r"(==|!=|\bnot\s+in|\bin)\s*[\[(]?[^\])=]*\Z")
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\Z")
_KEYWORD: Final = re.compile(r"([A-Za-z_]\w*)\s*=\s*\Z")
_SPLIT: Final = re.compile(
    r"\b(?:if|else|elif|and|or|not|in|set\s+\w+\s*=|for\s+\w+(?:\s*,\s*\w+)?\s+in)\s|==|!=|<=|>=|[<>~+*/,=:]"
)
_CLOSES: Final = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Asking:
    """What may be written at the cursor, behind `word`: of an `owner` (an expression) a field or the name of a filter,
    or, within quotes, the argument of a `function` at a place; `before` is the template up to the tag."""

    asked: Asked
    word: str
    owner: str = ""
    function: str = ""
    number: int = 0
    before: str = ""


def asking(text: str, *, bare: bool = False) -> Asking | None:
    """What is asked for at the end of a text, which is a template or a bare expression; None outside of expressions."""
    before, expression = ("", text) if bare else _last_tag(text)
    if expression is None:
        return None
    word = _WORD.search(expression)
    written = word[0] if word is not None else ""
    head = expression[: len(expression) - len(written)]
    quote = _open_quote(expression)
    if quote is not None:
        return _in_quotes(expression[:quote], expression[quote + 1 :], before)
    tight = head.rstrip()
    if tight.endswith("."):
        return Asking("field", written, chain(tight[:-1]), before=before)
    if tight.endswith("|"):
        return Asking("filter", written, operand(tight[:-1]), before=before)
    if _TEST.search(head):
        return Asking("test", written, before=before)
    if not bare and text[len(before) : len(before) + 2] == "{%" and not tight:
        return Asking("tag", written, before=before)
    return Asking("name", written, before=before)


def _in_quotes(head: str, inside: str, before: str) -> Asking | None:
    tight = head.rstrip()
    if tight.endswith("[") and chain(tight[:-1]):
        return Asking("item", inside, chain(tight[:-1]), before=before)
    if compared := _COMPARED.search(tight):
        return Asking("value", inside, operand(tight[: compared.start()]), before=before)
    opening = _open_bracket(tight)
    if opening is None or tight[opening] != "(":
        return None
    call = _CALL.search(tight[:opening])
    if call is None:
        return None
    named = _KEYWORD.search(tight)
    number = _commas(tight[opening + 1 :])
    piped = tight[: call.start()].rstrip()
    owner = operand(piped[:-1]) if piped.endswith("|") else ""
    function = call[1]
    return Asking("argument", inside, owner, f"{function}:{named[1]}" if named else function, number, before)


def _last_tag(text: str) -> tuple[str, str | None]:
    """The text up to the last tag that is open, and what stands in that."""
    opening: int | None = None
    inside = 0
    for match in _TAG.finditer(text):
        if match[0][0] == "{":
            if opening is None:
                opening, inside = match.start(), match.end()
        else:
            opening = None
    if opening is None or text[opening + 1] == "#":
        return text, None
    return text[:opening], text[inside:]


def _open_quote(text: str) -> int | None:
    quote: int | None = None
    for place, sign in enumerate(text):
        if quote is None and sign in "'\"":
            quote = place
        elif quote is not None and sign == text[quote]:
            quote = None
    return quote


def _open_bracket(text: str) -> int | None:
    """The innermost bracket that is not closed."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        if text[place] in ")]}":
            depth += 1
        elif text[place] in "([{":
            if depth == 0:
                return place
            depth -= 1
    return None


def _commas(text: str) -> int:
    depth = count = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        count += sign == "," and depth == 0
    return count


def chain(text: str) -> str:
    """The expression of names, fields, items and brackets at the end of a text."""
    end = place = len(text.rstrip())
    while place:
        sign = text[place - 1]
        if sign in _CLOSES:
            opening = _open_bracket(text[: place - 1])
            if opening is None:
                return ""
            place = opening
        elif sign.isalnum() or sign in "_.":
            place -= 1
        else:
            break
    return text[place:end]


def operand(text: str) -> str:
    """The expression with its filters at the end of a text: what a `|` behind it takes."""
    opening = _open_bracket(text)
    part = text[opening + 1 if opening is not None else 0 :]
    depth, start = 0, 0
    quote = ""
    for place, sign in enumerate(part):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif depth == 0 and (match := _SPLIT.match(part, place)) and (place == 0 or not _joined(part, place, match[0])):
            start = max(start, match.end())
    return part[start:].strip()


def _joined(text: str, place: int, sign: str) -> bool:
    """Whether a keyword is the end of a longer word."""
    return sign[0].isalpha() and (text[place - 1].isalnum() or text[place - 1] == "_")


def type_of(expression: str, names: Mapping[str, Type], before: str = "") -> Type:
    """The type of an expression behind a part of a template, whose names it may use."""
    for start in (before, ""):
        try:
            return _probed(f"{start}{{{{ {expression} }}}}{_closing(start)}", names)
        except (Fault, GivenUp, RecursionError):
            continue
    return ANY


def names_behind(before: str, names: Mapping[str, Type]) -> Mapping[str, Type]:
    """The names that are known behind a part of a template."""
    try:
        probe = _probe(f"{before}{{{{ 0 }}}}{_closing(before)}", names)
        probe.statements(probe.template.tree.body)
    except (Fault, GivenUp, RecursionError):
        return names
    return probe.last_names or names


class _Probe(Inference):
    """Keeps the type of what is printed last, and the names there."""

    last: Type = ANY
    last_names: Mapping[str, Type] | None = None

    def printed(self, node: nodes.Node) -> None:
        super().printed(node)
        self.last = self.infer(node)
        self.last_names = dict(self.names)


def _probe(text: str, names: Mapping[str, Type]) -> _Probe:
    return _Probe(Template(Text.of(text), read(text, False)), dict(names), Problems.unheard())


def _probed(text: str, names: Mapping[str, Type]) -> Type:
    probe = _probe(text, names)
    probe.statements(probe.template.tree.body)
    return probe.last


def _closing(text: str) -> str:
    """What closes the statements that are open at the end of a text."""
    stack: list[str] = []
    for match in _STATEMENT.finditer(text):
        word = match[1]
        if word in ("for", "if") or (word == "set" and "=" not in match[2]):
            stack.append(word)
        elif word.startswith("end") and stack:
            stack.pop()
    return "".join(f"{{% end{word} %}}" for word in reversed(stack))
