"""Finds out whether the cursor in a file is in a key, a value, a heading or the body.

The text may be invalid at the cursor. This module knows the structure of files, but not the meaning of keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from yaml import CSafeLoader
from yaml.error import MarkedYAMLError
from yaml.events import MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent

from skillrun.syntax.document import find_headings

CursorPart = Literal["key", "value", "heading", "body"]
PlainKeys = Mapping[str, str]
CURSOR_MARK: Final = "\N{GREEK SMALL LETTER ZETA}\N{GREEK SMALL LETTER ETA}\N{GREEK SMALL LETTER ZETA}"
_OPENING: Final = re.compile(r"---[ \t]*(?:\n|\Z)")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_BEFORE: Final = re.compile(r"[\w./:@-]*\Z")
_BEHIND: Final = re.compile(r"[\w./:@-]*?(?=:?(?:[^\w./:@-]|\Z))")
_COMMENT: Final = re.compile(r"[ \t]*#|[^'\"]*[ \t]#")


@dataclass(frozen=True)
class CursorPosition:
    """The position of the cursor.

    `path` lists the keys and item numbers that lead to the value at the cursor. If the cursor is in a key, they lead to
    the mapping with the key. `mappings` are the enclosing mappings, outermost first, with the values that are scalars.
    `prefix` is the text of the value, section or heading up to the cursor. `start` and `end` are the bounds of the word
    at the cursor. `top` is the top-level mapping.
    """

    part: CursorPart
    path: tuple[str | int, ...]
    prefix: str
    start: int
    end: int
    mappings: tuple[PlainKeys, ...] = ()
    section: str = ""
    top: PlainKeys = field(default_factory=lambda: MappingProxyType({}))

    @property
    def siblings(self) -> PlainKeys:
        """The keys of the innermost mapping."""
        return self.mappings[-1] if self.mappings else {}


def locate_cursor(text: str, offset: int, *, yaml_only: bool = False) -> CursorPosition | None:
    """Return the position at an offset; None if the offset is in a comment or on a `---` line."""
    start, end, body = frontmatter_bounds(text) if not yaml_only else (0, len(text), len(text))
    if offset < start or end < offset < body:
        return None
    if offset <= end and (start or yaml_only):
        return _in_yaml(text, start, end, offset)
    headings, _ = find_headings(text, body)
    heading = next((heading for heading in reversed(headings) if heading.start <= offset), None)
    _, top, _ = _locate_mark(text[start:end])
    if heading is None:
        return CursorPosition("body", (), text[body:offset], offset, offset, top=top)
    name = heading.name
    if offset < heading.text_start and "\n" not in text[heading.start : offset]:
        place = text.find(name, heading.start) if name else offset
        return CursorPosition("heading", (), text[place:offset], place, place + len(name), section=name, top=top)
    return CursorPosition("body", (), text[heading.text_start : offset], offset, offset, section=name, top=top)


def frontmatter_bounds(text: str) -> tuple[int, int, int]:
    """Return the start and the end of the frontmatter, and the start of the body.

    If the frontmatter is not closed, the body is empty.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return 0, 0, 0
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        return opening.end(), len(text), len(text)
    return opening.end(), closing.start(), closing.end()


def _in_yaml(text: str, start: int, end: int, offset: int) -> CursorPosition | None:
    word, word_after = _BEFORE.search(text, start, offset), _BEHIND.match(text, offset, end)
    begin = word.start() if word else offset
    after = word_after.end() if word_after else offset
    if _COMMENT.match(text[max(text.rfind("\n", start, begin) + 1, start) : begin]):
        return None
    head, tail, written = text[start:begin], text[after:end], text[begin:offset]
    as_key = CURSOR_MARK if tail.startswith(":") else f"{CURSOR_MARK}: "
    for marked, wanted in ((as_key, "key"), (CURSOR_MARK, "value")):
        position, _, quote = _locate_mark(head + marked + tail)
        if quote is not None and quote <= len(head):
            position, _, _ = _locate_mark(head[:quote] + CURSOR_MARK + "\n")
            inside = text[start + quote + 1 : offset]
            return replace(position, part="value", prefix=inside, start=begin, end=after) if position else None
        if position is not None and (position.part == "key" or wanted == "value"):
            return replace(position, prefix=position.prefix + written, start=begin, end=after)
    return None


@dataclass
class _Collection:
    """A list or mapping that the parser has not finished, with the current key or item number."""

    current: str | int | None
    is_inline_pair: bool
    keys: dict[str, str] = field(default_factory=dict)

    def add_scalar(self, value: str) -> None:
        has_mark = CURSOR_MARK in value
        if self.current is None:
            self.current = value
            if not has_mark:
                self.keys.setdefault(value, "")
            return
        if isinstance(self.current, str) and CURSOR_MARK not in self.current:
            self.keys[self.current] = "" if has_mark else value
        self.end_value()

    def end_value(self) -> None:
        self.current = self.current + 1 if isinstance(self.current, int) else None


def _locate_mark(text: str) -> tuple[CursorPosition | None, PlainKeys, int | None]:
    """Return the position of the cursor mark in a YAML text that may be invalid, without the bounds of the word.

    Also return the top-level mapping and, if there is no position, the start of an unclosed quote. libyaml reads the
    text up to the first error. More keys are added to the mappings of the position as parsing continues.
    """
    parser = CSafeLoader(text)
    stack: list[_Collection] = []
    top: PlainKeys | None = None
    position: CursorPosition | None = None
    quote: int | None = None
    try:
        while parser.check_event():
            event: Any = parser.get_event()
            if isinstance(event, ScalarEvent):
                if position is None and CURSOR_MARK in event.value:
                    position = _describe_mark(stack, event.value.partition(CURSOR_MARK)[0])
                if stack:
                    stack[-1].add_scalar(event.value)
            elif isinstance(event, MappingStartEvent | SequenceStartEvent):
                parent = stack[-1] if stack else None
                if parent is not None and isinstance(parent.current, str):
                    parent.keys.setdefault(parent.current, "")
                in_list = parent is not None and isinstance(parent.current, int)
                if isinstance(event, MappingStartEvent):
                    is_braced = text.startswith("{", event.start_mark.index if event.start_mark else 0)
                    stack.append(_Collection(None, in_list and bool(event.flow_style) and not is_braced))
                else:
                    stack.append(_Collection(0, is_inline_pair=False))
                top = stack[0].keys if top is None else top
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                stack.pop()
                if stack:
                    stack[-1].end_value()
    except MarkedYAMLError as error:
        if error.context == "while scanning a quoted scalar" and error.context_mark is not None and position is None:
            quote = error.context_mark.index
    finally:
        parser.dispose()
    return position, top or {}, quote


def _describe_mark(stack: list[_Collection], prefix: str) -> CursorPosition:
    """Return the position of a mark in the innermost collection. `prefix` is the text before the mark."""
    part: CursorPart = "value"
    if stack and stack[-1].current is None:
        part = "key"
        if stack[-1].is_inline_pair:  # `[a, b`, where `b` was parsed as a key
            stack, part = stack[:-1], "value"
    path = tuple(each.current for each in stack if each.current is not None)
    mappings = tuple(each.keys for each in stack if not isinstance(each.current, int))
    return CursorPosition(part, path, prefix, 0, 0, mappings, top=mappings[0] if mappings else {})
