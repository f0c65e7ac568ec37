"""Questions on their way to a person and back: journaled by the round, so that nobody answers the same one twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from shlex import quote
from typing import Any, Final

from skillrun.people.answers import PERSON, choices_of, notes_of, shown
from skillrun.people.form import UnclearAnswers, read_form, write_form
from skillrun.people.person import Asking
from skillrun.people.prepared import PreparedUnfit
from skillrun.runtime.errors import StoppedByPerson, Waiting
from skillrun.runtime.events import Answered, Asked
from skillrun.runtime.files import digest, folder_mode
from skillrun.runtime.run import Frame

RETRY, GO_ON, GIVE_UP = "retry", "go on without it", "stop here"
ANSWERS: Final = "answers.yaml"  # what a file of prepared answers is called in a hint
MOST_NAMED: Final = 3  # of the questions that wait, in a hint
OWN_KEYS: Final = ("answer", "answered_by", "asked_at", "confidence", "comment")


async def put(
    frame: Frame,
    address: str,
    questions: list[dict[str, Any]],
    *,
    form: str | None = None,
    leave: bool = False,
    computed: bool = False,
    offered: bool = False,
) -> list[dict[str, Any]]:
    """The records with their answers. Raises Waiting when nobody is there to answer.

    `leave`: nobody is asked in the terminal; the run ends and waits, with a `form` to fill in where there is one.
    `computed`: the words are not the workflow's own, or not all of them.
    `offered`: an unattended run does without, and without records, unless an answer is prepared.
    """
    run = frame.run
    person = run.session.person
    where = f"{address}@{frame.open.rounds}"
    fingerprint = digest(json.dumps(questions, sort_keys=True, ensure_ascii=False, default=str))
    asking = Asking(address.partition("/")[2], frame.open.title, tuple(questions), computed)
    known = run.journal.find("answer", where, fingerprint)
    if known is not None:
        person.earlier(asking)
        answers: list[dict[str, Any]] = known["answers"]
        run.emit(Answered(where, frame.open.name, tuple(answers), replayed=True))
        return answers
    if offered and not person.attended and not person.prepares(asking):
        return []
    run.emit(Asked(where, frame.open.name, tuple(questions), computed))
    try:
        given = await _given(frame, asking, form, leave=leave)
    except PreparedUnfit as unfit:
        raise unfitting(unfit) from None
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
        raise await paused(frame, reason, _how_to_answer(asking.questions))
    raise Waiting(
        reason, f"{_how_to_answer(asking.questions)}, or come to a terminal and go on with `skillrun resume RUN`"
    )


def _how_to_answer(questions: Sequence[Mapping[str, Any]]) -> str:
    """What to put into a file of prepared answers, and what to type then."""
    lines = []
    for question in questions[:MOST_NAMED]:
        first, *others = [*map(shown, choices_of(question)), "…"]
        others = [one for one in others if one != "…"]
        lines.append(f"`{question['id']}: {first}`" + (f" (or: {', '.join(others)})" if others else ""))
    lines += [f"{len(questions) - MOST_NAMED} more"] if len(questions) > MOST_NAMED else []
    return f"put {' and '.join(lines)} into {ANSWERS} and type `skillrun resume RUN --answers {ANSWERS}`"


def unfitting(unfit: PreparedUnfit) -> Waiting:
    """The end of the process at a prepared answer that its question does not take: the question stays open."""
    way = f"mend it there, and type `skillrun resume RUN --answers {quote(unfit.path)}`"
    return Waiting(unfit.message, f"{unfit.next_step}; {way}".removeprefix("; "))


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


async def offer_retry(frame: Frame, where: str, reason: str, *, can_go_on: bool) -> bool:
    """Whether the person wants another try; an unattended run does not, unless it is prepared.

    Raises StoppedByPerson. What was decided before the run has failed does not count when it is resumed.
    """
    phase = frame.open
    number = max(phase.tries.get(where, 0), phase.forgiven(where)) + 1
    choices = [RETRY, GO_ON if can_go_on else GIVE_UP]
    question = {"id": "retry", "text": reason, "choices": choices, "default": choices[1], "once": True}
    question["round"] = phase.round
    answers = await put(frame, f"{where}.retry-{number}", [question], computed=True, offered=True)
    answer = answers[0].get("answer") if answers else GO_ON
    if answer != GO_ON:
        phase.tries[where] = number
    if answer == GIVE_UP:
        raise StoppedByPerson(f"stopped here: {reason}")
    return bool(answer == RETRY)
