"""`say`: shows a line to the user; a warning is also kept in the summary. Never waits."""

from __future__ import annotations

from skillrun.definitions.definitions import Step
from skillrun.events import Said
from skillrun.questions.punctuation import remove_double_stops
from skillrun.runtime.frame import Frame


async def execute(step: Step, frame: Frame) -> None:
    text = remove_double_stops(" ".join(frame.text(step).split()))
    level = frame.text(step, "level", "info")
    if level == "warn" and text not in frame.phase.record.warnings:
        frame.phase.record.warnings.append(text)
    frame.run.emit(Said(frame.phase.name, text, level))
