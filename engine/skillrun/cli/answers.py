"""`skillrun answers`: answers the open questions of a run from any terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import completers, options
from skillrun.cli.formatting import count_noun, format_event
from skillrun.cli.output import Output
from skillrun.cli.project_folder import current_project
from skillrun.cli.run_summary import resume_command
from skillrun.questions.answers import GENERATED_NOTE, Answer, choices_of, needs_answer, to_one_line
from skillrun.questions.prepared_answers import PreparedAnswers, read_answers, unique_answer_key
from skillrun.questions.responder import QuestionSet, has_terminal
from skillrun.questions.terminal import ProgressKind, Terminal, UnfinishedAnswers
from skillrun.store.inbox import AnswerInbox, PendingQuestions, pending_questions
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError

PartialAnswers = dict[str, dict[str, Any]]
"""The saved progress of an unfinished list of questions, keyed by kind of progress and by question number."""


async def answer_in_terminal(
    waiting: PendingQuestions, inbox: AnswerInbox, out: Output, partial: PartialAnswers
) -> bool:
    """Ask in this terminal, submit the answers, and return whether there were any.

    Continues from the progress in `partial`, and updates it. Raises SkillrunError if the questions were answered in the
    meantime.
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
        raise SkillrunError(message, "the run uses the answers from the other terminal; yours were discarded")


def select_prepared_answers(waiting: PendingQuestions, prepared: PreparedAnswers) -> list[Answer] | None:
    """Return the prepared answers to the waiting questions; `{}` stands for a question that stays open.

    Return None if no question has a prepared answer, or if some have none and may not be skipped. Raises
    InvalidPreparedAnswer.
    """
    question_set = QuestionSet(waiting.key, waiting.phase, waiting.questions)
    may_stay_open = waiting.may_skip or bool(waiting.enough)
    chosen = [
        prepared.take(question_set.key, question, required=not may_stay_open and needs_answer(question))
        for question in question_set.questions
    ]
    if all(answer is None for answer in chosen) or (None in chosen and not waiting.may_skip):
        return None
    return [answer or {} for answer in chosen]


PICKUP_TIMEOUT: Final = 5.0  # seconds to wait until the process that executes the run has read the answers
POLL_INTERVAL: Final = 0.1
CANCELLED: Final = "cancelled"  # status in a store; the questions of a cancelled run are withdrawn
HELP: Final = """Answer the questions of RUN, in the terminal or from a file.

If a process such as `skillrun dev` has the run open, the run continues by itself. Otherwise use
`skillrun resume RUN`."""


@click.command(help=HELP)
@click.argument("run", shell_complete=completers.runs)
@options.answers
@options.runs_folder
@click.option("--json", "json", is_flag=True, help="Print the open questions as JSON, without answering.")
def answers(run: str, answers: Path | None, runs: Path, json: bool) -> int:
    out = Output(json)
    stored = options.open_run(run, runs)
    is_over = stored.status(stored.state()) == CANCELLED
    waiting = pending_questions(stored.events()) if not is_over else []
    if json:
        out.data({"run": stored.name, "questions": [_data(each) for each in waiting]})
        return 0
    inbox = AnswerInbox(stored.data().files)
    open_questions = [each for each in waiting if not inbox.has(each.address, each.fingerprint)]
    if not open_questions:
        _raise_nothing_to_answer(stored, is_answered=bool(waiting))
    answered_questions = asyncio.run(_collect_answers(open_questions, inbox, answers, out))
    return _report_progress(stored, answered_questions, out) if answered_questions else 1


def _raise_nothing_to_answer(run: StoredRun, *, is_answered: bool) -> None:
    run_argument = run.command_argument(current_project())
    if is_answered:
        hint = f"{resume_command(run)} resumes the run, unless a process is executing it"
        raise SkillrunError(f"the questions of `{run.name}` are already answered", hint)
    state = run.state()
    status = run.status(state)
    why = f": {state.reason}" if state.reason and status == state.status else ""
    raise SkillrunError(
        f"`{run.name}` has no open questions (it is {status}{why})",
        f"`skillrun show {run_argument}` shows its progress",
    )


async def _collect_answers(
    open_questions: list[PendingQuestions], inbox: AnswerInbox, file: Path | None, out: Output
) -> list[PendingQuestions]:
    """Return the questions that were answered, from the file or in the terminal.

    Raises SkillrunError if the file answers none of them, and UsageError if the terminal is needed and missing.
    """
    if file is not None:
        prepared = read_answers(file)
        answered_questions = []
        for waiting in open_questions:
            if (answers := select_prepared_answers(waiting, prepared)) is not None:
                submit_answers(waiting, answers, inbox)
                answered_questions.append(waiting)
        for name in prepared.unused_keys():
            out.note(f"warning: no open question used the prepared answer `{name}`")
        if not answered_questions:
            raise SkillrunError(
                f"{file} answers none of the open questions", f"open questions: {_describe_questions(open_questions)}"
            )
        return answered_questions
    if not has_terminal():
        raise UsageError(
            f"answering questions needs a terminal: {_describe_questions(open_questions)}",
            "run this command in a terminal, or give answers with `--answers FILE`",
        )
    return [waiting for waiting in open_questions if await answer_in_terminal(waiting, inbox, out, {})]


def _describe_questions(open_questions: list[PendingQuestions]) -> str:
    """Return the questions as one line: ids, texts and choices."""
    lines = []
    for waiting in open_questions:
        for question in waiting.questions:
            choices = ", ".join(map(to_one_line, choices_of(question)))
            text = to_one_line(question.get("text", "")) + (f" ({choices})" if choices else "")
            lines.append(f"`{unique_answer_key(waiting.key, question)}`: {text}")
    return "; ".join(lines)


def _report_progress(run: StoredRun, answered_questions: list[PendingQuestions], out: Output) -> int:
    """Print how many answers were saved and the next step, and return the exit code.

    If a process is executing the run, wait for it and print the answers that it has read.
    """
    is_queued = (url := options.store_url()) and options.open_store(url).requeue(
        run.name
    )  # also requeues a run that is about to wait
    if not run.lease.is_held():
        out.line(f"answered: {count_noun(sum(len(each.questions) for each in answered_questions), 'question')}")
        if is_queued:
            out.line("a worker will resume the run")
            return 0
        out.line(f"next: {resume_command(run)}")
        return 0
    addresses = {each.address for each in answered_questions}
    until = time.monotonic() + PICKUP_TIMEOUT
    while len(taken := _received_answers(run, addresses)) < len(addresses) and time.monotonic() < until:
        time.sleep(POLL_INTERVAL)
    for event in taken:
        out.line(format_event({**event, "replayed": False}))
    if len(taken) == len(addresses):
        out.line("the run continues")
    elif run.lease.is_held():
        out.line("the process executing the run will read the answers when it reaches the question")
    else:
        out.line(f"next: {resume_command(run)}")
    return 0


def _received_answers(run: StoredRun, addresses: set[str]) -> list[dict[str, Any]]:
    """Return the latest `Answered` event of each address, unless the run has asked at that address again since."""
    last = {event["address"]: event for event in run.events() if event["event"] in ("Asked", "Answered")}
    return [last[address] for address in sorted(addresses) if last[address]["event"] == "Answered"]


def _data(waiting: PendingQuestions) -> dict[str, Any]:
    return {"address": waiting.address, "phase": waiting.phase, "questions": [dict(each) for each in waiting.questions]}
