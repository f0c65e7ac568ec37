"""Evaluates phases and steps: conditions, attempts, circuit breakers, fallbacks, outputs and summaries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, cast

from jinja2.exceptions import UndefinedError

from skillrun.definitions import verbs
from skillrun.definitions.definitions import PhaseUse, Step
from skillrun.events import PhaseEnded, PhaseStarted, Said, Tripped
from skillrun.replay import refuse_in_dry_run
from skillrun.repository.paths import PathRefused
from skillrun.runtime.asking.asking import offer_retry
from skillrun.runtime.errors import (
    AgentFailed,
    EachFailed,
    GoToPhase,
    StepFailed,
    Stopped,
    StoppedByUser,
    failure_value,
)
from skillrun.runtime.frame import Evaluator, Frame
from skillrun.runtime.recovery import rebuild_summary, state_at_phase_start
from skillrun.runtime.results import PartialResult
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import frame_names, is_true, new_frame, open_phase
from skillrun.runtime.steps import VERBS
from skillrun.runtime.summaries import base_summary, build_summary, degraded_flags, evaluate_outputs
from skillrun.store.errors import WaitingForUser
from skillrun.store.next_step import NO_NEXT_STEP, NextStep
from skillrun.store.outcome import Status
from skillrun.store.summary import WAITING_STATUS, Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.expressions import RenderError, Template


@dataclass(frozen=True)
class PhaseResult:
    """How the evaluation of a phase ended.

    `status` is completed, skipped, back, failed, needs-user-input or stopped.
    """

    status: str
    summary: Summary | None = None
    reason: str = ""
    next_step: NextStep = NO_NEXT_STEP
    run_status: Status = "failed"
    """The status of the run after a `stop` step."""
    deferred_attempt: PhaseRun | None = None
    """The failed attempt, if the phase is to be retried when no other phase runs."""
    failed_phase: PhaseRun | None = None
    """The phase, if it failed without a summary. Its record then replaces the summary."""
    pause_type: str = ""


async def run_phase(run: Run, use: PhaseUse, evaluator: Evaluator, previous: PhaseRun | None = None) -> PhaseResult:
    """Evaluate a phase, retrying it as its breaker allows. On return, the summary of an ended phase is on disk.

    `previous` is a failed attempt that ran in parallel with other phases. If it is given, the steps of the phase make
    their calls sequentially.
    """
    started = time.monotonic()
    phase = open_phase(run, use, _state(run, use), previous)
    if use.when is not None and not is_true(use.when.render(phase.names)):
        reason = f"only when {use.when.text.value}"
        result = PhaseResult("skipped", base_summary(phase, "skipped").with_fields(reason=reason), reason)
    else:
        run.emit(PhaseStarted(use.name, run.state.round, phase.entry_type))
        try:
            result = await _attempt_phase(use, phase, evaluator, sequential=previous is not None)
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
    """Return a copy of the state for a phase. A phase that lost its summary gets the state at its first start."""
    return state_at_phase_start(run, use) if use.name in run.lost_phases else dict(run.state.state)


async def _attempt_phase(use: PhaseUse, phase: PhaseRun, evaluator: Evaluator, *, sequential: bool) -> PhaseResult:
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
    """Handle a permanent failure: run the fallback if there is one, continue if `skip`, or else end the run.

    If the run continues, the summary records the failure.
    """
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
    """Return the result that ends the run. A resumed run does not count the attempts so far, and sends failed calls
    again."""
    tries = {key: count for key, count in phase.attempts.tries.items() if key not in phase.attempts.results}
    if not phase.run.inline_address:
        await phase.run.journal.record("void", phase.address(), "", {"round": phase.round, "tries": tries})
    return PhaseResult("failed", reason=reason, next_step=next_step, failed_phase=phase)


async def _pause_phase(phase: PhaseRun, waiting: WaitingForUser) -> PhaseResult:
    """Record in its summary that a phase waits for the user, and return the result."""
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
    """Evaluate the steps of a phase, or its fallback, and return the result with a summary. Raises StepFailed.

    A phase that goes back also has outputs and a summary. A failed phase has no outputs, and no model is called for its
    summary.
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


PURE_VERBS = frozenset(name for name, verb in verbs.VERBS.items() if verb.effects == ("pure",))
MODEL_VERBS = frozenset(name for name, verb in verbs.VERBS.items() if "calls" in verb.effects)
"""Verbs that call models. If a step with one of them fails and its fallback runs, the phase counts as degraded."""
ATTEMPTS = 2  # attempts of an `agent` step without a breaker: the first, and one retry
TRY_AGAIN: Final = "again"
FAILURE: Final = "failure"
SEQUENTIAL: Final = "sequential"


async def run_step(step: Step, frame: Frame) -> None:
    """Evaluate a step and bind its id to the result. Raises StepFailed if the step fails and has no fallback."""
    try:
        if step.when is not None and not _is_condition_true(step.when, frame, step):
            return
        frame.phase.fallback_depth += (fallbacks := int(step.otherwise is not None and step.verb != "goto"))
        try:
            result = await _attempt_step(step, frame)
        finally:
            frame.phase.fallback_depth -= fallbacks
    except StepFailed as failure:
        with failure_in_scope(frame, failure):
            if step.verb == "goto" or not _has_fallback(step.otherwise, frame):
                raise
            frame.run.emit(Said(frame.phase.name, f"{step.id or step.verb}: {failure.reason}", "info"))
            if isinstance(failure, AgentFailed) or step.verb in MODEL_VERBS:
                frame.phase.record.degrade(failure.reason)
            assert step.otherwise is not None
            await _run_fallback(step, step.otherwise, frame)
    else:
        if step.id is not None and result is not None:
            frame.bind(step.id, result)


def _has_fallback(otherwise: Step | None, frame: Frame) -> bool:
    """Return whether a failed step has a fallback whose `when`, if any, is true."""
    return otherwise is not None and (otherwise.when is None or _is_condition_true(otherwise.when, frame, otherwise))


@contextmanager
def failure_in_scope(frame: Frame, failure: StepFailed) -> Iterator[None]:
    """Define the name `failure`, which the fallback of a failed step can read, while the context is active."""
    with frame.name_scope(FAILURE):
        frame.names[FAILURE] = failure_value(failure)
        yield


class convert_template_errors:  # noqa: N801 (used like a function; a generator would be slower)
    """A context manager that converts errors of templates and of rendered values to StepFailed.

    The StepFailed has the address of the step. Without a step, it has the address of the frame.
    """

    def __init__(self, frame: Frame, step: Step | None = None) -> None:
        self.frame, self.step = frame, step

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, RenderError | PathRefused | UndefinedError):
            hint = f" ({error.next_step})" if isinstance(error, SkillrunError) and error.next_step else ""
            where = self.frame.at(self.step) if self.step is not None else self.frame.address
            raise StepFailed(f"{error}{hint}", where) from error


def _is_condition_true(condition: Template, frame: Frame, step: Step) -> bool:
    with convert_template_errors(frame, step):
        return is_true(condition.render(frame_names(frame)))


async def apply_breaker(frame: Frame, breaker: str, address: str, reason: str, *, can_continue: bool) -> str:
    """Count a failure, and return what to do next. Raises StoppedByUser.

    Returns `again` while the limit is not reached, or if the user wants a retry. At the limit, returns the breaker's
    action; empty if the calls are sequential already. Before a sequential retry, or a retry that the user
    requested, permanent failures are forgotten, so that the failed calls are made again too.
    """
    breakers = frame.phase.breakers
    if not breakers.record_failure(breaker):
        return TRY_AGAIN
    limit = breakers.settings_for(breaker)
    then = limit.then
    frame.run.emit(Tripped(breaker, frame.phase.name, breakers.failures[breaker], then, limit.limit))
    if then == SEQUENTIAL and frame.sequential:
        return ""
    if then in (SEQUENTIAL, "ask"):
        frame.phase.attempts.permanent_failures.clear()  # a sequential or user-approved retry may succeed
        frame.run.refusals.clear()
    if then == "ask" and await offer_retry(frame, address, reason, limit, can_continue=can_continue):
        breakers.record_success(breaker)
        return TRY_AGAIN
    return then


async def _run_fallback(step: Step, fallback: Step, frame: Frame) -> None:
    frame.degraded_steps.append(step.id or step.verb)
    with frame.address_scope(f"{step.id or step.verb}.otherwise"):
        await run_step(fallback, frame)


async def _attempt_step(step: Step, frame: Frame) -> Any:
    """Attempt a step until its result is complete or no further attempt is allowed. Return the result.

    At its limit, the breaker decides whether the step fails, is skipped, or continues with a partial result.
    """
    act = VERBS[step.verb]
    if step.verb in PURE_VERBS:
        with convert_template_errors(frame, step):
            return await act(step, frame)
    most = ATTEMPTS if step.verb == "agent" else 1
    for number in count(1):
        failure: StepFailed | None = None
        result: Any = None
        try:
            _refuse_in_dry_run(step, frame)
            with convert_template_errors(frame, step):
                result = await act(step, frame)
        except StepFailed as error:
            failure = error
        if failure is None and not isinstance(result, PartialResult):
            if step.retry is not None:
                frame.phase.breakers.record_success(step.retry)
            return result
        reason = failure.reason if failure is not None else "; ".join(result.missing)
        if step.retry is None:
            then = TRY_AGAIN if number < most else ""
        else:
            can_continue = failure is None or frame.phase.has_fallback
            then = await apply_breaker(frame, step.retry, frame.at(step), reason, can_continue=can_continue)
        if then == SEQUENTIAL:
            frame.sequential = True
        elif then != TRY_AGAIN:
            if failure is not None:
                return _finish_failed_step(step, frame, failure, skip=then == "skip")
            name = step.id or step.verb
            _record_degradation(frame, name, f"{name}: {reason}", f"{name}: continued without {reason}")
            return result.result
    raise AssertionError("the loop has no end")


def _refuse_in_dry_run(step: Step, frame: Frame) -> None:
    if frame.run.session.is_dry_run:
        for effect in verbs.VERBS[step.verb].effects:
            refuse_in_dry_run(effect, frame.at(step))


def _finish_failed_step(step: Step, frame: Frame, failure: StepFailed, *, skip: bool) -> None:
    """Record a warning and return if the step is to be skipped. Raise the failure if it is not."""
    with failure_in_scope(frame, failure):
        has_fallback = _has_fallback(step.otherwise, frame)
    if skip and not has_fallback:
        name = step.id or step.verb
        text = f"{name} was skipped: {failure.reason}"
        _record_degradation(frame, name, text, text)
        return
    if isinstance(failure, AgentFailed) and step.id is not None and step.otherwise is not None:
        frame.bind(step.id, {"replies": failure.replies, "degraded": True})
    if isinstance(failure, EachFailed) and step.otherwise is not None:
        frame.bind(step.id, failure.result)
    raise failure


def _record_degradation(frame: Frame, name: str, because: str, warning: str) -> None:
    """Record and report that the phase continues although a step has no result, or only a part of it."""
    frame.degraded_steps.append(name)
    frame.phase.record.degrade(because)
    frame.phase.warn(warning)
