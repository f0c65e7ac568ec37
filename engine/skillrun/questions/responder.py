"""The person of a run: prepared answers first, then defaults where nobody is there, then the terminal.

Owns who answers; what is asked and what becomes of it is for others.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from skillrun.questions.answers import (
    ENDED,
    GENERATED_NOTE,
    Answer,
    Question,
    QuestionRecord,
    default_answer,
    default_of,
    needs_answer,
    with_fields,
)
from skillrun.questions.prepared_answers import PreparedAnswers, RecordBuilder, read_answers
from skillrun.questions.terminal import SaveProgress, Terminal, UnfinishedAnswers
from skillrun.syntax.diagnostics import UsageError
from skillrun.syntax.sanitizing import sanitize


@dataclass(frozen=True)
class QuestionSet:
    """Questions of one step, to be answered together; `key` names the step, for answers prepared in a file.

    `computed`: what is asked is not the workflow's own words, or not all of it; a model may have written it.
    `may_skip`: each may be left open, as in a form. `is_required`: each without `default` and `skip` needs an answer.
    `left`: what was answered before a pause, by the question's number in the list; `keep` receives each answer.
    `enough`: the words that end the list.
    """

    key: str
    phase: str
    questions: tuple[Question, ...]
    computed: bool = False
    may_skip: bool = False
    is_required: bool = False
    unfinished: UnfinishedAnswers = field(default_factory=UnfinishedAnswers)
    save_progress: SaveProgress | None = None
    enough: str = ""


class InteractiveResponder:
    """Answers one list of questions at a time; others wait while the run goes on."""

    def __init__(
        self, prepared: PreparedAnswers, terminal: Terminal | None, *, attended: bool, waits_in_terminal: bool = False
    ) -> None:
        """`staying`: what would end the run and wait is asked in the terminal instead."""
        self.prepared = prepared
        self.terminal = terminal
        self.attended = attended
        self.waits_in_terminal = waits_in_terminal
        self._lock = asyncio.Lock()

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        """A record for each question, empty where it stays unanswered; None when nobody answers, or is asked, now.

        Raises InvalidPreparedAnswer for a prepared answer that does not fit, KeyboardInterrupt for a Ctrl-C.
        """
        preset = self._preset_answers(question_set)
        open_questions = {
            str(number): question_set.questions[number] for number, answer in enumerate(preset) if answer is None
        }
        answers: list[Answer] = []
        if open_questions:
            if self.terminal is None or not self.attended or not (interactive or self.waits_in_terminal):
                return None
            async with self._lock:
                parts = (question_set.phase, GENERATED_NOTE if question_set.computed else "")
                title = " · ".join(filter(None, parts))
                answers = await self.terminal.ask(
                    open_questions,
                    title,
                    question_set.unfinished,
                    question_set.save_progress,
                    may_skip=question_set.may_skip,
                    enough=question_set.enough,
                )
        rest = iter(answers)
        return sanitize([next(rest) if answer is None else answer for answer in preset])

    @property
    def resume_flags(self) -> dict[str, str]:
        """The flags that bring the same person again, with what stands behind each."""
        return answer_flags(self.prepared.path, unattended=not self.attended)

    def has_prepared_answers(self, question_set: QuestionSet) -> bool:
        """Whether each of these questions has an answer that was prepared."""
        return all(self.prepared.has_unused_answer(question_set.key, question) for question in question_set.questions)

    def skip_prepared_answers(self, question_set: QuestionSet) -> None:
        """Questions that the run's journal has the answers of: lists of prepared answers go on behind them."""
        for question in question_set.questions:
            self.prepared.skip(question_set.key, question)

    def mark_answers_used(self, address: str, questions: Sequence[Question]) -> None:
        """Questions of an earlier process, by their address in the journal: their prepared answers were taken."""
        for question in questions:
            self.prepared.mark_used(address.partition("/")[2].rpartition("@")[0], question)

    def note_late_answers(
        self, question_set: QuestionSet, records: Sequence[QuestionRecord], build_record: RecordBuilder
    ) -> None:
        """They stay answered as `records` say; prepared answers that say something else are told at the end."""
        for question, record in zip(question_set.questions, records, strict=True):
            self.prepared.note_late_answer(question_set.key, question, record, build_record)

    def _preset_answers(self, question_set: QuestionSet) -> list[Answer | None]:
        """What is known of each question; behind the words that end the list nothing is asked."""
        records: list[Answer | None] = []
        for question in question_set.questions:
            words: dict[str, object] = {question_set.enough: ENDED} if question_set.enough else {}
            full_question = with_fields(question, means={**question.get("means", {}), **words})
            required = question_set.is_required and needs_answer(question)
            record = self._preset_answer(question_set.key, full_question, required=required)
            if record is not None and ENDED in (record.get("answer"), *_as_list(record.get("answer"))):
                return [*records, *([ENDED] * (len(question_set.questions) - len(records)))]
            records.append(record)
        return records

    def _preset_answer(self, key: str, question: Question, *, required: bool) -> Answer | None:
        """What is known without asking anybody: a prepared answer, or the default when the run is unattended."""
        record = self.prepared.take(key, question, required=required)
        if record is None and not self.attended and default_of(question) is not None:
            return default_answer(question)
        return record


def _as_list(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else []


def answer_flags(answers: Path | None, *, unattended: bool) -> dict[str, str]:
    """The flags that say who is there, with what stands behind each."""
    flags = {"--unattended": ""} if unattended else {}
    return flags | ({"--answers": quote(str(answers))} if answers is not None else {})


def has_terminal() -> bool:
    """Whether somebody can be asked here."""
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


def open_responder(
    *,
    unattended: bool,
    answers: Path | None = None,
    interactive: bool = False,
    terminal: bool | None = None,
    prompt_context: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> InteractiveResponder:
    """Who answers. Whether there is a `terminal` is found out where it is not said; `around` is entered while it asks.

    Raises SkillrunError when the prepared answers cannot be read, or nobody can be asked who is to be `interactive`.
    """
    if terminal is None:
        terminal = has_terminal()
    if interactive and (unattended or not terminal):
        reason = "--unattended asks nobody" if unattended else "there is none here"
        raise UsageError(f"--interactive asks in the terminal, and {reason}", "leave it out")
    prepared = read_answers(answers) if answers is not None else PreparedAnswers()
    prompt = Terminal(prompt_context=prompt_context) if terminal and not unattended else None
    return InteractiveResponder(prepared, prompt, attended=not unattended, waits_in_terminal=interactive)
