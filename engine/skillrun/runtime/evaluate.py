"""Evaluates one step: its condition, its attempts, its breaker, and what stands in for it when it fails."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from skillrun.language.definitions import Step
from skillrun.models.messages import ModelError
from skillrun.runtime.calls import FATAL
from skillrun.runtime.errors import PARTIAL, AgentFailed, StepFailed
from skillrun.runtime.events import Said, Tripped
from skillrun.runtime.questions import offer_retry
from skillrun.runtime.run import Frame
from skillrun.runtime.scope import frame_names, truth

if TYPE_CHECKING:
    from skillrun.runtime.steps import Act

UNCOUNTED = frozenset({"repeat", "goto", "stop", "set", "say", "decide"})
ATTEMPTS = 2  # of an agent without a breaker: the first, and one retry


async def evaluate(step: Step, frame: Frame) -> None:
    """Evaluate a step and bind its id. Raises StepFailed when it fails and nothing stands in for it."""
    if step.when is not None and not truth(step.when.render(frame_names(frame))):
        return
    try:
        result = await _attempts(step, frame)
    except StepFailed as failure:
        if step.otherwise is None or step.verb == "goto":
            raise
        frame.run.emit(Said(frame.open.name, f"{step.id or step.verb}: {failure.reason}", "info"))
        if isinstance(failure, AgentFailed):
            frame.open.degraded.append(failure.reason)
        result = await _otherwise(step, frame)
    if step.id is not None and result is not None:
        frame.bind(step.id, result)


async def _otherwise(step: Step, frame: Frame) -> Any:
    other = step.otherwise
    assert other is not None
    frame.degraded.append(step.id or step.verb)
    address = frame.address
    frame.address = f"{address}/{step.id or step.verb}.otherwise"
    try:
        await evaluate(other, frame)
    finally:
        frame.address = address
    return None


async def _attempts(step: Step, frame: Frame) -> Any:
    """Attempts until one has everything, or the breaker trips; then what the breaker says."""
    from skillrun.runtime.steps import VERBS

    act = VERBS[step.verb]
    if step.verb in UNCOUNTED:
        return await act(step, frame)
    breakers = frame.open.breakers
    most = ATTEMPTS if step.verb == "agent" else 1
    asked = 0
    for number in count(1):
        tried = await _attempt(act, step, frame)
        if tried.failure is None and not tried.missing:
            if step.retry is not None:
                breakers.succeeded(step.retry)
            return tried.result
        if step.retry is None:
            if number < most:
                continue
        elif not breakers.failed(step.retry):
            continue
        elif await _tripped(step, frame, tried, asked):
            asked += 1
            continue
        return _settled(step, frame, tried)
    raise AssertionError("the loop has no end")


@dataclass(frozen=True)
class Tried:
    """What one attempt came to: a result, perhaps with members missing from it, or a failure."""

    result: Any = None
    missing: tuple[str, ...] = ()
    failure: StepFailed | None = None

    @property
    def reason(self) -> str:
        return self.failure.reason if self.failure is not None else "; ".join(self.missing)


async def _attempt(act: Act, step: Step, frame: Frame) -> Tried:
    try:
        result = await act(step, frame)
    except StepFailed as failure:
        return Tried(failure=failure)
    except ModelError as error:
        if error.kind in FATAL:
            raise
        return Tried(failure=StepFailed(str(error), frame.at(step)))
    missing = result.pop(PARTIAL, ()) if isinstance(result, dict) else ()
    return Tried(result, tuple(missing))


def _settled(step: Step, frame: Frame, tried: Tried) -> Any:
    """No more attempts: partial results stand, a step that may be skipped is, and anything else has failed."""
    failure = tried.failure
    if failure is None:
        return _degraded(step, frame, tried)
    if step.retry is not None and step.otherwise is None and frame.open.breakers.limit(step.retry).then == "skip":
        return _skipped(step, frame, failure)
    if isinstance(failure, AgentFailed) and step.id is not None and step.otherwise is not None:
        frame.bind(step.id, {"replies": failure.replies, "degraded": True})
    raise failure


async def _tripped(step: Step, frame: Frame, tried: Tried, asked: int) -> bool:
    """The breaker has reached its limit; whether to try once more."""
    assert step.retry is not None
    breakers = frame.open.breakers
    then = breakers.limit(step.retry).then
    frame.run.emit(Tripped(step.retry, frame.open.name, breakers.failures.get(step.retry, 0), then))
    if then == "sequential" and not frame.in_turn:
        frame.in_turn = True
        return True
    if then == "ask":
        can_go_on = tried.failure is None or step.otherwise is not None
        where = f"{frame.at(step)}.retry-{asked + 1}"
        if await offer_retry(frame, where, tried.reason, can_go_on=can_go_on):
            breakers.succeeded(step.retry)
            return True
    return False


def _degraded(step: Step, frame: Frame, tried: Tried) -> Any:
    """Partial results: the flow goes on, and says so."""
    frame.degraded.append(step.id or step.verb)
    frame.open.degraded.append(f"{step.id or step.verb}: {tried.reason}")
    frame.run.emit(Said(frame.open.name, f"{step.id}: went on without {tried.reason}", "warn"))
    return tried.result


def _skipped(step: Step, frame: Frame, failure: StepFailed) -> None:
    """The step is absent, but for what its members said."""
    text = f"{step.id or step.verb} was skipped: {failure.reason}"
    frame.degraded.append(step.id or step.verb)
    frame.open.degraded.append(text)
    frame.open.warnings.append(text)
    frame.run.emit(Said(frame.open.name, text, "warn"))
