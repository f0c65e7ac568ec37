"""Questions on their way to a person and back: journaled by the round, so that nobody answers the same one twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from skillrun.people.answers import PERSON, choices_of, notes_of, shown
from skillrun.people.form import UnclearAnswers, read_form, write_form
from skillrun.people.person import Asking
from skillrun.runtime.errors import StepFailed, Waiting
from skillrun.runtime.events import Answered, Asked
from skillrun.runtime.files import digest, folder_mode
from skillrun.runtime.run import Frame

RETRY, GO_ON, GIVE_UP = "retry", "go on without it", "stop here"
OWN_KEYS: Final = ("answer", "answered_by", "asked_at", "confidence", "comment")


async def put(
    frame: Frame,
    address: str,
    questions: list[dict[str, Any]],
    *,
    form: str | None = None,
    leave: bool = False,
    computed: bool = False,
) -> list[dict[str, Any]]:
    """The records with their answers. Raises Waiting when nobody is there to answer.

    `leave`: nobody is asked in the terminal; the run ends and waits, with a `form` to fill in where there is one.
    `computed`: the words are not the workflow's own, or not all of them.
    """
    run = frame.run
    where = f"{address}@{frame.open.rounds}"
    fingerprint = digest(json.dumps(questions, sort_keys=True, ensure_ascii=False, default=str))
    asking = Asking(address.partition("/")[2], frame.open.name, tuple(questions), computed)
    known = run.journal.find("answer", where, fingerprint)
    if known is not None:
        run.session.person.earlier(asking)
        answers: list[dict[str, Any]] = known["answers"]
        run.emit(Answered(where, frame.open.name, tuple(answers), replayed=True))
        return answers
    run.emit(Asked(where, frame.open.name, tuple(questions), computed))
    given = await _given(frame, asking, form, leave=leave)
    answers = [_answered(question, one) for question, one in zip(questions, given, strict=True)]
    await run.journal.record("answer", where, fingerprint, {"answers": answers})
    run.emit(Answered(where, frame.open.name, tuple(answers), replayed=False))
    return answers


async def _given(frame: Frame, asking: Asking, form: str | None, *, leave: bool) -> list[dict[str, Any]]:
    """An answer for each question: from the form, prepared, from the person, or by default."""
    folder = frame.run.folder
    name = folder.name(form) if form is not None else None
    if name is not None and folder.tree.known(name) is not None:
        try:
            return read_form(folder.tree, name, asking.questions)
        except UnclearAnswers as unclear:
            found = await _asked_again(frame, asking, unclear)
            if found is None:
                raise await paused(frame, unclear.message, unclear.next_step) from None
            return found
    given = await frame.run.session.person.ask(asking, now=name is None and not leave)
    if given is not None:
        return given
    if name is not None:
        write_form(folder.tree, name, asking.questions, mode=folder_mode(shared=folder.shared))
        raise await paused(frame, f"questions are waiting in {form}", f"fill in {folder.path / name}")
    reason = f"{asking.phase} has a question: {asking.questions[0]['text']}"
    if leave:
        raise await paused(frame, reason, "prepare the answer for `--answers FILE`")
    first = asking.questions[0]
    example = next(iter(choices_of(first)), "…")
    raise Waiting(
        reason, f"come to a terminal, or put `{first['id']}: {shown(example)}` into a file for `--answers FILE`"
    )


async def paused(frame: Frame, reason: str, next_step: str) -> Waiting:
    """The end of the process until the person has done something outside; that it was here is on record."""
    phase = frame.open
    if frame.run.journal.find("note", phase.pause_address, "") is None:
        await frame.run.journal.record("note", phase.pause_address, "", {"reason": reason})
    return Waiting(reason, next_step, "exit")


async def _asked_again(frame: Frame, asking: Asking, unclear: UnclearAnswers) -> list[dict[str, Any]] | None:
    """The answers of a form with those that are not plain prepared or asked about; None where nobody answers now."""
    person = frame.run.session.person
    if unclear.untouched:
        return await person.ask(asking, now=False)
    if not person.attended:
        return None
    left = {
        number: {**asking.questions[number], "notes": [*notes_of(asking.questions[number]), *why]}
        for number, why in enumerate(unclear.why)
        if why
    }
    given = await person.ask(replace(asking, questions=tuple(left.values())))
    if given is None:
        return None
    mended = dict(zip(left, given, strict=True))
    return [mended.get(number, answer) for number, answer in enumerate(unclear.answers)]


def _answered(question: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a question with its answer, and who gave it."""
    record = {**question, "asked_at": datetime.now(UTC).isoformat(timespec="seconds")}
    if given.get("answer") not in (None, ""):
        given = {"answered_by": PERSON, **given}
    return record | {key: value for key, value in given.items() if key in OWN_KEYS and value not in (None, "")}


async def offer_retry(frame: Frame, address: str, reason: str, *, can_go_on: bool) -> bool:
    """Whether the person wants another try. Unattended runs do not."""
    if not frame.run.session.person.attended:
        return False
    choices = [RETRY, GO_ON if can_go_on else GIVE_UP]
    question = {"id": "retry", "text": reason, "choices": choices, "default": choices[1], "once": True}
    question["round"] = frame.open.round
    answers = await put(frame, address, [question], computed=True)
    if answers[0].get("answer") == GIVE_UP:
        raise StepFailed(reason, address)
    return bool(answers[0].get("answer") == RETRY)
