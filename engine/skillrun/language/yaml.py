"""YAML as nodes with exact positions: read from libyaml's events, so that nothing is constructed or resolved twice.

Owns which YAML the language accepts: no anchors, aliases, tags, duplicate keys or second documents; not too large, not
too deep.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from yaml import CSafeLoader
from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from skillrun.language.diagnostics import Problems
from skillrun.language.scalars import plain_value, runs_of
from skillrun.language.slips import explain, unquoted
from skillrun.language.source import MAX_BYTES, Entry, Mapping, Node, Scalar, Sequence, Source, Span, Text

MAX_DEPTH: Final = 40
_FORBIDDEN: Final = re.compile("[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_WRITTEN: Final = re.compile(r"[^\s,:\[\]{}]+")
_PROPERTIES: Final = re.compile(r"(?:[!&][^ \t\n,\[\]{}]*+[ \t\n]*+)++")


def parse_yaml(source: Source, start: int, end: int, problems: Problems) -> Node | None:
    """The YAML between two places of a source: an empty one is a null, a broken one is nothing and a problem."""
    text = source.text[start:end]
    if len(text) > MAX_BYTES:
        message = f"this YAML is longer than {MAX_BYTES:,} characters"
        problems.report(Span(source, start), "too-large", message, "split it into several files")
        return None
    if found := _FORBIDDEN.search(text):
        message = f"the character U+{ord(found[0]):04X} cannot stand in YAML"
        hint = 'remove it, or write it as an escape in double quotes, such as "\\u2028"'
        problems.report(Span(source, start + found.start()), "character", message, hint)
        return None
    return _Builder(source, start, problems).build(CSafeLoader(text))


class _Open:
    """A list or mapping whose end is not reached; `template` is one that was meant as a string with `{{`."""

    __slots__ = ("entries", "items", "key", "muted", "start", "template")

    def __init__(self, start: int, is_mapping: bool, muted: bool) -> None:
        self.start = start
        self.entries: dict[str, Entry] | None = {} if is_mapping else None
        self.items: list[Node] = []
        self.key: Node | None = None
        self.template = False
        self.muted = muted


class _Builder:
    """Builds the nodes of one stretch of YAML from the parser's events."""

    def __init__(self, source: Source, offset: int, problems: Problems) -> None:
        self.source = source
        self.offset = offset
        self.problems = problems
        self.open: list[_Open] = []
        self.template_lines: set[int] = set()

    def build(self, parser: CSafeLoader) -> Node | None:
        event: Any = None
        root: Node | None = None
        try:
            while True:
                event = parser.get_event()
                kind = type(event)
                node: Node
                if kind is ScalarEvent:
                    node = self.scalar(event)
                elif kind is MappingStartEvent or kind is SequenceStartEvent:
                    if not self.start(event, kind is MappingStartEvent):
                        return None
                    continue
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    node = self.closed(self.open.pop(), event)
                elif kind is AliasEvent:
                    node = self.alias(event)
                elif kind is DocumentStartEvent and root is not None:
                    self.report(
                        event.start_mark.index, "documents", "a second YAML document starts here", "remove `---`"
                    )
                    return root
                elif kind is StreamEndEvent:
                    return root if root is not None else Scalar(None, None, Span(self.source, self.offset))
                else:
                    continue
                if self.open:
                    self.place(self.open[-1], node)
                else:
                    root = node
        except MarkedYAMLError as error:
            self.broken(error, event)
            return None
        finally:
            parser.dispose()

    def scalar(self, event: Any) -> Scalar:
        value: str = event.value
        style: str = event.style
        start: int = event.start_mark.index + self.offset
        if event.anchor is not None or event.tag is not None:
            start = self.properties(event)
        span = Span(self.source, start)
        if not style:
            meaning = plain_value(value)
            if meaning.__class__ is not str:
                return Scalar(meaning, None, span)
        end: int = event.end_mark.index + self.offset
        quote = len(style)
        if end - start - 2 * quote == len(value):  # nothing was folded or escaped
            return Scalar(value, Text(value, self.source, ((0, start + quote),)), span)
        runs = partial(runs_of, self.source.text, start, end, style, value)
        return Scalar(value, Text(value, self.source, runs), span)

    def start(self, event: Any, is_mapping: bool) -> bool:
        """Open a list or mapping; false when it is nested too deeply."""
        start: int = event.start_mark.index + self.offset
        if event.anchor is not None or event.tag is not None:
            start = self.properties(event)
        parent = self.open[-1] if self.open else None
        if len(self.open) >= MAX_DEPTH:
            self.report(event.start_mark.index, "too-deep", f"this is nested more than {MAX_DEPTH} levels deep")
            return False
        if parent and is_mapping and event.flow_style and parent.start == start - 1 and parent.entries == {}:
            self.template(parent)
        self.open.append(_Open(start, is_mapping, parent.muted if parent else False))
        return True

    def template(self, opened: _Open) -> None:
        """`{{` that YAML reads as a mapping in a mapping."""
        if not opened.muted:
            self.template_lines.add(self.source.position(opened.start)[0])
            slip = unquoted(opened.start, "{{")
            self.problems.report(Span(self.source, slip.offset), slip.code, slip.message, slip.hint)
        opened.template = opened.muted = True

    def closed(self, frame: _Open, event: Any) -> Node:
        span = Span(self.source, frame.start)
        if frame.template:
            return self.as_written(frame.start, event)
        if frame.entries is None:
            return Sequence(tuple(frame.items), span)
        return Mapping(frame.entries, span)

    def as_written(self, start: int, event: Any) -> Scalar:
        text = Text.pieces(self.source, [(start, event.end_mark.index + self.offset)])
        return Scalar(text.value, text, Span(self.source, start))

    def alias(self, event: Any) -> Scalar:
        hint = "a value that starts with `*` must be quoted"
        self.report(event.start_mark.index, "alias", f"the alias `*{event.anchor}` is not allowed", hint)
        return self.as_written(event.start_mark.index + self.offset, event)

    def properties(self, event: Any) -> int:
        """Refuse an anchor and a tag; the place after them."""
        at: int = event.start_mark.index
        if event.anchor is not None:
            hint = "a value that starts with `&` must be quoted; what two places share is written twice"
            self.report(at, "anchor", f"the anchor `&{event.anchor}` is not allowed", hint)
        if event.tag is not None:
            self.report(
                at, "tag", f"the tag `{event.tag}` is not allowed", "a value that starts with `!` must be quoted"
            )
        written = _PROPERTIES.match(self.source.text, at + self.offset)
        return min(written.end(), event.end_mark.index + self.offset) if written else at + self.offset

    def place(self, frame: _Open, node: Node) -> None:
        """Put a finished node into the list or mapping that is open around it."""
        if frame.entries is None:
            frame.items.append(node)
        elif frame.key is None:
            frame.key = node
        else:
            key, frame.key = frame.key, None
            self.enter(frame, key, node)

    def enter(self, frame: _Open, key: Node, value: Node) -> None:
        assert frame.entries is not None
        name = key.value if isinstance(key, Scalar) else None
        if not isinstance(name, str):
            found = _WRITTEN.match(self.source.text, key.span.offset)
            name = found[0] if found and isinstance(key, Scalar) else ""
            if not frame.muted:
                self.refuse_key(key, name)
        if not isinstance(key, Scalar) or not name:
            return
        if name not in frame.entries:
            frame.entries[name] = Entry(key, value)
        elif not frame.muted:
            hint = f"it is given on line {frame.entries[name].key.span.line} already"
            self.problems.report(key.span, "duplicate-key", f"the key `{name}` is given twice", hint)

    def refuse_key(self, key: Node, written: str) -> None:
        if written:
            message, hint = f"the key `{written}` is not text", f'write "{written}"'
        elif isinstance(key, Scalar):
            message, hint = "there is no key before the colon", ""
        else:
            message, hint = "a list or a mapping cannot be a key", "put the key in quotes"
        self.problems.report(key.span, "key", message, hint)

    def report(self, index: int, code: str, message: str, hint: str = "") -> None:
        """Report at one of the parser's marks."""
        self.problems.report(Span(self.source, index + self.offset), code, message, hint)

    def broken(self, error: MarkedYAMLError, last: Any) -> None:
        """Report where the parser gave up, unless an unquoted `{{` is to blame and reported."""
        slip = explain(self.source, self.offset, error, last)
        line = self.source.position(slip.offset)[0]
        if line not in self.template_lines and not any(frame.template for frame in self.open):
            self.problems.report(Span(self.source, slip.offset), slip.code, slip.message, slip.hint)
