"""Gives the repetitions of regular expressions an end, because a search with `re` cannot be interrupted.

`signals` refuses repetitions inside repetitions. Those in a row multiply the cost by how far each reaches, on some
texts to the end. Here each reaches at most 200 characters, and fewer where there are many and the text is long, so
that a search stays near `MAX_STEPS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, reduce
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from skillrun.language.templates.limits import Fault

MAX_STEPS: Final = 100_000_000  # of a call, however many expressions it has; takes about two seconds
REACHES: Final = (200, 100, 50, 25, 12, 6, 3, 1)
MAX_TIMES: Final = 1_000  # repetitions that an expression may demand

_PART: Final = re.compile(
    r"(?P<plain> \\. | \[\^?\]?(?:\\.|[^\]\\])*\] | \(\? | [^*+{] )"
    r"| (?P<repeat> [*+] | \{\d+,?\d*\} | \{,\d+\} ) (?P<mode>[?+]?) | \{",
    re.DOTALL | re.VERBOSE,
)
_COUNTS: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")


def with_ends(groups: Mapping[str, list[str]], length: int) -> dict[str, list[str]]:
    """Named groups of expressions that `re` can read, fit to search a text of that length.

    Raises Fault for an expression that could take for ever all the same.
    """
    share = sum(1 for group in groups.values() for pattern in group if _ways(pattern) > 1) or 1
    ways = MAX_STEPS / share / max(length, 1)
    return {name: [_with_ends(pattern, ways) for pattern in group] for name, group in groups.items()}


def _with_ends(pattern: str, ways: float) -> str:
    for reach in REACHES:
        ended = _reaching(pattern, reach)
        if _ways(ended) <= ways:
            return ended
    message = f"`{pattern}` can match in too many ways to search a text this long"
    raise Fault(message, "clip the text, or split the pattern")


def _reaching(pattern: str, reach: int) -> str:
    return _PART.sub(lambda part: _ended(part, reach) if part["repeat"] else part[0], pattern)


def _ended(part: re.Match[str], reach: int) -> str:
    counts = _COUNTS.fullmatch(part["repeat"])
    least = int(counts[1] or 0) if counts else int(part["repeat"] == "+")
    most = least + reach
    if counts and (counts[3] or not counts[2]):
        most = min(most, int(counts[3]) if counts[3] else least)
    if least > MAX_TIMES:
        raise Fault(f"a regular expression repeats something {least} times", f"at most {MAX_TIMES} times")
    return f"{{{least},{most}}}{part['mode']}"


@lru_cache(maxsize=2048)
def _ways(pattern: str) -> float:
    """In how many ways an expression can match at one place, at most; about that many steps a search takes there."""
    return _counted(parser.parse(pattern))


_REPEATS: Final = (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT)
_MANY: Final = 1e18


def _counted(node: Any) -> float:
    match node:
        case (opcode, (least, most, body)) if opcode in _REPEATS:
            inner = _counted(body)
            return min(_MANY, most - least + 1.0 if inner == 1 else inner ** min(int(most), 64) * 2)
        case (opcode, (_, alternatives)) if opcode is opcodes.BRANCH:
            return float(sum(map(_counted, alternatives)))
        case list() | tuple() | parser.SubPattern():
            return reduce(lambda product, part: min(_MANY, product * _counted(part)), node, 1.0)
    return 1.0
