"""Converts positions to and from those of the editor: lines from 0, columns in negotiated units (default UTF-16).

`lines` are always the lines of the file, without line ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types
from pygls.workspace import PositionCodec

from skillrun.extensions.lsp.positions import Position, Range


def to_client_position(position: Position, lines: Sequence[str], codec: PositionCodec) -> types.Position:
    return types.Position(position.line - 1, codec.client_num_units(_line(lines, position.line)[: position.column - 1]))


def to_client_range(range_: Range, lines: Sequence[str], codec: PositionCodec) -> types.Range:
    return types.Range(to_client_position(range_.start, lines, codec), to_client_position(range_.end, lines, codec))


def from_client_position(position: types.Position, lines: Sequence[str], codec: PositionCodec) -> Position:
    """Return the position for one of the editor, limited to the end of its line."""
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
