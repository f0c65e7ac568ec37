"""Reads what is left of JSON in a text: comments, trailing commas, other quotes, values that break off. Never raises.

For replies of which every readable part counts; where one value is the reply, `replies` reads it. Takes time in line
with the text.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

MAX_DEPTH: Final = 25
MAX_STARTS: Final = 2_000
MAX_REPORTED: Final = 100  # places that could not be read
_LONGEST_NUMBER: Final = 300
_BLANK: Final = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+)++")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'', re.DOTALL)
_BEHIND: Final = re.compile(r"[ \t]*+[^\s,:\]}\[{\"'/#]")  # a text does not end before this
_ENDS: Final = r"""\s*+(?:,\s*+["'{\[\]}]|[\]}])"""
_QUOTING: Final = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\\n]|\\.|{quote}(?!{_ENDS}|\s*+:))*+{quote}(?={_ENDS})") for quote in "\"'"
}
"""A text on one line with quotes of its own in it that are not escaped."""
MAX_QUOTING_LENGTH: Final = 1_000  # characters
MAX_QUOTING_TEXTS: Final = 1_000  # that are looked for in a text
_NAME: Final = re.compile(r"[A-Za-z_$][\w$-]*+")
_NUMBER: Final = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?(?![\w.])")
_WORD: Final = re.compile(r"(?:true|false|null|True|False|None)(?!\w)")
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_START: Final = re.compile(r"[\[{]")
_REST: Final = re.compile(r"[ \t`*_.)]*+(?:\n|\Z)")  # of a line, with nothing in it
_NEXT: Final = re.compile(r"[,\]}\[{\n]")


class ObjectFields(list[tuple[str, Any]]):
    """The fields of an object in their order; a name may be there twice."""


@dataclass
class UnreadablePart:
    """A place where JSON had begun and could not be read: what stands there, and why."""

    offset: int
    reason: str


@dataclass
class LenientParser:
    """The values of a text, outermost ones only, and the places where one breaks off."""

    text: str
    unreadable: list[UnreadablePart] = field(default_factory=list)
    _unclosed: bool = False  # a comment that has no end
    _quoting: int = 0  # texts that were looked at for quotes of their own

    def parse_values(self) -> list[Any]:
        """Every list and object, as `list` and `ObjectFields`, with what of it can be read.

        Brackets with nothing in them are a list where nothing stands behind them on their line: `- [ ] do` has none.
        """
        values: list[Any] = []
        place = 0
        for _ in range(MAX_STARTS):
            start = _START.search(self.text, place)
            if start is None:
                return values
            value, place, whole = self._container(start.start(), 1)
            if value or (whole and _REST.match(self.text, place)):
                values.append(value)
        self.unreadable.insert(0, UnreadablePart(place, "there are too many brackets to read on"))
        return values

    def _container(self, at: int, depth: int) -> tuple[Any, int, bool]:
        """An object or a list, where it ends, and whether it is whole. What breaks off has what came before."""
        is_object = self.text[at] == "{"
        value: Any = ObjectFields() if is_object else []
        if depth > MAX_DEPTH:
            self._report(at, f"it is nested more than {MAX_DEPTH} levels deep")
            return value, at + 1, False
        close = "}" if is_object else "]"
        at += 1
        while True:
            at = self._skip_blanks(at)
            while self.text[at : at + 1] == ",":
                at = self._skip_blanks(at + 1)
            if at >= len(self.text):
                self._report_break(value, at, "it breaks off", depth)
                return value, at, False
            if self.text[at] == close:
                return value, at + 1, True
            if self.text[at] in "]}":
                self._report_break(value, at, f"`{self.text[at]}` stands where `{close}` would end it", depth)
                return value, at + 1, True
            at, whole = self._field(value, at, depth) if is_object else self._item(value, at, depth)
            if not whole:
                return value, at, False

    def _field(self, value: ObjectFields, at: int, depth: int) -> tuple[int, bool]:
        """One field of an object; where it ends, and whether the object goes on behind it."""
        start, name = at, ""
        if text := _TEXT.match(self.text, at):
            name, at = _decode_string(text[0]), text.end()
        elif word := _NAME.match(self.text, at):
            name, at = word[0], word.end()
        colon = self._skip_blanks(at)
        if at == start or self.text[colon : colon + 1] != ":":
            self._report_break(value, start, "it breaks off" if colon >= len(self.text) else "this is no field", depth)
            return max(at, start), False
        at = self._skip_blanks(colon + 1)
        if at >= len(self.text):
            self._report(start, "it breaks off")
            return at, False
        member, at, whole = self._value(at, depth)
        if member is not _NOTHING:
            value.append((name, member))
        return at, whole

    def _item(self, value: list[Any], at: int, depth: int) -> tuple[int, bool]:
        """One item of a list; where it ends, and whether the list goes on behind it."""
        item, at, whole = self._value(at, depth)
        if item is not _NOTHING:
            value.append(item)
        return at, whole

    def _value(self, at: int, depth: int) -> tuple[Any, int, bool]:
        """A value, where it ends, and whether what is around it can go on; _NOTHING for what is none."""
        if self.text[at] in "{[":
            return self._container(at, depth + 1)
        if text := self._match_string(at):
            return _decode_string(text[0]), text.end(), True
        if number := _NUMBER.match(self.text, at):
            value = _number(number[0])
            if value is not None:
                return value, number.end(), True
        elif word := _WORD.match(self.text, at):
            return _WORDS[word[0]], word.end(), True
        if self.text[at] == '"':
            self._report(at, "the text breaks off")
            return _NOTHING, len(self.text), False
        self._report(at, "this is no value")
        following = _NEXT.search(self.text, at)
        return _NOTHING, following.start() if following else len(self.text), True

    def _match_string(self, at: int) -> re.Match[str] | None:
        """A text, up to the quote that ends it; a quote within a word of prose begins none."""
        plain = _TEXT.match(self.text, at)
        if plain is None or not _BEHIND.match(self.text, plain.end()):
            return plain
        quote, self._quoting = self.text[at], self._quoting + 1
        end = at + MAX_QUOTING_LENGTH if self._quoting <= MAX_QUOTING_TEXTS else at
        return _QUOTING[quote].match(self.text, at, end) or (plain if quote == '"' else None)

    def _report_break(self, value: Any, at: int, why: str, depth: int) -> None:
        """Note it, unless nothing was there yet: brackets in prose are no loss."""
        if value or depth > 1:
            self._report(at, why)

    def _report(self, at: int, why: str) -> None:
        if len(self.unreadable) < MAX_REPORTED:
            self.unreadable.append(UnreadablePart(at, why))

    def _skip_blanks(self, at: int) -> int:
        """The place behind blanks and comments."""
        while True:
            if blank := _BLANK.match(self.text, at):
                at = blank.end()
            if self._unclosed or not self.text.startswith("/*", at):
                return at
            end = self.text.find("*/", at + 2)
            if end < 0:
                self._unclosed = True
                return at
            at = end + 2


_NOTHING: Final = object()


def _decode_string(written: str) -> str:
    """What a text in quotes says, whatever escapes it has."""
    if written[0] == '"':
        try:
            return str(json.loads(written, strict=False))
        except ValueError:
            pass
    return _ESCAPE.sub(_unescape, written[1:-1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def _number(written: str) -> int | float | None:
    """The number; None where it is larger than a computer's."""
    if len(written) > _LONGEST_NUMBER:
        return None
    if written.lstrip("-").isdecimal():
        return int(written)
    value = float(written)
    return value if math.isfinite(value) else None
