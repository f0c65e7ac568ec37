"""`goto`: ends the phase and goes back to an earlier one, up to its cap."""

from __future__ import annotations

from skillrun.definitions.definitions import Step
from skillrun.events import Tripped
from skillrun.runtime.asking.asking import offer_retry
from skillrun.runtime.breakers import BreakerSettings
from skillrun.runtime.errors import GoToPhase
from skillrun.runtime.frame import Frame


async def execute(step: Step, frame: Frame) -> None:
    """Raise GoToPhase; beyond the cap, only if the user agrees, otherwise run the fallback."""
    run = frame.run
    if run.session.ignore_gotos:
        return
    key = frame.at(step) + f">{step.text}"
    times = run.state.backs.get(key, 0)
    if times < frame.cap(step):
        raise GoToPhase(step.text, key)
    name = frame.breaker_name(step)
    limit = frame.phase.breakers.settings_for(name) if name else BreakerSettings()
    then = limit.then
    run.emit(Tripped(name or "at_most", frame.phase.name, times, then, frame.cap(step)))
    reason = f"The run has already gone back to {step.text} {times} times."
    if then == "ask" and await offer_retry(frame, f"{key}@{times}", reason, limit, can_continue=True):
        raise GoToPhase(step.text, key)
    if step.otherwise is not None:
        await frame.evaluate(step.otherwise)
