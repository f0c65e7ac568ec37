"""The command `skillrun graph`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from skillrun.cli import completers
from skillrun.cli.loading import open_library, problems_for_display, require_workflow
from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.cli.registry import COMMANDS

if TYPE_CHECKING:
    from skillrun.cli.graph.model import WorkflowGraph

HELP: Final = """Draw WORKFLOW: its phases and their steps, with roles, questions, conditions and loops, and where it
goes back to an earlier phase.

Steps that only set values or print a message are left out; `--all` shows them. If the workflow has errors, they are
printed, what can be read is drawn, and the exit code is 1."""


@click.command(help=HELP)
@click.argument("workflow", shell_complete=completers.workflows)
@click.option("--mermaid", "format", flag_value="mermaid", help="Print a Mermaid diagram.")
@click.option("--svg", "format", flag_value="svg", help="Print an SVG picture: `skillrun graph plan --svg > plan.svg`.")
@click.option("--all", "shows_all", is_flag=True, help="Show every step.")
@as_json
def graph(workflow: str, format: str | None, shows_all: bool, json: bool) -> int:  # noqa: A002 (an option's name)
    from skillrun.checker.checker import check_workflow
    from skillrun.cli.graph.model import build_graph
    from skillrun.syntax.diagnostics import render_problem

    out = Output(json)
    library = open_library()
    require_workflow(workflow, library)
    program = check_workflow(library, workflow, COMMANDS)
    problems = problems_for_display(library)
    for problem in problems:
        out.note(render_problem(problem) + "\n")
    failed = any(problem.severity == "error" for problem in problems)
    found = [asdict(problem) for problem in problems]
    definition = library.workflow(workflow)
    if definition is None or not definition.phases:
        out.data({"problems": found})
        return 1
    drawn = build_graph(definition, library, program)
    out.data({**drawn.data(), "problems": found})
    out.line(_render_graph(drawn if shows_all else drawn.without_minor_steps(), format))
    return 1 if failed else 0


def _render_graph(graph: WorkflowGraph, format: str | None) -> str:  # noqa: A002
    if format == "mermaid":
        from skillrun.cli.graph.mermaid import draw_mermaid

        return draw_mermaid(graph)
    if format == "svg":
        from skillrun.cli.graph.svg import draw_svg

        return draw_svg(graph)
    from skillrun.cli.graph.text import draw_text

    return draw_text(graph)
