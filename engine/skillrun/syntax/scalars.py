"""Converts YAML scalars to values, and maps each character of a value to its position in the file.

Values follow the core schema of YAML 1.2: `on`, `no`, dates and `22:22` are text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from skillrun.syntax.source import Runs

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
    match style:
        case "'":
            return tuple(_quoted_runs(file, start + 1, end - 1, _SINGLE_QUOTED))
        case '"':
            return tuple(_quoted_runs(file, start + 1, end - 1, _DOUBLE_QUOTED))
        case "|" | ">":
            start = file.find("\n", start, end) + 1 or end
    return tuple(_word_runs(file, start, end, value))


def _word_runs(file: str, start: int, end: int, value: str) -> Iterator[tuple[int, int]]:
    """Yield the runs of a plain, literal or folded scalar, which only differs from the file in its white space."""
    yield 0, start
    for word, written in zip(_WORD.finditer(value), _WORD.finditer(file, start, end), strict=False):
        yield word.start(), written.start()


def _quoted_runs(file: str, start: int, end: int, special: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the runs of a quoted scalar, in which the length of an escape or a folded line end may change."""
    yield 0, start
    length = 0
    place = start
    for match in special.finditer(file, start, end):
        length += match.start() - place
        yield length, match.start()
        length += _decoded_length(match[0])
        place = match.end()
        yield length, place


def _decoded_length(written: str) -> int:
    """Return the number of characters that an escape, a doubled quote or a range of white space stands for."""
    breaks = written.count("\n")
    if written.startswith("\\"):
        return breaks - 1 if breaks else 1
    if breaks:
        return max(1, breaks - 1)
    return 1 if written == "''" else len(written)
