"""Journals what steps read outside of the phase, so that a resumed phase reads the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from skillrun.definitions.definitions import Step
from skillrun.replay import READS, Body, attempt_address, fingerprint_text, round_address
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.store.journal_bodies import ToolBody
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.sanitizing import sanitize

Look = Callable[[], Awaitable[ToolBody]]


async def read_once(step: Step, frame: Frame, question: str, look: Look) -> ToolBody:
    """Return what `look` finds for a question, or found earlier. Raises StepFailed if it raises SkillrunError."""
    phase, where = frame.phase, round_address(frame.at(step), frame.phase.round_path)
    fingerprint = fingerprint_text(question)
    key = f"{where} {fingerprint}"
    while key not in phase.attempts.results:
        attempt = phase.attempts.tries[key] = phase.attempts.tries.get(key, 0) + 1
        read = partial(_read, look)
        result, _ = await frame.run.replay.once(READS, attempt_address(where, attempt), fingerprint, read)
        if "error" not in result:
            phase.attempts.results[key] = result
        elif attempt > phase.voided_attempts(key):
            raise StepFailed(result["error"], frame.at(step))
    return cast(ToolBody, phase.attempts.results[key])


async def _read(look: Look) -> Body:
    """Return the result or an `error`; a resumed phase gets the same error again."""
    try:
        return dict(sanitize(await look()))
    except SkillrunError as error:
        return {"error": str(error)}
