"""Positions in a text: lines and columns from 1, columns in characters, as in `Problem`.

`client_positions` converts them to the positions of the editor.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Position(NamedTuple):
    """A position between two characters; `column` is that of the following character."""

    line: int
    column: int


class Range(NamedTuple):
    """A range of a text; `end` is exclusive."""

    start: Position
    end: Position


class Location(NamedTuple):
    """A range in a file."""

    path: Path
    range: Range


def position_at(text: str, offset: int) -> Position:
    """Return the position of an offset in a text with `\\n` line ends."""
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def offset_at(text: str, position: Position) -> int:
    """Return the offset of a position, limited to the end of its line and of the text."""
    start = 0
    for _ in range(position.line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return len(text)
    end = text.find("\n", start)
    return min(start + position.column - 1, len(text) if end < 0 else end)


def range_between(text: str, start: int, end: int) -> Range:
    """Return the range between two offsets."""
    return Range(position_at(text, start), position_at(text, end))
