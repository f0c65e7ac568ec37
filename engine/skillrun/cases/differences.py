"""Differences of texts, for who reads a miss: `-` before what is expected, `+` before what there is."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import islice
from typing import Final

MOST_LINES: Final = 80  # of a difference; the others are counted
MOST_COMPARED: Final = 5_000  # lines that are compared with those that are looked for
WIDEST: Final = 1_000  # characters of a line that are compared
AROUND: Final = 2  # lines that are told above and below
LEAST: Final = 3  # characters that a line has to have of what is looked for to be told as the nearest


def differing_lines(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    """The difference of two lists of lines, without the lines that only name them."""
    lines = list(islice(unified_diff(expected, actual, lineterm="", n=AROUND), 2, None))
    return cut(lines)


def nearest_lines(words: str, text: str) -> list[str]:
    """What is looked for, and the lines of the text that are most like it; where none is, only the former."""
    wanted = words.strip("\n").split("\n")
    lines = text.split("\n")
    at = _nearest(max(wanted, key=len), lines)
    if at is None:
        return cut([*(f"-{line}" for line in wanted), "(nothing in the text is like it)"])
    first = max(0, at - wanted.index(max(wanted, key=len)))
    there = lines[first : first + len(wanted)]
    return cut([f"@@ line {first + 1} @@", *(f"-{line}" for line in wanted), *(f"+{line}" for line in there)])


def lines_around(words: str, text: str) -> list[str]:
    """The lines of the text in which the words stand first, those marked with `+`."""
    before = text[: text.index(words)].count("\n")
    last = before + words.count("\n")
    lines = text.split("\n")
    first = max(0, before - AROUND)
    shown = [
        f"{'+' if before <= number <= last else ' '}{lines[number]}"
        for number in range(first, min(len(lines), last + AROUND + 1))
    ]
    return cut([f"@@ line {before + 1} @@", *shown])


def cut(lines: list[str]) -> list[str]:
    """The lines, of a long list the first ones."""
    rest = len(lines) - MOST_LINES
    return lines if rest <= 0 else [*lines[:MOST_LINES], f"… and {rest} more lines"]


def _nearest(line: str, lines: Sequence[str]) -> int | None:
    """The number of the line that has the longest stretch of one in it; None where none has much of it.

    Of several it is the last: in a prompt what is asked stands behind what it is about.
    """
    wanted = line.strip()[:WIDEST]
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)
    longest, at = max(LEAST, len(wanted) // 3), None
    for number, other in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(other[:WIDEST])
        size = matcher.find_longest_match().size
        if size >= longest:
            longest, at = size, number
    return at
