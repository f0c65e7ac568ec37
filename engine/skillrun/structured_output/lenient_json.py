"""Parses JSON in a text leniently: it accepts comments, trailing commas, single quotes and truncated values.

The parser is for replies of which every readable part is used; `values` parses replies that must be a single value. It
never raises, and runs in linear time.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

MAX_DEPTH: Final = 25
MAX_STARTS: Final = 2_000
MAX_REPORTED: Final = 100  # unreadable parts
_LONGEST_NUMBER: Final = 300
_BLANK: Final = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+)++")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'', re.DOTALL)
_BEHIND: Final = re.compile(r"[ \t]*+[^\s,:\]}\[{\"'/#]")  # a quote before this does not end a string
_ENDS: Final = r"""\s*+(?:,\s*+["'{\[\]}]|[\]}])"""
_QUOTING: Final = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\\n]|\\.|{quote}(?!{_ENDS}|\s*+:))*+{quote}(?={_ENDS})") for quote in "\"'"
}
"""A string on one line that contains unescaped quotes."""
MAX_QUOTING_LENGTH: Final = 1_000  # characters
MAX_QUOTING_TEXTS: Final = 1_000  # strings per text
_NAME: Final = re.compile(r"[A-Za-z_$][\w$-]*+")
_NUMBER: Final = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?(?![\w.])")
_WORD: Final = re.compile(r"(?:true|false|null|True|False|None)(?!\w)")
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_START: Final = re.compile(r"[\[{]")
_REST: Final = re.compile(r"[ \t`*_.)]*+(?:\n|\Z)")  # a rest of a line that has no content
_NEXT: Final = re.compile(r"[,\]}\[{\n]")


class ObjectFields(list[tuple[str, Any]]):
    """The fields of an object, in order. A name may occur more than once."""


@dataclass
class UnreadablePart:
    """The place at which JSON cannot be parsed, and the reason."""

    offset: int
    reason: str


@dataclass
class LenientParser:
    """Parses the outermost lists and objects of a text, and records the parts that cannot be parsed."""

    text: str
    unreadable: list[UnreadablePart] = field(default_factory=list)
    _unclosed: bool = False  # whether a comment is not closed
    _quoting: int = 0  # number of strings that were checked for unescaped quotes

    def parse_values(self) -> list[Any]:
        """Return the readable part of each outermost list or object, as a `list` or `ObjectFields`.

        Empty brackets only count as a list at the end of a line, so `- [ ] do` contains no list.
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
        self.unreadable.insert(0, UnreadablePart(place, "the text has too many brackets"))
        return values

    def _container(self, at: int, depth: int) -> tuple[Any, int, bool]:
        """Return an object or list, its end, and whether it is complete.

        If it is not, the object or list contains the values before the place where parsing stopped.
        """
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
                self._report_break(value, at, "the JSON is truncated", depth)
                return value, at, False
            if self.text[at] == close:
                return value, at + 1, True
            if self.text[at] in "]}":
                self._report_break(value, at, f"found `{self.text[at]}`, expected `{close}`", depth)
                return value, at + 1, True
            at, whole = self._field(value, at, depth) if is_object else self._item(value, at, depth)
            if not whole:
                return value, at, False

    def _field(self, value: ObjectFields, at: int, depth: int) -> tuple[int, bool]:
        """Parse a field, and add it to the object `value`. Return the field's end, and whether the object continues."""
        start, name = at, ""
        if text := _TEXT.match(self.text, at):
            name, at = _decode_string(text[0]), text.end()
        elif word := _NAME.match(self.text, at):
            name, at = word[0], word.end()
        colon = self._skip_blanks(at)
        if at == start or self.text[colon : colon + 1] != ":":
            self._report_break(
                value, start, "the JSON is truncated" if colon >= len(self.text) else "this is not a field", depth
            )
            return max(at, start), False
        at = self._skip_blanks(colon + 1)
        if at >= len(self.text):
            self._report(start, "the JSON is truncated")
            return at, False
        member, at, whole = self._value(at, depth)
        if member is not _NOTHING:
            value.append((name, member))
        return at, whole

    def _item(self, value: list[Any], at: int, depth: int) -> tuple[int, bool]:
        """Parse an item, and add it to the list `value`. Return the item's end, and whether the list continues."""
        item, at, whole = self._value(at, depth)
        if item is not _NOTHING:
            value.append(item)
        return at, whole

    def _value(self, at: int, depth: int) -> tuple[Any, int, bool]:
        """Return a value, its end, and whether the object or list around it can continue.

        If the value cannot be parsed, return _NOTHING in its place.
        """
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
            self._report(at, "the string is truncated")
            return _NOTHING, len(self.text), False
        self._report(at, "this is not a value")
        following = _NEXT.search(self.text, at)
        return _NOTHING, following.start() if following else len(self.text), True

    def _match_string(self, at: int) -> re.Match[str] | None:
        """Match the string that starts at an offset, up to its closing quote. Return None if no string starts there."""
        plain = _TEXT.match(self.text, at)
        if plain is None or not _BEHIND.match(self.text, plain.end()):
            return plain
        quote, self._quoting = self.text[at], self._quoting + 1
        end = at + MAX_QUOTING_LENGTH if self._quoting <= MAX_QUOTING_TEXTS else at
        return _QUOTING[quote].match(self.text, at, end) or (plain if quote == '"' else None)

    def _report_break(self, value: Any, at: int, why: str, depth: int) -> None:
        """Report an unreadable part, unless it is in an outermost value without content, such as brackets in prose."""
        if value or depth > 1:
            self._report(at, why)

    def _report(self, at: int, why: str) -> None:
        if len(self.unreadable) < MAX_REPORTED:
            self.unreadable.append(UnreadablePart(at, why))

    def _skip_blanks(self, at: int) -> int:
        """Return the offset after white space and comments."""
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
    """Return the value of a quoted string. Escapes that JSON does not have stand for the character after the `\\`."""
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
    """Return the number, or None if it is too large."""
    if len(written) > _LONGEST_NUMBER:
        return None
    if written.lstrip("-").isdecimal():
        return int(written)
    value = float(written)
    return value if math.isfinite(value) else None
