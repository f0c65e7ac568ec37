"""Which regular expressions of authors are searched for, and in how much of a text."""

from __future__ import annotations

import re
from functools import lru_cache
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

TEXT_CAP = 200_000
"""Characters of a text that are searched; what stands behind them is not looked at."""


@lru_cache(maxsize=512)
def suspicious(pattern: str) -> str | None:
    """Why a regular expression is refused: it cannot be read, or can run for ever on some text."""
    try:
        tree = parser.parse(pattern)
        re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        return f"`{pattern}` is not a regular expression: {error}"
    if _explodes(tree, inside=False):
        return (
            f"`{pattern}` repeats a part that can match in several ways, which takes for ever on some texts; "
            "simplify the part, or make it atomic: `(?>…)`"
        )
    return None


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
