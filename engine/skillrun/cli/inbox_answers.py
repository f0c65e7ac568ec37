"""Questions of a run that wait, answered here and left in its inbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skillrun.cli.formatting import counted
from skillrun.cli.output import Output
from skillrun.questions.answers import GENERATED, Answer, needs_answer
from skillrun.questions.prepared_answers import Prepared
from skillrun.questions.responder import Questions
from skillrun.questions.terminal import Kept, Terminal, UnfinishedAnswers
from skillrun.store.inbox import Inbox, WaitingQuestions
from skillrun.syntax.diagnostics import SkillrunError

Begun = dict[str, dict[str, Any]]
"""What was answered of a list, and typed, before it was left: by what it is of a question, and its number."""


async def answer_here(waiting: WaitingQuestions, inbox: Inbox, out: Output, begun: Begun) -> bool:
    """Ask in this terminal, and leave the answers; whether any were given. Raises SkillrunError as `leave` does.

    It goes on with what was `begun`, and keeps there what is given.
    """

    async def keep(what: Kept, number: str, value: Any) -> None:
        begun.setdefault(what, {})[number] = value

    left = UnfinishedAnswers(begun.get("given", {}), begun.get("sure", {}), begun.get("typed", {}))
    title = " · ".join(filter(None, (waiting.phase, GENERATED if waiting.computed else "")))
    try:
        answers = await Terminal().ask(
            waiting.questions, title, left, keep, may_skip=waiting.may_skip, enough=waiting.enough
        )
    except KeyboardInterrupt:
        out.line(f"left open: {counted(len(waiting.questions), 'question')} of {waiting.phase}")
        return False
    leave(waiting, answers, inbox)
    return True


def leave(waiting: WaitingQuestions, answers: Sequence[Answer], inbox: Inbox) -> None:
    """Leave answers for the run. Raises SkillrunError where somebody was first."""
    if not inbox.put(waiting, answers):
        message = f"what {waiting.phase} asks was answered meanwhile, from another terminal"
        raise SkillrunError(message, "those answers count; yours were not kept")


def prepared_answers(waiting: WaitingQuestions, prepared: Prepared) -> list[Answer] | None:
    """What a file has for these questions; None where it has not one for each that needs one. Raises PreparedUnfit."""
    asking = Questions(waiting.key, waiting.phase, waiting.questions)
    may_stay_open = waiting.may_skip or bool(waiting.enough)
    given = [
        prepared.take(asking.key, question, required=not may_stay_open and needs_answer(question))
        for question in asking.questions
    ]
    if all(answer is None for answer in given) or (None in given and not waiting.may_skip):
        return None
    return [answer or {} for answer in given]
