"""`skillrun graph`: the phases of a workflow, what each follows and reads, and where it goes back to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skillrun.cli import completing
from skillrun.cli.loading import load
from skillrun.cli.options import as_json
from skillrun.cli.printing import Output
from skillrun.cli.words import two_columns

if TYPE_CHECKING:
    from skillrun.language.check.program import Program
    from skillrun.language.files.definitions import PhaseUse


@click.command(help="Show the phases of WORKFLOW: their order, the results that each reads, conditions and loops.")
@click.argument("workflow", shell_complete=completing.workflows)
@click.option(
    "--mermaid",
    is_flag=True,
    help="Print a Mermaid diagram. A dotted arrow is a result that is read, or a `goto` (labelled `back`).",
)
@as_json
def graph(workflow: str, mermaid: bool, json: bool) -> int:
    out = Output(json)
    program = load(workflow, out).program
    phases: list[dict[str, Any]] = [
        {
            "phase": use.name,
            "after": list(use.after),
            "reads": [name for name in program.workflow.phases if name in program.reads.get(use.name, ())],
            "back_to": _back(program, use),
            "when": use.when.text.value if use.when is not None else "",
            "description": program.phases[use.name].description,
        }
        for use in program.workflow.phases.values()
    ]
    out.line(_mermaid(phases) if mermaid else two_columns((phase["phase"], _words(phase)) for phase in phases))
    out.data({"workflow": workflow, "phases": phases})
    return 0


def _back(program: Program, use: PhaseUse) -> list[str]:
    """The phases that a phase may go back to, in the order of its steps."""
    steps = [*program.phases[use.name].walk(), *(use.otherwise.walk() if use.otherwise is not None else ())]
    return list(dict.fromkeys(step.text for step in steps if step.verb == "goto"))


def _words(phase: dict[str, Any]) -> str:
    parts = {"after": ", ".join(phase["after"]), "reads": ", ".join(phase["reads"]), "when": phase["when"]}
    parts["may go back to"] = ", ".join(phase["back_to"])
    return "; ".join(f"{name} {text}" for name, text in parts.items() if text) or "first"


def _mermaid(phases: list[dict[str, Any]]) -> str:
    lines = ["flowchart TD"]
    for phase in phases:
        name = phase["phase"]
        when = f"<br>when {phase['when']}".replace('"', "'") if phase["when"] else ""
        lines.append(f'    {name}["{name}{when}"]')
        lines += [f"    {before} --> {name}" for before in phase["after"]]
        lines += [f"    {read} -.-> {name}" for read in phase["reads"] if read not in phase["after"]]
        lines += [f"    {name} -. back .-> {target}" for target in phase["back_to"]]
    return "\n".join(lines)
