"""Evaluates one phase: its condition, its steps, its outputs and its summary."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from skillrun.definitions.definitions import PhaseUse, Step
from skillrun.events import PhaseEnded, PhaseStarted, Said
from skillrun.runtime.errors import Back, StepFailed, Stopped, StoppedByPerson
from skillrun.runtime.evaluate import AGAIN, IN_TURN, after_failure, failing, knowing
from skillrun.runtime.frame import Evaluator, Frame
from skillrun.runtime.recovery import rebuilt_summary, state_before
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import new_frame, open_phase, truth
from skillrun.runtime.summaries import bare_summary, degraded_of, outputs_of, summary_of
from skillrun.store.errors import Waiting
from skillrun.store.next_step import NOTHING, NextStep
from skillrun.store.outcome import Status
from skillrun.store.summary import WAITS, Summary


@dataclass(frozen=True)
class Ended:
    """How a phase ended: completed, skipped, back, failed, needs-user-input or stopped."""

    status: str
    summary: Summary | None = None
    reason: str = ""
    next_step: NextStep = NOTHING
    ends: Status = "failed"
    """The status that `stop` gives the run."""
    in_turn: PhaseRun | None = None
    """The failed attempt of a phase that is to be tried again when nothing runs beside it."""
    left: PhaseRun | None = None
    """What a phase that has failed has on record: it has no summary."""
    pause: str = ""


async def run_phase(run: Run, use: PhaseUse, evaluator: Evaluator, before: PhaseRun | None = None) -> Ended:
    """Evaluate a phase to its end, with its breaker; in turn after an attempt that failed beside others.

    Its summary is on disk when it is completed, skipped or back.
    """
    started = time.monotonic()
    phase = open_phase(run, use, _state(run, use), before)
    if use.when is not None and not truth(use.when.render(phase.names)):
        reason = f"only when {use.when.text.value}"
        ended = Ended("skipped", bare_summary(phase, "skipped").with_fields(reason=reason), reason)
    else:
        run.emit(PhaseStarted(use.name, run.state.round, phase.entry_type))
        try:
            ended = await _attempts(use, phase, evaluator, in_turn=before is not None)
        except Waiting as waiting:
            ended = await _paused(phase, waiting)
        except StoppedByPerson as stopped:
            if run.inline:  # the run ends, not only this workflow
                raise
            ended = await _failed(phase, str(stopped))
        except Stopped as stopped:
            ended = Ended("stopped", reason=stopped.reason, ends=cast(Status, stopped.status))
    if ended.summary is not None:
        await run.store.summaries.put(use.name, ended.summary)
    run.emit(PhaseEnded(use.name, run.state.round, ended.status, time.monotonic() - started, reason=ended.reason))
    return ended


def _state(run: Run, use: PhaseUse) -> dict[str, object]:
    """A copy of the state for a phase to work on; a lost one sees what it saw then."""
    return state_before(run, use) if use.name in run.lost else dict(run.state.state)


async def _attempts(use: PhaseUse, phase: PhaseRun, evaluator: Evaluator, *, in_turn: bool) -> Ended:
    run = phase.run
    if use.name in run.lost:
        summary = await rebuilt_summary(phase, evaluator)
        if summary is not None:
            return Ended(summary.status, summary)
        if use.name not in run.lost:
            phase = open_phase(run, use, _state(run, use), phase)
    while True:
        frame = new_frame(phase, phase.address(), phase.phase, phase.names, evaluator, in_turn=in_turn)
        try:
            return await _evaluated(phase, frame, phase.phase.steps, use.retry)
        except StepFailed as error:
            failure, then = error, ""
        if use.retry is not None:
            then = await after_failure(frame, use.retry, phase.address(), failure.reason, can_go_on=phase.carried)
        if then == IN_TURN:
            return Ended("failed", reason=failure.reason, in_turn=phase)
        if then != AGAIN:
            return await _gave_up(use, phase, frame, failure, skip=then == "skip")
        run.emit(Said(use.name, f"failed, and is tried again: {failure.reason}"))
        phase = open_phase(run, use, _state(run, use), phase)


async def _gave_up(use: PhaseUse, phase: PhaseRun, frame: Frame, failure: StepFailed, *, skip: bool) -> Ended:
    """The phase has failed for good: what stands in for it, or a summary that says so, or the end of the run."""
    if use.otherwise is None and not skip:
        return await _failed(phase, failure.reason, failure.next_step)
    text = f"{use.name} failed: {failure.reason}"
    phase.warn(text)
    phase.account.degrade(text)
    steps = [use.otherwise] if use.otherwise is not None else []
    try:
        with knowing(frame, failure):
            return await _evaluated(phase, frame, steps, None, status="failed")
    except StepFailed as second:
        return await _failed(phase, second.reason, second.next_step)


async def _failed(phase: PhaseRun, reason: str, next_step: NextStep = NOTHING) -> Ended:
    """The run ends here. What failed may be asked again when it is resumed: attempts so far do not count then."""
    tries = {key: count for key, count in phase.attempts.tries.items() if key not in phase.attempts.answers}
    if not phase.run.inline:
        await phase.run.journal.record("void", phase.address(), "", {"round": phase.round, "tries": tries})
    return Ended("failed", reason=reason, next_step=next_step, left=phase)


async def _paused(phase: PhaseRun, waiting: Waiting) -> Ended:
    """The phase waits for a person; its record says so until it is over."""
    flags = {"pause_type": waiting.pause, "block_reason": waiting.reason}
    summary = bare_summary(phase, WAITS).with_fields(
        flags=flags | degraded_of(phase),
        entry_type=phase.entry_type,
        quality_warnings=phase.account.warnings,
        usage=phase.account.spent.to_dict(),
    )
    await phase.run.store.summaries.put(phase.name, summary)
    return Ended(WAITS, reason=waiting.reason, next_step=waiting.next_step, pause=waiting.pause)


async def _evaluated(
    phase: PhaseRun, frame: Frame, steps: Iterable[Step], breaker: str | None, status: str = "completed"
) -> Ended:
    """Evaluate the steps of a phase, or what stands in for it. Raises StepFailed.

    Its outputs and its summary are made before it goes back; those of a failed phase have no outputs and no call.
    """
    back: Back | None = None
    try:
        for step in steps:
            phase.checkpoint = step.id or step.verb
            await frame.evaluate(step)
    except Back as going:
        back = going
    except Waiting as waiting:
        return await _paused(phase, waiting)
    if breaker is not None:
        phase.breakers.succeeded(breaker)
    with failing(frame):
        outputs = outputs_of(phase, frame.names) if status == "completed" else {}
    summary = await summary_of(phase, outputs, status, back=back is not None)
    if back is not None:
        summary = summary.with_fields(goto={"target": back.target, "step": back.step})
    return Ended("back" if back is not None else status, summary)
