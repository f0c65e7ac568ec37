"""Evaluates one phase: its condition, its steps, its outputs and its summary."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from skillrun.language.definitions import PhaseUse, Step
from skillrun.runtime.errors import Back, StepFailed, Stopped, Waiting
from skillrun.runtime.evaluate import evaluate
from skillrun.runtime.events import PhaseEnded, PhaseStarted, Said, Tripped
from skillrun.runtime.questions import offer_retry
from skillrun.runtime.recovery import rebuilt, state_before
from skillrun.runtime.run import Frame, PhaseRun, Run
from skillrun.runtime.scope import new_frame, open_phase, phase_names, stored_name, truth
from skillrun.runtime.summaries import NEEDS_INPUT, outputs_of, record_of, summary_of


@dataclass(frozen=True)
class Ended:
    """How a phase ended: completed, skipped, back, failed, needs-user-input or stopped."""

    status: str
    summary: dict[str, Any] | None = None
    reason: str = ""
    next_step: str = ""
    in_turn: PhaseRun | None = None
    """The failed attempt of a phase that is to be tried again when nothing runs beside it."""


async def run_phase(run: Run, use: PhaseUse, before: PhaseRun | None = None) -> Ended:
    """Evaluate a phase to its end, with its breaker; in turn after an attempt that failed beside others.

    Its summary is on disk when it is completed, skipped or back.
    """
    started = time.monotonic()
    state = _state(run, use)
    names = phase_names(run, use, state)
    if use.when is not None and not truth(use.when.render(names)):
        reason = f"only when {use.when.text.value}"
        summary = {**record_of(open_phase(run, use, state), "skipped"), "reason": reason}
        run.folder.write_summary(stored_name(run, use.name), summary)
        run.emit(PhaseEnded(use.name, run.state.round, "skipped", reason=reason))
        return Ended("skipped", summary)
    ended = await _attempts(run, use, before)
    run.emit(PhaseEnded(use.name, run.state.round, ended.status, time.monotonic() - started, reason=ended.reason))
    return ended


def _state(run: Run, use: PhaseUse) -> dict[str, Any]:
    """A copy of the state for a phase to work on; a lost one sees what it saw then."""
    return state_before(run, use) if use.name in run.lost else dict(run.state.state)


async def _attempts(run: Run, use: PhaseUse, previous: PhaseRun | None) -> Ended:
    in_turn = previous is not None
    asked = 0
    while True:
        begins = previous is None
        phase = previous = open_phase(run, use, _state(run, use), previous)
        if begins:
            run.emit(PhaseStarted(use.name, run.state.round, phase.entry_type))
        frame = new_frame(phase, phase.address(), phase.phase, phase.names)
        frame.in_turn = in_turn
        try:
            if use.name in run.lost:
                found = await _recovered(phase)
                if found is not None:
                    return found
                if use.name not in run.lost:
                    continue
            return await _evaluated(phase, frame, phase.phase.steps, use.retry)
        except StepFailed as failure:
            reason = failure.reason
        then = ""
        if use.retry is not None:
            if not phase.breakers.failed(use.retry):
                continue
            then = phase.breakers.limit(use.retry).then
            run.emit(Tripped(use.retry, use.name, phase.breakers.failures[use.retry], then))
        if then == "sequential" and not in_turn:
            return Ended("failed", reason=reason, in_turn=phase)
        if then == "ask":
            where = f"{phase.address()}.retry-{asked + 1}"
            try:
                again = await offer_retry(frame, where, reason, can_go_on=use.otherwise is not None)
            except Waiting as waiting:
                return Ended(NEEDS_INPUT, reason=waiting.reason, next_step=waiting.next_step)
            except StepFailed:
                again = False
            asked += 1
            if again:
                continue
        return await _gave_up(use, phase, frame, reason, then)


async def _recovered(phase: PhaseRun) -> Ended | None:
    """How a lost phase ended, as far as its artifacts and the person say; None where it is evaluated."""
    try:
        summary = await rebuilt(phase)
    except Waiting as waiting:
        return Ended(NEEDS_INPUT, reason=waiting.reason, next_step=waiting.next_step)
    if summary is None:
        return None
    phase.run.folder.write_summary(stored_name(phase.run, phase.name), summary)
    return Ended(summary["status"], summary)


async def _gave_up(use: PhaseUse, phase: PhaseRun, frame: Frame, reason: str, then: str) -> Ended:
    """The phase has failed for good: what stands in for it, or a summary that says so, or the end of the run."""
    if use.otherwise is None and then != "skip":
        return await _failed(phase, reason)
    text = f"{use.name} failed: {reason}"
    phase.warnings.append(text)
    phase.degraded.append(text)
    phase.run.emit(Said(use.name, text, "warn"))
    steps = [use.otherwise] if use.otherwise is not None else []
    try:
        return await _evaluated(phase, frame, steps, None, status="failed")
    except StepFailed as second:
        return await _failed(phase, second.reason)


async def _failed(phase: PhaseRun, reason: str) -> Ended:
    """The run ends here. What failed may be asked again when it is resumed: attempts so far do not count then."""
    tries = {key: count for key, count in phase.tries.items() if key not in phase.answers}
    if not phase.run.inline:
        await phase.run.journal.record("void", phase.address(), "", {"round": phase.round, "tries": tries})
    return Ended("failed", reason=reason)


def _paused(phase: PhaseRun, waiting: Waiting) -> Ended:
    """The phase waits for a person; its record says so until it is over."""
    flags = {"pause_type": waiting.pause, "block_reason": waiting.reason}
    about = {"entry_type": phase.entry_type, "flags": flags}
    phase.run.folder.write_summary(stored_name(phase.run, phase.name), {**record_of(phase, NEEDS_INPUT), **about})
    return Ended(NEEDS_INPUT, reason=waiting.reason, next_step=waiting.next_step)


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
            await evaluate(step, frame)
    except Back as going:
        back = going
    except Waiting as waiting:
        return _paused(phase, waiting)
    except Stopped as stopped:
        return Ended("stopped", reason=stopped.reason, next_step=stopped.status)
    if breaker is not None:
        phase.breakers.succeeded(breaker)
    outputs = outputs_of(phase, frame.names) if status == "completed" else {}
    summary = await summary_of(phase, outputs, status)
    if back is not None:
        summary["goto"] = {"target": back.target, "step": back.step}
    phase.run.folder.write_summary(stored_name(phase.run, phase.name), summary)
    return Ended("back" if back is not None else "completed", summary)
