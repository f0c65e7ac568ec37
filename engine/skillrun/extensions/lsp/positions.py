"""Converts between offsets, positions in a text, and positions of the editor.

As in `Problem`, lines and columns count from 1, and columns count characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lsprotocol import types
from pygls.workspace import PositionCodec


class Position(NamedTuple):
    """A position between two characters. `column` is the column of the character after it."""

    line: int
    column: int


class Range(NamedTuple):
    """A range of a text. The range ends before `end`."""

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


def to_client_position(position: Position, lines: Sequence[str], codec: PositionCodec) -> types.Position:
    return types.Position(position.line - 1, codec.client_num_units(_line(lines, position.line)[: position.column - 1]))


def to_client_range(range_: Range, lines: Sequence[str], codec: PositionCodec) -> types.Range:
    return types.Range(to_client_position(range_.start, lines, codec), to_client_position(range_.end, lines, codec))


def from_client_position(position: types.Position, lines: Sequence[str], codec: PositionCodec) -> Position:
    """Return the position for a position of the editor. Beyond the end of the line, it is the end of the line."""
    line = _line(lines, position.line + 1)
    column, units = 0, 0
    while units < position.character and column < len(line):
        units += codec.client_num_units(line[column])
        column += 1
    return Position(position.line + 1, column + 1)


def from_client_range(range_: types.Range, lines: Sequence[str], codec: PositionCodec) -> Range:
    return Range(from_client_position(range_.start, lines, codec), from_client_position(range_.end, lines, codec))


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1] if number <= len(lines) else ""
