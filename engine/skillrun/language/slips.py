"""YAML's common syntax errors in the author's words: what is wrong, where, and what to write instead.

Owns the wording only; `yaml` finds the errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from yaml.error import MarkedYAMLError
from yaml.events import ScalarEvent

from skillrun.language.source import Source

_TEMPLATE_MARKS: Final = ("{{", "{%", "{#")
_INDENT: Final = "keys that belong together start in the same column"
_QUOTE: Final = "put the whole value in quotes"


@dataclass(frozen=True)
class Slip:
    """A syntax error at a place of the file."""

    offset: int
    message: str
    hint: str = _QUOTE
    code: str = "yaml"


@dataclass(frozen=True)
class _Found:
    """Where the parser gave up, and where what it was reading starts."""

    source: Source
    at: int
    context: int


def unquoted(offset: int, start: str) -> Slip:
    """A value whose first characters mean something else in YAML."""
    hint = f'{_QUOTE}, such as "{{{{ inputs.name }}}}"' if start in _TEMPLATE_MARKS else _QUOTE
    shown = "a backtick" if start == "`" else f"`{start}`"
    return Slip(offset, f"a value that starts with {shown} must be quoted", hint, "unquoted")


def explain(source: Source, offset: int, error: MarkedYAMLError, last: Any) -> Slip:
    """The parser's error in other words; its marks count from `offset`, and `last` is the event before it."""
    text, said = source.text, error.problem or ""
    at = min(error.problem_mark.index + offset, len(text)) if error.problem_mark else offset
    context = error.context_mark.index + offset if error.context_mark else at
    if isinstance(last, ScalarEvent) and (begun := _begun_earlier(source, offset, at, last)) is not None:
        return begun
    for place in (max(at - 1, 0), context, last.start_mark.index + offset if last is not None else at):
        if text[place : place + 2] in _TEMPLATE_MARKS:
            return unquoted(place, text[place : place + 2])
    if text[at : at + 1] == "\t" or "tab" in said:
        return Slip(at, "a tab stands where YAML expects spaces", "indent with spaces")
    for words, explained in _EXPLAINED.items():
        if words in said:
            return explained(_Found(source, at, context))
    return Slip(at, f"YAML: {' '.join(filter(None, (error.context, said)))}")


def _begun_earlier(source: Source, offset: int, at: int, last: ScalarEvent) -> Slip | None:
    """The slip of a value before the error that goes on over several lines and should not."""
    start, end = (mark.index + offset if mark is not None else at for mark in (last.start_mark, last.end_mark))
    line, column = source.position(start)
    if line == source.position(end)[0]:
        return None
    if last.style in ("'", '"') and source.position(end)[0] == source.position(at)[0]:
        message = f"this quote is closed only by another one on line {source.position(at)[0]}"
        return Slip(start, message, "close it where the value ends")
    if not last.style and not source.line(line)[: column - 1].strip(" -"):
        return _no_colon(_Found(source, start, start))
    return None


def _colon(found: _Found) -> Slip:
    return Slip(found.at, "a value with `: ` in it must be quoted", f"{_QUOTE}; if this is a key of its own, {_INDENT}")


def _no_colon(found: _Found) -> Slip:
    written = found.source.text[found.context :].split("\n", 1)[0].strip()[:60]
    if glued := re.match(r"[\w-]+:(?=\S)", written):
        place = found.context + glued.end() - 1
        return Slip(place, "a space is missing after the colon", f"write `{glued[0]} …`")
    return Slip(found.context, f"`{written}` is not a key with a value", "write `key: value`")


def _no_key(found: _Found) -> Slip:
    if found.source.line(found.source.position(found.at)[0])[: found.source.position(found.at)[1] - 1].strip():
        return Slip(found.at, "this is more than the value of the key")
    return Slip(found.at, "the indentation of this line fits none above", _INDENT)


def _unclosed(found: _Found) -> Slip:
    line = found.source.position(found.context)[0]
    if found.source.text[found.at : found.at + 1] == ":" and found.source.position(found.at)[0] == line:
        return Slip(found.at, "a value with `: ` in it must be quoted")
    opening = found.source.text[found.context]
    hint = f"the `{opening}` of line {line} is still open; a value with any of `,[]{{}}` in it must be quoted"
    return Slip(found.at, f"`,` or `{'}' if opening == '{' else ']'}` is missing here", hint)


def _unclosed_quote(found: _Found) -> Slip:
    return Slip(found.context, f"the quote `{found.source.text[found.context]}` is never closed", "")


def _escape(found: _Found) -> Slip:
    hint = "write `\\\\` for a backslash, or use single quotes"
    return Slip(found.at, f"`{found.source.text[found.at : found.at + 2]}` is not an escape in YAML", hint)


def _unquoted_at(found: _Found) -> Slip:
    return unquoted(found.at, found.source.text[found.at : found.at + 1])


def _unquoted_context(found: _Found) -> Slip:
    return unquoted(found.context, found.source.text[found.context : found.context + 1])


# what libyaml says, or a part of it -> our words for it
_EXPLAINED: Final[dict[str, Callable[[_Found], Slip]]] = {
    "mapping values are not allowed": _colon,
    "could not find expected ':'": _no_colon,
    "did not find expected ',' or": _unclosed,
    "did not find expected key": _no_key,
    "did not find expected '-' indicator": _no_key,
    "did not find expected <document start>": _no_key,
    "found unexpected end of stream": _unclosed_quote,
    "found unexpected document indicator": _unclosed_quote,
    "found unknown escape character": _escape,
    "cannot start any token": _unquoted_at,
    "did not find expected node content": _unquoted_at,
    "expected alphabetic or numeric character": _unquoted_context,
    "expected comment or line break": _unquoted_context,
}
