"""Finds out whether the cursor in a file is in a key, a value, a heading or the body.

The text may be invalid at the cursor. This module knows the structure of files, but not the meaning of keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from yaml import CSafeLoader
from yaml.error import MarkedYAMLError
from yaml.events import (
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from skillrun.syntax.document import find_headings

CursorPart = Literal["key", "value", "heading", "body"]
PlainKeys = Mapping[str, str]
CURSOR_MARK: Final = "\N{GREEK SMALL LETTER ZETA}\N{GREEK SMALL LETTER ETA}\N{GREEK SMALL LETTER ZETA}"
_OPENING: Final = re.compile(r"---[ \t]*(?:\n|\Z)")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_BEFORE: Final = re.compile(r"[\w./:@-]*\Z")
_BEHIND: Final = re.compile(r"[\w./:@-]*?(?=:?(?:[^\w./:@-]|\Z))")
_NAME: Final = re.compile(r"[\w-]*")


@dataclass(frozen=True)
class CursorPosition:
    """The position of the cursor.

    `path` lists the keys and item numbers that lead to a value in the frontmatter or, if the cursor is in a key, to the
    mapping that contains the key. `mappings` are the enclosing mappings, outermost first, with the values of their keys
    if these are scalars. `prefix` is the text of the value, section or heading up to the cursor. `start` and `end` are
    the bounds of the word at the cursor. `top` is the top-level mapping.
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

    @property
    def key(self) -> str:
        """The last key in the path."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")


def locate_cursor(text: str, offset: int, *, yaml_only: bool = False) -> CursorPosition | None:
    """Return the position at an offset; None if the offset is in a comment or on a `---` line."""
    start, end, body = frontmatter_bounds(text) if not yaml_only else (0, len(text), len(text))
    if offset < start or end < offset < body:
        return None
    if offset <= end and (start or yaml_only):
        return _in_yaml(text, start, end, offset)
    return _in_body(text, start, end, body, offset)


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


def _in_body(text: str, start: int, end: int, body: int, offset: int) -> CursorPosition:
    headings, _ = find_headings(text, body)
    above = [heading for heading in headings if heading.start <= offset]
    front = _locate_mark(text[start:end])
    top: PlainKeys = front.tops[0] if front is not None and front.tops else {}
    if not above:
        return CursorPosition("body", (), text[body:offset], offset, offset, top=top)
    heading = above[-1]
    if offset < heading.text_start and "\n" not in text[heading.start : offset]:
        name = text.find(heading.name, heading.start) if heading.name else offset
        return CursorPosition(
            "heading", (), text[name:offset], name, name + len(heading.name), section=heading.name, top=top
        )
    return CursorPosition("body", (), text[heading.text_start : offset], offset, offset, section=heading.name, top=top)


class _MarkLocation(NamedTuple):
    """The location of the cursor mark in YAML. `role` is empty if the mark was not found.

    `tops` are the top-level mappings.
    """

    role: Literal["key", "value", ""]
    path: tuple[str | int, ...]
    mappings: tuple[PlainKeys, ...]
    prefix: str
    tops: tuple[PlainKeys, ...]
    quote: int | None = None  # the start of an unclosed quote


def _in_yaml(text: str, start: int, end: int, offset: int) -> CursorPosition | None:
    word = _BEFORE.search(text, start, offset)
    assert word is not None
    begin = word.start()
    word_after = _BEHIND.match(text, offset, end)
    after = word_after.end() if word_after else offset
    line = text.rfind("\n", start, begin) + 1
    if _is_comment(text[max(line, start) : begin]):
        return None
    head, tail, written = text[start:begin], text[after:end], text[begin:offset]
    as_key = CURSOR_MARK if tail.startswith(":") else f"{CURSOR_MARK}: "
    for marked, role in ((as_key, "key"), (CURSOR_MARK, "value")):
        location = _locate_mark(head + marked + tail)
        if location is not None and location.quote is not None and location.quote <= len(head):
            inside = text[start + location.quote + 1 : offset]
            location = _locate_mark(text[start : start + location.quote] + CURSOR_MARK + "\n")
            if location is not None and location.role:
                return _build_position(location, "value", inside, begin, after)
            return None
        if location is not None and location.role and (location.role == "key" or role == "value"):
            return _build_position(location, location.role, location.prefix + written, begin, after)
    return None


def _build_position(location: _MarkLocation, role: CursorPart, prefix: str, start: int, end: int) -> CursorPosition:
    top = location.mappings[0] if location.mappings else {}
    return CursorPosition(role, location.path, prefix, start, end, location.mappings, top=top)


def _is_comment(line: str) -> bool:
    """Whether the end of a line is in a comment. Only this line is considered."""
    return bool(re.match(r"[ \t]*#", line) or re.search(r"^[^'\"]*[ \t]#", line))


class _Frame:
    """A list or mapping that the parser has not finished."""

    __slots__ = ("inline_pair", "is_mapping", "key", "keys", "number")

    def __init__(self, is_mapping: bool, inline_pair: bool = False) -> None:
        self.is_mapping = is_mapping
        self.inline_pair = inline_pair
        self.keys: dict[str, str] = {}
        self.key: str | None = None
        self.number = 0


def _locate_mark(text: str) -> _MarkLocation | None:
    """Return the location of the cursor mark in a YAML text that may be invalid.

    libyaml reads the text up to the first error. The top-level mappings are returned even if the mark is not found.
    """
    parser = CSafeLoader(text)
    stack: list[_Frame] = []
    tops: list[PlainKeys] = []
    location: _MarkLocation | None = None
    quote: int | None = None
    try:
        while True:
            event: Any = parser.get_event()
            kind = type(event)
            if kind is MappingStartEvent or kind is SequenceStartEvent:
                is_mapping = kind is MappingStartEvent
                pair = is_mapping and text[event.start_mark.index : event.start_mark.index + 1] != "{"
                in_flow_list = bool(stack) and not stack[-1].is_mapping and _is_flow(text, event)
                _enter_collection(stack)
                frame = _Frame(is_mapping, pair and in_flow_list)
                if not stack:
                    tops.append(frame.keys)
                stack.append(frame)
            elif kind is ScalarEvent:
                if location is None and CURSOR_MARK in event.value:
                    location = _describe_mark(stack, event, tuple(tops))
                _scalar(stack, event.value)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                stack.pop()
                if stack and stack[-1].is_mapping:
                    stack[-1].key = None
            elif kind is StreamEndEvent:
                break
    except MarkedYAMLError as error:
        if error.context == "while scanning a quoted scalar" and error.context_mark is not None:
            quote = error.context_mark.index
    finally:
        parser.dispose()
    return (location or _MarkLocation("", (), (), "", tuple(tops)))._replace(quote=None if location else quote)


def _is_flow(text: str, event: Any) -> bool:
    return bool(getattr(event, "flow_style", False)) or text[: event.start_mark.index].rstrip()[-1:] in ("[", ",")


def _enter_collection(stack: list[_Frame]) -> None:
    """Record in the innermost frame that a list or mapping starts there."""
    if stack and not stack[-1].is_mapping:
        stack[-1].number += 1
    elif stack and stack[-1].key is not None:
        stack[-1].keys.setdefault(stack[-1].key, "")


def _scalar(stack: list[_Frame], value: str) -> None:
    if not stack:
        return
    frame = stack[-1]
    if not frame.is_mapping:
        frame.number += 1
    elif frame.key is None:
        frame.key = value
        if CURSOR_MARK not in value:
            frame.keys.setdefault(value, "")
    else:
        if CURSOR_MARK not in frame.key:
            frame.keys[frame.key] = value if CURSOR_MARK not in value else ""
        frame.key = None


def _describe_mark(stack: list[_Frame], event: Any, tops: tuple[PlainKeys, ...]) -> _MarkLocation:
    """Return the location of the mark. More keys are added to the location's mappings as parsing continues."""
    frames = list(stack)
    role: Literal["key", "value"] = "value"
    if frames and frames[-1].is_mapping and frames[-1].key is None:
        role = "key"
        if frames[-1].inline_pair:  # `[a, b`, where `b` was parsed as a key
            frames.pop()
            role = "value"
    path: list[str | int] = []
    for inner, frame in enumerate(frames):
        last = inner == len(frames) - 1
        if frame.is_mapping and frame.key is not None:
            path.append(frame.key)
        elif not frame.is_mapping:
            path.append(frame.number - (0 if last and frame is stack[-1] else 1))
    mappings = tuple(frame.keys for frame in frames if frame.is_mapping)
    return _MarkLocation(role, tuple(path), mappings, event.value.partition(CURSOR_MARK)[0], tops)
