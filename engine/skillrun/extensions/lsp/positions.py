"""Places in a text as an author counts them: lines and columns from 1, columns in characters, as in `Problem`.

What an editor counts is for the server.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Position(NamedTuple):
    """A place between two characters; `column` is that of the character behind it."""

    line: int
    column: int


class Range(NamedTuple):
    """A stretch of a text; `end` is the place behind it."""

    start: Position
    end: Position


class Location(NamedTuple):
    """A stretch of a file."""

    path: Path
    range: Range


def position_at(text: str, offset: int) -> Position:
    """The place of an offset in a text with `\\n` line ends."""
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def offset_at(text: str, position: Position) -> int:
    """The offset of a place; of one behind the end of a line that end, and of one behind the text its length."""
    start = 0
    for _ in range(position.line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return len(text)
    end = text.find("\n", start)
    return min(start + position.column - 1, len(text) if end < 0 else end)


def range_between(text: str, start: int, end: int) -> Range:
    """The stretch from an offset to another one."""
    return Range(position_at(text, start), position_at(text, end))
