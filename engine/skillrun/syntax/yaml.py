"""Parses YAML into nodes with exact positions, which are built directly from libyaml's events.

This module defines which YAML the language accepts: anchors, aliases, tags, duplicate keys and second documents are not
allowed, and size and depth are limited. Values follow the core schema of YAML 1.2: `on`, `no`, dates and `22:22` are
text. Common syntax errors are explained in the author's terms. The module does not interpret keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

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

from skillrun.syntax.diagnostics import ParsingStopped, Problems, Severity
from skillrun.syntax.source import (
    MAX_BYTES,
    Mapping,
    MappingEntry,
    Node,
    Runs,
    Scalar,
    Sequence,
    Source,
    Span,
    Text,
    walk,
)

MAX_DEPTH: Final = 40
MAX_NODES: Final = 150_000  # per text: values, and the starts and ends of lists and mappings
_CUT: Final = re.compile(r"[ \t]+(#(?!TODO|FIXME|XXX)\w{1,20})")
_QUOTE: Final = "put the whole value in quotes"
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
_TEMPLATE_MARKS: Final = ("{{", "{%", "{#")
_KEY: Final = re.compile(r"(?: *- +)* *(?=[^\s#-][^:]*:(?:\s|$))")
_INDENT: Final = "keys that belong together start in the same column"
_BLOCK: Final = re.compile(r"-(?:\s|--\s|\Z)|\Z")  # an item of a block list, or the end
_GLUED: Final = re.compile(r"[ ]*(-)([A-Za-z_][\w-]*):(?:\s|$)")
_ITEM: Final = re.compile(r"[ ]*- |[^\s-]")


def parse_yaml(source: Source, start: int, end: int, problems: Problems) -> Node | None:
    """Parse the YAML between two offsets. Empty YAML is null. If the YAML is invalid, report it and return None."""
    text = source.text[start:end]
    if len(text) > MAX_BYTES:
        message = f"this YAML is longer than {MAX_BYTES:,} characters"
        problems.report(Span(source, start), "too-large", message, "split it into several files")
        return None
    if match := _FORBIDDEN.search(text):
        message = f"the character U+{ord(match[0]):04X} is not allowed in YAML"
        hint = "remove the character, or write it as an escape in double quotes"
        problems.report(Span(source, start + match.start()), "character", message, hint)
        return None
    try:
        return _Builder(source, start, problems).build(CSafeLoader(text))
    except ParsingStopped:
        return None


class _OpenCollection:
    """A list or mapping whose end the parser has not reached."""

    __slots__ = ("entries", "items", "key", "start")

    def __init__(self, start: int, is_mapping: bool) -> None:
        self.start = start
        self.entries: dict[str, MappingEntry] | None = {} if is_mapping else None
        self.items: list[Node] = []
        self.key: Node | None = None


class _SyntaxHint(NamedTuple):
    """The explanation of a syntax error, and the error's offset in the file."""

    offset: int
    message: str
    hint: str = _QUOTE
    code: str = "yaml"


class _Builder:
    """Builds the nodes of the YAML that starts at `offset` in the file. The parser counts positions from `offset`."""

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
            self.report_syntax_hint(_explain_error(self.source, self.offset, error, event, flow))
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
                return Scalar(meaning, None, span, value)
            if is_numeral(value):
                message = f"the number `{value[:20]}{'…' if len(value) > 20 else ''}` is too large"
                self.report(start, "number", message, "put the value in quotes if it is text")
            if value[-1:] in {'"', "'"} and value.count(value[-1]) == 1 and not value.endswith("s'"):
                message = "this value has no quote at the start that matches the quote at the end"
                hint = "add an opening quote, or put the whole value in the other kind of quotes"
                self.report(start, "quote", message, hint)
            if " " in value and (cut := _CUT.match(self.source.text, end)):  # such as `Fix issue #12 first`
                message = f"`{cut[1]}` starts a comment here, so the value ends before it"
                self.problems.report(
                    Span(self.source, cut.start(1)),
                    "comment",
                    message,
                    f"{_QUOTE}, or add a space after the `#` of a comment",
                    "warning",
                )
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
            self.report_syntax_hint(_explain_unquoted_value(start - 1, "{{"))
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
        """Return the offset in the file where the event starts. Report any anchor or tag of the event."""
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
            message, hint = f"the key `{key.value}` is given twice", f"the key is first given on line {first.line}"
            self.problems.report(key.span, "duplicate-key", message, hint, elsewhere=first)
        else:
            parent.entries[key.value] = MappingEntry(key, node)

    def report_syntax_hint(self, hint: _SyntaxHint) -> None:
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


def report_rewritten_numbers(node: Node, problems: Problems, severity: Severity = "error") -> set[int]:
    """Report each number of a node that is written otherwise than it is printed, such as `1.10`, `007` or `1e3`.

    Return the offsets of these numbers.
    """
    offsets: set[int] = set()
    for each in walk(node):
        if isinstance(each, Scalar) and each.written and is_numeral(each.written) and str(each.value) != each.written:
            message = f"`{each.written}` is read as the number {each.value}"
            hint = f"if it is text, put it in quotes; if it is a number, write {each.value}"
            problems.report(each.span, "number", message, hint, severity)
            offsets.add(each.span.offset)
    return offsets


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
    """Yield the runs of a quoted scalar. Parsing can change the length of escapes and folded line ends."""
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


def _explain_unquoted_value(offset: int, start: str) -> _SyntaxHint:
    """Return the explanation for an unquoted value that starts with a special character of YAML."""
    hint = f'{_QUOTE}, such as "{{{{ inputs.name }}}}"' if start in _TEMPLATE_MARKS else _QUOTE
    sign = "a backtick" if start == "`" else f"`{start}`"
    return _SyntaxHint(offset, f"a value that starts with {sign} must be quoted", hint, "unquoted")


def _explain_error(
    source: Source, offset: int, error: MarkedYAMLError, last_event: Any, flow_start: int | None = None
) -> _SyntaxHint:
    """Return the explanation of an error from the YAML parser.

    `offset` is the offset in the file at which the parser started. `last_event` is the last event before the error, and
    `flow_start` is the offset of the innermost open `[` or `{`.
    """
    text, reason = source.text, error.problem or ""
    at = min(error.problem_mark.index + offset, len(text)) if error.problem_mark else offset
    context = error.context_mark.index + offset if error.context_mark else at
    if (dash := _missing_space_hint(source, offset, at)) is not None:
        return dash
    if flow_start is not None and _BLOCK.match(text, at):
        for place in (flow_start - 1, flow_start):
            if text[max(place, 0) : place + 2] in _TEMPLATE_MARKS:
                return _explain_unquoted_value(place, text[place : place + 2])
        opening = text[flow_start]
        hint = f"put `{'}' if opening == '{' else ']'}` after its last value"
        return _SyntaxHint(flow_start, f"the `{opening}` that opens here is never closed", hint)
    if isinstance(last_event, ScalarEvent) and (begun := _unfinished_value(source, offset, at, last_event)) is not None:
        return begun
    for place in (max(at - 1, 0), context, last_event.start_mark.index + offset if last_event is not None else at):
        if text[place : place + 2] in _TEMPLATE_MARKS:
            return _explain_unquoted_value(place, text[place : place + 2])
    if text[at : at + 1] == "\t" or "tab" in reason:
        return _SyntaxHint(at, "YAML expects spaces here, not a tab", "indent with spaces")
    unknown = _SyntaxHint(at, f"YAML: {' '.join(filter(None, (error.context, reason)))}")
    return next((slip for words, slip in _hints_by_reason(source, at, context).items() if words in reason), unknown)


def _hints_by_reason(source: Source, at: int, context: int) -> dict[str, _SyntaxHint]:
    """Return the explanations, keyed by libyaml's message or a part of it."""
    (line, column), opened = source.position(at), source.position(context)[0]
    sign, opening = source.text[at : at + 1], source.text[context : context + 1]
    colon = _SyntaxHint(at, "a value with `: ` in it must be quoted", f"{_QUOTE}; if this is a separate key, {_INDENT}")
    word = re.search(r"[\w-]+$", source.text[max(0, at - 80) : at])
    comma = f"put a `,` before `{word[0]}:`, or put the whole value in quotes" if word else _QUOTE
    still_open = f"the `{opening}` in line {opened} is still open; a value with any of `,[]{{}}` in it must be quoted"
    unclosed = _SyntaxHint(at, f"`,` or `{'}' if opening == '{' else ']'}` is missing here", still_open)
    columns: list[int] = []  # in which the line may start, innermost first: those of the keys in the lines above it
    for number in range(line - 1, 0, -1):
        key = _KEY.match(source.line(number))
        if source.line(number).startswith("---") or 1 in columns:
            break
        if key and (not columns or key.end() + 1 < columns[-1]):
            columns.append(key.end() + 1)
    message = f"the indentation of this line (column {column}) matches no line above"
    start_hint = f"start the line in column {' or '.join(map(str, columns))}; {_INDENT}" if columns else _INDENT
    indented = _SyntaxHint(at, message, start_hint)
    more = _SyntaxHint(at, "unexpected text after the value of the key")
    escape = f"`{source.text[at : at + 2]}` is not an escape in YAML"
    return {
        "mapping values are not allowed": colon,
        "could not find expected ':'": _missing_colon_hint(source, context),
        "did not find expected ',' or": colon._replace(hint=comma) if sign == ":" and line == opened else unclosed,
        **dict.fromkeys(
            ("expected key", "expected '-' indicator", "expected <document start>"),
            more if source.line(line)[: column - 1].strip() else indented,
        ),
        **dict.fromkeys(
            ("unexpected end of stream", "unexpected document indicator"),
            _SyntaxHint(context, f"the quote `{opening}` is never closed", ""),
        ),
        "unknown escape character": _SyntaxHint(at, escape, "write `\\\\` for a backslash, or use single quotes"),
        **dict.fromkeys(
            ("cannot start any token", "did not find expected node content"), _explain_unquoted_value(at, sign)
        ),
        **dict.fromkeys(
            ("expected alphabetic or numeric character", "expected comment or line break"),
            _explain_unquoted_value(context, opening),
        ),
    }


def _unfinished_value(source: Source, offset: int, at: int, last_event: ScalarEvent) -> _SyntaxHint | None:
    """Return the explanation if the last value before the error spans several lines by mistake, or else None."""
    marks = (last_event.start_mark, last_event.end_mark)
    start, end = (mark.index + offset if mark is not None else at for mark in marks)
    (line, column), end_line, error_line = source.position(start), source.position(end)[0], source.position(at)[0]
    if line == end_line:
        return None
    if last_event.style in ("'", '"') and end_line == error_line:
        message = f"this quote is not closed until the quote on line {error_line}"
        return _SyntaxHint(start, message, "close the quote where the value ends")
    if not last_event.style and not source.line(line)[: column - 1].strip(" -"):
        return _missing_colon_hint(source, start)
    return None


def _missing_space_hint(source: Source, offset: int, at: int) -> _SyntaxHint | None:
    """Return the explanation if a list item lacks the space after its dash, or else None.

    The item is in the line of the error or in a line above.
    """
    start = source.text.rfind("\n", 0, at) + 1
    while start >= offset:
        line = source.text[start:].split("\n", 1)[0]
        if glued := _GLUED.match(line):
            place = start + glued.start(1)
            return _SyntaxHint(place, "a space is missing after the `-`", f"write `- {glued[2]}: …`")
        if start == 0 or _ITEM.match(line):
            return None
        start = source.text.rfind("\n", 0, start - 1) + 1
    return None


def _missing_colon_hint(source: Source, start: int) -> _SyntaxHint:
    written = source.text[start:].split("\n", 1)[0].strip()[:60]
    if glued := re.match(r"[\w-]+:(?=\S)", written):
        return _SyntaxHint(start + glued.end() - 1, "a space is missing after the colon", f"write `{glued[0]} …`")
    return _SyntaxHint(start, f"`{written}` is not a key with a value", "write `key: value`")
