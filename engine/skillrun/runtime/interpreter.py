"""Evaluates a workflow, its phases and their steps: conditions, attempts, circuit breakers, fallbacks, summaries.

The path of a run is deterministic: it depends only on files, inputs, answers and replies. A resumed run is evaluated
again: a phase with a summary is final, and an open phase is evaluated over the journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final, cast

from jinja2.exceptions import UndefinedError

from skillrun.definitions import verbs
from skillrun.definitions.definitions import PhaseUse, Step
from skillrun.events import PhaseEnded, PhaseStarted, RunStarted, Said, Tripped
from skillrun.replay import refuse_in_dry_run
from skillrun.repository.paths import PathRefused
from skillrun.runtime.asking.asking import offer_retry
from skillrun.runtime.errors import (
    BudgetExhausted,
    GoToPhase,
    StepFailed,
    Stopped,
    StoppedByUser,
)
from skillrun.runtime.frame import Evaluator, Frame, StepResult
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scheduler import PhaseResult, Schedule, failure_outcome, record_outcome
from skillrun.runtime.scope import frame_names, is_true, new_frame, open_phase
from skillrun.runtime.steps import VERBS
from skillrun.runtime.summaries import base_summary, build_summary, degraded_flags, evaluate_outputs, rebuild_summary
from skillrun.store.outcome import NO_NEXT_STEP, RESUME_RUN, NextStep, Outcome, Status, WaitingForUser, flags_to_record
from skillrun.store.summaries import WAITING_STATUS
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import Span
from skillrun.templates.expressions import RenderError, Template

ATTEMPTS = 2  # attempts of an `agent` step without a breaker: the first, and one retry
TRY_AGAIN: Final = "again"
SEQUENTIAL: Final = "sequential"


async def run_workflow(run: Run, *, resumed: bool = False) -> Outcome:
    """Run until the workflow ends or waits for the user. Return the outcome, which is also recorded in `state.md`."""
    workflow = run.program.workflow
    flags = {**run.services.responder.resume_flags, **run.options.command_flags}
    run.state.status = "running"
    run.emit(
        RunStarted(
            run.name,
            workflow.name,
            run.store.location(),
            tuple(workflow.phases),
            run.state.inputs,
            dict(run.state.models),
            resumed,
            flags_to_record(flags),
        )
    )
    run.save()
    try:
        outcome = await run_phases(Schedule(run))
    except BudgetExhausted as spent:
        outcome = Outcome("waiting", str(spent), run.budget.next_step())
    except SkillrunError as error:
        outcome = failure_outcome(error)
    except asyncio.CancelledError:
        outcome = Outcome("interrupted", "interrupted", RESUME_RUN)
    except Exception as bug:
        run.state.status, run.state.reason = "failed", f"internal error in skillrun ({type(bug).__name__})"
        with suppress(OSError):
            run.save()
        raise
    return record_outcome(run, outcome, flags)


async def run_phases(schedule: Schedule) -> Outcome:
    """Run each phase when the schedule allows it. After an error, wait for the running phases, and raise the error."""
    run = schedule.run
    tasks: set[asyncio.Task[PhaseResult]] = set()
    if None in run.program.estimate_readers:
        await run.load_estimate()
    await schedule.prepare()
    try:
        while True:
            with schedule.capture_errors():
                for name, previous in schedule.start_phases():
                    phase = run_phase(run, run.program.workflow.phases[name], previous)
                    tasks.add(asyncio.create_task(phase, name=name))
            if tasks:
                ended, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    schedule.end_phase(task.get_name(), task)
            elif not schedule.go_back():
                return schedule.outcome()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_phase(run: Run, use: PhaseUse, previous: PhaseRun | None = None) -> PhaseResult:
    """Evaluate a phase, retrying it as its breaker allows. On return, the summary of an ended phase is on disk.

    `previous` is a failed attempt that ran in parallel with other phases. If it is given, the steps of the phase make
    their calls sequentially.
    """
    started = time.monotonic()
    if run.program.reads_estimate(use.span):
        await run.load_estimate()
    phase = open_phase(run, use, previous)
    run.state.outdated.pop(use.name, None)
    result: PhaseResult | None = None
    if use.when is not None and not is_true(use.when.render(phase.names)):
        reason = f"only when {use.when.text.value}"
        result = PhaseResult("skipped", base_summary(phase, "skipped").with_fields(reason=reason), reason)
    else:
        run.emit(PhaseStarted(use.name, run.state.round, phase.entry_type))
    try:
        if use.name in run.lost_phases and result is None:
            phase, result = await _rebuild_phase(phase, use)
        while result is None:
            sequential = previous is not None
            frame = new_frame(phase, phase.address(), phase.phase, phase.names, EVALUATOR, sequential=sequential)
            back: GoToPhase | None = None
            try:
                try:
                    for step in phase.phase.steps:
                        phase.record.checkpoint = step.id or step.verb
                        await run_step(step, frame)
                except GoToPhase as going:
                    back = going
                result = await _finish_phase(phase, frame, "completed", back, use.retry)
            except StepFailed as failure:
                result = await _handle_failure(use, phase, frame, failure)
                if result is None:
                    phase = open_phase(run, use, phase)
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


async def _rebuild_phase(phase: PhaseRun, use: PhaseUse) -> tuple[PhaseRun, PhaseResult | None]:
    """Rebuild the lost summary of a phase. If the phase must be evaluated instead, return the phase to evaluate."""
    summary = await rebuild_summary(phase, EVALUATOR)
    if summary is not None:
        return phase, PhaseResult(summary.status, summary)
    return phase if use.name in phase.run.lost_phases else open_phase(phase.run, use, phase), None


async def _finish_phase(
    phase: PhaseRun, frame: Frame, status: str, back: GoToPhase | None = None, breaker: str | None = None
) -> PhaseResult:
    """Return the result of a phase whose steps have ended, with its summary. Raises StepFailed.

    A phase that goes back also has outputs and a summary. A failed phase has no outputs, and no model is called for its
    summary.
    """
    if breaker is not None:
        phase.breakers.record_success(breaker)
    if phase.run.program.reads_estimate(Span(phase.phase.document.source, 0)):
        await phase.run.load_estimate(frame.names)
    with convert_template_errors(frame):
        outputs = evaluate_outputs(phase, frame.names) if status == "completed" else {}
    summary = await build_summary(phase, outputs, status, goes_back=back is not None)
    if back is not None:
        summary = summary.with_fields(goto={"target": back.target, "step": back.step})
    return PhaseResult("back" if back is not None else status, summary)


async def _handle_failure(use: PhaseUse, phase: PhaseRun, frame: Frame, failure: StepFailed) -> PhaseResult | None:
    """Return the result of a failed phase, after its fallback if it has one and the breaker does not skip the phase;
    None if the phase is retried.

    If the run continues, the summary records the failure.
    """
    then = ""
    if use.retry is not None:
        then = await apply_breaker(frame, use.retry, phase.address(), failure.reason, can_continue=phase.has_fallback)
    if then == TRY_AGAIN:
        phase.run.emit(Said(use.name, f"failed and is retried: {failure.reason}"))
        return None
    if then == SEQUENTIAL:
        return PhaseResult("failed", reason=failure.reason, deferred_attempt=phase)
    if use.otherwise is None and then != "skip":
        return await _fail_phase(phase, failure.reason, failure.next_step)
    text = f"{use.name} failed: {failure.reason}"
    phase.warn(text)
    phase.record.degrade(text)
    back: GoToPhase | None = None
    try:
        with failure_in_scope(frame, failure):
            if use.otherwise is not None and then != "skip":
                phase.record.checkpoint = use.otherwise.id or use.otherwise.verb
                await run_step(use.otherwise, frame)
    except GoToPhase as going:
        back = going
    except StepFailed as second:
        return await _fail_phase(phase, second.reason, second.next_step)
    return await _finish_phase(phase, frame, "failed", back)


async def _fail_phase(phase: PhaseRun, reason: str, next_step: NextStep = NO_NEXT_STEP) -> PhaseResult:
    """Return the result that ends the run. A resumed run does not count the attempts so far, and sends failed calls
    again."""
    tries = {key: count for key, count in phase.attempts.tries.items() if key not in phase.attempts.results}
    if not phase.run.inline_address:
        await phase.run.journal.record("void", phase.address(), "", {"round": phase.round, "tries": tries})
    return PhaseResult("failed", reason=reason, next_step=next_step, failed_phase=phase)


async def _pause_phase(phase: PhaseRun, waiting: WaitingForUser) -> PhaseResult:
    """Record in its summary that a phase waits for the user, and return the result."""
    flags = {"pause_type": waiting.pause_type, "block_reason": waiting.reason, **degraded_flags(phase)}
    summary = base_summary(phase, WAITING_STATUS).with_fields(
        flags=flags,
        entry_type=phase.entry_type,
        quality_warnings=phase.record.warnings,
        usage=phase.record.usage.to_dict(),
    )
    await phase.run.store.summaries.put(phase.name, summary)
    step, pause = waiting.next_step, waiting.pause_type
    return PhaseResult(WAITING_STATUS, reason=waiting.reason, next_step=step, pause_type=pause)


async def run_step(step: Step, frame: Frame) -> None:
    """Evaluate a step and bind its id to the result. Raises StepFailed if the step fails and has no fallback.

    The step is attempted until its result is complete or no further attempt is allowed.
    """
    act = VERBS[step.verb]
    if frame.run.program.reads_estimate(step.span):
        await frame.run.load_estimate(frame.names)
    try:
        if step.when is not None and not _is_condition_true(step.when, frame, step):
            return
        frame.phase.fallback_depth += (fallbacks := int(step.otherwise is not None and step.verb != "goto"))
        result = StepResult()
        try:
            for number in count(1):
                failure = None
                try:
                    for effect in verbs.VERBS[step.verb].effects if frame.run.replay.is_dry_run else ():
                        refuse_in_dry_run(effect, frame.at(step))
                    with convert_template_errors(frame, step):
                        result = await act(step, frame)
                except StepFailed as error:
                    result, failure = StepResult(), error
                if not await _is_attempted_again(step, frame, number, result.missing, failure):
                    break
        finally:
            frame.phase.fallback_depth -= fallbacks
    except StepFailed as error:
        fallback, name = step.otherwise, step.id or step.verb
        with failure_in_scope(frame, error):
            if fallback is None or step.verb == "goto" or not _has_fallback(fallback, frame):
                raise
            frame.run.emit(Said(frame.phase.name, f"{name}: {error.reason}", "info"))
            if "replies" in error.value or "calls" in verbs.VERBS[step.verb].effects:
                frame.phase.record.degrade(error.reason)
            frame.degraded_steps.append(name)
            with frame.address_scope(f"{name}.otherwise"):
                await run_step(fallback, frame)
    else:
        if step.id is not None and result.value is not None:
            frame.bind(step.id, result.value)


async def _is_attempted_again(
    step: Step, frame: Frame, number: int, missing: Sequence[str], failure: StepFailed | None
) -> bool:
    """Return whether a step is attempted again after its attempt `number`. Raises StepFailed if it fails.

    At its limit, the breaker decides whether the step fails, is skipped, or continues with a partial result.
    """
    if verbs.VERBS[step.verb].effects == ("pure",):  # another attempt would fail again; a loop uses `retry` for its cap
        if failure is not None:
            raise failure
        return False
    if failure is None and not missing:
        if step.retry is not None:
            frame.phase.breakers.record_success(step.retry)
        return False
    reason = failure.reason if failure is not None else "; ".join(missing)
    if step.retry is not None:
        can_continue = failure is None or frame.phase.has_fallback
        then = await apply_breaker(frame, step.retry, frame.at(step), reason, can_continue=can_continue)
    else:
        then = TRY_AGAIN if step.verb == "agent" and number < ATTEMPTS else ""
    if then == SEQUENTIAL:
        frame.sequential = True
    if then in (SEQUENTIAL, TRY_AGAIN):
        return True
    name = step.id or step.verb
    if failure is None:
        _record_degradation(frame, name, f"{name}: {reason}", f"{name}: continued without {reason}")
        return False
    if then != "skip":
        if failure.value and step.otherwise is not None:
            frame.bind(step.id, failure.value)
        raise failure
    text = f"{name} was skipped: {reason}"
    _record_degradation(frame, name, text, text)
    return False


def _has_fallback(otherwise: Step | None, frame: Frame) -> bool:
    """Return whether a failed step has a fallback whose `when`, if any, is true."""
    return otherwise is not None and (otherwise.when is None or _is_condition_true(otherwise.when, frame, otherwise))


@contextmanager
def failure_in_scope(frame: Frame, failure: StepFailed) -> Iterator[None]:
    """Define the name `failure`, which the fallback of a failed step can read, while the context is active."""
    with frame.name_scope("failure"):
        frame.names["failure"] = failure.template_value()
        yield


@contextmanager
def convert_template_errors(frame: Frame, step: Step | None = None) -> Iterator[None]:
    """While the context is active, convert errors of templates and of rendered values to StepFailed.

    The StepFailed has the address of the step. Without a step, it has the address of the frame.
    """
    try:
        yield
    except (RenderError, PathRefused, UndefinedError) as error:
        hint = f" ({error.next_step})" if isinstance(error, SkillrunError) and error.next_step else ""
        raise StepFailed(f"{error}{hint}", frame.at(step) if step is not None else frame.address) from error


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
        failures = frame.phase.attempts.permanent_failures  # a sequential or user-approved retry may succeed
        kept = {key: failure for key, failure in failures.items() if failure.would_recur} if then == SEQUENTIAL else {}
        frame.phase.attempts.permanent_failures = kept
        frame.run.evaluation.refusals.clear()
    if then == "ask" and await offer_retry(frame, address, reason, limit, can_continue=can_continue):
        breakers.record_success(breaker)
        return TRY_AGAIN
    return then


def _record_degradation(frame: Frame, name: str, because: str, warning: str) -> None:
    """Record and report that the phase continues although a step has no result, or only a part of it."""
    frame.degraded_steps.append(name)
    frame.phase.record.degrade(because)
    frame.phase.warn(warning)


EVALUATOR: Final = Evaluator(run_step, run_phases)
