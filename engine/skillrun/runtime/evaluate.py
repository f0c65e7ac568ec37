"""Evaluates one step: its condition, its attempts, its breaker, and what stands in for it when it fails."""

from __future__ import annotations

from typing import Any

from skillrun.language.definitions import Step
from skillrun.language.expressions import ABSENT
from skillrun.models.messages import ModelError
from skillrun.runtime.calls import FATAL
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.events import Said, Tripped
from skillrun.runtime.questions import offer_retry
from skillrun.runtime.run import Frame
from skillrun.runtime.scope import frame_names, truth

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
    from skillrun.runtime.steps.agent import PARTIAL, AgentFailed

    act = VERBS[step.verb]
    if step.verb in UNCOUNTED:
        return await act(step, frame)
    breakers = frame.run.breakers
    most = ATTEMPTS if step.verb == "agent" and step.retry is None else 1
    tries = asked = 0
    while True:
        tries += 1
        result: Any = None
        failure: StepFailed | None = None
        try:
            result = await act(step, frame)
        except StepFailed as error:
            failure = error
        except ModelError as error:
            if error.kind in FATAL:
                raise
            failure = StepFailed(str(error), frame.at(step))
        missing = result.pop(PARTIAL, None) if isinstance(result, dict) else None
        if failure is None and not missing:
            if step.retry is not None:
                breakers.succeeded(step.retry)
            return result
        if step.retry is None:
            if tries < most:
                continue
        elif not breakers.failed(step.retry):
            continue
        else:
            again = await _tripped(step, frame, failure, missing, asked)
            asked += again
            if again:
                continue
        if failure is None:
            return _degraded(step, frame, result, missing or [])
        if step.retry is not None and breakers.limit(step.retry).then == "skip" and step.otherwise is None:
            return _skipped(step, frame, failure)
        if isinstance(failure, AgentFailed) and step.id is not None and step.otherwise is not None:
            frame.bind(step.id, {"replies": failure.replies, "degraded": True})
        raise failure


async def _tripped(step: Step, frame: Frame, failure: StepFailed | None, missing: list[str] | None, asked: int) -> bool:
    """The breaker has reached its limit; whether to try once more."""
    assert step.retry is not None
    breakers = frame.run.breakers
    then = breakers.limit(step.retry).then
    failures = breakers.failures.get(step.retry, 0)
    reason = failure.reason if failure is not None else "; ".join(missing or [])
    frame.run.emit(Tripped(step.retry, frame.open.name, failures, then))
    if then == "sequential" and not frame.in_turn:
        frame.in_turn = True
        return True
    if then == "ask":
        can_go_on = failure is None or step.otherwise is not None
        if await offer_retry(frame, f"{frame.at(step)}.retry-{asked + 1}", reason, can_go_on=can_go_on):
            breakers.succeeded(step.retry)
            return True
    return False


def _degraded(step: Step, frame: Frame, result: Any, missing: list[str]) -> Any:
    """Partial results: the flow goes on, and says so."""
    frame.degraded.append(step.id or step.verb)
    frame.open.degraded.append(f"{step.id or step.verb}: {'; '.join(missing)}")
    frame.run.emit(Said(frame.open.name, f"{step.id}: went on without {'; '.join(missing)}", "warn"))
    return result


def _skipped(step: Step, frame: Frame, failure: StepFailed) -> Any:
    frame.degraded.append(step.id or step.verb)
    text = f"{step.id or step.verb} was skipped: {failure.reason}"
    frame.open.degraded.append(text)
    frame.open.warnings.append(text)
    frame.run.emit(Said(frame.open.name, text, "warn"))
    replies = getattr(failure, "replies", None)
    if step.id is None or not replies:
        return None
    frame.bind(step.id, ABSENT)
    return None
