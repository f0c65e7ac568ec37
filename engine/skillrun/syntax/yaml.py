"""Parses YAML into nodes with exact positions, which are built directly from libyaml's events.

This module defines which YAML the language accepts: anchors, aliases, tags, duplicate keys and second documents are not
allowed, and size and depth are limited. Values follow the core schema of YAML 1.2: `on`, `no`, dates and `22:22` are
text. The module does not interpret keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
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
from skillrun.syntax.source import MAX_BYTES, Mapping, MappingEntry, Node, Runs, Scalar, Sequence, Source, Span, Text
from skillrun.syntax.syntax_hints import SyntaxHint, explain_error, unquoted_value

MAX_DEPTH: Final = 40
MAX_NODES: Final = 150_000  # per text: values, and the starts and ends of lists and mappings
_CUT: Final = re.compile(r"[ \t]+(#(?!TODO|FIXME|XXX)\w{1,20})")
_QUOTE: Final = "put the whole value in quotes, or add a space after the `#` of a comment"
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LONGEST_WORD: Final = 5
_NUMBER_START: Final = frozenset("+-.0123456789")
_LONGEST_NUMBER: Final = 400
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_WORD: Final = re.compile(r"[^ \t\n]+")
_FOLD: Final = r"[ \t]++(?:\n[ \t\n]*+)?|\n[ \t\n]*+"
_SINGLE_QUOTED: Final = re.compile(rf"''|{_FOLD}")
_DOUBLE_QUOTED: Final = re.compile(rf"\\(?:\n[ \t\n]*+|x..|u.{{4}}|U.{{8}}|.)|{_FOLD}")


def parse_yaml(source: Source, start: int, end: int, problems: Problems) -> Node | None:
    """Parse the YAML between two offsets. Empty YAML is null. If the YAML is broken, report a problem, return None."""
    text = source.text[start:end]
    if len(text) > MAX_BYTES:
        message = f"this YAML is longer than {MAX_BYTES:,} characters"
        problems.report(Span(source, start), "too-large", message, "split it into several files")
        return None
    if match := _FORBIDDEN.search(text):
        message = f"the character U+{ord(match[0]):04X} is not allowed in YAML"
        hint = "remove it, or write it as an escape in double quotes"
        problems.report(Span(source, start + match.start()), "character", message, hint)
        return None
    try:
        return _Builder(source, start, problems).build(CSafeLoader(text))
    except ParsingStopped:
        return None


class _OpenCollection:
    """A list or mapping of which the parser has not reached the end."""

    __slots__ = ("entries", "items", "key", "start")

    def __init__(self, start: int, is_mapping: bool) -> None:
        self.start = start
        self.entries: dict[str, MappingEntry] | None = {} if is_mapping else None
        self.items: list[Node] = []
        self.key: Node | None = None


class _Builder:
    """Builds the nodes of the YAML that starts at `offset` in the file. The parser's positions count from there."""

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
                    message = f"the YAML has more than {MAX_NODES:,} values"
                    start = event.start_mark.index + self.offset
                    self.report(start, "too-large", message, "split it into several files")
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
                # libyaml reads ahead, so it can reach its own limit before the builder reaches MAX_DEPTH
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
        end: int = event.end_mark.index + self.offset
        span = Span(self.source, start)
        if not style:
            meaning = plain_value(value)
            if not isinstance(meaning, str):
                return Scalar(meaning, None, span)
            if is_numeral(value):
                message = f"the number `{value[:20]}{'…' if len(value) > 20 else ''}` is too large"
                self.report(start, "number", message, "put the value in quotes if it is text")
            if value[-1:] in {'"', "'"} and value.count(value[-1]) == 1 and not value.endswith("s'"):
                message = "this value has no quote at the start that matches the quote at the end"
                hint = "add an opening quote, or put the whole value in the other kind of quotes"
                self.report(start, "quote", message, hint)
            if " " in value and (cut := _CUT.match(self.source.text, end)):  # such as `Fix issue #12 first`
                message = f"`{cut[1]}` starts a comment here, so the value ends before it"
                self.problems.report(Span(self.source, cut.start(1)), "comment", message, _QUOTE, "warning")
        quote = 1 if style in {"'", '"'} else 0
        if end - start - 2 * quote == len(value) and style not in {"|", ">"}:  # neither escapes nor folded lines
            return Scalar(value, Text(value, self.source, ((0, start + quote),)), span)
        runs = partial(scalar_runs, self.source.text, start, end, style, value)
        return Scalar(value, Text(value, self.source, runs), span)

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
        """Return the offset in the file where the event starts. Report the anchor or tag of the event."""
        start: int = event.start_mark.index + self.offset
        if event.anchor is not None:
            hint = "a value that starts with `&` must be quoted; write a shared value in both places"
            self.report(start, "anchor", f"the anchor `&{event.anchor}` is not allowed", hint)
        if event.tag is not None:
            hint = "a value that starts with `!` must be quoted"
            self.report(start, "tag", f"the tag `{event.tag}` is not allowed", hint)
        return start

    def attach_node(self, parent: _OpenCollection, node: Node) -> None:
        """Add a finished node to the list or mapping that contains it."""
        if parent.entries is None:
            parent.items.append(node)
            return
        if parent.key is None:
            parent.key = node
            return
        key, parent.key = parent.key, None
        offset = key.span.offset
        if not isinstance(key, Scalar):
            self.report(offset, "key", "a list or a mapping cannot be a key", "put the key in quotes")
        elif key.value is None:
            self.report(offset, "key", "the key before the colon is missing")
        elif not isinstance(key.value, str):
            self.report(offset, "key", f"the key `{key.value}` is not text", "put it in quotes")
        elif key.value in parent.entries:
            first = parent.entries[key.value].key.span
            message, hint = f"the key `{key.value}` is given twice", f"it is first given on line {first.line}"
            self.problems.report(key.span, "duplicate-key", message, hint, elsewhere=first)
        else:
            parent.entries[key.value] = MappingEntry(key, node)

    def report_syntax_hint(self, hint: SyntaxHint) -> None:
        self.report(hint.offset, hint.code, hint.message, hint.hint)

    def report(self, offset: int, code: str, message: str, hint: str = "") -> None:
        self.problems.report(Span(self.source, offset), code, message, hint)


def plain_value(written: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar."""
    if len(written) <= _LONGEST_WORD and written in _WORDS:
        return _WORDS[written]
    if written[0] in _NUMBER_START and len(written) <= _LONGEST_NUMBER:
        if _INTEGER.fullmatch(written):
            return int(written, 0) if written[1:2] in {"o", "x"} else int(written)
        if _FLOAT.fullmatch(written) and math.isfinite(value := float(written)):
            return value
    return written


def is_numeral(written: str) -> bool:
    """Whether an unquoted scalar is written as a number, even one that is too large."""
    return written[0] in _NUMBER_START and bool(_INTEGER.fullmatch(written) or _FLOAT.fullmatch(written))


def scalar_runs(file: str, start: int, end: int, style: str, value: str) -> Runs:
    """Return the runs of a scalar between two offsets of the file.

    `style` is the first character of a quoted or block scalar, and "" for a plain scalar.
    """
    if style in ("'", '"'):
        return tuple(_quoted_runs(file, start + 1, end - 1, _SINGLE_QUOTED if style == "'" else _DOUBLE_QUOTED))
    if style:
        start = file.find("\n", start, end) + 1 or end
    # a plain, literal or folded scalar only differs from the file in its white space
    words = zip(_WORD.finditer(value), _WORD.finditer(file, start, end), strict=False)
    return ((0, start), *((word.start(), written.start()) for word, written in words))


def _quoted_runs(file: str, start: int, end: int, special: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the runs of a quoted scalar, in which the length of an escape or a folded line end may change."""
    yield 0, start
    length = 0
    place = start
    for match in special.finditer(file, start, end):
        length += match.start() - place
        yield length, match.start()
        written, breaks = match[0], match[0].count("\n")
        if written.startswith("\\"):
            length += breaks - 1 if breaks else 1
        elif breaks:
            length += max(1, breaks - 1)
        else:
            length += 1 if written == "''" else len(written)
        place = match.end()
        yield length, place
