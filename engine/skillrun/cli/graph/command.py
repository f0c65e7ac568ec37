"""The command `skillrun graph`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

import click

from skillrun.checker.checker import check_workflow
from skillrun.cli import completion
from skillrun.cli.graph.labels import (
    clean,
    cut_note,
    graph_summary,
    join_parts,
    omissions,
    phase_notes,
    step_line,
    step_notes,
)
from skillrun.cli.graph.model import StepNode, WorkflowGraph, build_graph
from skillrun.cli.loading import open_library, problems_for_display, require_workflow
from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES

WIDTH: Final = 100
VERB_WIDTH: Final = 8


def draw_text(graph: WorkflowGraph) -> str:
    """Return the workflow drawn in lines of at most 100 columns: a summary, then each phase with its steps."""
    lines = _wrap(f"{graph.name}: {graph.description}" if graph.description else graph.name, "", "  ")
    for line in graph_summary(graph):
        lines += _wrap(line, "  ", "    ")
    for number, phase in enumerate(graph.phases, 1):
        lines += ["", f"{number}. {clean(phase.name, WIDTH - 8)}"]
        lines += _wrap(phase.description, "   ", "   ")
        for note in phase_notes(phase):
            lines += _wrap(note, "   - ", "     ")
        lines += _steps(phase.steps, "   ")
        lines += [f"   ({cut})"] if (cut := cut_note(phase)) else []
    notes = omissions(graph)
    return "\n".join([*lines, "", *notes] if notes else lines)


def _steps(steps: Iterable[StepNode], indent: str) -> Iterator[str]:
    for step in steps:
        hanging = indent + " " * (VERB_WIDTH + 1)
        yield from _wrap(join_parts(step_line(step)), f"{indent}{step.verb or 'error':<{VERB_WIDTH}} ", hanging)
        for note in step_notes(step):
            yield from _wrap(note, hanging, f"{hanging}  ")
        yield from _steps(step.steps, f"{indent}  | ")


def _wrap(text: str, first: str, rest: str) -> list[str]:
    """Return a text in lines of at most 100 columns. `first` is the indent of the first line, `rest` of the others."""
    line = clean(text, 10 * WIDTH)
    return textwrap.wrap(line, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


HELP: Final = """Draw WORKFLOW: its phases and their steps, with roles, questions, conditions, loops, and jumps back to
an earlier phase.

Steps that only set values or print a message are left out; `--all` shows them. If the workflow has errors, they are
printed, what can be read is drawn, and the exit code is 1."""


@click.command(help=HELP)
@click.argument("workflow", shell_complete=completion.workflows)
@click.option("--mermaid", "format", flag_value="mermaid", help="Print a Mermaid diagram.")
@click.option("--svg", "format", flag_value="svg", help="Print an SVG picture: `skillrun graph plan --svg > plan.svg`.")
@click.option("--all", "shows_all", is_flag=True, help="Show every step.")
@as_json
def graph(workflow: str, format: str | None, shows_all: bool, out: Output) -> int:  # noqa: A002 (an option's name)
    library = open_library()
    require_workflow(workflow, library)
    program = check_workflow(library, workflow, RESERVED_NAMES)
    problems = problems_for_display(library)
    for problem in problems:
        out.problem(problem)
    found = [asdict(problem) for problem in problems]
    definition = library.workflow(workflow)
    if definition is None or not definition.phases:
        out.data({"problems": found})
        return 1
    drawn = build_graph(definition, library, program)
    out.data({**drawn.data(), "problems": found})
    draw = draw_text
    if format == "mermaid":
        from skillrun.cli.graph.mermaid import draw_mermaid as draw
    elif format == "svg":
        from skillrun.cli.graph.svg import draw_svg as draw
    out.text(draw(drawn if shows_all else drawn.without_minor_steps()))
    return 1 if any(problem.severity == "error" for problem in problems) else 0
