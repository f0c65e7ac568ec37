"""Evaluates one step: condition, attempts, circuit breaker and fallback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from jinja2.exceptions import UndefinedError

from skillrun.definitions import verbs
from skillrun.definitions.definitions import Step
from skillrun.events import Said, Tripped
from skillrun.replay import refuse_in_dry_run
from skillrun.repository.paths import PathRefused
from skillrun.runtime.asking.asking import offer_retry
from skillrun.runtime.errors import AgentFailed, EachFailed, StepFailed, failure_value
from skillrun.runtime.frame import Frame
from skillrun.runtime.scope import frame_names, is_true
from skillrun.runtime.steps import VERBS
from skillrun.runtime.steps.partial_result import PartialResult
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.expressions import RenderError, Template

PURE_VERBS = frozenset(name for name, verb in verbs.VERBS.items() if verb.effects == ("pure",))
MODEL_VERBS = frozenset(name for name, verb in verbs.VERBS.items() if "calls" in verb.effects)
"""A fallback for one of these degrades the phase."""
ATTEMPTS = 2  # of an agent without a breaker: the first, and one retry
TRY_AGAIN: Final = "again"
FAILURE: Final = "failure"
SEQUENTIAL: Final = "sequential"


async def run_step(step: Step, frame: Frame) -> None:
    """Evaluate a step and bind its id. Raises StepFailed if it fails without a fallback."""
    try:
        if step.when is not None and not _is_condition_true(step.when, frame, step):
            return
        frame.phase.fallback_depth += (fallbacks := int(step.otherwise is not None and step.verb != "goto"))
        try:
            result = await _run_attempts(step, frame)
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
    """Return whether a failed step has a fallback, and the fallback's `when` holds."""
    return otherwise is not None and (otherwise.when is None or _is_condition_true(otherwise.when, frame, otherwise))


@contextmanager
def failure_in_scope(frame: Frame, failure: StepFailed) -> Iterator[None]:
    """Define `failure` for the fallback of a failed step."""
    with frame.name_scope(FAILURE):
        frame.names[FAILURE] = failure_value(failure)
        yield


class convert_template_errors:  # noqa: N801 (used like a function; a generator would be slower)
    """Converts errors of templates, and of values that they return, to a StepFailed of the step or phase."""

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
    """Count a failure and return the next action: `again`, the breaker's action at its limit, or an empty string.

    Permanent failures may be retried if calls become sequential or the user is asked. Raises StoppedByUser.
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


async def _run_attempts(step: Step, frame: Frame) -> Any:
    """Attempt a step until nothing is missing or the breaker trips, then apply the breaker's action."""
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
    """Return for a step that may be skipped, with a warning. Any other step raises its failure."""
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
    """Record and report that the phase continues with less than a full result."""
    frame.degraded_steps.append(name)
    frame.phase.record.degrade(because)
    frame.phase.warn(warning)
