"""Cuts the text of a template into the tokens of Jinja's parser, each with its offset where Jinja has a line.

Knows delimiters, brackets and literals; what the tokens mean together is `syntax`'s.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Any, Final

from jinja2.lexer import Token, operators

from skillrun.language.templates.limits import Fault

_RAW_HINT: Final = "to write braces as text, put them between `{% raw %}` and `{% endraw %}`"


class Misread(Fault):
    """What cannot be read, and where in the text."""

    def __init__(self, offset: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.offset = offset


def tokens(source: str) -> Iterator[Token]:
    """The tokens of a text with tags; one line end at its end does not count. Raises Misread."""
    source = source.removesuffix("\n")
    at = 0
    while found := _OPENING.search(source, at):
        text, opening = source[at : found.start()], found["tag"]
        if found["strip"] or (found["raw"] and "-" in found["raw"][:3]):
            text = text.rstrip()
        if text:
            yield Token(at, "data", text)
        at = found.end()
        if opening == "{#":
            at = _after(_COMMENT_END, source, at, found.start(), "{#", "#}")
        elif found["raw"]:
            end = _after(_RAW_END, source, at, found.start(), "{% raw %}", "{% endraw %}")
            inside = _RAW_END.search(source, at)
            assert inside is not None
            text = source[at : inside.start()]
            if text := text.rstrip() if inside["strip"] else text:
                yield Token(at, "data", text)
            at = end
        else:
            at = yield from _tag(source, at, found.start(), opening)
    if at < len(source):
        yield Token(at, "data", source[at:])


def tokens_inside(source: str) -> Iterator[Token]:
    """The tokens of a bare expression. Raises Misread."""
    return _tag(source, 0, 0, "")


def _tag(source: str, at: int, opened: int, opening: str) -> Generator[Token, None, int]:
    """The tokens from an opening to its ending; what it returns is the offset after that."""
    begin, end, ending = _TAGS[opening]
    if begin:
        yield Token(opened, begin, opening)
    brackets: list[tuple[str, int]] = []
    while True:
        found = (_INSIDE if brackets else ending).match(source, at)
        if found is None:
            raise _unreadable(source, at)
        sort, start, at = found.lastgroup, found.start(found.lastindex or 0), found.end()
        value = found[sort or 0]
        match sort:
            case "name":
                if not value.isidentifier():
                    raise Misread(start, f"`{value}` is not a name")
                yield Token(start, "name", value)
            case "operator":
                _balance(brackets, value, start)
                yield Token(start, operators[value], value)
            case "string":
                yield Token(start, "string", _unescaped(value[1:-1]))
            case "integer" | "float":
                yield Token(start, sort, _number(value, start))
            case "ending":
                yield Token(start, end, value)
                return at
            case _ if brackets:
                raise Misread(brackets[-1][1], f"`{brackets[-1][0]}` is never closed")
            case _ if opening:
                raise Misread(opened, f"`{opening}` is never closed", f"close it with `{_PAIRS[opening]}`")
            case _:
                return at


def _after(ending: re.Pattern[str], source: str, at: int, opened: int, shown: str, close: str) -> int:
    found = ending.search(source, at)
    if found is None:
        raise Misread(opened, f"`{shown}` is never closed", _RAW_HINT if shown == "{#" else f"close it with `{close}`")
    return found.end()


def _balance(brackets: list[tuple[str, int]], sign: str, at: int) -> None:
    if sign in ("(", "[", "{"):
        brackets.append((sign, at))
    elif sign in (")", "]", "}"):
        opened, place = brackets.pop() if brackets else ("", at)
        if not opened:
            raise Misread(at, f"`{sign}` closes nothing that is open")
        if _PAIRS[opened] != sign:
            raise Misread(place, f"`{opened}` is not closed before `{sign}`", f"close it with `{_PAIRS[opened]}`")


def _number(value: str, at: int) -> Any:
    digits = value.replace("_", "")
    if len(digits) > 18:
        raise Misread(at, f"the number {value[:20]}… is too long")
    return float(digits) if not digits.isdecimal() else int(digits)


def _unescaped(text: str) -> str:
    return (
        _ESCAPE.sub(lambda found: _ESCAPES.get(found[1]) or chr(int(found[1][1:], 16)), text) if "\\" in text else text
    )


def _unreadable(source: str, at: int) -> Misread:
    at = _SPACE.match(source, at).end()  # type: ignore[union-attr]
    character = source[at : at + 1]
    if character in "'\"":
        return Misread(at, "the text in quotes does not end", f"close it with {character}")
    return Misread(at, f"`{character}` has no meaning in an expression", _INSTEAD.get(character, ""))


_PAIRS: Final = {"(": ")", "[": "]", "{": "}", "{{": "}}", "{%": "%}"}
_OPENING: Final = re.compile(
    r"(?P<raw>\{%[-+]?\s*raw\s*(?:-%\}\s*|%\}))|(?P<tag>\{\{|\{%|\{\#)(?:(?P<strip>-)|\+)?", re.DOTALL
)
_COMMENT_END: Final = re.compile(r"-#\}\s*|\+?#\}")
_RAW_END: Final = re.compile(r"\{%(?:(?P<strip>-)|\+)?\s*endraw\s*(?:-%\}\s*|\+?%\})")
_SPACE: Final = re.compile(r"\s*")
_VALUES: Final = r"""
    (?P<float> (?<!\.) \d[\d_]* (?: (?:\.\d[\d_]*)? [eE][-+]?\d+ | \.\d[\d_]* ) )
    | (?P<integer> \d[\d_]* )
    | (?P<name> \w+ )
    | (?P<string> '[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*" )
    | (?P<operator> OPERATORS )
    | (?P<stop> \Z )
""".replace("OPERATORS", "|".join(re.escape(sign) for sign in sorted(operators, key=len, reverse=True)))


def _pattern(ending: str) -> re.Pattern[str]:
    first = rf"(?P<ending> {ending} ) | " if ending else ""
    return re.compile(rf"\s* (?: {first} {_VALUES} )", re.VERBOSE | re.DOTALL)


_INSIDE: Final = _pattern("")
_TAGS: Final = {
    "{{": ("variable_begin", "variable_end", _pattern(r"-\}\}\s*|\}\}")),
    "{%": ("block_begin", "block_end", _pattern(r"-%\}\s*|\+?%\}")),
    "": ("", "", _INSIDE),
}
_ESCAPE: Final = re.compile(r"\\(n|t|\\|'|\"|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")
_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_INSTEAD: Final = {
    "&": "write `and`",
    "!": "write `not x`, or `x != y`",
    "?": "write `a if condition else b`",
    "`": "put text between quotes",
    **dict.fromkeys("“”‘’„«»", "put text between straight quotes"),
}
