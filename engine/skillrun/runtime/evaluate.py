"""Evaluates one step: its condition, its attempts, its breaker, and what stands in for it when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from jinja2.exceptions import UndefinedError

from skillrun.definitions.definitions import Step
from skillrun.events import Said, Tripped
from skillrun.repository.paths import PathRefused
from skillrun.runtime.asking.asking import offer_retry
from skillrun.runtime.errors import AgentFailed, EachFailed, StepFailed, failure_value
from skillrun.runtime.frame import Frame
from skillrun.runtime.scope import frame_names, truth
from skillrun.runtime.steps import VERBS, Act
from skillrun.runtime.steps.partial_result import Partial
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.expressions import RenderError, Template

UNCOUNTED = frozenset({"repeat", "goto", "stop", "set", "say", "decide"})
ASKING = frozenset({"agent", "panel", "run", "each"})  # what stands in for one of these is less than it
ATTEMPTS = 2  # of an agent without a breaker: the first, and one retry
AGAIN: Final = "again"
FAILURE: Final = "failure"
IN_TURN: Final = "sequential"


async def evaluate(step: Step, frame: Frame) -> None:
    """Evaluate a step and bind its id. Raises StepFailed when it fails and nothing stands in for it."""
    try:
        if step.when is not None and not _holds(step.when, frame, step):
            return
        frame.open.carriers += (carriers := int(step.otherwise is not None and step.verb != "goto"))
        try:
            result = await _attempts(step, frame)
        finally:
            frame.open.carriers -= carriers
    except StepFailed as failure:
        with knowing(frame, failure):
            if step.verb == "goto" or not _stands_in(step.otherwise, frame):
                raise
            frame.run.emit(Said(frame.open.name, f"{step.id or step.verb}: {failure.reason}", "info"))
            if isinstance(failure, AgentFailed) or step.verb in ASKING:
                frame.open.account.degrade(failure.reason)
            assert step.otherwise is not None
            await _otherwise(step, step.otherwise, frame)
    else:
        if step.id is not None and result is not None:
            frame.bind(step.id, result)


def _stands_in(otherwise: Step | None, frame: Frame) -> bool:
    """Whether there is a step that stands in for a failed one; its `when` says under which condition it does."""
    return otherwise is not None and (otherwise.when is None or _holds(otherwise.when, frame, otherwise))


@contextmanager
def knowing(frame: Frame, failure: StepFailed) -> Iterator[None]:
    """What stands in for a failed step sees why it failed."""
    with frame.scoped(FAILURE):
        frame.names[FAILURE] = failure_value(failure)
        yield


class failing:  # noqa: N801 (a function to who reads it; as one it would cost each call more)
    """A template that cannot be rendered, or what it gave and cannot be used, fails the step or else the phase."""

    def __init__(self, frame: Frame, step: Step | None = None) -> None:
        self.frame, self.step = frame, step

    def __enter__(self) -> None:
        """Nothing is set up."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, RenderError | PathRefused | UndefinedError):
            hint = f" ({error.next_step})" if isinstance(error, SkillrunError) and error.next_step else ""
            where = self.frame.at(self.step) if self.step is not None else self.frame.address
            raise StepFailed(f"{error}{hint}", where) from error


def _holds(condition: Template, frame: Frame, step: Step) -> bool:
    with failing(frame, step):
        return truth(condition.render(frame_names(frame)))


async def after_failure(frame: Frame, breaker: str, where: str, reason: str, *, can_go_on: bool) -> str:
    """Count a failure and say what comes next: `again`, what the breaker does at its limit, or nothing more.

    In turn, and after a person's word, it goes on from there. Raises StoppedByPerson.
    """
    breakers = frame.open.breakers
    if not breakers.failed(breaker):
        return AGAIN
    limit = breakers.limit(breaker)
    then = limit.then
    frame.run.emit(Tripped(breaker, frame.open.name, breakers.failures[breaker], then, limit.limit))
    if then == IN_TURN and frame.in_turn:
        return ""
    if then in (IN_TURN, "ask"):
        frame.open.attempts.vain.clear()  # in turn, or when the person says so, it may be of use
        frame.run.refused.clear()
    if then == "ask" and await offer_retry(frame, where, reason, limit, can_go_on=can_go_on):
        breakers.succeeded(breaker)
        return AGAIN
    return then


async def _otherwise(step: Step, other: Step, frame: Frame) -> None:
    frame.degraded.append(step.id or step.verb)
    with frame.below(f"{step.id or step.verb}.otherwise"):
        await evaluate(other, frame)


async def _attempts(step: Step, frame: Frame) -> Any:
    """Attempts until one has everything, or the breaker trips; then what the breaker says."""
    act = VERBS[step.verb]
    if step.verb in UNCOUNTED:
        with failing(frame, step):
            return await act(step, frame)
    most = ATTEMPTS if step.verb == "agent" else 1
    for number in count(1):
        tried = await _attempt(act, step, frame)
        if not tried.reason:
            if step.retry is not None:
                frame.open.breakers.succeeded(step.retry)
            return tried.result
        if step.retry is None:
            then = AGAIN if number < most else ""
        else:
            can_go_on = tried.failure is None or frame.open.carried
            then = await after_failure(frame, step.retry, frame.at(step), tried.reason, can_go_on=can_go_on)
        if then == IN_TURN:
            frame.in_turn = True
        elif then != AGAIN:
            return _settled(step, frame, tried, skip=then == "skip")
    raise AssertionError("the loop has no end")


@dataclass(frozen=True)
class StepAttempt:
    """What one attempt came to: a result, perhaps with members missing from it, or a failure."""

    result: Any = None
    reason: str = ""
    failure: StepFailed | None = None


async def _attempt(act: Act, step: Step, frame: Frame) -> StepAttempt:
    try:
        with failing(frame, step):
            result = await act(step, frame)
    except StepFailed as failure:
        return StepAttempt(reason=failure.reason, failure=failure)
    return StepAttempt(result.result, "; ".join(result.missing)) if isinstance(result, Partial) else StepAttempt(result)


def _settled(step: Step, frame: Frame, tried: StepAttempt, *, skip: bool) -> Any:
    """No more attempts: partial results stand, a step that may be skipped is absent, and anything else has failed."""
    name = step.id or step.verb
    if tried.failure is None:
        _degraded(frame, name, f"{name}: {tried.reason}", f"{name}: went on without {tried.reason}")
        return tried.result
    with knowing(frame, tried.failure):
        stands_in = _stands_in(step.otherwise, frame)
    if skip and not stands_in:
        text = f"{name} was skipped: {tried.reason}"
        _degraded(frame, name, text, text)
        return None
    if isinstance(tried.failure, AgentFailed) and step.id is not None and step.otherwise is not None:
        frame.bind(step.id, {"replies": tried.failure.replies, "degraded": True})
    if isinstance(tried.failure, EachFailed) and step.otherwise is not None:
        frame.bind(step.id, tried.failure.result)
    raise tried.failure


def _degraded(frame: Frame, name: str, because: str, warning: str) -> None:
    """The flow goes on, and says so."""
    frame.degraded.append(name)
    frame.open.account.degrade(because)
    frame.open.warn(warning)
