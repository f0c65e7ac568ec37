"""Evaluates one phase: its condition, its steps, its outputs and its summary."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from skillrun.language.definitions import PhaseUse
from skillrun.runtime.errors import Back, StepFailed, Stopped, Waiting
from skillrun.runtime.evaluate import evaluate
from skillrun.runtime.events import PhaseEnded, PhaseStarted, Said, Tripped
from skillrun.runtime.questions import offer_retry
from skillrun.runtime.run import Frame, PhaseRun, Run
from skillrun.runtime.scope import new_frame, open_phase, phase_names, stored_name, truth
from skillrun.runtime.summaries import outputs_of, summary_of


@dataclass(frozen=True)
class Ended:
    """How a phase ended: completed, skipped, back, failed, waiting or stopped."""

    status: str
    summary: dict[str, Any] | None = None
    reason: str = ""
    next_step: str = ""
    failed_in_turn: bool = False


async def run_phase(run: Run, use: PhaseUse, *, in_turn: bool = False) -> Ended:
    """Evaluate a phase to its end, with its breaker. Its summary is on disk when it is completed, skipped or back."""
    started = time.monotonic()
    names = phase_names(run, use, dict(run.state.state))
    if use.when is not None and not truth(use.when.render(names)):
        summary = {"phase": use.name, "status": "skipped", "round": run.state.round}
        run.folder.write_summary(stored_name(run, use.name), summary)
        run.emit(PhaseEnded(use.name, run.state.round, "skipped"))
        return Ended("skipped", summary)
    run.emit(PhaseStarted(use.name, run.state.round))
    ended = await _attempts(run, use, in_turn=in_turn)
    run.emit(PhaseEnded(use.name, run.state.round, ended.status, time.monotonic() - started, reason=ended.reason))
    return ended


async def _attempts(run: Run, use: PhaseUse, *, in_turn: bool) -> Ended:
    previous: PhaseRun | None = None
    asked = 0
    while True:
        phase = open_phase(run, use, dict(run.state.state))
        if previous is not None:
            phase.tries, phase.answers = previous.tries, previous.answers
        previous = phase
        frame = new_frame(phase, phase.address(), phase.phase, phase.names)
        frame.in_turn = in_turn
        try:
            ended = await _once(phase, frame)
        except StepFailed as failure:
            if use.retry is not None and not run.breakers.failed(use.retry):
                continue
            then = run.breakers.limit(use.retry).then if use.retry else ""
            if use.retry is not None:
                run.emit(Tripped(use.retry, use.name, run.breakers.failures.get(use.retry, 0), then))
            if then == "sequential" and not in_turn:
                await _forgive(phase)
                return Ended("failed", reason=failure.reason, failed_in_turn=True)
            if then == "ask" and await offer_retry(
                frame, f"{phase.address()}.retry-{asked + 1}", failure.reason, can_go_on=use.otherwise is not None
            ):
                asked += 1
                continue
            return await _gave_up(run, use, phase, frame, failure, then)
        if use.retry is not None:
            run.breakers.succeeded(use.retry)
        return ended


async def _gave_up(run: Run, use: PhaseUse, phase: PhaseRun, frame: Frame, failure: StepFailed, then: str) -> Ended:
    """The phase has failed for good: what stands in for it, or a summary that says so, or the end of the run."""
    if use.otherwise is None and then != "skip":
        await _forgive(phase)
        return Ended("failed", reason=failure.reason)
    text = f"{use.name} failed: {failure.reason}"
    phase.warnings.append(text)
    phase.degraded.append(text)
    run.emit(Said(use.name, text, "warn"))
    try:
        if use.otherwise is not None:
            await evaluate(use.otherwise, frame)
    except StepFailed as second:
        await _forgive(phase)
        return Ended("failed", reason=second.reason)
    except Stopped as stopped:
        return Ended("stopped", reason=stopped.reason, next_step=stopped.status)
    phase.prompts = 0
    summary = await summary_of(phase, {}, "failed")
    run.folder.write_summary(stored_name(run, use.name), summary)
    return Ended("completed", summary)


async def _forgive(phase: PhaseRun) -> None:
    """What failed may be asked again when the run is resumed: attempts so far do not count then."""
    tries = {key: count for key, count in phase.tries.items() if key not in phase.answers}
    phase.run.forgiven.update(tries)
    await phase.run.journal.record("void", phase.address(), "", {"tries": tries})


async def _once(phase: PhaseRun, frame: Frame) -> Ended:
    """One evaluation of the phase. Raises StepFailed; the outputs and the summary are made before it goes back."""
    run = phase.run
    back: Back | None = None
    try:
        for step in phase.phase.steps:
            await evaluate(step, frame)
    except Back as going:
        back = going
    except Waiting as waiting:
        return Ended("waiting", reason=waiting.reason, next_step=waiting.next_step)
    except Stopped as stopped:
        return Ended("stopped", reason=stopped.reason, next_step=stopped.status)
    summary = await summary_of(phase, outputs_of(phase, frame.names), "completed")
    if back is not None:
        summary["goto"] = {"target": back.target, "step": back.step}
    run.folder.write_summary(stored_name(run, phase.name), summary)
    return Ended("back" if back is not None else "completed", summary)
