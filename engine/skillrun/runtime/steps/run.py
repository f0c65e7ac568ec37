"""`run`: another workflow, inline: same folder, same journal, its own inputs, state and rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skillrun.language.check.checker import check_workflow
from skillrun.language.files.definitions import Step
from skillrun.language.types.given import given_values
from skillrun.runtime.errors import StepFailed, Waiting
from skillrun.runtime.run import Frame, PhaseRun, Run, Spent
from skillrun.runtime.store.state import State
from skillrun.runtime.store.summary import Summary
from skillrun.runtime.summaries import degraded_of, record_of

if TYPE_CHECKING:
    from skillrun.runtime.interpreter import Scheduler


async def act(step: Step, frame: Frame) -> dict[str, Any]:
    """The workflow's outputs. It is always evaluated from its first phase, over the journal.

    What its phases warned of and asked, and what they went on without, is in the summary of the phase around it.
    """
    from skillrun.runtime.interpreter import Scheduler

    outer, address = frame.run, frame.at(step)
    program = outer.program.inline.get(step.text) or check_workflow(outer.program.library, step.text)
    if program is None:
        raise StepFailed(f"the workflow `{step.text}` cannot be run", address)
    workflow = program.workflow
    given = frame.value(step, "with", {})
    given = given if isinstance(given, Mapping) else {}
    inputs, errors, warnings = given_values(workflow.inputs, given, {"config": program.config})
    state, more, warned = given_values(workflow.state, {}, {"config": program.config, "inputs": inputs})
    if errors or more:
        raise StepFailed("; ".join(errors + more), address)
    for text in (*warnings, *warned):
        frame.open.warn(text)
    inner = replace(
        outer,
        program=program,
        store=outer.store.inline(address),
        state=State(
            workflow.name,
            outer.state.started_at,
            inputs,
            state,
            environment=outer.state.environment,
            models=outer.state.models,
            project=outer.state.project,
            override=outer.state.override,
        ),
        lost=set(),
        inline=address,
        within=frame.open,
    )
    scheduler = Scheduler(inner, final=False)
    try:
        outcome = await scheduler.run()
    finally:
        _hand_over(frame, inner, scheduler)
    if outcome.status == "waiting":
        pause = next((one.pause for one in scheduler.ended.values() if one.pause), "interactive")
        raise Waiting(outcome.reason, outcome.next_step, pause)
    if outcome.status != "completed":
        raise StepFailed(outcome.reason or f"{workflow.name} {outcome.status}", address, outcome.next_step)
    return dict(outcome.outputs)


def _hand_over(frame: Frame, inner: Run, scheduler: Scheduler) -> None:
    """Put what the phases of an inline workflow have on record on that of the phase around it."""
    phase = frame.open
    ended = inner.store.summaries.all(inner.state.round, inner.program.workflow.phases)
    phase.spent += Spent.of(ended)
    phase.prompts += sum(1 for summary in ended if summary.usage.get("calls"))
    left = [_record_of(one.left) for one in scheduler.ended.values() if one.left is not None]
    at = inner.inline.removeprefix(f"{phase.address()}/")
    for record in (*ended, *left):
        again = f" (round {record.round})" if record.round > 1 else ""
        place, flags = f"{at}/{record.phase}{again}", record.flags
        phase.warnings.extend(
            text for each in record.quality_warnings if (text := f"{place}: {each}") not in phase.warnings
        )
        if flags.get("degraded"):
            phase.degrade(f"{place}: {flags.get('degraded_because', 'degraded')}")
            frame.degraded.append(place)
        if isinstance(dropped := flags.get("dropped"), int) and dropped:
            phase.dropped[place] = dropped
        phase.asked.extend(one for one in record.asked if one not in phase.asked)


def _record_of(failed: PhaseRun) -> Summary:
    """What a phase that has failed would have had as its summary."""
    return record_of(failed, "failed").having(
        flags=degraded_of(failed), quality_warnings=failed.warnings, asked=failed.asked
    )
