"""`stop`: ends the run with a status and a reason; inside a protocol or inline workflow it fails the calling step."""

from __future__ import annotations

from skillrun.language.definitions import Step
from skillrun.runtime.errors import Stopped
from skillrun.runtime.run import Frame


async def act(step: Step, frame: Frame) -> None:
    raise Stopped(str(frame.main(step)), str(frame.value(step, "reason", "")))
