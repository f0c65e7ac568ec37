"""`run`: another workflow, inline: same folder, same journal, its own inputs, state and rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skillrun.language.check import check_workflow
from skillrun.language.definitions import Step
from skillrun.runtime.errors import StepFailed, Waiting
from skillrun.runtime.folder import InlineFolder
from skillrun.runtime.given import given_values
from skillrun.runtime.run import Frame, Spent
from skillrun.runtime.state import State


async def act(step: Step, frame: Frame) -> dict[str, Any]:
    """The workflow's outputs. It is always evaluated from its first phase, over the journal."""
    from skillrun.runtime.interpreter import Scheduler

    outer, address = frame.run, frame.at(step)
    program = outer.program.inline.get(step.text) or check_workflow(outer.program.library, step.text)
    if program is None:
        raise StepFailed(f"the workflow `{step.text}` cannot be run", address)
    workflow = program.workflow
    given = frame.value(step, "with", {})
    given = given if isinstance(given, Mapping) else {}
    inputs, errors, warnings = given_values(workflow.inputs, given, {"config": program.config})
    state, more, _ = given_values(workflow.state, {}, {"config": program.config, "inputs": inputs})
    if errors or more:
        raise StepFailed("; ".join(errors + more), address)
    frame.open.warnings.extend(warnings)
    inner = replace(
        outer,
        program=program,
        folder=InlineFolder(outer.folder, address),
        state=State(
            workflow.name,
            outer.state.started_at,
            inputs,
            state,
            environment=outer.state.environment,
            models=outer.state.models,
            project=outer.state.project,
        ),
        lost=set(),
        inline=address,
        within=frame.open,
    )
    outcome = await Scheduler(inner, final=False).run()
    ended = inner.folder.ended(inner.state.round, workflow.phases)
    frame.open.spent += Spent.of(ended)
    frame.open.prompts += sum(1 for summary in ended if (summary.get("usage") or {}).get("calls"))
    if outcome.status == "waiting":
        raise Waiting(outcome.reason, outcome.next_step)
    if outcome.status != "completed":
        raise StepFailed(outcome.reason or f"{workflow.name} {outcome.status}", address, outcome.next_step)
    return dict(outcome.outputs)
