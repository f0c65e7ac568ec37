"""Gives the repetitions of regular expressions an end, because a search with `re` cannot be interrupted.

`signals` refuses repetitions inside repetitions, whose cost grows exponentially. Those in a row multiply the cost by
how far each reaches, on some texts to the end. Here each reaches 200 characters, or fewer where there are many
and the text is long, so that a search stays below `MAX_STEPS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from skillrun.language.templates.limits import Fault

MAX_STEPS: Final = 100_000_000  # of a call, however many expressions it has; takes about two seconds
MAX_REACH: Final = 200
MAX_TIMES: Final = 1_000  # repetitions that an expression may demand

_PART: Final = re.compile(
    r"(?P<plain> \\. | \[\^?\]?(?:\\.|[^\]\\])*\] | \(\? | [^*+?{] )"
    r"| (?P<repeat> [*+] | \{\d+,?\d*\} | \{,\d+\} ) (?P<mode>[?+]?)"
    r"| (?P<optional> \?[?+]? ) | \{",
    re.DOTALL | re.VERBOSE,
)
_COUNTS: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")

Groups = Mapping[str, list[str]]


def with_ends(groups: Groups, length: int) -> Groups:
    """Named groups of expressions, fit to search a text of that length. Raises Fault for too many repetitions."""
    share = sum(1 for group in groups.values() for pattern in group if _factors(pattern)[0]) or 1
    steps = MAX_STEPS / share / max(length, 1)
    return {name: [_with_ends(pattern, steps) for pattern in group] for name, group in groups.items()}


def _with_ends(pattern: str, steps: float) -> str:
    repeats, optional = _factors(pattern)
    reach = max(1, min(MAX_REACH, int((steps / 2**optional) ** (1 / repeats)))) if repeats else MAX_REACH
    return _PART.sub(lambda part: _ended(part, reach) if part["repeat"] else part[0], pattern)


def _factors(pattern: str) -> tuple[int, int]:
    """How many parts of an expression are repeated, and how many are optional."""
    parts = list(_PART.finditer(pattern))
    return sum(1 for part in parts if part["repeat"]), sum(1 for part in parts if part["optional"])


def _ended(part: re.Match[str], reach: int) -> str:
    counts = _COUNTS.fullmatch(part["repeat"])
    least = int(counts[1] or 0) if counts else int(part["repeat"] == "+")
    most = least + reach
    if counts and (counts[3] or not counts[2]):
        most = min(most, int(counts[3]) if counts[3] else least)
    if least > MAX_TIMES:
        raise Fault(f"a regular expression repeats something {least} times", f"at most {MAX_TIMES} times")
    return f"{{{least},{most}}}{part['mode']}"
