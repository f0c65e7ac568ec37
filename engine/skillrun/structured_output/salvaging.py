"""Collects the valid items from all JSON values of a reply, for steps with `invalid: gather`. Never raises.

Dropped values are returned with the reasons, so that the journal can record them. The parser is lenient: it accepts
comments, trailing commas, single quotes and truncated values, and runs in linear time. `values` parses replies that
must be a single value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from skillrun.structured_output.values import MAX_DEPTH, MAX_NUMBER, MAX_REPLY
from skillrun.syntax.diagnostics import sanitize
from skillrun.types.schemas import DroppedValue, Shape, ShapeError

MAX_EXCERPT: Final = 200  # characters of an unreadable part
DEFINITION_PREFIXES: Final = ("#/$defs/", "#/definitions/")
_TWICE: Final = "a field is given twice"
MAX_STARTS: Final = 2_000
MAX_REPORTED: Final = 100  # unreadable parts
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


class SalvageResult(NamedTuple):
    """The value and the dropped parts of a reply. If the value is missing, `errors` says why."""

    value: dict[str, Any] | None
    dropped: list[DroppedValue]
    errors: list[ShapeError]


def find_list_field(schema: dict[str, Any]) -> str:
    """Return the name of a record's only field if the field is a list, or else "".

    Also return "" if the schema has a reference to anything other than its own definitions.
    """
    fields: dict[str, Any] = schema.get("properties") or {}
    if len(fields) != 1 or any(not reference.startswith(DEFINITION_PREFIXES) for reference in _references(schema)):
        return ""
    name, rules = next(iter(fields.items()))
    return name if isinstance(rules, dict) and rules.get("type") == "array" else ""


def salvage_items(text: str, schema: dict[str, Any]) -> SalvageResult:
    """Collect the items of a reply whose shape is a record with one list.

    The items can be in several records, in lists, or on their own. Duplicates count once. A truncated value is used up
    to the point where it breaks off.
    """
    if len(text) > MAX_REPLY:
        return SalvageResult(None, [], [ShapeError("", f"the reply is longer than {MAX_REPLY:,} characters")])
    name = find_list_field(schema)
    parser = LenientParser(text)
    collector = _ItemCollector(name, Shape(schema).item_shape(name))
    values = parser.parse_values()
    collector.collect(values)
    dropped = collector.dropped
    for offset, reason in parser.unreadable:
        start = max(0, offset - MAX_EXCERPT // 2)
        line = f"line {text.count(chr(10), 0, offset) + 1}"
        dropped.append(DroppedValue(line, reason, sanitize(text[start : start + MAX_EXCERPT])))
    value, excess = Shape(schema).trim_lists({name: collector.items})
    errors = Shape(schema).check(value)
    if not collector.items:
        problems = [ShapeError(problem.path, problem.reason) for problem in dropped]
        if not collector.lists:
            without = f"the JSON of the reply contains no valid `{name}`" if values else "the reply contains no JSON"
            errors = problems or [ShapeError("", without)]
        errors = errors or problems
    return SalvageResult(value if not errors else None, [*dropped, *excess], errors)


@dataclass
class _ItemCollector:
    """Collects the valid items without duplicates, and the dropped values."""

    name: str
    shape: Shape
    items: list[Any] = field(default_factory=list)
    dropped: list[DroppedValue] = field(default_factory=list)
    lists: int = 0
    count: int = 0  # items in the reply so far, with duplicates and dropped ones
    _seen: set[str] = field(default_factory=set)

    @property
    def known(self) -> dict[str, Any]:
        return self.shape.schema.get("properties") or {}

    def collect(self, values: list[Any]) -> None:
        """Collect the items of the values in order, including items in nested lists and records."""
        pending = values[::-1]
        while pending:
            value = pending.pop()
            if isinstance(value, ObjectFields):
                inside = list(self._collect_record(value))
                pending += inside[::-1]
            elif isinstance(value, list) and not self.known and not any(isinstance(each, list) for each in value):
                self._add_list(value)
            elif isinstance(value, list):
                self.lists += not value
                pending += value[::-1]

    def _collect_record(self, fields: ObjectFields) -> Iterator[Any]:
        """Collect the items of a record that contains the requested list, or a record that is itself an item.

        Yield the values of any other record, because they can contain items.
        """
        lists = [value for name, value in fields if _is_same_name(name, self.name) and isinstance(value, list)]
        if lists:
            for items in lists:
                self._add_list(items)
            for name, value in fields:
                if not _is_same_name(name, self.name):
                    self.dropped.append(
                        DroppedValue(sanitize(name), "the field was not requested", _json(_plain(value)))
                    )
        elif any(name in self.known for name, _ in fields):
            self._add_item(fields)
        else:
            yield from (value for _, value in fields)

    def _add_list(self, items: list[Any]) -> None:
        self.lists += 1
        for item in items:
            self._add_item(item)

    def _add_item(self, item: Any) -> None:
        """Remove the invalid optional parts of an item, and add the item. An item that is still invalid is dropped."""
        value, place = self.shape.normalize(sanitize(_plain(item))), f"{self.name}[{self.count}]"
        self.count += 1
        if isinstance(item, ObjectFields) and len({sanitize(name) for name, _ in item}) < len(item):
            self.dropped.append(DroppedValue(place, _TWICE, _json(value)))
            return
        kept, left_out = self.shape.drop_invalid(value)
        errors = self.shape.check_reply(kept)
        if errors:
            reasons = "; ".join(error.message for error in errors)
            self.dropped.append(DroppedValue(place, reasons, _json(value)))
            return
        self.dropped += [DroppedValue(f"{place}.{each.path}", each.reason, each.text) for each in left_out]
        if (key := _json(kept)) not in self._seen:
            self._seen.add(key)
            self.items.append(kept)


def _references(rules: Any) -> Iterator[str]:
    """Yield each `$ref` in a schema."""
    waiting = [rules]
    while waiting:
        part = waiting.pop()
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            yield part["$ref"]


def _is_same_name(name: str, wanted: str) -> bool:
    return name.strip().casefold() == wanted.casefold()


def _plain(value: Any) -> Any:
    if isinstance(value, ObjectFields):
        return {name: _plain(part) for name, part in value}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class ObjectFields(list[tuple[str, Any]]):
    """The fields of an object, in order. A name can occur more than once."""


@dataclass
class LenientParser:
    """Parses the outermost lists and objects of a text, and records the parts that cannot be parsed."""

    text: str
    unreadable: list[tuple[int, str]] = field(default_factory=list)  # the offset at which parsing stopped, the reason
    _unclosed: bool = False  # whether a comment is not closed
    _quoting: int = 0  # number of strings that were checked for unescaped quotes

    def parse_values(self) -> list[Any]:
        """Return the readable part of each outermost list or object, as a `list` or `ObjectFields`.

        Empty brackets count as a list only at the end of a line, so `- [ ] do` contains no list.
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
        self.unreadable.insert(0, (place, "the text has too many brackets"))
        return values

    def _container(self, at: int, depth: int) -> tuple[Any, int, bool]:
        """Return an object or list, its end, and whether it is complete.

        An incomplete object or list contains the values before the place where parsing stopped.
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
            if is_object:
                at, whole = self._field(value, at, depth)
            else:
                item, at, whole = self._value(at, depth)
                if item is not _NOTHING:
                    value.append(item)
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
            self.unreadable.append((at, why))

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
    """Return the value of a quoted string. An escape that JSON does not define means the character after the `\\`."""
    if written[0] == '"':
        try:
            return str(json.loads(written, strict=False))
        except ValueError:
            pass

    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(unescape, written[1:-1])


def _number(written: str) -> int | float | None:
    """Return the number, or None if it is too large."""
    if len(written) > MAX_NUMBER:
        return None
    if written.lstrip("-").isdecimal():
        return int(written)
    value = float(written)
    return value if math.isfinite(value) else None
