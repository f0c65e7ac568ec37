"""`repeat`: repeats steps until a condition holds; without `until` and `at_most`, groups them under one `when`."""

from __future__ import annotations

from collections.abc import Mapping

from skillrun.definitions.definitions import Step
from skillrun.events import Tripped
from skillrun.runtime.asking.asking import offer_retry
from skillrun.runtime.frame import Frame
from skillrun.runtime.scope import frame_names, is_true, locals_of


async def execute(step: Step, frame: Frame) -> Mapping[str, object]:
    """Return `times` and whether the cap was `exhausted`. At the cap, a breaker that asks offers another pass."""
    if step.until is None and "at_most" not in step.values:
        for inner in step.steps:
            await frame.evaluate(inner)
        return {"times": 1, "exhausted": False}
    most = frame.cap(step)
    with frame.name_scope("pass"):
        return await _passes(step, frame, most)


async def _passes(step: Step, frame: Frame, most: int) -> Mapping[str, object]:
    """Run passes until the condition holds or the cap is reached; each sees the results of the previous one."""
    bound_names = locals_of(step.steps)
    previous: dict[str, object] = {}
    times, done = 0, False
    while not done:
        if times >= most and not await _offer_extra_pass(step, frame, times):
            break
        times += 1
        frame.names["pass"] = {"index": times, "previous": previous}
        for name in bound_names.ids:
            frame.names.pop(name, None)
        frame.mark_absent(bound_names.ids)
        with frame.address_scope(f"{step.id or 'repeat'}#{times}"):
            for inner in step.steps:
                await frame.evaluate(inner)
        done = step.until is not None and is_true(step.until.render(frame_names(frame)))
        previous = {name: frame.names[name] for name in (*bound_names.ids, *bound_names.names) if name in frame.names}
    return {"times": times, "exhausted": not done and step.until is not None}


async def _offer_extra_pass(step: Step, frame: Frame, times: int) -> bool:
    """Return whether the user wants a pass beyond the cap; asks only if the breaker's `then` is `ask`."""
    name = step.retry or frame.breaker_name(step)
    if name is None or step.until is None or frame.phase.breakers.settings_for(name).then != "ask":
        return False
    limit = frame.phase.breakers.settings_for(name)
    frame.run.emit(Tripped(name, frame.phase.name, times, "ask", limit.limit))
    what = f"`{step.id or 'repeat'}` has run {times} times, and its condition does not hold yet."
    return await offer_retry(frame, f"{frame.at(step)}.retry-{times}", what, limit, can_continue=True)
