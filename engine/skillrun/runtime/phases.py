"""Evaluates one phase: its condition, its steps, its outputs and its summary."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from skillrun.definitions.definitions import PhaseUse, Step
from skillrun.events import PhaseEnded, PhaseStarted, Said
from skillrun.runtime.errors import GoToPhase, StepFailed, Stopped, StoppedByUser
from skillrun.runtime.evaluate import SEQUENTIAL, TRY_AGAIN, apply_breaker, convert_template_errors, failure_in_scope
from skillrun.runtime.frame import Evaluator, Frame
from skillrun.runtime.recovery import rebuild_summary, state_at_phase_start
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import is_true, new_frame, open_phase
from skillrun.runtime.summaries import base_summary, build_summary, degraded_flags, evaluate_outputs
from skillrun.store.errors import WaitingForUser
from skillrun.store.next_step import NO_NEXT_STEP, NextStep
from skillrun.store.outcome import Status
from skillrun.store.summary import WAITING_STATUS, Summary


@dataclass(frozen=True)
class PhaseResult:
    """How a phase ended: completed, skipped, back, failed, needs-user-input or stopped."""

    status: str
    summary: Summary | None = None
    reason: str = ""
    next_step: NextStep = NO_NEXT_STEP
    run_status: Status = "failed"
    """The status that `stop` gives the run."""
    deferred_attempt: PhaseRun | None = None
    """The failed attempt of a phase that is retried when no other phase runs."""
    failed_phase: PhaseRun | None = None
    """A failed phase with its record; it has no summary."""
    pause_type: str = ""


async def run_phase(run: Run, use: PhaseUse, evaluator: Evaluator, previous: PhaseRun | None = None) -> PhaseResult:
    """Evaluate a phase with its breaker; sequentially if `previous`, an attempt in parallel with others, failed.

    The summary is on disk if the status is completed, skipped or back.
    """
    started = time.monotonic()
    phase = open_phase(run, use, _state(run, use), previous)
    if use.when is not None and not is_true(use.when.render(phase.names)):
        reason = f"only when {use.when.text.value}"
        result = PhaseResult("skipped", base_summary(phase, "skipped").with_fields(reason=reason), reason)
    else:
        run.emit(PhaseStarted(use.name, run.state.round, phase.entry_type))
        try:
            result = await _run_attempts(use, phase, evaluator, sequential=previous is not None)
        except WaitingForUser as waiting:
            result = await _pause_phase(phase, waiting)
        except StoppedByUser as stopped:
            if run.inline_address:  # ends the run, not only the inline workflow
                raise
            result = await _fail_phase(phase, str(stopped))
        except Stopped as stopped:
            result = PhaseResult("stopped", reason=stopped.reason, run_status=cast(Status, stopped.status))
    if result.summary is not None:
        await run.store.summaries.put(use.name, result.summary)
    run.emit(PhaseEnded(use.name, run.state.round, result.status, time.monotonic() - started, reason=result.reason))
    return result


def _state(run: Run, use: PhaseUse) -> dict[str, object]:
    """Return a copy of the state for a phase; a lost phase gets the state that it began with."""
    return state_at_phase_start(run, use) if use.name in run.lost_phases else dict(run.state.state)


async def _run_attempts(use: PhaseUse, phase: PhaseRun, evaluator: Evaluator, *, sequential: bool) -> PhaseResult:
    run = phase.run
    if use.name in run.lost_phases:
        summary = await rebuild_summary(phase, evaluator)
        if summary is not None:
            return PhaseResult(summary.status, summary)
        if use.name not in run.lost_phases:
            phase = open_phase(run, use, _state(run, use), phase)
    while True:
        frame = new_frame(phase, phase.address(), phase.phase, phase.names, evaluator, sequential=sequential)
        try:
            return await _run_steps(phase, frame, phase.phase.steps, use.retry)
        except StepFailed as error:
            failure, then = error, ""
        if use.retry is not None:
            then = await apply_breaker(
                frame, use.retry, phase.address(), failure.reason, can_continue=phase.has_fallback
            )
        if then == SEQUENTIAL:
            return PhaseResult("failed", reason=failure.reason, deferred_attempt=phase)
        if then != TRY_AGAIN:
            return await _fail_or_fall_back(use, phase, frame, failure, skip=then == "skip")
        run.emit(Said(use.name, f"failed and is retried: {failure.reason}"))
        phase = open_phase(run, use, _state(run, use), phase)


async def _fail_or_fall_back(
    use: PhaseUse, phase: PhaseRun, frame: Frame, failure: StepFailed, *, skip: bool
) -> PhaseResult:
    """Handle a permanent failure: run the fallback, or record the failure in a summary, or end the run."""
    if use.otherwise is None and not skip:
        return await _fail_phase(phase, failure.reason, failure.next_step)
    text = f"{use.name} failed: {failure.reason}"
    phase.warn(text)
    phase.record.degrade(text)
    steps = [use.otherwise] if use.otherwise is not None else []
    try:
        with failure_in_scope(frame, failure):
            return await _run_steps(phase, frame, steps, None, status="failed")
    except StepFailed as second:
        return await _fail_phase(phase, second.reason, second.next_step)


async def _fail_phase(phase: PhaseRun, reason: str, next_step: NextStep = NO_NEXT_STEP) -> PhaseResult:
    """End the run. Attempts so far do not count when the run resumes, so that failed calls are sent again."""
    tries = {key: count for key, count in phase.attempts.tries.items() if key not in phase.attempts.results}
    if not phase.run.inline_address:
        await phase.run.journal.record("void", phase.address(), "", {"round": phase.round, "tries": tries})
    return PhaseResult("failed", reason=reason, next_step=next_step, failed_phase=phase)


async def _pause_phase(phase: PhaseRun, waiting: WaitingForUser) -> PhaseResult:
    """Record in the phase's summary that it waits for the user."""
    flags = {"pause_type": waiting.pause_type, "block_reason": waiting.reason}
    summary = base_summary(phase, WAITING_STATUS).with_fields(
        flags=flags | degraded_flags(phase),
        entry_type=phase.entry_type,
        quality_warnings=phase.record.warnings,
        usage=phase.record.usage.to_dict(),
    )
    await phase.run.store.summaries.put(phase.name, summary)
    return PhaseResult(
        WAITING_STATUS, reason=waiting.reason, next_step=waiting.next_step, pause_type=waiting.pause_type
    )


async def _run_steps(
    phase: PhaseRun, frame: Frame, steps: Iterable[Step], breaker: str | None, status: str = "completed"
) -> PhaseResult:
    """Evaluate the steps of a phase, or its fallback. Raises StepFailed.

    Outputs and summary are created before the run goes back. A failed phase has no outputs and makes no summary call.
    """
    back: GoToPhase | None = None
    try:
        for step in steps:
            phase.checkpoint = step.id or step.verb
            await frame.evaluate(step)
    except GoToPhase as going:
        back = going
    except WaitingForUser as waiting:
        return await _pause_phase(phase, waiting)
    if breaker is not None:
        phase.breakers.record_success(breaker)
    with convert_template_errors(frame):
        outputs = evaluate_outputs(phase, frame.names) if status == "completed" else {}
    summary = await build_summary(phase, outputs, status, goes_back=back is not None)
    if back is not None:
        summary = summary.with_fields(goto={"target": back.target, "step": back.step})
    return PhaseResult("back" if back is not None else status, summary)
