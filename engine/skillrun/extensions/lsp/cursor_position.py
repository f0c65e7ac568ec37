"""What stands at a position of a file that is being written: a key, a value, a template, a heading, or the plain body.

Reads a text that may be broken right there; knows how files are built, and not what their keys mean.
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

from skillrun.syntax.document import headings_of

Part = Literal["key", "value", "heading", "body"]
Keys = Mapping[str, str]
MARK: Final = "\N{GREEK SMALL LETTER ZETA}\N{GREEK SMALL LETTER ETA}\N{GREEK SMALL LETTER ZETA}"
_OPENING: Final = re.compile(r"---[ \t]*(?:\n|\Z)")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_BEFORE: Final = re.compile(r"[\w./:@-]*\Z")
_BEHIND: Final = re.compile(r"[\w./:@-]*?(?=:?(?:[^\w./:@-]|\Z))")
_NAME: Final = re.compile(r"[\w-]*")


@dataclass(frozen=True)
class Place:
    """Where the cursor is.

    `path` leads through the frontmatter to what stands here: keys, and the places of items; of a key that is written
    it leads to the mapping around. `around` has for each mapping on the way its keys with what is plain of their
    values. `before` is the text of the value, section or heading up to the cursor; `start` and `end` are the ends of
    the word there.
    """

    part: Part
    path: tuple[str | int, ...]
    before: str
    start: int
    end: int
    around: tuple[Keys, ...] = ()
    section: str = ""
    top: Keys = field(default_factory=lambda: MappingProxyType({}))

    @property
    def siblings(self) -> Keys:
        """The keys of the innermost mapping."""
        return self.around[-1] if self.around else {}

    @property
    def key(self) -> str:
        """The innermost key on the way."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")


def place_at(text: str, offset: int, *, yaml_only: bool = False) -> Place | None:
    """What stands at an offset; None in a comment, and on the lines `---`."""
    start, end, body = frontmatter_of(text) if not yaml_only else (0, len(text), len(text))
    if offset < start or end < offset < body:
        return None
    if offset <= end and (start or yaml_only):
        return _in_yaml(text, start, end, offset)
    return _in_body(text, start, end, body, offset)


def frontmatter_of(text: str) -> tuple[int, int, int]:
    """Where the frontmatter begins and ends, and where the body begins; without an end it is the rest of the text."""
    opening = _OPENING.match(text)
    if opening is None:
        return 0, 0, 0
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        return opening.end(), len(text), len(text)
    return opening.end(), closing.start(), closing.end()


def _in_body(text: str, start: int, end: int, body: int, offset: int) -> Place:
    headings, _ = headings_of(text, body)
    above = [heading for heading in headings if heading.start <= offset]
    front = _walked(text[start:end])
    top: Keys = front.tops[0] if front is not None and front.tops else {}
    if not above:
        return Place("body", (), text[body:offset], offset, offset, top=top)
    heading = above[-1]
    if offset < heading.text_start and "\n" not in text[heading.start : offset]:
        name = text.find(heading.name, heading.start) if heading.name else offset
        return Place("heading", (), text[name:offset], name, name + len(heading.name), section=heading.name, top=top)
    return Place("body", (), text[heading.text_start : offset], offset, offset, section=heading.name, top=top)


class _Found(NamedTuple):
    """Where the mark stands, or nothing; the outermost mapping comes first among `tops`."""

    role: Literal["key", "value", ""]
    path: tuple[str | int, ...]
    around: tuple[Keys, ...]
    before: str
    tops: tuple[Keys, ...]
    quote: int | None = None  # where quotes begin that are never closed


def _in_yaml(text: str, start: int, end: int, offset: int) -> Place | None:
    word = _BEFORE.search(text, start, offset)
    assert word is not None
    begin = word.start()
    behind = _BEHIND.match(text, offset, end)
    after = behind.end() if behind else offset
    line = text.rfind("\n", start, begin) + 1
    if _is_comment(text[max(line, start) : begin]):
        return None
    head, tail, written = text[start:begin], text[after:end], text[begin:offset]
    as_key = MARK if tail.startswith(":") else f"{MARK}: "
    for marked, role in ((as_key, "key"), (MARK, "value")):
        found = _walked(head + marked + tail)
        if found is not None and found.quote is not None and found.quote <= len(head):
            inside = text[start + found.quote + 1 : offset]
            found = _walked(text[start : start + found.quote] + MARK + "\n")
            if found is not None and found.role:
                return _made(found, "value", inside, begin, after)
            return None
        if found is not None and found.role and (found.role == "key" or role == "value"):
            return _made(found, found.role, found.before + written, begin, after)
    return None


def _made(found: _Found, role: Part, before: str, start: int, end: int) -> Place:
    top = found.around[0] if found.around else {}
    return Place(role, found.path, before, start, end, found.around, top=top)


def _is_comment(line: str) -> bool:
    """Whether a line has become a comment, as far as that can be seen from it alone."""
    return bool(re.match(r"[ \t]*#", line) or re.search(r"^[^'\"]*[ \t]#", line))


class _Frame:
    """A list or mapping that is not closed yet."""

    __slots__ = ("inline_pair", "is_mapping", "key", "keys", "number")

    def __init__(self, is_mapping: bool, inline_pair: bool = False) -> None:
        self.is_mapping = is_mapping
        self.inline_pair = inline_pair
        self.keys: dict[str, str] = {}
        self.key: str | None = None
        self.number = 0


def _walked(text: str) -> _Found | None:
    """Where the mark stands, by what libyaml makes of the text until it breaks; else at least what the top has."""
    parser = CSafeLoader(text)
    stack: list[_Frame] = []
    tops: list[Keys] = []
    found: _Found | None = None
    quote: int | None = None
    try:
        while True:
            event: Any = parser.get_event()
            kind = type(event)
            if kind is MappingStartEvent or kind is SequenceStartEvent:
                is_mapping = kind is MappingStartEvent
                pair = is_mapping and text[event.start_mark.index : event.start_mark.index + 1] != "{"
                in_flow_list = bool(stack) and not stack[-1].is_mapping and _is_flow(text, event)
                _entered(stack)
                frame = _Frame(is_mapping, pair and in_flow_list)
                if not stack:
                    tops.append(frame.keys)
                stack.append(frame)
            elif kind is ScalarEvent:
                if found is None and MARK in event.value:
                    found = _marked(stack, event, tuple(tops))
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
    return (found or _Found("", (), (), "", tuple(tops)))._replace(quote=None if found else quote)


def _is_flow(text: str, event: Any) -> bool:
    return bool(getattr(event, "flow_style", False)) or text[: event.start_mark.index].rstrip()[-1:] in ("[", ",")


def _entered(stack: list[_Frame]) -> None:
    """A list or mapping begins in the innermost one."""
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
        if MARK not in value:
            frame.keys.setdefault(value, "")
    else:
        if MARK not in frame.key:
            frame.keys[frame.key] = value if MARK not in value else ""
        frame.key = None


def _marked(stack: list[_Frame], event: Any, tops: tuple[Keys, ...]) -> _Found:
    """What is known at the mark; the mappings around it fill up as the rest is read."""
    frames = list(stack)
    role: Literal["key", "value"] = "value"
    if frames and frames[-1].is_mapping and frames[-1].key is None:
        role = "key"
        if frames[-1].inline_pair:  # `[a, b` whose `b` was taken for a key
            frames.pop()
            role = "value"
    path: list[str | int] = []
    for inner, frame in enumerate(frames):
        last = inner == len(frames) - 1
        if frame.is_mapping and frame.key is not None:
            path.append(frame.key)
        elif not frame.is_mapping:
            path.append(frame.number - (0 if last and frame is stack[-1] else 1))
    around = tuple(frame.keys for frame in frames if frame.is_mapping)
    return _Found(role, tuple(path), around, event.value.partition(MARK)[0], tops)
