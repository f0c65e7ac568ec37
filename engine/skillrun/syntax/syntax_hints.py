"""Explains common YAML syntax errors to authors: what is wrong, where, and what to write instead.

This module only words the explanations. `yaml` finds the errors.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from yaml.error import MarkedYAMLError
from yaml.events import ScalarEvent

from skillrun.syntax.source import Source

_TEMPLATE_MARKS: Final = ("{{", "{%", "{#")
_KEY: Final = re.compile(r"(?: *- +)* *(?=[^\s#-][^:]*:(?:\s|$))")
_INDENT: Final = "keys that belong together start in the same column"
_QUOTE: Final = "put the whole value in quotes"
_BLOCK: Final = re.compile(r"-(?:\s|--\s|\Z)|\Z")  # an item of a block list, or the end
_GLUED: Final = re.compile(r"[ ]*(-)([A-Za-z_][\w-]*):(?:\s|$)")
_ITEM: Final = re.compile(r"[ ]*- |[^\s-]")


class SyntaxHint(NamedTuple):
    """The explanation of a syntax error, and the error's offset in the file."""

    offset: int
    message: str
    hint: str = _QUOTE
    code: str = "yaml"


def unquoted_value(offset: int, start: str) -> SyntaxHint:
    """Return the explanation for an unquoted value that starts with characters that have another meaning in YAML."""
    hint = f'{_QUOTE}, such as "{{{{ inputs.name }}}}"' if start in _TEMPLATE_MARKS else _QUOTE
    sign = "a backtick" if start == "`" else f"`{start}`"
    return SyntaxHint(offset, f"a value that starts with {sign} must be quoted", hint, "unquoted")


def explain_error(
    source: Source, offset: int, error: MarkedYAMLError, last_event: Any, flow_start: int | None = None
) -> SyntaxHint:
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
                return unquoted_value(place, text[place : place + 2])
        opening = text[flow_start]
        hint = f"put `{'}' if opening == '{' else ']'}` after its last value"
        return SyntaxHint(flow_start, f"the `{opening}` that opens here is never closed", hint)
    if isinstance(last_event, ScalarEvent) and (begun := _unfinished_value(source, offset, at, last_event)) is not None:
        return begun
    for place in (max(at - 1, 0), context, last_event.start_mark.index + offset if last_event is not None else at):
        if text[place : place + 2] in _TEMPLATE_MARKS:
            return unquoted_value(place, text[place : place + 2])
    if text[at : at + 1] == "\t" or "tab" in reason:
        return SyntaxHint(at, "YAML expects spaces here, not a tab", "indent with spaces")
    unknown = SyntaxHint(at, f"YAML: {' '.join(filter(None, (error.context, reason)))}")
    return next((slip for words, slip in _hints_by_reason(source, at, context).items() if words in reason), unknown)


def _hints_by_reason(source: Source, at: int, context: int) -> dict[str, SyntaxHint]:
    """Return the explanations, keyed by libyaml's message or a part of it."""
    (line, column), opened = source.position(at), source.position(context)[0]
    sign, opening = source.text[at : at + 1], source.text[context : context + 1]
    colon = SyntaxHint(at, "a value with `: ` in it must be quoted", f"{_QUOTE}; if this is a separate key, {_INDENT}")
    word = re.search(r"[\w-]+$", source.text[max(0, at - 80) : at])
    comma = f"put a `,` before `{word[0]}:`, or put the whole value in quotes" if word else _QUOTE
    still_open = f"the `{opening}` in line {opened} is still open; a value with any of `,[]{{}}` in it must be quoted"
    unclosed = SyntaxHint(at, f"`,` or `{'}' if opening == '{' else ']'}` is missing here", still_open)
    columns: list[int] = []  # in which the line may start, innermost first: those of the keys in the lines above it
    for number in range(line - 1, 0, -1):
        key = _KEY.match(source.line(number))
        if source.line(number).startswith("---") or 1 in columns:
            break
        if key and (not columns or key.end() + 1 < columns[-1]):
            columns.append(key.end() + 1)
    message = f"the indentation of this line (column {column}) matches no line above"
    start_hint = f"start the line in column {' or '.join(map(str, columns))}; {_INDENT}" if columns else _INDENT
    indented = SyntaxHint(at, message, start_hint)
    more = SyntaxHint(at, "unexpected text after the value of the key")
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
            SyntaxHint(context, f"the quote `{opening}` is never closed", ""),
        ),
        "unknown escape character": SyntaxHint(at, escape, "write `\\\\` for a backslash, or use single quotes"),
        **dict.fromkeys(("cannot start any token", "did not find expected node content"), unquoted_value(at, sign)),
        **dict.fromkeys(
            ("expected alphabetic or numeric character", "expected comment or line break"),
            unquoted_value(context, opening),
        ),
    }


def _unfinished_value(source: Source, offset: int, at: int, last_event: ScalarEvent) -> SyntaxHint | None:
    """Return the explanation if the last value before the error spans several lines by mistake, or else None."""
    marks = (last_event.start_mark, last_event.end_mark)
    start, end = (mark.index + offset if mark is not None else at for mark in marks)
    (line, column), end_line, error_line = source.position(start), source.position(end)[0], source.position(at)[0]
    if line == end_line:
        return None
    if last_event.style in ("'", '"') and end_line == error_line:
        message = f"this quote is not closed until the quote on line {error_line}"
        return SyntaxHint(start, message, "close the quote where the value ends")
    if not last_event.style and not source.line(line)[: column - 1].strip(" -"):
        return _missing_colon_hint(source, start)
    return None


def _missing_space_hint(source: Source, offset: int, at: int) -> SyntaxHint | None:
    """Return the explanation for a list item that lacks the space after its dash, or None.

    The item is in the line of the error or above it.
    """
    start = source.text.rfind("\n", 0, at) + 1
    while start >= offset:
        line = source.text[start:].split("\n", 1)[0]
        if glued := _GLUED.match(line):
            place = start + glued.start(1)
            return SyntaxHint(place, "a space is missing after the `-`", f"write `- {glued[2]}: …`")
        if start == 0 or _ITEM.match(line):
            return None
        start = source.text.rfind("\n", 0, start - 1) + 1
    return None


def _missing_colon_hint(source: Source, start: int) -> SyntaxHint:
    written = source.text[start:].split("\n", 1)[0].strip()[:60]
    if glued := re.match(r"[\w-]+:(?=\S)", written):
        return SyntaxHint(start + glued.end() - 1, "a space is missing after the colon", f"write `{glued[0]} …`")
    return SyntaxHint(start, f"`{written}` is not a key with a value", "write `key: value`")
