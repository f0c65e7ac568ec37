"""Words that say something about a text: where regular expressions of authors occur in it, and which are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Hit = tuple[int, str]
TEXT_CAP = 200_000
"""Characters of a text that are searched; what stands behind them is not looked at."""


def hits(pattern: str, text: str, seconds: float) -> list[Hit]:
    """Place and words of each occurrence that is not empty, whatever its case, in the first TEXT_CAP characters.

    Raises ValueError for a pattern that is refused, and TimeoutError when the search takes longer than `seconds`.
    """
    import regex  # type: ignore[import-untyped]  # unlike `re` it can be told when to give up

    if reason := suspicious(pattern):
        raise ValueError(reason)
    try:
        found = regex.finditer(pattern, text[:TEXT_CAP], regex.IGNORECASE, timeout=seconds)
        return [(hit.start(), hit.group()) for hit in found if hit.group()]
    except regex.error as error:
        raise ValueError(f"`{pattern}` is not a regular expression: {error}") from error


def distinct(found: Iterable[Hit]) -> list[str]:
    """The words of hits in the order of their places; of words that differ in case alone, those that come first."""
    words: dict[str, str] = {}
    for _, hit in sorted(found):
        words.setdefault(hit.casefold(), hit)
    return list(words.values())


@lru_cache(maxsize=512)
def suspicious(pattern: str) -> str | None:
    """Why a regular expression is refused: it cannot be read, or can run for ever on some text.

    Source: the star-height heuristic of `safe-regex` (J. Halliday): a repetition inside a repetition may backtrack
    exponentially; alternatives that can begin alike inside one do so too.
    """
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
