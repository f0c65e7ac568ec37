"""Writes artifacts of steps: atomic, recorded for the phase's summary, and never over the user's edits."""

from __future__ import annotations

import errno
from typing import Any, Final

from skillrun.definitions.definitions import Step
from skillrun.events import Wrote
from skillrun.questions.answers import Question
from skillrun.repository.paths import PathRefused
from skillrun.runtime.asking.asking import ask_questions
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.run import PhaseRun
from skillrun.runtime.scope import overwritten_text_address
from skillrun.store.artifact_names import variant_names
from skillrun.store.artifacts import WriteOutcome
from skillrun.store.files import sha256_of
from skillrun.store.frontmatter import to_frontmatter
from skillrun.syntax.sanitizing import sanitize
from skillrun.types.schemas import quote_value

INVALID_NAME_ERRNOS: Final = frozenset({errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR})
"""Errors for an invalid name: too long, the name of a folder, or a parent that is a file."""
KEEP, TAKE = "keep mine", "take the new one"


async def write_reply(frame: Frame, step: Step, path: str, text: str, data: Any) -> str:
    """Write a member's reply: a structured one as frontmatter, with its `body` field as the body."""
    if isinstance(data, dict):
        front = {key: value for key, value in data.items() if key != "body"}
        return await write_artifact(frame, step, path, to_frontmatter(front, str(data.get("body", "")).strip() + "\n"))
    return await write_artifact(frame, step, path, text.strip() + "\n")


async def write_artifact(frame: Frame, step: Step, path: str, text: str) -> str:
    """Write an artifact and return its text, or the user's version if they edited it and keep it.

    Raises StepFailed for an invalid name, which may come from a model.
    """
    phase, store, text = frame.phase, frame.run.store, sanitize(text)
    path = _name(frame, step, path)
    before = _earlier_text(phase, path)
    if before not in (None, text):
        address = overwritten_text_address(phase.run, phase.name, path)
        await phase.run.journal.record("note", address, sha256_of(text), {"text": before})
    try:
        outcome = await store.artifacts.put(path, text)
        if outcome == "conflict":
            outcome = await _resolve_conflict(frame, step, path, text)
    except OSError as error:
        if error.errno not in INVALID_NAME_ERRNOS:
            raise
        raise _write_error(frame, step, path, error.strerror or "the file cannot be written") from None
    phase.add_artifact(path)
    frame.run.emit(Wrote(path, phase.name, outcome == "written"))
    if outcome == "kept":
        return store.artifacts.text(path) or ""
    return text


def _name(frame: Frame, step: Step, path: str) -> str:
    """Return the normalized name of an artifact."""
    try:
        return frame.run.store.artifacts.name(path)
    except PathRefused as error:
        raise _write_error(frame, step, path, error.message) from None


def _write_error(frame: Frame, step: Step, path: str, why: str) -> StepFailed:
    return StepFailed(f"`{step.id or step.verb}` cannot write {quote_value(path)}: {why}", frame.at(step))


def _earlier_text(phase: PhaseRun, path: str) -> str | None:
    """Return an earlier phase's artifact as it was when this phase was opened."""
    texts = (data["artifacts"].get(path) for data in phase.names["phases"].values())
    before: str | None = next((text for text in texts if text is not None), None)
    return before


async def _resolve_conflict(frame: Frame, step: Step, path: str, text: str) -> WriteOutcome:
    """Save the new text next to a file that the user has edited, and ask which version to keep."""
    store = frame.run.store
    copy_name = next(name for name in variant_names(path) if store.artifacts.text(name) in (None, text))
    store.artifacts.write_user_file(copy_name, text)
    question: Question = {
        "id": f"keep-{path}",
        "text": f"{path} was edited manually, and there is a new version in {copy_name}.",
        "choices": [KEEP, TAKE],
        "default": KEEP,
        "round": frame.phase.round,
        "version": sha256_of(text)[:16],  # a decision about another version does not count
    }
    answers = (await ask_questions(frame, f"{frame.at(step)}/{path}", [question]))["answers"]
    if answers[0].get("answer") == TAKE:
        store.artifacts.remove(copy_name)
        await store.artifacts.replace(path, text)
        return "written"
    await store.artifacts.keep_user_version(path)
    note = f"{path} was edited manually and is kept; the new version is in {copy_name}"
    frame.phase.warn(note)
    return "kept"
