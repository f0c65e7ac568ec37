"""Answers open questions of a run through its inbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skillrun.cli.formatting import count_noun
from skillrun.cli.output import Output
from skillrun.questions.answers import GENERATED_NOTE, Answer, needs_answer
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import QuestionSet
from skillrun.questions.terminal import ProgressKind, Terminal, UnfinishedAnswers
from skillrun.store.inbox import AnswerInbox, PendingQuestions
from skillrun.syntax.diagnostics import SkillrunError

PartialAnswers = dict[str, dict[str, Any]]
"""Saved progress of an unfinished list of questions, by kind of progress and question number."""


async def answer_in_terminal(
    waiting: PendingQuestions, inbox: AnswerInbox, out: Output, partial: PartialAnswers
) -> bool:
    """Ask in this terminal, submit the answers, and return whether there were any.

    Continues from `partial`, and saves progress there. Raises SkillrunError as `submit_answers` does.
    """

    async def keep(kind: ProgressKind, number: str, value: Any) -> None:
        partial.setdefault(kind, {})[number] = value

    unfinished = UnfinishedAnswers(partial.get("given", {}), partial.get("sure", {}), partial.get("typed", {}))
    title = " · ".join(filter(None, (waiting.phase, GENERATED_NOTE if waiting.computed else "")))
    try:
        answers = await Terminal().ask(
            waiting.questions, title, unfinished, keep, may_skip=waiting.may_skip, enough=waiting.enough
        )
    except KeyboardInterrupt:
        out.line(f"left open: {count_noun(len(waiting.questions), 'question')} of {waiting.phase}")
        return False
    submit_answers(waiting, answers, inbox)
    return True


def submit_answers(waiting: PendingQuestions, answers: Sequence[Answer], inbox: AnswerInbox) -> None:
    """Submit answers to the run. Raises SkillrunError if the questions were answered in the meantime."""
    if not inbox.put(waiting, answers):
        message = f"the questions of {waiting.phase} were answered in another terminal"
        raise SkillrunError(message, "the run uses those answers; yours were discarded")


def select_prepared_answers(waiting: PendingQuestions, prepared: PreparedAnswers) -> list[Answer] | None:
    """Return the answers in a file, or None if a required one is missing. Raises InvalidPreparedAnswer."""
    question_set = QuestionSet(waiting.key, waiting.phase, waiting.questions)
    may_stay_open = waiting.may_skip or bool(waiting.enough)
    chosen = [
        prepared.take(question_set.key, question, required=not may_stay_open and needs_answer(question))
        for question in question_set.questions
    ]
    if all(answer is None for answer in chosen) or (None in chosen and not waiting.may_skip):
        return None
    return [answer or {} for answer in chosen]
