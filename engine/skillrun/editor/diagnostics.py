"""A problem as an editor shows it: the stretch that it is about, in the units in which the editor counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lsprotocol import types
from pygls.workspace import PositionCodec

from skillrun.editor.positions import Position, Range
from skillrun.language.text.diagnostics import Problem

_WORD: Final = re.compile(r"[\w./:@-]*\w|\S")  # a name, as authors write it, or a sign
_SEVERITIES: Final = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}


def diagnostic(problem: Problem, lines: Sequence[str], codec: PositionCodec) -> types.Diagnostic:
    """The problem with the stretch that begins at its place; `lines` are those of its file."""
    return types.Diagnostic(
        range=client_range(stretch(problem, lines), lines, codec),
        message="\n".join(filter(None, (problem.message, problem.hint))),
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        source="skillrun",
    )


def stretch(problem: Problem, lines: Sequence[str]) -> Range:
    """From the place of the problem to the end of the name that stands there."""
    start = Position(problem.line, problem.column)
    line = lines[problem.line - 1] if problem.line <= len(lines) else ""
    word = _WORD.match(line, problem.column - 1)
    return Range(start, start._replace(column=word.end() + 1 if word else problem.column))


def client_range(range_: Range, lines: Sequence[str], codec: PositionCodec) -> types.Range:
    """A stretch in the units of the editor, in lines from 0."""
    return types.Range(*(client_position(position, lines, codec) for position in range_))


def client_position(position: Position, lines: Sequence[str], codec: PositionCodec) -> types.Position:
    line = lines[position.line - 1] if position.line <= len(lines) else ""
    return types.Position(position.line - 1, codec.client_num_units(line[: position.column - 1]))


def own_position(position: types.Position, lines: Sequence[str], codec: PositionCodec) -> Position:
    """A place that the editor names, as authors count."""
    line = lines[position.line] if position.line < len(lines) else ""
    column, units = 0, 0
    for sign in line:
        if units >= position.character:
            break
        units += codec.client_num_units(sign)
        column += 1
    return Position(position.line + 1, column + 1)
