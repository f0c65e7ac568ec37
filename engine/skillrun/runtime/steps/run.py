"""`run`: runs another workflow inline, in the same folder and journal, with its own inputs, state and rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from skillrun.checker.checker import check_workflow
from skillrun.definitions.definitions import Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.summaries import base_summary, degraded_flags
from skillrun.runtime.usage_totals import UsageTotals
from skillrun.store.errors import WaitingForUser
from skillrun.store.state import State
from skillrun.store.summary import Summary
from skillrun.types.input_values import resolve_inputs


async def execute(step: Step, frame: Frame) -> Mapping[str, object]:
    """Return the workflow's outputs. It is always evaluated from its first phase, over the journal.

    The warnings, questions and degradations of its phases are added to the summary of the outer phase.
    """
    outer, address = frame.run, frame.at(step)
    program = outer.program.inline.get(step.text) or check_workflow(outer.program.library, step.text)
    if program is None:
        raise StepFailed(f"the workflow `{step.text}` cannot be run", address)
    workflow = program.workflow
    given = frame.value(step, "with", {})
    given = given if isinstance(given, Mapping) else {}
    inputs, errors, warnings = resolve_inputs(workflow.inputs, given, {"config": program.config})
    state, more, warned = resolve_inputs(workflow.state, {}, {"config": program.config, "inputs": inputs})
    if errors or more:
        raise StepFailed("; ".join(errors + more), address)
    for text in (*warnings, *warned):
        frame.phase.warn(text)
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
        lost_phases=set(),
        inline_address=address,
        parent_phase=frame.phase,
    )
    evaluation = frame.evaluator.inline_run(inner)
    try:
        outcome = await evaluation.run()
    finally:
        _merge_inline_records(frame, inner, evaluation.failed_phases)
    if outcome.status == "waiting":
        raise WaitingForUser(outcome.reason, outcome.next_step, evaluation.pause_type or "interactive")
    if outcome.status != "completed":
        raise StepFailed(outcome.reason or f"{workflow.name} {outcome.status}", address, outcome.next_step)
    return dict(outcome.outputs)


def _merge_inline_records(frame: Frame, inner: Run, failed: Iterable[PhaseRun]) -> None:
    """Add the records of an inline workflow's phases to the record of the outer phase."""
    phase, account = frame.phase, frame.phase.record
    ended = inner.store.summaries.all_summaries(inner.state.round, inner.program.workflow.phases)
    account.usage += UsageTotals.from_summaries(ended)
    account.prompts.count += sum(1 for summary in ended if summary.usage.get("calls"))
    at = inner.inline_address.removeprefix(f"{phase.address()}/")
    for record in (*ended, *map(_failed_phase_summary, failed)):
        again = f" (round {record.round})" if record.round > 1 else ""
        place, flags = f"{at}/{record.phase}{again}", record.flags
        warnings = (f"{place}: {text}" for text in record.quality_warnings)
        account.warnings.extend(text for text in warnings if text not in account.warnings)
        if flags.get("degraded"):
            account.degrade(f"{place}: {flags.get('degraded_because', 'degraded')}")
            frame.degraded_steps.append(place)
        if isinstance(dropped := flags.get("dropped"), int) and dropped:
            account.dropped_counts[place] = dropped
        account.question_ids.extend(question for question in record.asked if question not in account.question_ids)


def _failed_phase_summary(failed: PhaseRun) -> Summary:
    """Return a summary for a failed phase, which has none on disk."""
    return base_summary(failed, "failed").with_fields(
        flags=degraded_flags(failed), quality_warnings=failed.record.warnings, asked=failed.record.question_ids
    )
