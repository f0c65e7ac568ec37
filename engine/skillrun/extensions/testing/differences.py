"""Differences of texts, for who reads a miss: `-` before what is expected, `+` before what there is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import islice, takewhile
from typing import Final

MOST_LINES: Final = 80  # of a difference; the others are counted
MOST_COMPARED: Final = 5_000  # lines that are compared with those that are looked for
WIDEST: Final = 1_000  # characters of a line that are compared
AROUND: Final = 2  # lines that are told above and below
BESIDE: Final = 40  # characters of a line that are told around what is most like what is looked for
HALF: Final = 0.5  # how much of what is looked for has to be there
LEAST: Final = 3  # characters in a row that count as alike

_PIECE: Final = re.compile(r"@@ (?:line|(-\S+)) \+?(\d+)\S* @@")


def differing_lines(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    """The difference of two lists of lines, without the lines that only name them."""
    lines = list(islice(unified_diff(expected, actual, lineterm="", n=AROUND), 2, None))
    return cut(lines)


def nearest_lines(words: str, text: str) -> list[str]:
    """What is looked for, and what of the text is most like it, from the first place on where the two differ; where
    nothing is like it, only the former."""
    wanted = words.strip("\n").split("\n")
    lines = text.split("\n")
    longest = max(wanted, key=len)
    at = _nearest(longest, lines)
    if at is None:
        return cut([*(f"-{line}" for line in wanted), "(nothing in the text is like it)"])
    first = max(0, at - wanted.index(longest))
    there = [*lines[first : first + len(wanted)], *[""] * len(wanted)]
    number = next((n for n, line in enumerate(wanted) if line.strip() not in there[n]), 0)
    before = [f" {line}" for line in there[max(0, number - AROUND) : number]]
    shown, column = _stretch(there[number], wanted[number].strip())
    return [f"@@ line {first + number + 1} @@", *before, f"-{wanted[number]}", f"+{shown}", f"{' ' * (column + 1)}^"]


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


def with_parts(lines: Sequence[str], parts: Sequence[tuple[int, str]]) -> list[str]:
    """A difference whose pieces also say in which part of the text they begin; `parts` by the line they begin with."""
    told = []
    for place, line in enumerate(lines):
        start = _PIECE.fullmatch(line)
        part = [] if start is None else _part_at(int(start[2]) + (_same(lines[place + 1 :]) if start[1] else 0), parts)
        told.append(" ".join([line, *part]))
    return told


def _same(lines: Sequence[str]) -> int:
    """How many lines stand above the first one that differs."""
    return len(list(takewhile(lambda line: line.startswith(" "), lines)))


def _part_at(line: int, parts: Sequence[tuple[int, str]]) -> list[str]:
    return [name for first, name in parts if first <= line][-1:]


def _nearest(line: str, lines: Sequence[str]) -> int | None:
    """The number of the line that has most of one in a stretch; None where none has half of it.

    Of several it is the last: in a prompt what is asked stands behind what it is about.
    """
    wanted = line.strip()[:WIDEST]
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)
    least, best, at = max(LEAST, len(wanted) // 3), HALF, None
    for number, other in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(other[:WIDEST])
        found = matcher.find_longest_match()
        if found.size < least:
            continue
        first = max(0, found.a - found.b)
        pieces = SequenceMatcher(None, other[first : first + len(wanted)], wanted, autojunk=False).get_matching_blocks()
        alike = sum(piece.size for piece in pieces if piece.size >= LEAST) / len(wanted)
        if alike >= best:
            best, at = alike, number
    return at


def _stretch(line: str, wanted: str) -> tuple[str, int]:
    """What of a line is most like what is wanted, with some of the line around it, and where in it they part."""
    matcher = SequenceMatcher(None, line[:WIDEST], wanted[:WIDEST], autojunk=False)
    found = matcher.find_longest_match()
    first = max(0, found.a - found.b)
    room = slice(first, found.a + found.size + len(wanted))
    same = next(iter(SequenceMatcher(None, line[room], wanted, autojunk=False).get_matching_blocks()))
    parts = first + (same.a + same.size if same.b == 0 else 0)
    start, end = max(0, first - BESIDE), min(len(line), max(first + len(wanted), parts) + BESIDE)
    shown = f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
    return shown, parts - start + bool(start)
