"""Asks the user questions, and journals the answers by round, so that no question is answered twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from types import MappingProxyType
from typing import Any, Final, cast

from skillrun.definitions.verbs import BREAKER_CHOICES
from skillrun.events import Answered, Asked
from skillrun.questions.answers import (
    GENERATED_NOTE,
    PERSON,
    Answer,
    Question,
    QuestionRecord,
    build_answer,
    choices_of,
    notes_of,
    to_one_line,
    with_fields,
)
from skillrun.questions.form import write_form
from skillrun.questions.prepared_answers import InvalidPreparedAnswer, answer_names
from skillrun.questions.responder import QuestionSet
from skillrun.questions.terminal import NO_PROGRESS, ProgressKind, saved_answer
from skillrun.replay import ASKS, Body, fingerprint_questions, round_address
from skillrun.runtime.asking.forms import (
    FormState,
    answer_phrases,
    build_question_record,
    read_form_state,
    revise_answers,
    unchanged_answers,
)
from skillrun.runtime.errors import StepFailed, StoppedByUser
from skillrun.runtime.estimate_updates import emit_choice_estimate
from skillrun.runtime.frame import Frame
from skillrun.runtime.phase_record import BreakerSettings
from skillrun.store.artifacts import normalize_artifact_name
from skillrun.store.event_lines import utc_timestamp
from skillrun.store.inbox import AnswerInbox, progress_address, read_progress
from skillrun.store.journal_bodies import AnswerBody
from skillrun.store.outcome import RESUME_RUN, NextStep, ResumeCommand, WaitingForUser
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quote_value
from skillrun.types.types import identifier

RETRY, CONTINUE_WITHOUT, STOP = "retry", "go on without it", "stop here"
ANSWERS: Final = "answers.yaml"  # the file that a hint names, unless the user has chosen another
MOST_NAMED: Final = 3  # open questions named in a hint


@dataclass(frozen=True)
class QuestionRequest:
    """The questions of a step, and the address and the fingerprint of their answers in the journal.

    `form` is the name of the file that the user fills in. `pause` means that the terminal is not used.
    """

    frame: Frame
    question_set: QuestionSet
    form: str | None
    pause: bool
    address: str
    fingerprint: str


@dataclass(frozen=True)
class CollectedAnswers:
    """An answer for each question. `notes` is the text in a form that is not an answer to any question."""

    answers: Sequence[Answer]
    notes: str = ""
    form: FormState | None = None


async def ask_questions(  # noqa: PLR0913 (options of one list of questions)
    frame: Frame,
    address: str,
    questions: list[Question],
    *,
    form: str | None = None,
    pause: bool = False,
    computed: bool = False,
    is_optional: bool = False,
    enough: str = "",
    is_required: bool = False,
) -> dict[str, Any]:
    """Ask the questions, and return the result of the step. Raises WaitingForUser.

    The result has the question records as `answers`, the `notes` of a form, and `enough` if the user left questions
    open.

    `form`: the file that the user fills in instead of answering in the terminal.
    `pause`: do not ask in the terminal; end the process, and wait until the user resumes the run.
    `computed`: some text of the questions was generated, so it is not literally in the workflow.
    `enough`: a user who gives this answer ends the list; the remaining questions stay open.
    `is_required`: a question that has neither `default` nor `skip` needs an answer; any text counts as an answer.
    `is_optional`: an unattended run without a prepared answer continues and gets no records.
    """
    run, person = frame.run, frame.run.services.responder
    where, fingerprint = round_address(address, frame.phase.round_path), fingerprint_questions(questions)
    question_set = QuestionSet(
        where.partition("/")[2],
        frame.phase.title,
        tuple(questions),
        computed,
        may_skip=form is not None,
        is_required=is_required,
        enough=enough,
    )
    name = normalize_artifact_name(form) if form is not None else None
    if name is not None:
        frame.claim_file(address, name)
    request = QuestionRequest(frame, question_set, name, pause, where, fingerprint)
    is_skipped = (
        is_optional and not person.attended and not person.prepared.has_unused_answers(question_set.key, questions)
    )
    if is_skipped and run.replay.find(ASKS, where, fingerprint) is None:
        return {"answers": []}
    try:
        result = await run.replay.once(ASKS, where, fingerprint, partial(_ask, request))
        body = result.body
        if result.is_replayed:
            person.prepared.skip(question_set.key, questions)
            body = await _apply_form_edits(request, cast(AnswerBody, body))
    except InvalidPreparedAnswer as unfit:
        raise pause_for_invalid_answer(unfit) from None
    if result.is_replayed:
        read = partial(build_question_record, phrases=answer_phrases(run), is_required=is_required)
        person.prepared.note_late_answers(question_set.key, questions, body["answers"], read)
    run.emit(Answered(where, frame.phase.name, tuple(body["answers"]), replayed=result.is_replayed))
    if not result.is_replayed:
        ids = (identifier(str(answer["id"])) for answer in body["answers"])
        if any(run.program.reads_name(f"run.estimate.answers.{name}") for name in ids):
            await run.load_estimate()
        emit_choice_estimate(run, frame.phase.name, body["answers"])
    if body.get("form"):
        frame.names["run"]["answers"].extend(body["answers"])
    return {"answers": body["answers"], **{key: body[key] for key in ("notes", "enough") if body.get(key)}}


async def _ask(request: QuestionRequest) -> Body:
    """Ask the user, and return the journal body of the answers. Raises WaitingForUser.

    Answers that arrive in the run's inbox meanwhile are returned instead.
    """
    run, question_set, form = request.frame.run, request.question_set, request.form
    if form is not None and run.store.artifacts.has_written(form):
        why = f"the form {quote_value(form)} is an artifact that the run wrote, so it cannot take a user's answers"
        raise StepFailed(why, request.address)
    run.emit(
        Asked(
            request.address,
            request.frame.phase.name,
            question_set.questions,
            question_set.computed,
            request.fingerprint,
            question_set.may_skip,
            question_set.enough,
        )
    )
    question_set, times = _with_saved_progress(request)
    saved_answers = dict(question_set.unfinished["given"])
    inbox = AnswerInbox(run.store.files)
    collect = partial(_collect_answers, replace(request, question_set=question_set))
    given = await inbox.run_until_arrival(request.address, request.fingerprint, collect)
    if given is None:
        arrived = inbox.answers(request.address, request.fingerprint, question_set.questions)
        run.services.responder.prepared.skip(question_set.key, question_set.questions)
        given = CollectedAnswers(arrived, form=await _read_form(request))
    answers = list(given.answers)
    if given.form is not None:  # where the form has no answer, use the one given in the terminal before a pause
        answers = [answer or build_answer(saved_answers.get(str(at))) for at, answer in enumerate(answers)]
    for at, answer in enumerate(answers):  # the user may have given it before a pause
        own = answer.get("answered_by", PERSON) == PERSON and answer.get("answer") not in (None, "", [])
        time = times.get(str(at))
        if own and isinstance(time, str):
            answers[at] = {**answer, "asked_at": time}
    body = _answer_body(request, replace(given, answers=answers))
    read = partial(build_question_record, phrases=answer_phrases(run), is_required=question_set.is_required)
    for at, (question, record) in enumerate(zip(question_set.questions, body["answers"], strict=True)):
        if saved_answer(question_set.unfinished, str(at)):
            run.services.responder.prepared.note_late_answers(question_set.key, [question], [record], read)
    return dict(body)


def _answer_body(request: QuestionRequest, given: CollectedAnswers) -> AnswerBody:
    """Return the journal body with the records of the questions and the answers given."""
    phrases, question_set = answer_phrases(request.frame.run), request.question_set
    answers = [
        build_question_record(question, answer, phrases, is_required=question_set.is_required)
        for question, answer in zip(question_set.questions, given.answers, strict=True)
    ]
    body: AnswerBody = {"answers": answers}
    if any(answer.get("ended") for answer in given.answers):
        body["enough"] = True
    if given.notes:
        body["notes"] = given.notes
    if request.form is not None:
        body["form"] = (given.form or FormState(request.form)).to_dict()
    return body


async def _apply_form_edits(request: QuestionRequest, entry: AnswerBody) -> Body:
    """Apply the changes that the user has made to a form since it was read, and return the answers.

    Called while the phase is open. Raises WaitingForUser if a changed answer is unclear and the user cannot be asked.
    """
    run = request.frame.run
    if not entry.get("form"):
        return dict(entry)
    try:
        body, doubtful = revise_answers(run, entry, request.question_set.questions, is_phase_over=False)
    except SkillrunError as error:
        raise await record_pause(request.frame, error.message, error.next_step) from None
    if doubtful is not None:
        assert doubtful.unclear is not None
        same = unchanged_answers(entry, doubtful)
        left = doubtful.unclear.exclude(same)
        given = await _clarify_answers(request, replace(doubtful, unclear=left), same)
        if given is None:
            raise await record_pause(request.frame, left.message, left.next_step)
        body = _answer_body(replace(request, form=doubtful.name), given)
        new = [record for at, record in enumerate(body["answers"]) if at not in same]
        run.emit(Answered(request.address, request.frame.phase.name, tuple(new), replayed=False))
    if body is None:
        return dict(entry)
    await run.journal.record("answer", request.address, request.fingerprint, dict(body))
    return dict(body)


def _with_saved_progress(request: QuestionRequest) -> tuple[QuestionSet, Mapping[str, object]]:
    """Return the question set with the user's progress before the pause, and the times of the answers so far.

    The returned set saves each answer as soon as it is given, and also saves text that is entered but not submitted.
    """
    journal, address = request.frame.run.journal, progress_address(request.address)
    progress = read_progress(journal, request.address, request.fingerprint)

    async def keep(what: ProgressKind, number: str, value: Any) -> None:
        progress[what][number] = value
        if what == "given":
            progress["times"][number] = utc_timestamp()
        body: Body = {name: dict(values) for name, values in progress.items() if values}
        await journal.record("note", address, request.fingerprint, body)

    return replace(request.question_set, unfinished=dict(progress), save_progress=keep), progress["times"]


async def _read_form(request: QuestionRequest) -> FormState | None:
    """Return the state of the form, or None if the step has no form. Raises WaitingForUser if it cannot be read."""
    if request.form is None:
        return None
    try:
        return read_form_state(request.frame.run, request.form, request.question_set.questions)
    except SkillrunError as error:  # such as a form that was saved in another encoding
        raise await record_pause(request.frame, error.message, error.next_step) from None


async def _collect_answers(request: QuestionRequest) -> CollectedAnswers:
    """Return an answer for each question: from the form, from prepared answers, from the user, or the default."""
    frame, question_set, name = request.frame, request.question_set, request.form
    person, store = frame.run.services.responder, frame.run.store
    form = await _read_form(request)
    if form is not None:
        if form.unclear is None:
            return CollectedAnswers(form.filled.answers, form.filled.notes, form)
        again = await _clarify_answers(request, form)
        if again is None:
            raise await record_pause(frame, form.unclear.message, form.unclear.next_step)
        return again
    unfinished = question_set.unfinished
    begun = bool(unfinished["given"] or unfinished["typed"])  # the user has begun in the terminal, and continues there
    given = await person.ask(question_set, interactive=begun or (name is None and not request.pause))
    if given is not None:
        return CollectedAnswers(given)
    if name is not None:
        write_form(store.files, name, question_set.questions)
        await frame.run.journal.record("note", f"{name}/form", "", {"form": name})
        raise await record_pause(frame, f"questions are waiting in {name}", f"fill in {store.location(name)}")
    first = _open_questions(question_set)[0][0]
    choices = ", ".join(map(to_one_line, choices_of(first)))
    worded = f" ({GENERATED_NOTE})" if question_set.computed else ""
    reason = f"{question_set.phase} has a question{worded}: {first['text']}{f' ({choices})' if choices else ''}"
    how = _answer_hint(frame, question_set)
    if request.pause:
        raise await record_pause(frame, reason, how)
    if person.attended:
        raise WaitingForUser(reason, NextStep.of(how, ", or in a terminal ", RESUME_RUN))
    raise WaitingForUser(reason, NextStep.of(how, ", or use a terminal without `--unattended`"))


def _open_questions(question_set: QuestionSet) -> list[tuple[Question, str]]:
    """Return the questions that the user had not answered before a pause, each with its name in prepared answers."""
    named = zip(question_set.questions, answer_names(question_set.key, question_set.questions), strict=True)
    return [pair for at, pair in enumerate(named) if not saved_answer(question_set.unfinished, str(at))]


def _answer_hint(frame: Frame, question_set: QuestionSet) -> NextStep:
    """Return a hint: prepare the answers in a file, and resume."""
    lines, questions = [], _open_questions(question_set)
    for question, name in questions[:MOST_NAMED]:
        first, *others = [*map(to_one_line, choices_of(question)), "…"]
        others = [choice for choice in others if choice != "…"]
        lines.append(f"`{name}: {first}`" + (f" (or: {', '.join(others)})" if others else ""))
    lines += [f"{len(questions) - MOST_NAMED} more"] if len(questions) > MOST_NAMED else []
    file = frame.run.services.responder.resume_flags.get("--answers", ANSWERS)
    return NextStep.of(f"put {' and '.join(lines)} into {file} and run ", ResumeCommand(f"--answers {file}"))


def pause_for_invalid_answer(unfit: InvalidPreparedAnswer) -> WaitingForUser:
    """Return the error that leaves a question open because its prepared answer is not valid."""
    first = f"{unfit.next_step}; " if unfit.next_step else ""
    again = ResumeCommand(f"--answers {quote(unfit.path)}")
    return WaitingForUser(unfit.message, NextStep.of(first, "fix the answer in the file and run ", again))


async def record_pause(frame: Frame, reason: str, next_step: str | NextStep) -> WaitingForUser:
    """Journal that this phase waits for a user action outside of the run. Return the error to raise."""
    phase = frame.phase
    if frame.run.journal.find("note", phase.pause_address, "") is None:
        await frame.run.journal.record("note", phase.pause_address, "", {"reason": reason})
    return WaitingForUser(reason, NextStep.of(next_step), "exit")


async def _clarify_answers(
    request: QuestionRequest, form: FormState, settled: Mapping[int, QuestionRecord] = MappingProxyType({})
) -> CollectedAnswers | None:
    """Return the answers of a form after asking the user again about unclear answers; None if the user cannot be asked.

    The form's text about an unclear question is kept as a comment. `settled` maps positions of questions to records.
    These records replace the form's answers.
    """
    person, unclear, question_set = request.frame.run.services.responder, form.unclear, request.question_set
    assert unclear is not None
    if unclear.untouched:
        given = await person.ask(question_set, interactive=False)
        return None if given is None else CollectedAnswers(given, "", form)
    if not person.attended:
        return None
    open_questions = {
        number: with_fields(
            question_set.questions[number],
            notes=[*notes_of(question_set.questions[number]), *(why for _, why in reading.unclear)],
        )
        for number, reading in enumerate(unclear.readings)
        if reading.unclear
    }
    questions = tuple(open_questions.values())
    given = await person.ask(replace(question_set, questions=questions, unfinished=NO_PROGRESS, save_progress=None))
    if given is None:
        return None
    answers = [settled.get(number, reading.answer) for number, reading in enumerate(unclear.readings)]
    for number, answer in zip(open_questions, given, strict=True):
        comment = "\n".join(filter(None, [answer.get("comment", ""), unclear.readings[number].words]))
        answers[number] = {**answer, "comment": comment} if comment else answer
    return CollectedAnswers(answers, unclear.notes, form)


async def offer_retry(frame: Frame, address: str, reason: str, limit: BreakerSettings, *, can_continue: bool) -> bool:
    """Ask the user whether to retry, in the breaker's wording if it has one. Return the decision.

    An unattended run retries only if a prepared answer chooses a retry. If a failed run resumes, its earlier decisions
    do not count. Raises StoppedByUser.
    """
    phase = frame.phase
    number = max(phase.attempts.tries.get(address, 0), phase.voided_attempts(address)) + 1
    choices = _retry_choices(limit, can_continue=can_continue)
    default = next(
        (words for words, way in choices.items() if way == (CONTINUE_WITHOUT if can_continue else STOP)), [*choices][-1]
    )
    question: Question = {"id": "retry", "text": reason, "choices": [*choices], "default": default, "once": True}
    question["round"] = phase.round
    if limit.ask:
        question["text"], question["notes"] = limit.ask, [reason]
    if limit.choices:
        named = dict(zip((RETRY, CONTINUE_WITHOUT, STOP), BREAKER_CHOICES, strict=True))
        question["means"] = {name: words for words, way in choices.items() for name in (way, named[way])}
    result = await ask_questions(
        frame, f"{address}.retry-{number}", [question], computed=not limit.ask, is_optional=True
    )
    answers = result["answers"]
    answer = choices.get(str(answers[0].get("answer")), CONTINUE_WITHOUT) if answers else CONTINUE_WITHOUT
    if answer != CONTINUE_WITHOUT:
        phase.attempts.tries[address] = number
    if answer == STOP:
        raise StoppedByUser(f"stopped by the user: {reason}")
    return bool(answer == RETRY)


def _retry_choices(limit: BreakerSettings, *, can_continue: bool) -> dict[str, str]:
    """Return the actions that the user can choose, keyed by their wording.

    The action to continue without the result is included only if `can_continue`.
    """
    usual = dict(zip(BREAKER_CHOICES, (RETRY, CONTINUE_WITHOUT, STOP), strict=True))
    words = limit.choices or {"retry": RETRY, **({"go_on": CONTINUE_WITHOUT} if can_continue else {"stop": STOP})}
    ways = {words[way]: usual[way] for way in words if way in usual and (can_continue or way != "go_on")}
    if not can_continue and STOP not in ways.values():
        ways[STOP] = STOP
    return ways if len(ways) > 1 else {RETRY: RETRY, **ways}
