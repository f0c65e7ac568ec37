"""Forms while a run lives: what was read from one, and what a person has added or corrected there since.

What an answer's record in the journal has under `form` says how the file stood when it was read. Asks nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from skillrun.events import Notice
from skillrun.questions.answers import (
    PERSON,
    Answer,
    Question,
    QuestionRecord,
    build_answer,
    default_answer,
    default_of,
    needs_answer,
    with_fields,
)
from skillrun.questions.choice_matching import is_undecided
from skillrun.questions.form import FormAnswers, UnclearAnswers, read_form
from skillrun.questions.phrases import Phrases
from skillrun.runtime.run import PhaseRun, Run
from skillrun.store.artifact_names import is_artifact_name
from skillrun.store.clock import utc_timestamp
from skillrun.store.files import sha256_of
from skillrun.store.journal import JournalEntry
from skillrun.store.journal_bodies import AnswerBody, FormBody
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.sanitizing import sanitize
from skillrun.syntax.source import MAX_BYTES

OWN_KEYS: Final = ("answer", "answered_by", "asked_at", "confidence", "comment")


@dataclass(frozen=True)
class FormState:
    """How a form stands: the hash of the file, what each question has there, and why that is not plain."""

    name: str
    hash: str = ""
    filled: FormAnswers = field(default_factory=lambda: FormAnswers([]))
    why: Sequence[Sequence[str]] = ()
    unclear: UnclearAnswers | None = None

    def to_dict(self) -> FormBody:
        why = [list(reasons) for reasons in self.why]
        return {"name": self.name, "hash": self.hash, "read": self.filled.answers, "why": why}


def answer_phrases(run: Run) -> Phrases:
    """How people write answers, by the engine's own config."""
    config = run.program.library.config("skillrun")
    return Phrases.from_settings(config.data if config is not None else None)


def read_form_state(run: Run, name: str, questions: Sequence[Question]) -> FormState | None:
    """The form as it stands; None where there is none. Raises SkillrunError when the file cannot be read."""
    files = run.store.files
    if not files.has(name):
        return None
    at = sha256_of(files.read(name, MAX_BYTES))
    try:
        filled = read_form(files, name, questions, answer_phrases(run))
    except UnclearAnswers as unclear:
        why = unclear.reasons or [()] * len(questions)
        return FormState(name, at, FormAnswers(list(unclear.answers), unclear.notes), why, unclear)
    return FormState(name, at, filled, [()] * len(questions))


def build_question_record(
    question: Question, given: Answer, phrases: Phrases, *, is_required: bool = False
) -> QuestionRecord:
    """The record of a question with what was given, and who gave it; words that are no answer leave it open, or take
    its default, unless it needs an answer."""
    record = with_fields(question, asked_at=utc_timestamp())
    if not (is_required and needs_answer(question)):
        given = _drop_undecided_words(question, given, phrases)
    who = given.get("answered_by", PERSON) if given.get("answer") not in (None, "", []) else None
    more = {**given, "answered_by": who}.items()
    own = {key: value for key, value in more if key in OWN_KEYS and value not in (None, "")}
    return cast(QuestionRecord, {**record, **own})


def _drop_undecided_words(question: Question, given: Answer, phrases: Phrases) -> Answer:
    answer = given.get("answer")
    items = answer if isinstance(answer, list) else [answer]
    empty = [item for item in items if isinstance(item, str) and is_undecided(question, item, phrases)]
    if not empty or answer == default_of(question):
        return given
    comment = "\n".join(filter(None, [*empty, str(given.get("comment", ""))]))
    kept = [item for item in items if item not in empty]
    decided = build_answer(kept, comment=comment) if kept else {**default_answer(question), "comment": comment}
    rest = {key: value for key, value in given.items() if key != "answer"}
    return cast(Answer, rest | decided)


def revise_answers(
    run: Run, recorded: AnswerBody, questions: Sequence[Question], *, is_phase_over: bool
) -> tuple[AnswerBody | None, FormState | None]:
    """The journal's record of answers with what its form says differently now; None where nothing has changed.

    Also the reading where an answer that was changed is not plain; then the earlier ones hold when the phase is `over`.
    """
    before = recorded.get("form")
    name = before["name"] if before is not None else ""
    if before is None or not before["hash"] or not is_artifact_name(name) or len(before["read"]) != len(questions):
        return None, None
    now = read_form_state(run, name, questions)
    if now is None or now.hash == before["hash"]:
        return None, None
    same = unchanged_answers(recorded, now)
    changed = [at for at in range(len(questions)) if at not in same]
    unclear = now.unclear
    if unclear is not None and changed and (unclear.untouched or any(now.why[at] for at in changed)):
        if is_phase_over:
            text = f"{name} was changed after it was read, and the earlier answers hold, because it is not plain:"
            run.emit(Notice(f"{text}\n{unclear.message}", "warn"))
        return None, now
    answers, changes = list(recorded["answers"]), []
    phrases = answer_phrases(run)
    for at in changed:
        record = build_question_record(questions[at], now.filled.answers[at], phrases)
        changes.append(f"{questions[at]['id']} {_difference(answers[at], record)}")
        answers[at] = record
    notes = now.filled.notes
    changes += ["its notes"] if notes != recorded.get("notes", "") else []
    if changes:
        run.emit(Notice(f"{name} was changed after it was read: {', '.join(changes)}"))
    body: AnswerBody = {**recorded, "answers": answers, "form": now.to_dict()}
    if notes or "notes" in recorded:
        body["notes"] = notes
    return sanitize(body), None


def unchanged_answers(recorded: AnswerBody, now: FormState) -> dict[int, QuestionRecord]:
    """The recorded answers, by place, to the questions that stand in the form as they did when it was read."""
    before = recorded["form"]
    pairs = zip(before["read"], before["why"], now.filled.answers, now.why, strict=True)
    as_before = (
        at for at, (was, doubts, answer, why) in enumerate(pairs) if was == answer and list(doubts) == list(why)
    )
    return {at: recorded["answers"][at] for at in as_before}


def _difference(before: QuestionRecord, now: QuestionRecord) -> str:
    if "answer" not in now:
        return "open again" if "answer" in before else "has a comment"
    if "answer" not in before:
        return "new"
    return "changed" if before["answer"] != now["answer"] else "has a comment"


async def reread_forms(run: Run, done: Collection[str]) -> None:
    """Take over what was changed in the forms of phases that are over, for those to come; and say it."""
    for entry in _with_forms(run):
        phase, number = _place(entry)
        if number == run.state.round and phase not in done:
            continue  # it is evaluated again, and reads its form itself
        known = cast(AnswerBody, entry.body)
        try:
            body, _ = revise_answers(
                run, known, [_question_of(record) for record in known["answers"]], is_phase_over=True
            )
        except (SkillrunError, OSError) as error:
            run.emit(Notice(f"the earlier answers hold: {error}", "warn"))
            continue
        if body is not None:
            await run.journal.record("answer", entry.address, entry.fingerprint, dict(body))


def _question_of(record: QuestionRecord) -> Question:
    """The question of a record, as it was put."""
    return cast(Question, {key: value for key, value in record.items() if key not in OWN_KEYS})


def form_answers(run: Run, phase: PhaseRun | None, before: Collection[str]) -> list[QuestionRecord]:
    """What was answered in forms, as they stand: in earlier rounds, and in the phases `before` this one."""
    records = []
    for entry in _with_forms(run):
        name, number = _place(entry)
        if phase is None or number < phase.round or (number == phase.round and name in before):
            records += entry.body["answers"]
    return records


def _with_forms(run: Run) -> list[JournalEntry]:
    """The latest records of answers to questions that had a form, in the order in which they were first answered."""
    latest: dict[tuple[str, str], JournalEntry] = {}
    for entry in run.outermost.journal.entries("answer"):
        if entry.body.get("form") and entry.address.startswith(f"{run.program.workflow.name}/"):
            latest[entry.address, entry.fingerprint] = entry
    return list(latest.values())


def _place(entry: JournalEntry) -> tuple[str, int]:
    """The phase and the round of an answer: of `refine/answers/Q@2`."""
    address, _, rounds = entry.address.rpartition("@")
    return address.split("/")[1], int(rounds.partition(".")[0])
