"""Exceptions that end a step, a phase or a run without a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillrun.store.outcome import NO_NEXT_STEP, NextStep
from skillrun.syntax.diagnostics import SkillrunError


class StepFailed(Exception):
    """A step failed. The step's `otherwise` or the phase's breaker handles the failure; if neither does, the run ends.

    `value` is the incomplete result of an `agent` or `each`, which `otherwise` can read.
    """

    def __init__(
        self, reason: str, address: str = "", next_step: NextStep = NO_NEXT_STEP, value: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.address = address
        self.next_step = next_step
        self.value = value or {}

    def template_value(self) -> dict[str, object]:
        """Return the value of `failure` in `otherwise`.

        `kind` is the error kind of the first failed reply, or its status if the call did not fail. `kind` is `failed`
        if no reply failed. `text` is the text of the first failed reply.
        """
        replies: list[dict[str, Any]] = self.value.get("replies", [])
        reply = next((reply for reply in replies if reply["status"] != "success"), {})
        text = {"text": reply["text"]} if reply.get("text") else {}
        return {"kind": reply.get("kind", "failed"), "reason": self.reason, **text, "replies": replies}


class FileConflict(StepFailed):
    """Two steps that are not in order write the same file, or one reads what the other writes.

    The result would depend on which of them ends last.
    """


class StoppedByUser(SkillrunError):
    """The user ends the run after a failure. No fallback is run and nothing is retried."""


@dataclass(eq=False)
class GoToPhase(Exception):
    """The phase ends and the run goes back to `target`."""

    target: str
    step: str


@dataclass(eq=False)
class Stopped(Exception):
    """A `stop` step ends the run, the protocol or the inline workflow."""

    status: str
    reason: str


class BudgetExhausted(SkillrunError):
    """A limit of the run's budget is reached. No call is sent until the user raises the limit."""

    exit_code = 75
