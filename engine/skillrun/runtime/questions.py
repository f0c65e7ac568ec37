"""Questions on their way to a person and back: journaled by the round, so that nobody answers the same one twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from skillrun.people.form import UnclearAnswers, read_form, write_form
from skillrun.runtime.errors import StepFailed, Waiting
from skillrun.runtime.events import Answered, Asked
from skillrun.runtime.files import digest
from skillrun.runtime.run import Asking, Frame

RETRY, GO_ON, GIVE_UP = "retry", "go on without it", "stop here"
OWN_KEYS: Final = ("answer", "asked_at", "confidence", "comment")


async def put(
    frame: Frame, address: str, questions: list[dict[str, Any]], *, form: str | None = None, leave: bool = False
) -> list[dict[str, Any]]:
    """The records with their answers. Raises Waiting when nobody is there to answer.

    `leave`: nobody is asked in the terminal; the run ends and waits, with a `form` to fill in where there is one.
    """
    run = frame.run
    where = f"{address}@{frame.open.rounds}"
    fingerprint = digest(json.dumps(questions, sort_keys=True, ensure_ascii=False, default=str))
    asking = Asking(address.partition("/")[2], frame.open.name, tuple(questions))
    known = run.journal.find("answer", where, fingerprint)
    if known is not None:
        run.person.earlier(asking)
        answers: list[dict[str, Any]] = known["answers"]
        run.emit(Answered(where, frame.open.name, tuple(answers), replayed=True))
        return answers
    run.emit(Asked(where, frame.open.name, tuple(questions)))
    given = await _given(frame, asking, form, leave=leave)
    answers = [_answered(question, one) for question, one in zip(questions, given, strict=True)]
    await run.journal.record("answer", where, fingerprint, {"answers": answers})
    run.emit(Answered(where, frame.open.name, tuple(answers), replayed=False))
    return answers


async def _given(frame: Frame, asking: Asking, form: str | None, *, leave: bool) -> list[dict[str, Any]]:
    """An answer for each question: from the form, prepared, from the person, or by default."""
    path = frame.run.folder.resolve(form) if form is not None else None
    if path is not None and path.is_file():
        try:
            return read_form(path, asking.questions)
        except UnclearAnswers as unclear:
            raise Waiting(unclear.message, unclear.next_step) from None
    given = await frame.run.person.ask(asking, now=path is None and not leave)
    if given is not None:
        return given
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_form(path, asking.questions)
        raise Waiting(f"questions are waiting in {form}", f"fill in {path}, then resume")
    raise Waiting(
        f"{asking.phase} has a question: {asking.questions[0]['text']}",
        "answer it with `--answers FILE`" if leave else "resume in a terminal, or give `--answers FILE`",
    )


def _answered(question: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    record = {**question, "asked_at": datetime.now(UTC).isoformat(timespec="seconds")}
    return record | {key: value for key, value in given.items() if key in OWN_KEYS and value not in (None, "")}


async def offer_retry(frame: Frame, address: str, reason: str, *, can_go_on: bool) -> bool:
    """Whether the person wants another try. Unattended runs do not."""
    if not frame.run.person.attended:
        return False
    choices = [RETRY, GO_ON if can_go_on else GIVE_UP]
    question = {"id": "retry", "text": reason, "choices": choices, "default": choices[1], "round": frame.open.round}
    answers = await put(frame, address, [question])
    if answers[0].get("answer") == GIVE_UP:
        raise StepFailed(reason, address)
    return bool(answers[0].get("answer") == RETRY)
