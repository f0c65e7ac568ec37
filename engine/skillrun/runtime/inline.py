"""Runs a workflow inside a phase of another: same folder, same journal, its own inputs, state and rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skillrun.language.check import Program
from skillrun.runtime.errors import StepFailed, Waiting
from skillrun.runtime.folder import State
from skillrun.runtime.given import given_values
from skillrun.runtime.interpreter import Scheduler
from skillrun.runtime.run import Frame, Run
from skillrun.runtime.scope import stored_name


async def run_inline(frame: Frame, address: str, program: Program, given: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of the workflow; always evaluated from its first phase, over the journal. Raises StepFailed."""
    outer = frame.run
    inputs, errors, warnings = given_values(program.workflow.inputs, given, {"config": program.config})
    unknown = [name for name in given if name not in {one.name for one in program.workflow.inputs}]
    errors += [f"`{name}` is no input of `{program.workflow.name}`" for name in unknown]
    state, more, _ = given_values(program.workflow.state, {}, {"config": program.config, "inputs": inputs})
    if errors or more:
        raise StepFailed("; ".join(errors + more), address)
    frame.open.warnings.extend(warnings)
    inner: Run = replace(
        outer,
        program=program,
        state=State(
            program.workflow.name, outer.state.started_at, inputs, state,
            environment=outer.state.environment, models=outer.state.models, project=outer.state.project,
        ),
        inline=address,
        within=frame.open,
        over=[],
    )  # fmt: skip
    # What a killed run or an earlier attempt has left makes way.
    inner.folder.move_to_round(0, program.workflow.phases, inline=address)
    outcome = await Scheduler(inner, final=False).run()
    current = (inner.folder.summary(stored_name(inner, name)) for name in program.workflow.phases)
    for summary in [*(one for past in inner.over for one in past["phases"].values()), *current]:
        if summary is not None:
            frame.open.spent.include(summary.get("usage") or {})
            frame.open.prompts += 1 if (summary.get("usage") or {}).get("calls") else 0
    if outcome.status == "waiting":
        raise Waiting(outcome.reason, outcome.next_step)
    if outcome.status != "completed":
        raise StepFailed(outcome.reason or f"{program.workflow.name} {outcome.status}", address)
    return dict(outcome.outputs)
