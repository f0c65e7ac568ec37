"""`say`: a line to the user and the record; a warning is also kept in the summary. Never blocks."""

from __future__ import annotations

from skillrun.definitions.definitions import Step
from skillrun.events import Said
from skillrun.questions.punctuation import one_stop
from skillrun.runtime.frame import Frame


async def act(step: Step, frame: Frame) -> None:
    text = one_stop(" ".join(frame.text(step).split()))
    level = frame.text(step, "level", "info")
    if level == "warn" and text not in frame.open.account.warnings:
        frame.open.account.warnings.append(text)
    frame.run.emit(Said(frame.open.name, text, level))
