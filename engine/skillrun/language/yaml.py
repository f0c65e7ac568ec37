"""YAML as nodes with exact positions, built from libyaml's events: nothing is searched for afterwards.

Owns which YAML the language accepts: no anchors, aliases, tags, duplicate keys or second documents; not too large, not
too deep. What its keys mean is for others.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
from skillrun.language.source import MAX_BYTES, Entry, Mapping, Node, Scalar, Sequence, Source, Span, Text

if TYPE_CHECKING:
    from skillrun.language.slips import Slip

MAX_DEPTH: Final = 40
MAX_PROBLEMS: Final = 100  # of one file; what has more is no file that somebody wrote
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_WRITTEN: Final = re.compile(r"[^\s,:\[\]{}]+")
_PROPERTIES: Final = re.compile(r"(?:[!&][^ \t\n,\[\]{}]*+[ \t\n]*+)++")


def parse_yaml(source: Source, start: int, end: int, problems: Problems) -> Node | None:
    """The YAML between two places of a source. Without content it is a null; broken, it is nothing and a problem."""
    text = source.text[start:end]
    if len(text) > MAX_BYTES:
        message = f"this YAML is longer than {MAX_BYTES:,} characters"
        problems.report(Span(source, start), "too-large", message, "split it into several files")
        return None
    if found := _FORBIDDEN.search(text):
        message = f"the character U+{ord(found[0]):04X} cannot stand in YAML"
        hint = "remove it, or write it as an escape in double quotes"
        problems.report(Span(source, start + found.start()), "character", message, hint)
        return None
    try:
        return _Builder(source, start, problems).build(CSafeLoader(text))
    except _GivenUpError:
        return None


class _Open:
    """A list or mapping whose end is not reached; `template`: it stands for a string, an unquoted `{{ … }}`."""

    __slots__ = ("entries", "items", "key", "start", "template")

    def __init__(self, start: int, is_mapping: bool, template: bool) -> None:
        self.start = start
        self.entries: dict[str, Entry] | None = {} if is_mapping else None
        self.items: list[Node] = []
        self.key: Node | None = None
        self.template = template


class _GivenUpError(Exception):
    """Not worth reading on."""


class _Builder:
    """Builds the nodes of one stretch of YAML, whose marks count from `offset`."""

    def __init__(self, source: Source, offset: int, problems: Problems) -> None:
        self.source = source
        self.offset = offset
        self.problems = problems
        self.open: list[_Open] = []
        self.template_lines: set[int] = set()
        self.left = MAX_PROBLEMS

    def build(self, parser: CSafeLoader) -> Node | None:
        event: Any = None
        root: Node | None = None
        try:
            while True:
                event = parser.get_event()
                kind = type(event)
                if kind is ScalarEvent:
                    node: Node = self.scalar(event)
                elif kind is MappingStartEvent or kind is SequenceStartEvent:
                    self.start(event, is_mapping=kind is MappingStartEvent)
                    continue
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    node = self.end(event)
                elif kind is AliasEvent:
                    node = self.alias(event)
                elif kind is DocumentStartEvent and root is not None:
                    start = event.start_mark.index + self.offset
                    self.refuse(start, "documents", "a second YAML document starts here", "remove this line")
                    return root
                elif kind is StreamEndEvent:
                    return root or Scalar(None, None, Span(self.source, self.offset))
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
        start = self.content_start(event)
        span = Span(self.source, start)
        if not style:
            meaning = plain_value(value)
            if not isinstance(meaning, str):
                return Scalar(meaning, None, span)
        end: int = event.end_mark.index + self.offset
        quote = 1 if style in {"'", '"'} else 0
        if end - start - 2 * quote == len(value) and style not in {"|", ">"}:  # neither escapes nor folded lines
            return Scalar(value, Text(value, self.source, ((0, start + quote),)), span)
        runs = partial(runs_of, self.source.text, start, end, style, value)
        return Scalar(value, Text(value, self.source, runs), span)

    def start(self, event: Any, is_mapping: bool) -> None:
        start = self.content_start(event)
        if len(self.open) == MAX_DEPTH:
            self.refuse(start, "too-deep", f"this is nested more than {MAX_DEPTH} levels deep")
            raise _GivenUpError
        parent = self.open[-1] if self.open else None
        template = parent is not None and parent.template
        if parent and not template and event.flow_style and parent.entries == {} and parent.start == start - 1:
            parent.template = template = is_mapping
            if is_mapping:
                self.unquoted(parent.start)
        self.open.append(_Open(start, is_mapping, template))

    def end(self, event: Any) -> Node:
        closed = self.open.pop()
        if closed.template:
            return self.as_written(closed.start, event)
        span = Span(self.source, closed.start)
        return Sequence(tuple(closed.items), span) if closed.entries is None else Mapping(closed.entries, span)

    def alias(self, event: Any) -> Scalar:
        start: int = event.start_mark.index + self.offset
        hint = "a value that starts with `*` must be quoted"
        self.refuse(start, "alias", f"the alias `*{event.anchor}` is not allowed", hint)
        return self.as_written(start, event)

    def as_written(self, start: int, event: Any) -> Scalar:
        """What was meant as a string, up to the end of the event."""
        text = Text.pieces(self.source, [(start, event.end_mark.index + self.offset)])
        return Scalar(text.value, text, Span(self.source, start))

    def content_start(self, event: Any) -> int:
        """Where the event starts, behind an anchor and a tag, which are refused."""
        start: int = event.start_mark.index + self.offset
        if event.anchor is None and event.tag is None:
            return start
        if event.anchor is not None:
            hint = "a value that starts with `&` must be quoted; a value that two places share is written twice"
            self.refuse(start, "anchor", f"the anchor `&{event.anchor}` is not allowed", hint)
        if event.tag is not None:
            hint = "a value that starts with `!` must be quoted"
            self.refuse(start, "tag", f"the tag `{event.tag}` is not allowed", hint)
        properties = _PROPERTIES.match(self.source.text, start, event.end_mark.index + self.offset)
        return properties.end() if properties else start

    def place(self, parent: _Open, node: Node) -> None:
        """Put a finished node into the list or mapping around it."""
        if parent.template:
            return
        if parent.entries is None:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            key, parent.key = parent.key, None
            self.enter(parent.entries, key, node)

    def enter(self, entries: dict[str, Entry], key: Node, value: Node) -> None:
        if not isinstance(key, Scalar):
            self.refuse(key.span.offset, "key", "a list or a mapping cannot be a key", "put the key in quotes")
            return
        name = key.value if isinstance(key.value, str) else self.refused_key(key)
        if name is None:
            return
        if name not in entries:
            entries[name] = Entry(key, value)
        else:
            hint = f"it is given on line {entries[name].key.span.line} already"
            self.refuse(key.span.offset, "duplicate-key", f"the key `{name}` is given twice", hint)

    def refused_key(self, key: Scalar) -> str | None:
        """A number, a truth value or nothing where a name belongs: refused, and taken as it is written."""
        found = _WRITTEN.match(self.source.text, key.span.offset)
        if not found:
            self.refuse(key.span.offset, "key", "there is no key before the colon")
            return None
        self.refuse(key.span.offset, "key", f"the key `{found[0]}` is not text", f'write "{found[0]}"')
        return found[0]

    def unquoted(self, start: int) -> None:
        """Report `{{`, which YAML reads as a mapping in a mapping."""
        from skillrun.language.slips import unquoted

        self.template_lines.add(self.source.position(start)[0])
        self.refuse_slip(unquoted(start, "{{"))

    def broken(self, error: MarkedYAMLError, last: Any) -> None:
        """Report where the parser gave up, unless a reported `{{` is to blame."""
        from skillrun.language.slips import explain

        slip = explain(self.source, self.offset, error, last)
        line = self.source.position(slip.offset)[0]
        if line not in self.template_lines and not any(opened.template for opened in self.open):
            self.refuse_slip(slip)

    def refuse_slip(self, slip: Slip) -> None:
        self.refuse(slip.offset, slip.code, slip.message, slip.hint)

    def refuse(self, place: int, code: str, message: str, hint: str = "") -> None:
        self.problems.report(Span(self.source, place), code, message, hint)
        self.left -= 1
        if not self.left:
            self.problems.report(Span(self.source, place), "too-many", f"there are more than {MAX_PROBLEMS} problems")
            raise _GivenUpError
