"""Answers the questions of a run. Uses prepared answers first. For the remaining questions, an unattended run uses the
defaults, and an attended run asks in the terminal.

This module owns the source of answers. It does not create questions or process answers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from skillrun.questions.answers import (
    ENDED,
    GENERATED_NOTE,
    UNSEEN,
    Answer,
    Question,
    default_answer,
    default_of,
    needs_answer,
    with_fields,
)
from skillrun.questions.prepared_answers import PreparedAnswers, read_answers
from skillrun.questions.terminal import Progress, SaveProgress, Terminal, saved_answer
from skillrun.syntax.diagnostics import UsageError, sanitize
from skillrun.syntax.reading import PipedFile


@dataclass(frozen=True)
class QuestionSet:
    """The questions of one step, which are answered together. `key` is the step's address, under which prepared answers
    are found.

    `computed`: a model may have written the questions' text or a part of it. `may_skip`: each question may be left
    open, as in a form. `is_required`: a question without `default` and `skip` requires an answer. `unfinished`: the
    progress before a pause, keyed by question number. `save_progress` receives each answer. `enough`: the label of
    the choice that ends the list.
    """

    key: str
    phase: str
    questions: tuple[Question, ...]
    computed: bool = False
    may_skip: bool = False
    is_required: bool = False
    unfinished: Progress = field(default_factory=dict)
    save_progress: SaveProgress | None = None
    enough: str = ""


@dataclass
class InteractiveResponder:
    """Answers one list of questions at a time. Other lists wait, while the run continues.

    With `waits_in_terminal`, a question that would pause the run is asked in the terminal instead.
    """

    prepared: PreparedAnswers
    terminal: Terminal | None
    attended: bool
    waits_in_terminal: bool = False
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        """Return one record for each question. The record of an unanswered question is empty. Return None if the
        questions cannot be answered now.

        Raises InvalidPreparedAnswer for an invalid prepared answer, and KeyboardInterrupt for Ctrl-C.
        """
        preset = self._preset_answers(question_set)
        open_questions = {
            str(number): question_set.questions[number] for number, answer in enumerate(preset) if answer is None
        }
        answers = [saved_answer(question_set.unfinished, number) for number in open_questions]
        if not all(answers):
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
        """The flags and their values with which a resumed run answers questions in the same way as this run."""
        return answer_flags(self.prepared.path, unattended=not self.attended)

    def _preset_answers(self, question_set: QuestionSet) -> list[Answer | None]:
        """Return the prepared answer to each question or, if the run is unattended, the default. None if the question
        needs a user, or has an answer of the user from before a pause. If an answer ends the list, its question gets
        ENDED, and the remaining questions get UNSEEN."""
        records: list[Answer | None] = []
        is_answered = [
            bool(saved_answer(question_set.unfinished, str(at))) for at in range(len(question_set.questions))
        ]
        for question in question_set.questions:
            if is_answered[len(records)]:
                self.prepared.skip(question_set.key, [question])
                records.append(None)
                continue
            words: dict[str, object] = {question_set.enough: ENDED} if question_set.enough else {}
            full_question = with_fields(question, means={**question.get("means", {}), **words})
            required = question_set.is_required and needs_answer(question)
            record = self.prepared.take(question_set.key, full_question, required=required)
            if record is None and not self.attended and default_of(question) is not None:
                record = default_answer(question)
            answer = record.get("answer") if record is not None else None
            if ENDED in (answer if isinstance(answer, list) else [answer]):
                rest = is_answered[len(records) + 1 :]
                return [*records, ENDED, *(None if is_saved else UNSEEN for is_saved in rest)]
            records.append(record)
        return records


def answer_flags(answers: Path | None, *, unattended: bool) -> dict[str, str]:
    """Return the flags and their values that determine how questions are answered."""
    flags = {"--unattended": ""} if unattended else {}
    if answers is not None and not isinstance(answers, PipedFile):
        flags["--answers"] = quote(str(answers))
    return flags


def has_terminal() -> bool:
    """Whether a user can be asked in a terminal."""
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


def open_responder(
    *,
    unattended: bool,
    answers: Path | None = None,
    interactive: bool = False,
    terminal: bool | None = None,
    prompt_context: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> InteractiveResponder:
    """Create the responder. `terminal` tells whether a terminal is available; None detects it. `prompt_context` is
    entered while the terminal asks.

    Raises SkillrunError if the prepared answers cannot be read, or if `interactive` is set without a usable terminal.
    """
    if terminal is None:
        terminal = has_terminal()
    if interactive and (unattended or not terminal):
        reason = "--unattended asks no questions" if unattended else "no terminal is available"
        raise UsageError(f"--interactive cannot be used, because {reason}", "remove --interactive")
    prepared = read_answers(answers) if answers is not None else PreparedAnswers()
    prompt = Terminal(prompt_context=prompt_context) if terminal and not unattended else None
    return InteractiveResponder(prepared, prompt, attended=not unattended, waits_in_terminal=interactive)
