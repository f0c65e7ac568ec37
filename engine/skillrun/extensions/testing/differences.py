"""Formats the difference between an expected and an actual text: `-` marks expected lines, `+` actual lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import islice, takewhile
from typing import Final

MOST_LINES: Final = 80  # lines of a difference that are shown; the others are only counted
MOST_COMPARED: Final = 5_000  # lines of a text among which the most similar line is searched
MAX_LINE_CHARS: Final = 1_000  # only so many characters of a line are compared
CONTEXT_LINES: Final = 2  # unchanged lines shown before and after a difference
CONTEXT_CHARS: Final = 40  # characters shown on either side of the nearest match
MIN_SIMILARITY: Final = 0.5  # share of the expected line that a similar line must contain
MIN_MATCH_CHARS: Final = 3  # shortest run of equal characters that counts as a match

_HUNK_HEADER: Final = re.compile(r"@@ (?:line|(-\S+)) \+?(\d+)\S* @@")


def diff_lines(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    """Return the unified diff of two lists of lines, without the file header."""
    lines = list(islice(unified_diff(expected, actual, lineterm="", n=CONTEXT_LINES), 2, None))
    return truncate_lines(lines)


def nearest_lines(words: str, text: str) -> list[str]:
    """Return the difference between expected words and the most similar place in a text, from the first difference on.

    If nothing in the text is similar, return only the expected words.
    """
    wanted = words.strip("\n").split("\n")
    lines = text.split("\n")
    longest = max(wanted, key=len)
    at = _nearest_line_number(longest, lines)
    if at is None:
        return truncate_lines([*(f"-{line}" for line in wanted), "(nothing similar in the text)"])
    first = max(0, at - wanted.index(longest))
    candidates = [*lines[first : first + len(wanted)], *[""] * len(wanted)]
    number = next((n for n, line in enumerate(wanted) if line.strip() not in candidates[n]), 0)
    before = [f" {line}" for line in candidates[max(0, number - CONTEXT_LINES) : number]]
    shown, column = _excerpt(candidates[number], wanted[number].strip())
    return [f"@@ line {first + number + 1} @@", *before, f"-{wanted[number]}", f"+{shown}", f"{' ' * (column + 1)}^"]


def matching_lines(words: str, text: str) -> list[str]:
    """Return the lines of the first occurrence of the words, marked with `+`, and the lines around it."""
    first_match = text[: text.index(words)].count("\n")
    last = first_match + words.count("\n")
    lines = text.split("\n")
    first = max(0, first_match - CONTEXT_LINES)
    shown = [
        f"{'+' if first_match <= number <= last else ' '}{lines[number]}"
        for number in range(first, min(len(lines), last + CONTEXT_LINES + 1))
    ]
    return truncate_lines([f"@@ line {first_match + 1} @@", *shown])


def truncate_lines(lines: list[str]) -> list[str]:
    """Return at most `MOST_LINES` lines; if lines are left out, the last line says how many."""
    rest = len(lines) - MOST_LINES
    return lines if rest <= 0 else [*lines[:MOST_LINES], f"… and {rest} more lines"]


def add_part_names(lines: Sequence[str], parts: Sequence[tuple[int, str]]) -> list[str]:
    """Append to each hunk header the name of the part of the text in which the first difference is.

    `parts` lists the first line and the name of each part.
    """
    labelled_lines = []
    for place, line in enumerate(lines):
        start = _HUNK_HEADER.fullmatch(line)
        part = (
            []
            if start is None
            else _part_at(int(start[2]) + (_count_context_lines(lines[place + 1 :]) if start[1] else 0), parts)
        )
        labelled_lines.append(" ".join([line, *part]))
    return labelled_lines


def _count_context_lines(lines: Sequence[str]) -> int:
    """Return how many unchanged lines precede the first difference."""
    return len(list(takewhile(lambda line: line.startswith(" "), lines)))


def _part_at(line: int, parts: Sequence[tuple[int, str]]) -> list[str]:
    return [name for first, name in parts if first <= line][-1:]


def _nearest_line_number(line: str, lines: Sequence[str]) -> int | None:
    """Return the index of the line that is most similar to `line`; None if no line contains half of it.

    Of several equally similar lines, the last is returned, since in a prompt the instructions follow the material.
    """
    wanted = line.strip()[:MAX_LINE_CHARS]
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)
    least, best, best_line = max(MIN_MATCH_CHARS, len(wanted) // 3), MIN_SIMILARITY, None
    for number, other in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(other[:MAX_LINE_CHARS])
        found = matcher.find_longest_match()
        if found.size < least:
            continue
        first = max(0, found.a - found.b)
        pieces = SequenceMatcher(None, other[first : first + len(wanted)], wanted, autojunk=False).get_matching_blocks()
        alike = sum(piece.size for piece in pieces if piece.size >= MIN_MATCH_CHARS) / len(wanted)
        if alike >= best:
            best, best_line = alike, number
    return best_line


def _excerpt(line: str, wanted: str) -> tuple[str, int]:
    """Return the part of a line most similar to `wanted`, with context, and the column of the first difference."""
    matcher = SequenceMatcher(None, line[:MAX_LINE_CHARS], wanted[:MAX_LINE_CHARS], autojunk=False)
    match = matcher.find_longest_match()
    first = max(0, match.a - match.b)
    window = slice(first, match.a + match.size + len(wanted))
    same = next(iter(SequenceMatcher(None, line[window], wanted, autojunk=False).get_matching_blocks()))
    difference_at = first + (same.a + same.size if same.b == 0 else 0)
    start, end = max(0, first - CONTEXT_CHARS), min(len(line), max(first + len(wanted), difference_at) + CONTEXT_CHARS)
    shown = f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
    return shown, difference_at - start + bool(start)
