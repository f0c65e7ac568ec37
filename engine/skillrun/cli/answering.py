"""Questions of a run that wait, answered here and left in its inbox."""

from __future__ import annotations

from collections.abc import Sequence

from skillrun.cli.printing import Output
from skillrun.cli.words import counted
from skillrun.language.text.diagnostics import SkillrunError
from skillrun.people.answers import WORDED, Answer
from skillrun.people.person import Questions
from skillrun.people.prepared import Prepared
from skillrun.people.terminal import Terminal
from skillrun.runtime.questions.inbox import Inbox, WaitingQuestions


async def answer_here(waiting: WaitingQuestions, inbox: Inbox, out: Output) -> bool:
    """Ask in this terminal, and leave the answers; whether any were given. Raises SkillrunError as `leave` does."""
    title = " · ".join(filter(None, (waiting.phase, WORDED if waiting.computed else "")))
    try:
        answers = await Terminal().ask(waiting.questions, title, may_skip=waiting.may_skip, enough=waiting.enough)
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
    given = [prepared.take(asking.key, question) for question in asking.questions]
    if all(answer is None for answer in given) or (None in given and not waiting.may_skip):
        return None
    return [answer or {} for answer in given]
