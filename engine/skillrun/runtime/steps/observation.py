"""Journals what steps read outside of the phase, so that a resumed phase reads the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from skillrun.definitions.definitions import Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.store.files import sha256_of
from skillrun.store.journal_bodies import ToolBody
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.sanitizing import sanitize

Look = Callable[[], Awaitable[ToolBody]]


async def read_once(step: Step, frame: Frame, question: str, look: Look) -> ToolBody:
    """Return what `look` finds for a question, or found earlier. Raises StepFailed if it raises SkillrunError."""
    phase, where = frame.phase, f"{frame.at(step)}@{frame.phase.round_path}"
    fingerprint = sha256_of(question)
    key = f"{where} {fingerprint}"
    while key not in phase.attempts.results:
        attempt = phase.attempts.tries[key] = phase.attempts.tries.get(key, 0) + 1
        result = await _attempt(frame, f"{where}.{attempt}", fingerprint, look)
        if "error" not in result:
            phase.attempts.results[key] = result
        elif attempt > phase.voided_attempts(key):
            raise StepFailed(result["error"], frame.at(step))
    return cast(ToolBody, phase.attempts.results[key])


async def _attempt(frame: Frame, address: str, fingerprint: str, look: Look) -> ToolBody:
    """Return the result or an `error`; a resumed phase gets the same error again."""
    journal = frame.run.journal
    known = cast("ToolBody | None", journal.find("tool", address, fingerprint))
    if known is not None and frame.run.session.reuse_reads:
        return known
    try:
        result: ToolBody = sanitize(await look())
    except SkillrunError as error:
        result = {"error": str(error)}
    if known != result:
        await journal.record("tool", address, fingerprint, dict(result))
    return result
