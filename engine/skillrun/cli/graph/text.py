"""Draws a workflow as indented text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from skillrun.cli.graph.labels import clean, cut_note, graph_summary, join_parts, omissions, phase_notes, step_row
from skillrun.cli.graph.model import StepNode, WorkflowGraph

WIDTH: Final = 100
VERB_WIDTH: Final = 8


def draw_text(graph: WorkflowGraph) -> str:
    """Draw the workflow in lines of at most 100 columns: a summary, then each phase with its steps."""
    lines = [*_wrap(f"{graph.name}: {graph.description}" if graph.description else graph.name, "", "  ")]
    for line in graph_summary(graph):
        lines += _wrap(line, "  ", "    ")
    for number, phase in enumerate(graph.phases, 1):
        lines += ["", f"{number}. {clean(phase.name, WIDTH - 8)}"]
        lines += _wrap(phase.description, "   ", "   ")
        for note in phase_notes(phase):
            lines += _wrap(note, "   - ", "     ")
        lines += _steps(phase.steps, "   ")
        cut = cut_note(phase)
        lines += [f"   ({cut})"] if cut else []
    notes = omissions(graph)
    lines += ["", *notes] if notes else []
    return "\n".join(lines)


def _steps(steps: Iterable[StepNode], indent: str) -> Iterator[str]:
    for step in steps:
        row = step_row(step)
        hanging = indent + " " * (VERB_WIDTH + 1)
        yield from _wrap(join_parts(row.pieces), f"{indent}{row.verb:<{VERB_WIDTH}} ", hanging)
        for note in row.notes:
            yield from _wrap(note, hanging, f"{hanging}  ")
        yield from _steps(step.steps, f"{indent}  | ")


def _wrap(text: str, first: str, rest: str) -> list[str]:
    """Wrap a text to lines of at most 100 columns, with one indent for the first line and another for the rest."""
    line = clean(text, 10 * WIDTH)
    return textwrap.wrap(line, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
