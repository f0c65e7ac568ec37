"""YAML's syntax errors in the author's words: what is wrong, where, and what to write instead.

Owns the wording only; `yaml` finds the errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from yaml.error import Mark, MarkedYAMLError
from yaml.events import MappingStartEvent, ScalarEvent

from skillrun.language.source import Source

_TEMPLATE_MARKS: Final = ("{{", "{%", "{#")
_INDENT: Final = "keys that belong together start in the same column"
_QUOTE: Final = "put the whole value in quotes"
_ESCAPE: Final = "write `\\\\` for a backslash, or use single quotes"


@dataclass(frozen=True)
class Slip:
    """A syntax error at a place of the file."""

    offset: int
    message: str
    hint: str = ""
    code: str = "yaml"


@dataclass(frozen=True)
class _Found:
    """What the parser says: the place of the error, the place where what it was reading starts, the last event."""

    source: Source
    at: int
    context: int
    problem: str
    last: Any
    last_end: int

    @property
    def character(self) -> str:
        return self.source.text[self.at : self.at + 1]

    @property
    def first_in_line(self) -> bool:
        start = self.source.text.rfind("\n", 0, self.at) + 1
        return not self.source.text[start : self.at].strip()

    def line_of(self, offset: int) -> int:
        return self.source.position(offset)[0]

    @property
    def after_quotes(self) -> bool:
        """The value before the error has quotes and ends on the same line."""
        ended = isinstance(self.last, ScalarEvent) and self.last.style in ("'", '"')
        return ended and self.line_of(self.last_end - 1) == self.line_of(self.at)


def explain(source: Source, offset: int, error: MarkedYAMLError, last: Any) -> Slip:
    """The parser's error in other words; its marks count from `offset`, and `last` is the event before it."""

    def place(mark: Mark | None) -> int | None:
        return None if mark is None else min(mark.index + offset, len(source.text))

    at = place(error.problem_mark)
    at = offset if at is None else at
    context = place(error.context_mark)
    last_end = place(last.end_mark) if last is not None else None
    found = _Found(source, at, at if context is None else context, error.problem or "", last, last_end or offset)
    if template := _template(found, error, place(last.start_mark) if last is not None else None):
        return template
    if found.character == "\t" or "tab" in found.problem:
        return Slip(at, "a tab stands where YAML expects spaces", "indent with spaces")
    for words, wording in _WORDINGS.items():
        if words in found.problem:
            return wording(found)
    return Slip(at, f"YAML: {' '.join(filter(None, (error.context, error.problem)))}", _QUOTE)


def unquoted(offset: int, start: str) -> Slip:
    """A value whose first character means something else in YAML."""
    example = {"{{": '"{{ inputs.name }}"', "{%": '"{% if … %}…{% endif %}"'}.get(start)
    hint = f"{_QUOTE}, such as {example}" if example else _QUOTE
    shown = "a backtick" if start == "`" else f"`{start}`"
    return Slip(offset, f"a value that starts with {shown} must be quoted", hint, "unquoted")


def _template(found: _Found, error: MarkedYAMLError, last_start: int | None) -> Slip | None:
    """Template marks without quotes, which YAML reads as a mapping."""
    text = found.source.text
    places = [found.at - 1] if found.character == "%" else []
    if "flow mapping" in (error.context or ""):
        places.append(found.context)
    if isinstance(found.last, MappingStartEvent) and last_start is not None:
        places.append(last_start)
    for place in places:
        if place >= 0 and text[place : place + 2] in _TEMPLATE_MARKS:
            return unquoted(place, text[place : place + 2])
    return None


def _colon(found: _Found) -> Slip:
    last = found.last
    if isinstance(last, ScalarEvent) and not last.style and last.start_mark.line < last.end_mark.line:
        first = found.line_of(found.last_end) - (last.end_mark.line - last.start_mark.line)
        message = f"this line goes on with the value of line {first}, and a value with `: ` in it must be quoted"
        return Slip(found.at, message, f"if it is a key of its own: {_INDENT}")
    return Slip(found.at, "a value with `: ` in it must be quoted", _QUOTE)


def _no_colon(found: _Found) -> Slip:
    text = found.source.text
    end = text.find("\n", found.context)
    written = text[found.context : end if end >= 0 else None].strip()
    if glued := re.match(r"[\w-]+:(?=\S)", written):
        return Slip(found.context + glued.end() - 1, "a space is missing after the colon", f"write `{glued[0]} …`")
    shown = written if len(written) <= 40 else f"{written[:40]}…"
    return Slip(found.context, f"`{shown}` is not a key with a value", "write `key: value`")


def _no_key(found: _Found) -> Slip:
    if found.first_in_line:
        if found.character == "-":
            return Slip(found.at, "a list item stands between the keys of a mapping", "indent it below its key")
        if found.character == ":":
            return Slip(found.at, "there is no key before the colon", "write `key: value`")
        return Slip(found.at, "the indentation of this line fits none above", _INDENT)
    if found.after_quotes:
        return _after_quotes(found)
    return Slip(found.at, "this is more than the value of the key", _QUOTE)


def _after_quotes(found: _Found) -> Slip:
    hint = "a value that starts with a quote ends with it: put the whole value in the other kind of quotes"
    return Slip(found.at, "something follows the closing quote", hint)


def _no_item(found: _Found) -> Slip:
    return Slip(
        found.at, "neither a list item nor a key of the one above", "list items start in the same column with `- `"
    )


def _unclosed(found: _Found, missing: str) -> Slip:
    if found.after_quotes:
        return _after_quotes(found)
    line = found.line_of(found.context)
    if found.character == ":" and found.line_of(found.at) == line:
        return Slip(found.at, "a value with `: ` in it must be quoted", _QUOTE)
    opening = found.source.text[found.context : found.context + 1]
    hint = f"the `{opening}` of line {line} is still open; a value with any of `,[]{{}}` in it must be quoted"
    return Slip(found.at, f"{missing} is missing here", hint)


def _unclosed_mapping(found: _Found) -> Slip:
    return _unclosed(found, "`,` or `}`")


def _unclosed_list(found: _Found) -> Slip:
    return _unclosed(found, "`,` or `]`")


def _unclosed_quote(found: _Found) -> Slip:
    quote = found.source.text[found.context : found.context + 1]
    return Slip(found.context, f"the quote `{quote}` is never closed")


def _escape(found: _Found) -> Slip:
    written = found.source.text[found.at : found.at + 2]
    return Slip(found.at, f"`{written}` is not an escape in YAML", _ESCAPE)


def _code(found: _Found) -> Slip:
    return Slip(found.at, "this escape is not the code of a character", _ESCAPE)


def _start(found: _Found) -> Slip:
    return unquoted(found.at, found.character)


def _context_start(found: _Found) -> Slip:
    return unquoted(found.context, found.source.text[found.context : found.context + 1])


def _list_beside_key(found: _Found) -> Slip:
    return Slip(found.at, "a list cannot start beside its key", "put it on the next line, or write [a, b]")


def _outside(found: _Found) -> Slip:
    return Slip(found.at, "this line does not belong to what is above it", _INDENT)


# what libyaml says, or a part of it -> our words for it
_WORDINGS: Final[dict[str, Callable[[_Found], Slip]]] = {
    "mapping values are not allowed": _colon,
    "could not find expected ':'": _no_colon,
    "did not find expected key": _no_key,
    "did not find expected '-' indicator": _no_item,
    "did not find expected ',' or '}'": _unclosed_mapping,
    "did not find expected ',' or ']'": _unclosed_list,
    "found unexpected end of stream": _unclosed_quote,
    "found unexpected document indicator": _unclosed_quote,
    "found unknown escape character": _escape,
    "expected hexdecimal number": _code,
    "found invalid Unicode character": _code,
    "cannot start any token": _start,
    "did not find expected node content": _start,
    "mapping keys are not allowed": _start,
    "expected alphabetic or numeric character": _context_start,
    "expected comment or line break": _context_start,
    "indentation indicator": _context_start,
    "tag": _context_start,
    "URI": _context_start,
    "directive": _context_start,
    "block sequence entries are not allowed": _list_beside_key,
    "did not find expected <document start>": _outside,
}
