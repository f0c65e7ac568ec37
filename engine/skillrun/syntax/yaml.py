"""YAML as nodes with exact positions, built from libyaml's events: nothing is searched for afterwards.

Owns which YAML the language accepts: no anchors, aliases, tags, duplicate keys or second documents; not too large, not
too deep. What its keys mean is for others.
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

from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.scalars import is_numeral, plain_value, scalar_runs
from skillrun.syntax.source import MAX_BYTES, Mapping, MappingEntry, Node, Scalar, Sequence, Source, Span, Text
from skillrun.syntax.syntax_hints import SyntaxHint, explain_error, unquoted_value

MAX_DEPTH: Final = 40
MAX_NODES: Final = 150_000  # of one text: values, and the beginnings and ends of lists and mappings
_CUT: Final = re.compile(r"[ \t]+(#(?!TODO|FIXME|XXX)\w{1,20})")
_QUOTE: Final = "put the whole value in quotes, or a space behind the `#` of a comment"
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def parse_yaml(source: Source, start: int, end: int, problems: Problems) -> Node | None:
    """The YAML between two places of a source. Without content it is a null; broken, it is nothing and a problem."""
    text = source.text[start:end]
    if len(text) > MAX_BYTES:
        message = f"this YAML is longer than {MAX_BYTES:,} characters"
        problems.report(Span(source, start), "too-large", message, "split it into several files")
        return None
    if match := _FORBIDDEN.search(text):
        message = f"the character U+{ord(match[0]):04X} cannot stand in YAML"
        hint = "remove it, or write it as an escape in double quotes"
        problems.report(Span(source, start + match.start()), "character", message, hint)
        return None
    try:
        return _Builder(source, start, problems).build(CSafeLoader(text))
    except ParsingStopped:
        return None


class _OpenCollection:
    """A list or mapping whose end is not reached."""

    __slots__ = ("entries", "items", "key", "start")

    def __init__(self, start: int, is_mapping: bool) -> None:
        self.start = start
        self.entries: dict[str, MappingEntry] | None = {} if is_mapping else None
        self.items: list[Node] = []
        self.key: Node | None = None


class _Builder:
    """Builds the nodes of one stretch of YAML, whose marks count from `offset`."""

    def __init__(self, source: Source, offset: int, problems: Problems) -> None:
        self.source = source
        self.offset = offset
        self.problems = problems
        self.open: list[_OpenCollection] = []

    def build(self, parser: CSafeLoader) -> Node | None:
        event: Any = None
        root: Node | None = None
        parts = 0
        try:
            while True:
                event = parser.get_event()
                kind = type(event)
                parts += 1
                if parts > MAX_NODES:
                    start = event.start_mark.index + self.offset
                    self.report(
                        start, "too-large", f"up to here are {MAX_NODES:,} values", "split it into several files"
                    )
                    raise ParsingStopped
                if kind is ScalarEvent:
                    node: Node = self.scalar(event)
                elif kind is MappingStartEvent or kind is SequenceStartEvent:
                    self.start(event, is_mapping=kind is MappingStartEvent)
                    continue
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    node = self.end()
                elif kind is AliasEvent:
                    node = self.alias(event)
                elif kind is DocumentStartEvent and root is not None:
                    start = event.start_mark.index + self.offset
                    self.report(start, "documents", "a second YAML document starts here", "remove this line")
                    return root
                elif kind is StreamEndEvent:
                    return root or Scalar(None, None, Span(self.source, self.offset))
                else:
                    continue
                if self.open:
                    self.attach_node(self.open[-1], node)
                else:
                    root = node
        except MarkedYAMLError as error:
            text = self.source.text
            if error.problem_mark is not None and error.problem == "exceeded maximum nesting depth":
                # libyaml reads ahead, so that its own limit is met before the events that this one counts
                self.refuse_depth(error.problem_mark.index + self.offset)
                return None
            flow = next((frame.start for frame in reversed(self.open) if text[frame.start] in "[{"), None)
            self.report_syntax_hint(explain_error(self.source, self.offset, error, event, flow))
            return None
        finally:
            parser.dispose()

    def scalar(self, event: Any) -> Scalar:
        value: str = event.value
        style: str = event.style
        start = self.begin(event)
        span = Span(self.source, start)
        if not style:
            meaning = plain_value(value)
            if not isinstance(meaning, str):
                return Scalar(meaning, None, span)
            if is_numeral(value):
                message = f"the number `{value[:20]}{'…' if len(value) > 20 else ''}` is too large"
                self.report(start, "number", message, "put it in quotes where it is text")
            if value[-1:] in {'"', "'"} and value.count(value[-1]) == 1 and not value.endswith("s'"):
                hint = "put a quote in front, or the whole value in the other kind of quotes"
                self.report(start, "quote", "a quote closes this value and none opens it", hint)
            self.check_comment(event.end_mark.index + self.offset, value)
        end: int = event.end_mark.index + self.offset
        quote = 1 if style in {"'", '"'} else 0
        if end - start - 2 * quote == len(value) and style not in {"|", ">"}:  # neither escapes nor folded lines
            return Scalar(value, Text(value, self.source, ((0, start + quote),)), span)
        runs = partial(scalar_runs, self.source.text, start, end, style, value)
        return Scalar(value, Text(value, self.source, runs), span)

    def check_comment(self, end: int, value: str) -> None:
        """Warn of words that go on behind a `#` which makes the rest a comment, as in `Which of issue #12`."""
        if " " in value and (match := _CUT.match(self.source.text, end)):
            message = f"`{match[1]}` begins a comment here: the value ends before it"
            self.problems.report(Span(self.source, match.start(1)), "comment", message, _QUOTE, "warning")

    def start(self, event: Any, is_mapping: bool) -> None:
        start = self.begin(event)
        if len(self.open) == MAX_DEPTH:
            self.refuse_depth(start)
            raise ParsingStopped
        if is_mapping and self.open and self.source.text[start - 1 : start + 1] == "{{":
            self.report_syntax_hint(unquoted_value(start - 1, "{{"))
            raise ParsingStopped
        self.open.append(_OpenCollection(start, is_mapping))

    def refuse_depth(self, start: int) -> None:
        self.report(start, "too-deep", f"this is nested more than {MAX_DEPTH} levels deep")

    def end(self) -> Node:
        closed = self.open.pop()
        span = Span(self.source, closed.start)
        return Sequence(tuple(closed.items), span) if closed.entries is None else Mapping(closed.entries, span)

    def alias(self, event: Any) -> Scalar:
        start: int = event.start_mark.index + self.offset
        hint = "a value that starts with `*` must be quoted"
        self.report(start, "alias", f"the alias `*{event.anchor}` is not allowed", hint)
        return Scalar(None, None, Span(self.source, start))

    def begin(self, event: Any) -> int:
        """Where the event starts; an anchor and a tag there are refused."""
        start: int = event.start_mark.index + self.offset
        if event.anchor is not None:
            hint = "a value that starts with `&` must be quoted; a value that two places share is written twice"
            self.report(start, "anchor", f"the anchor `&{event.anchor}` is not allowed", hint)
        if event.tag is not None:
            hint = "a value that starts with `!` must be quoted"
            self.report(start, "tag", f"the tag `{event.tag}` is not allowed", hint)
        return start

    def attach_node(self, parent: _OpenCollection, node: Node) -> None:
        """Put a finished node into the list or mapping around it."""
        if parent.entries is None:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            key, parent.key = parent.key, None
            self.add_entry(parent.entries, key, node)

    def add_entry(self, entries: dict[str, MappingEntry], key: Node, value: Node) -> None:
        offset = key.span.offset
        if not isinstance(key, Scalar):
            self.report(offset, "key", "a list or a mapping cannot be a key", "put the key in quotes")
        elif key.value is None:
            self.report(offset, "key", "there is no key before the colon")
        elif not isinstance(key.value, str):
            self.report(offset, "key", f"the key `{key.value}` is not text", "put it in quotes")
        elif key.value in entries:
            first = entries[key.value].key.span
            message, hint = f"the key `{key.value}` is given twice", f"it is given on line {first.line} already"
            self.problems.report(Span(self.source, offset), "duplicate-key", message, hint, elsewhere=first)
        else:
            entries[key.value] = MappingEntry(key, value)

    def report_syntax_hint(self, hint: SyntaxHint) -> None:
        self.report(hint.offset, hint.code, hint.message, hint.hint)

    def report(self, offset: int, code: str, message: str, hint: str = "") -> None:
        self.problems.report(Span(self.source, offset), code, message, hint)
