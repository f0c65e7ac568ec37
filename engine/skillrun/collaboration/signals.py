"""Finding keywords in a text by regular expressions that authors keep in config; nothing here judges what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

TEXT_CAP = 200_000
"""Characters of a text that are searched; what stands behind them is not looked at."""

Patterns = Mapping[str, str | Iterable[str]] | Iterable[str]


def matches(text: object, patterns: Patterns) -> dict[str, list[str]]:
    """Name → distinct hits in order of appearance, for the names that have any, in the order of the patterns.

    `patterns` maps names to a regular expression or a list of them; a plain list of expressions is named by itself.
    Case is ignored, in the search and in what counts as distinct; what is no text has no hits. Raises ValueError for an
    expression that `suspicious` names.
    """
    if not isinstance(text, str):
        return {}
    named = patterns if isinstance(patterns, Mapping) else {pattern: pattern for pattern in patterns}
    found = {name: _hits(text[:TEXT_CAP], [each] if isinstance(each, str) else each) for name, each in named.items()}
    return {name: hits for name, hits in found.items() if hits}


def suspicious(pattern: str) -> str | None:
    """Why a regular expression is refused: it cannot be read, or can run for ever on some text."""
    try:
        _compiled(pattern)
    except ValueError as error:
        return str(error)
    return None


def _hits(text: str, expressions: Iterable[str]) -> list[str]:
    places = sorted(
        (hit.start(), hit.end(), hit.group())
        for each in expressions
        for hit in _compiled(each).finditer(text)
        if hit.group()
    )
    distinct: dict[str, str] = {}
    for _, _, hit in places:
        distinct.setdefault(hit.casefold(), hit)
    return list(distinct.values())


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        tree = parser.parse(pattern)
        compiled = re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"`{pattern}` is not a regular expression: {error}") from None
    if _explodes(tree, inside=False):
        raise ValueError(
            f"`{pattern}` repeats a part that can match in several ways, which takes for ever on some texts; "
            "simplify the part, or make it atomic: `(?>…)`"
        )
    return compiled


_REPEATS = (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT)
_SAFE = (opcodes.POSSESSIVE_REPEAT, opcodes.ATOMIC_GROUP)
_MANY = 10


def _explodes(node: Any, inside: bool) -> bool:
    """Whether something that can match in several ways stands inside a long repetition of the parsed pattern."""
    match node:
        case (opcode, _) if opcode in _SAFE:
            return False
        case (opcode, (least, most, body)) if opcode in _REPEATS:
            return (inside and most != least) or _explodes(body, inside or most > _MANY)
        case (opcode, (_, alternatives)) if opcode is opcodes.BRANCH and inside and not _distinct(alternatives):
            return True
        case list() | tuple() | parser.SubPattern():
            return any(_explodes(each, inside) for each in node)
    return False


def _distinct(alternatives: Any) -> bool:
    """Whether each alternative begins with a character of its own."""
    beginnings: list[Any] = [each[0] if len(each) else (None, None) for each in alternatives]
    characters = {chr(value).casefold() for opcode, value in beginnings if opcode is opcodes.LITERAL}
    return len(characters) == len(beginnings)
