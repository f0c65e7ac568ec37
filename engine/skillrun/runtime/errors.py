"""Exceptions that end a step, a phase or a run without a result."""

from __future__ import annotations

from collections.abc import Sequence

from skillrun.runtime.results import EachResult, Failure, MemberReply
from skillrun.store.next_step import NO_NEXT_STEP, NextStep
from skillrun.syntax.diagnostics import SkillrunError


class StepFailed(Exception):
    """A step failed. Its `otherwise` or the phase's breaker handles the failure; if neither does, the run ends."""

    kind = "failed"
    """The cause: the status of a member's reply, the kind of the failed call, or `failed`."""
    replies: Sequence[MemberReply] = ()

    def __init__(self, reason: str, address: str = "", next_step: NextStep = NO_NEXT_STEP) -> None:
        super().__init__(reason)
        self.reason = reason
        self.address = address
        self.next_step = next_step


def failure_value(failure: StepFailed) -> Failure:
    """Return the value of `failure` in `otherwise`. `text` is the unchanged reply of the first member that failed."""
    reply = next((reply for reply in failure.replies if reply["status"] != "success"), None)
    replies = list(failure.replies)
    if reply is not None and (text := reply.get("text")):
        return {"kind": failure.kind, "reason": failure.reason, "text": text, "replies": replies}
    return {"kind": failure.kind, "reason": failure.reason, "replies": replies}


class AgentFailed(StepFailed):
    """Too few members replied successfully. `replies` has the outcome for each member."""

    def __init__(
        self, reason: str, address: str, replies: list[MemberReply], next_step: NextStep = NO_NEXT_STEP
    ) -> None:
        super().__init__(reason, address, next_step)
        self.replies = replies
        self.kind = next((reply.get("kind", self.kind) for reply in replies if reply["status"] != "success"), self.kind)


class EachFailed(StepFailed):
    """Too few items of an `each` succeeded. `result` is the partial result."""

    def __init__(self, reason: str, address: str, result: EachResult, next_step: NextStep = NO_NEXT_STEP) -> None:
        super().__init__(reason, address, next_step)
        self.result = result


class StoppedByUser(SkillrunError):
    """The user ends the run after a failure. No fallback is run and nothing is retried."""


class GoToPhase(Exception):
    """The phase ends and the run goes back to `target`."""

    def __init__(self, target: str, step: str) -> None:
        super().__init__(target)
        self.target = target
        self.step = step


class Stopped(Exception):
    """A `stop` step ends the run, the protocol or the inline workflow."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class BudgetExhausted(SkillrunError):
    """A limit of the run's budget is reached. No call is sent until the user raises the limit."""

    exit_code = 75
