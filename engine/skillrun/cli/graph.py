"""`skillrun graph`: the phases of a workflow, what each follows and whose results it really reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skillrun.cli.figures import table
from skillrun.cli.options import as_json
from skillrun.cli.printing import Output

if TYPE_CHECKING:
    from skillrun.language.check import Program


@click.command(help="Show the phases of WORKFLOW: what each follows, whose results it reads, when it runs.")
@click.argument("workflow")
@click.option("--mermaid", is_flag=True, help="As a Mermaid diagram; a dotted arrow is a result that is read.")
@as_json
def graph(workflow: str, mermaid: bool, json: bool) -> int:
    from skillrun.cli.loading import load

    out = Output(json)
    phases = _phases(load(workflow, out).program)
    out.data({"workflow": workflow, "phases": phases})
    for line in _mermaid(phases) if mermaid else _text(phases):
        out.line(line)
    return 0


def _phases(program: Program) -> list[dict[str, Any]]:
    order = list(program.workflow.phases)
    return [
        {
            "phase": use.name,
            "after": list(use.after),
            "reads": [name for name in order if name in program.reads.get(use.name, ())],
            "when": use.when.text.value if use.when is not None else "",
            "description": program.phases[use.name].description,
        }
        for use in program.workflow.phases.values()
    ]


def _text(phases: list[dict[str, Any]]) -> list[str]:
    rows = [[one["phase"], ", ".join(one["after"]), ", ".join(one["reads"]), one["when"]] for one in phases]
    return table(["phase", "after", "reads", "when"], rows)


def _mermaid(phases: list[dict[str, Any]]) -> list[str]:
    lines = ["flowchart TD"]
    for one in phases:
        name = one["phase"]
        when = f"<br>when {one['when']}".replace('"', "'") if one["when"] else ""
        lines.append(f'    {name}["{name}{when}"]')
        lines += [f"    {before} --> {name}" for before in one["after"]]
        lines += [f"    {read} -.-> {name}" for read in one["reads"] if read not in one["after"]]
    return lines
