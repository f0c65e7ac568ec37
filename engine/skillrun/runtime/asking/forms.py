"""Reads forms, applies the user's later changes to forms, and warns of files that arrive too late.

In a journaled answer, `form` describes the file as it was read. This module never asks the user.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from skillrun.questions.form import FormAnswers, UnclearAnswers, read_form
from skillrun.questions.written_answers import Phrases
from skillrun.runtime.run import PhaseRun, Run
from skillrun.store.artifacts import is_artifact_name
from skillrun.store.event_lines import utc_timestamp
from skillrun.store.files import sha256_of
from skillrun.store.journal import JournalEntry
from skillrun.store.journal_bodies import AnswerBody, FormBody
from skillrun.syntax.diagnostics import SkillrunError, sanitize
from skillrun.syntax.reading import decode_text, is_binary
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.schemas import quote_value

MOST_BYTES: Final = 5_000_000  # bytes that one step reads
INVISIBLE: Final = "\0\u200b"  # characters that are no text, besides white space
OWN_KEYS: Final = ("answer", "answered_by", "asked_at", "confidence", "comment")


@dataclass(frozen=True)
class FormState:
    """The name and hash of a form, and the answer to each question. `why` lists the reasons for each unclear answer."""

    name: str
    hash: str = ""
    filled: FormAnswers = field(default_factory=lambda: FormAnswers([]))
    why: Sequence[Sequence[str]] = ()
    unclear: UnclearAnswers | None = None

    def to_dict(self) -> FormBody:
        why = [list(reasons) for reasons in self.why]
        return {"name": self.name, "hash": self.hash, "read": self.filled.answers, "why": why}


def answer_phrases(run: Run) -> Phrases:
    """Return the configured phrases that count as no answer or as a decision."""
    config = run.program.library.config("skillrun")
    return Phrases.from_settings(config.data if config is not None else None)


def read_form_state(run: Run, name: str, questions: Sequence[Question]) -> FormState | None:
    """Return the current state of the form; None if the file is missing. Raises SkillrunError if it is unreadable."""
    files = run.store.files
    try:
        if not files.has(name):
            return None
        at = sha256_of(files.read(name, MAX_BYTES))
    except OSError as error:  # such as a folder with this name
        place = run.store.location(name)
        raise SkillrunError(f"the form {place} cannot be read: {error.strerror}", f"move {place} away") from None
    try:
        filled = read_form(files, name, questions, answer_phrases(run))
    except UnclearAnswers as unclear:
        answers = [reading.answer for reading in unclear.readings]
        why = [tuple(reason for _, reason in reading.unclear) for reading in unclear.readings]
        return FormState(name, at, FormAnswers(answers, unclear.notes), why, unclear)
    return FormState(name, at, filled, [()] * len(questions))


def build_question_record(
    question: Question, given: Answer, phrases: Phrases, *, is_required: bool = False
) -> QuestionRecord:
    """Return the record of a question: its answer, and who gave the answer.

    A phrase such as "not sure" selects the default. Without a default, the question stays open, or, if `is_required`,
    the phrase itself is the answer.
    """
    record = question if given.get("shown") is False else with_fields(question, asked_at=utc_timestamp())
    if not (is_required and needs_answer(question)):
        given = _drop_undecided_words(question, given, phrases)
    who = given.get("answered_by", PERSON) if given.get("answer") not in (None, "", []) else None
    more = {**given, "answered_by": who}.items()
    own = {key: value for key, value in more if key in OWN_KEYS and value not in (None, "")}
    return cast(QuestionRecord, {**record, **own})


def _drop_undecided_words(question: Question, given: Answer, phrases: Phrases) -> Answer:
    answer = given.get("answer")
    items = answer if isinstance(answer, list) else [answer]
    empty = [item for item in items if isinstance(item, str) and phrases.leaves_open(question, item)]
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
    """Return the journaled answers with the user's changes to the form; None if nothing has changed.

    If a changed answer is unclear, return None and the state of the form. The earlier answers then stay in effect if
    the phase is over.
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
            text = f"{name} was changed after it was read and now has unclear answers, so the earlier answers are used:"
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
    """Return the recorded answers whose text in the form has not changed since it was read, keyed by position."""
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
    """Apply and report the user's changes to the forms of ended phases. Later phases see the changes."""
    for entry in _with_forms(run):
        phase, number = _place(entry)
        if number == run.state.round and phase not in done:
            continue  # it is evaluated again, and reads its form itself
        known = cast(AnswerBody, entry.body)
        # the questions as they were asked, without the answers that the records hold
        asked = [{key: value for key, value in record.items() if key not in OWN_KEYS} for record in known["answers"]]
        try:
            body, _ = revise_answers(run, known, cast(list[Question], asked), is_phase_over=True)
        except (SkillrunError, OSError) as error:
            run.emit(Notice(f"the earlier answers are used: {error}", "warn"))
            continue
        if body is not None:
            await run.journal.record("answer", entry.address, entry.fingerprint, dict(body))


def form_answers(run: Run, phase: PhaseRun | None, before: Collection[str]) -> list[QuestionRecord]:
    """Return the current answers of all forms of earlier rounds, and of this round's forms in the phases `before`."""
    records = []
    for entry in _with_forms(run):
        name, number = _place(entry)
        if phase is None or number < phase.round or (number == phase.round and name in before):
            records += entry.body["answers"]
    return records


def _with_forms(run: Run) -> list[JournalEntry]:
    """Return the latest journal entry of each form's answers, ordered by when the form was first answered."""
    latest: dict[tuple[str, str], JournalEntry] = {}
    for entry in run.outermost.journal.entries("answer"):
        if entry.body.get("form") and entry.address.startswith(f"{run.program.workflow.name}/"):
            latest[entry.address, entry.fingerprint] = entry
    return list(latest.values())


def _place(entry: JournalEntry) -> tuple[str, int]:
    """Return the phase and the round that an answer's address contains, such as `answers` and 2 in
    `refine/answers/Q@2`."""
    address, _, rounds = entry.address.rpartition("@")
    return address.split("/")[1], int(rounds.partition(".")[0])


def warn_of_late_files(run: Run, done: Collection[str]) -> None:
    """Warn of files that match a pattern of an ended phase, but arrived after the phase read its files."""
    read: dict[tuple[str, str], set[str]] = {}  # keyed by phase and pattern; the files of all rounds and passes
    for entry in run.journal.entries("tool"):
        pattern, files = entry.body.get("pattern"), entry.body.get("files")
        phase = f"{entry.address}/".split("/")[1]
        if isinstance(pattern, str) and isinstance(files, list) and phase in done:
            read.setdefault((phase, pattern), set()).update(files)
    for (_, pattern), known in read.items():
        for text in late_files(run, pattern, known):
            run.emit(Notice(text, "warn"))


def late_files(run: Run, pattern: str, known: Iterable[str]) -> list[str]:
    """Return a line for each file that matches the pattern but was not read. `known` names the files that were read."""
    before = set(known)
    return [
        f"{quote_value(name)} arrived after the files that match `{pattern}` were read, so it is ignored"
        for name in find_user_files(run, pattern)
        if name not in before
    ]


def find_user_files(run: Run, pattern: str) -> list[str]:
    """Return the names of the files that match the pattern and count as files of the user."""
    return [name for name in run.store.matching(pattern) if not ignore_reason(run, name)]


def ignore_reason(run: Run, name: str) -> str:
    """Return why a file does not count as a file of the user; empty if it counts. A file counts if a `read` step can
    read it, unless it has no text or the run wrote it and no user has edited it."""
    if run.store.artifacts.is_unmodified(name):
        return "was written by the run"
    try:
        content = run.store.files.read(name, MOST_BYTES)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if len(content) > MOST_BYTES:
        return f"is larger than {MOST_BYTES:,} bytes"
    text, undecoded = decode_text(content)
    if not "".join(text.split()).strip(INVISIBLE):
        return "is empty"
    if undecoded or is_binary(content):
        return "is not readable as text (UTF-8, or UTF-16 or UTF-32 with a byte order mark)"
    return ""
