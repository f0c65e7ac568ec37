"""`stop`: ends the run with a status and a reason; inside a protocol or inline workflow it fails the calling step."""

from __future__ import annotations

from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import VERBS
from skillrun.runtime.errors import StepFailed, Stopped
from skillrun.runtime.frame import Frame
from skillrun.syntax.diagnostics import allowed_hint
from skillrun.types.schemas import quote_value


async def execute(step: Step, frame: Frame) -> None:
    status = frame.text(step)
    if status not in VERBS["stop"].main.values:
        raise StepFailed(f"`stop` is {quote_value(status)}; {allowed_hint(VERBS['stop'].main.values)}", frame.at(step))
    raise Stopped(status, frame.text(step, "reason"))
