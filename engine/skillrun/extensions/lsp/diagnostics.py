"""Converts problems to LSP diagnostics and quick fixes. Positions are in the units of the editor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from lsprotocol import types
from pygls.workspace import PositionCodec

from skillrun.extensions.lsp.positions import Position, Range, to_client_range
from skillrun.syntax.diagnostics import Problem

OTHER: Final = "related location"
_WORD: Final = re.compile(r"##[ \t].*|[\w./:@-]*\w|\S")  # a heading, a name as authors write it, or a single character
_SEVERITIES: Final = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}


def build_diagnostic(
    problem: Problem, lines: Sequence[str], codec: PositionCodec, related: types.Location | None = None
) -> types.Diagnostic:
    """Return the diagnostic for a problem. `lines` are the lines of the file with the problem."""
    return types.Diagnostic(
        range=to_client_range(problem_range(problem, lines), lines, codec),
        message="\n".join(filter(None, (problem.message, problem.hint))),
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        source="skillrun",
        related_information=[types.DiagnosticRelatedInformation(related, OTHER)] if related is not None else None,
        data=_data(problem),
    )


def problem_range(problem: Problem, lines: Sequence[str]) -> Range:
    """Return the range that the suggested fix replaces or, without a fix, the word at the position of the problem."""
    if (mending := problem.mending) is not None:
        start = Position(mending.line, mending.column)
        return Range(start, start._replace(column=mending.column + len(mending.written)))
    return name_range(Position(problem.line, problem.column), lines)


def name_range(start: Position, lines: Sequence[str]) -> Range:
    """Return the range of the name or character that starts at a position."""
    line = lines[start.line - 1] if start.line <= len(lines) else ""
    word = _WORD.match(line, start.column - 1)
    return Range(start, start._replace(column=word.end() + 1 if word else start.column))


def _data(problem: Problem) -> dict[str, Any] | None:
    """Return the data for a quick fix (the replacement, and the text that it replaces); None without a fix."""
    mending = problem.mending
    if mending is None:
        return None
    return {"written": mending.written, "text": mending.text}


def build_quick_fix(diagnostic: types.Diagnostic, uri: str, current: str) -> types.CodeAction | None:
    """Return the fix that inserts the suggested name; None without a suggestion, or if the text has changed.

    `current` is the text that is now in the diagnostic's range.
    """
    data = diagnostic.data
    if not isinstance(data, dict) or data.get("written") != current or not isinstance(data.get("text"), str):
        return None
    return types.CodeAction(
        title=f"Replace with `{data['text']}`",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        is_preferred=True,
        edit=types.WorkspaceEdit(changes={uri: [types.TextEdit(diagnostic.range, data["text"])]}),
    )
