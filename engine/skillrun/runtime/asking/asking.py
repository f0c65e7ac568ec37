"""Questions on their way to a person and back: journaled by the round, so that nobody answers the same one twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from types import MappingProxyType
from typing import Any, Final, NotRequired, TypedDict, cast

from skillrun.definitions.verbs import WAYS
from skillrun.events import Answered, Asked
from skillrun.questions.answers import (
    GENERATED,
    PERSON,
    Answer,
    Question,
    QuestionRecord,
    answered,
    choices_of,
    notes_of,
    on_one_line,
    with_more,
)
from skillrun.questions.form import UnclearAnswers, write_form
from skillrun.questions.prepared_answers import PreparedUnfit, own_name
from skillrun.questions.responder import Questions
from skillrun.questions.terminal import Kept, UnfinishedAnswers
from skillrun.runtime.asking.forms import (
    FormState,
    form_state,
    phrases_of,
    question_record,
    revised_answers,
    unchanged_answers,
)
from skillrun.runtime.breakers import Limit
from skillrun.runtime.errors import StoppedByPerson
from skillrun.runtime.estimate_updates import tell_choice
from skillrun.runtime.frame import Frame
from skillrun.store.clock import moment
from skillrun.store.errors import Waiting
from skillrun.store.files import sha256_of
from skillrun.store.inbox import Inbox
from skillrun.store.journal_bodies import AnswerBody
from skillrun.store.next_step import RESUME_RUN, NextStep, Resume

RETRY, GO_ON, GIVE_UP = "retry", "go on without it", "stop here"
ANSWERS: Final = "answers.yaml"  # what a file of prepared answers is called in a hint
KEPT: Final[tuple[Kept, ...]] = ("sure", "typed", "times")  # beside the answers, while a list is being answered
MOST_NAMED: Final = 3  # of the questions that wait, in a hint


class AskResult(TypedDict):
    """What asking gives a step: the records, the notes of a form, and whether the person has had enough."""

    answers: list[QuestionRecord]
    notes: NotRequired[str]
    enough: NotRequired[bool]


@dataclass(frozen=True)
class GivenAnswers:
    """What was answered: a record for each question, and the notes of a form that belong to none of them."""

    answers: Sequence[Answer]
    notes: str = ""
    form: FormState | None = None


async def put_questions(  # noqa: PLR0913 (options of one list)
    frame: Frame,
    address: str,
    questions: list[Question],
    *,
    form: str | None = None,
    leave: bool = False,
    computed: bool = False,
    offered: bool = False,
    enough: str = "",
    is_required: bool = False,
) -> AskResult:
    """`answers`, the records with their answers, and the `notes` of a form. Raises Waiting when nobody is there.

    `leave`: nobody is asked in the terminal; the run ends and waits, with a `form` to fill in where there is one.
    `computed`: the words are not the workflow's own, or not all of them.
    `enough`: the words with which the person ends the list; what is left of it stays open.
    `is_required`: each question without `default` and `skip` needs an answer; whatever the person writes is one.
    `offered`: an unattended run does without, and without records, unless an answer is prepared.
    """
    run, person = frame.run, frame.run.session.person
    where = f"{address}@{frame.open.rounds}"
    fingerprint = sha256_of(json.dumps(questions, sort_keys=True, ensure_ascii=False, default=str))
    asking = Questions(
        address.partition("/")[2],
        frame.open.title,
        tuple(questions),
        computed,
        may_skip=form is not None,
        is_required=is_required,
        enough=enough,
    )
    known = cast("AnswerBody | None", run.journal.find("answer", where, fingerprint))
    if known is not None:
        person.earlier(asking)
        try:
            known = await _brought_up_to_date(frame, asking, known, where, fingerprint)
        except PreparedUnfit as unfit:
            raise unfit_error(unfit) from None
        read = partial(question_record, phrases=phrases_of(run), is_required=is_required)
        person.came_late(asking, known["answers"], read)
        run.emit(Answered(where, frame.open.name, tuple(known["answers"]), replayed=True))
        return _result(frame, known)
    if offered and not person.attended and not person.prepares(asking):
        return {"answers": []}
    run.emit(Asked(where, frame.open.name, tuple(questions), computed, fingerprint, form is not None, enough))
    asking, times = _kept_on_the_way(frame, asking, where, fingerprint)
    before = dict(asking.left.given)
    try:
        given = await _left_or_given(frame, asking, form, where, fingerprint, leave=leave)
    except PreparedUnfit as unfit:
        raise unfit_error(unfit) from None
    if given.form is not None:  # what the form leaves open may have been answered in the terminal, before a pause
        answers = [answer or answered(before.get(str(at))) for at, answer in enumerate(given.answers)]
        given = replace(given, answers=answers)
    given = replace(given, answers=[_timed(times, at, answer) for at, answer in enumerate(given.answers)])
    body = _body(frame, asking, given, form)
    await run.journal.record("answer", where, fingerprint, dict(body))
    run.emit(Answered(where, frame.open.name, tuple(body["answers"]), replayed=False))
    tell_choice(run, frame.open.name, body["answers"])
    return _result(frame, body)


def _result(frame: Frame, body: AnswerBody) -> AskResult:
    """What the step gives; answers of a form are among `run.answers` from here on."""
    if body.get("form"):
        frame.names["run"]["answers"].extend(body["answers"])
    result: AskResult = {"answers": body["answers"]}
    if body.get("notes"):
        result["notes"] = body["notes"]
    if body.get("enough"):
        result["enough"] = True
    return result


def _body(frame: Frame, asking: Questions, given: GivenAnswers, form: str | None) -> AnswerBody:
    """What the journal keeps of the answers."""
    phrases = phrases_of(frame.run)
    answers = [
        question_record(question, answer, phrases, is_required=asking.is_required)
        for question, answer in zip(asking.questions, given.answers, strict=True)
    ]
    body: AnswerBody = {"answers": answers}
    if any(answer.get("ended") for answer in given.answers):
        body["enough"] = True
    if given.notes:
        body["notes"] = given.notes
    if form is not None:
        body["form"] = (given.form or FormState(frame.run.store.ledger.name(form))).to_dict()
    return body


async def _brought_up_to_date(
    frame: Frame, asking: Questions, known: AnswerBody, where: str, fingerprint: str
) -> AnswerBody:
    """The answers with what the person has changed in the form since it was read, while the phase is open."""
    if not known.get("form"):
        return known
    body, doubtful = revised_answers(frame.run, known, asking.questions, over=False)
    if doubtful is not None:
        assert doubtful.unclear is not None
        same = unchanged_answers(known, doubtful)
        left = doubtful.unclear.besides(same)
        given = await _asked_again(frame, asking, replace(doubtful, unclear=left), same)
        if given is None:
            raise await paused(frame, left.message, left.next_step)
        body = _body(frame, asking, given, doubtful.name)
        new = [record for at, record in enumerate(body["answers"]) if at not in same]
        frame.run.emit(Answered(where, frame.open.name, tuple(new), replayed=False))
    if body is None:
        return known
    await frame.run.journal.record("answer", where, fingerprint, dict(body))
    return body


def _kept_on_the_way(
    frame: Frame, asking: Questions, where: str, fingerprint: str
) -> tuple[Questions, Mapping[str, object]]:
    """The same, with what the person answered before they paused, and when: each answer is on record as soon as it is
    given, and so is what was typed and not sent."""
    journal, address = frame.run.journal, f"{where}/given"
    note = journal.find("note", address, fingerprint) or {}
    kept = {name: dict(values) if isinstance(values := note.get(name), dict) else {} for name in ("given", *KEPT)}

    async def keep(what: Kept, number: str, value: Any) -> None:
        kept[what][number] = value
        if what == "given":
            kept["times"][number] = moment()
        await journal.record(
            "note", address, fingerprint, {name: dict(values) for name, values in kept.items() if values}
        )

    left = UnfinishedAnswers(kept["given"], _texts(kept["sure"]), _texts(kept["typed"]))
    return replace(asking, left=left, keep=keep), kept["times"]


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in values.items() if isinstance(text, str)}


def _timed(times: Mapping[str, object], at: int, answer: Answer) -> Answer:
    """An answer with when it was given, where it is not the last of its list."""
    own = answer.get("answered_by", PERSON) == PERSON and answer.get("answer") not in (None, "", [])
    time = times.get(str(at))
    return {**answer, "asked_at": time} if own and isinstance(time, str) else answer


async def _left_or_given(
    frame: Frame, asking: Questions, form: str | None, where: str, fingerprint: str, *, leave: bool
) -> GivenAnswers:
    """The answers that somebody leaves in the run's inbox, also while they are asked for here; or else those given."""
    inbox = Inbox(frame.run.store.files)
    given = await inbox.unless_left(where, fingerprint, lambda: _given(frame, asking, form, leave=leave))
    if given is not None:
        return given
    answers = inbox.answers(where, fingerprint, asking.questions)
    frame.run.session.person.earlier(asking)
    name = frame.run.store.ledger.name(form) if form is not None else None
    return GivenAnswers(answers, form=form_state(frame.run, name, asking.questions) if name is not None else None)


async def _given(frame: Frame, asking: Questions, form: str | None, *, leave: bool) -> GivenAnswers:
    """An answer for each question: from the form, prepared, from the person, or by default."""
    store = frame.run.store
    name = store.ledger.name(form) if form is not None else None
    form_read = form_state(frame.run, name, asking.questions) if name is not None else None
    if form_read is not None:
        if form_read.unclear is None:
            return GivenAnswers(form_read.filled.answers, form_read.filled.notes, form_read)
        again = await _asked_again(frame, asking, form_read)
        if again is None:
            raise await paused(frame, form_read.unclear.message, form_read.unclear.next_step)
        return again
    begun = asking.left.begun  # in the terminal, which goes on with the next one
    given = await frame.run.session.person.ask(asking, now=begun or (name is None and not leave))
    if given is not None:
        return GivenAnswers(given)
    if name is not None:
        write_form(store.files, name, asking.questions)
        await frame.run.journal.record("note", f"{name}/form", "", {"form": name})
        raise await paused(frame, f"questions are waiting in {form}", f"fill in {store.place(name)}")
    first = asking.questions[0]
    worded = f" ({GENERATED})" if asking.computed else ""
    reason = f"{asking.phase} has a question{worded}: {first['text']}{_choices(first)}"
    if leave:
        raise await paused(frame, reason, _how_to_answer(frame, asking))
    how = _how_to_answer(frame, asking)
    if frame.run.session.person.attended:
        raise Waiting(reason, NextStep.of(how, ", or in a terminal ", RESUME_RUN))
    raise Waiting(reason, NextStep.of(how, ", or leave `--unattended` out in a terminal"))


def _how_to_answer(frame: Frame, asking: Questions) -> NextStep:
    """What to put into a file of prepared answers, and what to type then."""
    lines, questions = [], asking.questions
    for question in questions[:MOST_NAMED]:
        first, *others = [*map(on_one_line, choices_of(question)), "…"]
        others = [choice for choice in others if choice != "…"]
        lines.append(f"`{own_name(asking.key, question)}: {first}`" + (f" (or: {', '.join(others)})" if others else ""))
    lines += [f"{len(questions) - MOST_NAMED} more"] if len(questions) > MOST_NAMED else []
    file = frame.run.session.person.typed.get("--answers", ANSWERS)
    return NextStep.of(f"put {' and '.join(lines)} into {file} and type ", Resume(f"--answers {file}"))


def unfit_error(unfit: PreparedUnfit) -> Waiting:
    """The end of the process at a prepared answer that its question does not take: the question stays open."""
    first = f"{unfit.next_step}; " if unfit.next_step else ""
    again = Resume(f"--answers {quote(unfit.path)}")
    return Waiting(unfit.message, NextStep.of(first, "mend it there, and type ", again))


def _choices(question: Question) -> str:
    """What may be answered, for who is not shown the choices."""
    choices = choices_of(question)
    return f" ({', '.join(map(on_one_line, choices))})" if choices else ""


async def paused(frame: Frame, reason: str, next_step: str | NextStep) -> Waiting:
    """The end of the process until the person has done something outside; that it was here is on record."""
    phase = frame.open
    if frame.run.journal.find("note", phase.pause_address, "") is None:
        await frame.run.journal.record("note", phase.pause_address, "", {"reason": reason})
    return Waiting(reason, NextStep.of(next_step), "exit")


async def _asked_again(
    frame: Frame, asking: Questions, form: FormState, before: Mapping[int, QuestionRecord] = MappingProxyType({})
) -> GivenAnswers | None:
    """The answers of a form with those that are not plain prepared or asked about; None where nobody answers now.

    The words that stand in the form stay in the record, and so do the answers of `before`, by their place.
    """
    person, unclear = frame.run.session.person, form.unclear
    assert unclear is not None
    if unclear.untouched:
        given = await person.ask(asking, now=False)
        return None if given is None else GivenAnswers(given, "", form)
    if not person.attended:
        return None
    left = {
        number: with_more(asking.questions[number], notes=[*notes_of(asking.questions[number]), *why])
        for number, why in enumerate(unclear.why)
        if why
    }
    given = await person.ask(replace(asking, questions=tuple(left.values()), left=UnfinishedAnswers(), keep=None))
    if given is None:
        return None
    mended = {number: _beside(answer, unclear, number) for number, answer in zip(left, given, strict=True)}
    answers = [mended.get(number, before.get(number, answer)) for number, answer in enumerate(unclear.answers)]
    return GivenAnswers(answers, unclear.notes, form)


def _beside(answer: Answer, unclear: UnclearAnswers, number: int) -> Answer:
    """An answer with what was written in the form."""
    words = unclear.written[number] if number < len(unclear.written) else ""
    comment = "\n".join(filter(None, [answer.get("comment", ""), words]))
    return {**answer, "comment": comment} if comment else answer


async def offer_retry(frame: Frame, where: str, reason: str, limit: Limit, *, can_go_on: bool) -> bool:
    """Whether the person wants another try, asked in the breaker's words where it has some; an unattended run does not,
    unless it is prepared.

    Raises StoppedByPerson. What was decided before the run has failed does not count when it is resumed.
    """
    phase = frame.open
    number = max(phase.attempts.tries.get(where, 0), phase.forgiven(where)) + 1
    ways = _ways(limit, can_go_on=can_go_on)
    default = next((words for words, way in ways.items() if way == (GO_ON if can_go_on else GIVE_UP)), [*ways][-1])
    question: Question = {"id": "retry", "text": reason, "choices": [*ways], "default": default, "once": True}
    question["round"] = phase.round
    if limit.ask:
        question["text"], question["notes"] = limit.ask, [reason]
    if limit.choices:
        named = dict(zip((RETRY, GO_ON, GIVE_UP), WAYS, strict=True))
        question["means"] = {name: words for words, way in ways.items() for name in (way, named[way])}
    asked = await put_questions(frame, f"{where}.retry-{number}", [question], computed=not limit.ask, offered=True)
    answers = asked["answers"]
    answer = ways.get(str(answers[0].get("answer")), GO_ON) if answers else GO_ON
    if answer != GO_ON:
        phase.attempts.tries[where] = number
    if answer == GIVE_UP:
        raise StoppedByPerson(f"stopped here: {reason}")
    return bool(answer == RETRY)


def _ways(limit: Limit, *, can_go_on: bool) -> dict[str, str]:
    """What may be chosen, by its words. Where nothing stands in for what failed, nobody can go on without it."""
    usual = dict(zip(WAYS, (RETRY, GO_ON, GIVE_UP), strict=True))
    words = limit.choices or {"retry": RETRY, **({"go_on": GO_ON} if can_go_on else {"stop": GIVE_UP})}
    ways = {words[way]: usual[way] for way in words if way in usual and (can_go_on or way != "go_on")}
    if not can_go_on and GIVE_UP not in ways.values():
        ways[GIVE_UP] = GIVE_UP
    return ways if len(ways) > 1 else {RETRY: RETRY, **ways}
