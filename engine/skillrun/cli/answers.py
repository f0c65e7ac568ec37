"""`skillrun answers` answers the open questions of a run from any terminal. `skillrun questions` lists the open
questions of all runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, cast

import click

from skillrun.cli import completion, options
from skillrun.cli.formatting import count_noun, format_event
from skillrun.cli.loading import exit_on_errors
from skillrun.cli.options import current_project
from skillrun.cli.output import Output
from skillrun.cli.run_summary import resume_command
from skillrun.questions.answers import (
    GENERATED_NOTE,
    Answer,
    Question,
    QuestionRecord,
    choices_of,
    needs_answer,
    to_one_line,
)
from skillrun.questions.prepared_answers import PreparedAnswers, answer_names, read_answers
from skillrun.questions.responder import has_terminal
from skillrun.questions.terminal import ProgressKind, Terminal, saved_answer
from skillrun.store.inbox import AnswerInbox, PendingQuestions, read_progress
from skillrun.store.run_history import read_history
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import Problems, SkillrunError, UsageError

PICKUP_TIMEOUT: Final = 5.0  # seconds to wait until the process that executes the run has read the answers
POLL_INTERVAL: Final = 0.1
CANCELLED: Final = "cancelled"  # status in a store; the questions of a cancelled run are withdrawn
HELP: Final = """Answer the questions of RUN, in the terminal or from a file.

If a process such as `skillrun dev` has the run open, the run continues by itself. Otherwise use
`skillrun resume RUN`."""

PartialAnswers = dict[ProgressKind, dict[str, Any]]
"""The saved progress of an unfinished list of questions, keyed by kind of progress and by question number."""


async def answer_in_terminal(
    waiting: PendingQuestions, inbox: AnswerInbox, out: Output, partial: PartialAnswers
) -> bool:
    """Ask in this terminal, submit the answers, and return whether any question was answered.

    Continues from the progress in `partial`, and updates `partial`. Raises SkillrunError if the questions were answered
    in the meantime.
    """

    async def keep(kind: ProgressKind, number: str, value: Any) -> None:
        partial.setdefault(kind, {})[number] = value

    title = " · ".join(filter(None, (waiting.phase, GENERATED_NOTE if waiting.computed else "")))
    try:
        answers = await Terminal().ask(
            waiting.questions, title, partial, keep, may_skip=waiting.may_skip, enough=waiting.enough
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


@click.command(help=HELP)
@click.argument("run", shell_complete=completion.runs)
@options.answers
@options.runs_folder
@click.option("--json", "json", is_flag=True, help="Print the open questions as JSON, without answering.")
def answers(run: str, answers: Path | None, runs: Path, json: bool) -> int:
    out = Output(json)
    stored = options.open_run(run, runs)
    state = stored.state()
    status = stored.status(state)
    history = read_history(stored.events())
    waiting = history.waiting if status != CANCELLED else []
    if json:
        questions = [
            {"address": each.address, "phase": each.phase, "questions": list(map(dict, each.questions))}
            for each in waiting
        ]
        out.data({"run": stored.name, "questions": questions})
        return 0
    inbox = AnswerInbox(stored.data().files)
    open_questions = [each for each in waiting if not inbox.has(each.address, each.fingerprint)]
    if not open_questions and waiting:
        hint = f"{resume_command(stored)} resumes the run, unless a process is executing it"
        raise SkillrunError(f"the questions of `{stored.name}` are already answered", hint)
    if not open_questions:
        why = f": {state.reason}" if state.reason and status == state.status else ""
        hint = f"`skillrun show {stored.command_argument(current_project())}` shows its progress"
        raise SkillrunError(f"`{stored.name}` has no open questions (it is {status}{why})", hint)
    prepared = None
    if answers is not None:
        prepared = read_answers(answers)
        prepared.restrict(history.shown)
    saved = _read_saved_progress(stored, open_questions, out)
    answered_questions = asyncio.run(_collect_answers(open_questions, inbox, prepared, saved, out))
    return _report_progress(stored, answered_questions, out) if answered_questions else 1


def _read_saved_progress(
    run: StoredRun, open_questions: list[PendingQuestions], out: Output
) -> dict[str, PartialAnswers]:
    """Return what the user had answered and entered when the run was paused, by the address of the questions."""
    if not run.has_journal:
        return {}
    try:
        with closing(run.read_journal(while_held=True)) as journal:
            return {each.address: read_progress(journal, each.address, each.fingerprint) for each in open_questions}
    except (SkillrunError, OSError) as error:
        out.note(f"warning: the answers from before the pause cannot be read: {str(error).splitlines()[0]}")
        return {}


def _choose_answers(waiting: PendingQuestions, prepared: PreparedAnswers, saved: PartialAnswers) -> list[Answer | None]:
    """Return for each question the user's answer from before the pause, else the prepared answer."""
    may_stay_open, chosen = waiting.may_skip or bool(waiting.enough), []
    for number, question in enumerate(waiting.questions):
        answer: Answer | None = saved_answer(saved, str(number))
        if answer:
            prepared.skip(waiting.key, [question])
            record = cast(QuestionRecord, {**question, **answer})
            prepared.note_late_answers(
                waiting.key, [question], [record], lambda each, given: cast(QuestionRecord, {**each, **given})
            )
        else:
            answer = prepared.take(waiting.key, question, required=not may_stay_open and needs_answer(question))
        chosen.append(answer)
    return chosen


async def _collect_answers(
    open_questions: list[PendingQuestions],
    inbox: AnswerInbox,
    prepared: PreparedAnswers | None,
    saved: dict[str, PartialAnswers],
    out: Output,
) -> list[PendingQuestions]:
    """Answer questions from the file or in the terminal, and return the answered questions.

    `saved` is the progress from before a pause, by address.

    The file must answer every question of a list that must not be skipped. Raises SkillrunError if the file answers no
    open question, InvalidPreparedAnswer, and UsageError if a terminal is needed but missing.
    """
    texts = "; ".join(
        f"`{name}`: {_format_question(question)}"
        for waiting in open_questions
        for name, question in zip(answer_names(waiting.key, waiting.questions), waiting.questions, strict=True)
    )
    if prepared is not None:
        problems = Problems()
        prepared.check_unique(((waiting.key, waiting.questions) for waiting in open_questions), problems)
        exit_on_errors(problems, out, "No question was answered.", code=2)
        answered_questions = []
        for waiting in open_questions:
            chosen = _choose_answers(waiting, prepared, saved.get(waiting.address, {}))
            has_all = waiting.may_skip or None not in chosen
            if has_all and any(answer is not None for answer in chosen):
                submit_answers(waiting, [answer or {} for answer in chosen], inbox)  # `{}` leaves a question open
                answered_questions.append(waiting)
        for name in prepared.unused_keys():
            out.note(f"warning: no open question used the prepared answer `{name}`")
        for line in prepared.late_answers.values():
            out.note(f"warning: {line}")
        if not answered_questions:
            raise SkillrunError(f"{prepared.path} answers none of the open questions", f"open questions: {texts}")
        return answered_questions
    if not has_terminal():
        raise UsageError(
            f"answering questions needs a terminal: {texts}",
            "run this command in a terminal, or give answers with `--answers FILE`",
        )
    return [
        waiting
        for waiting in open_questions
        if await answer_in_terminal(waiting, inbox, out, saved.get(waiting.address, {}))
    ]


def _report_progress(run: StoredRun, answered_questions: list[PendingQuestions], out: Output) -> int:
    """Print how many answers were saved and the next step, and return the exit code.

    If a process is executing the run, wait a few seconds until it has read the answers, and print the answers that it
    has read.
    """
    url = options.store_url()
    is_queued = url and options.open_store(url).requeue(run.name)  # also requeues a run that is about to wait
    next_line = f"next: {resume_command(run)}"
    if not run.lease.is_held():
        out.line(f"answered: {count_noun(sum(len(each.questions) for each in answered_questions), 'question')}")
        out.line("a worker will resume the run" if is_queued else next_line)
        return 0
    addresses = sorted({each.address for each in answered_questions})
    until = time.monotonic() + PICKUP_TIMEOUT
    while True:
        last = {event["address"]: event for event in run.events() if event["event"] in ("Asked", "Answered")}
        taken = [last[address] for address in addresses if last[address]["event"] == "Answered"]  # not asked again
        if len(taken) == len(addresses) or time.monotonic() >= until:
            break
        time.sleep(POLL_INTERVAL)
    for event in taken:
        out.text(format_event({**event, "replayed": False}))
    if len(taken) == len(addresses):
        out.line("the run continues")
    elif run.lease.is_held():
        out.line("the process executing the run will read the answers when it reaches the question")
    else:
        out.line(next_line)
    return 0


def _format_question(question: Question) -> str:
    """Return the text and the choices of a question on one line."""
    choices = ", ".join(map(to_one_line, choices_of(question)))
    return to_one_line(question.get("text", "")) + (f" ({choices})" if choices else "")


@click.command(help="List the open questions of all runs.")
@options.runs_folder
@options.as_json
def questions(runs: Path, out: Output) -> int:
    rows = []
    for name, run in options.select_store(runs).list_runs():
        try:
            if isinstance(run, Exception):
                raise run
            if run.status(run.state()) != "waiting":
                continue
            inbox = AnswerInbox(run.data().files)
            waiting = [
                each for each in read_history(run.events()).waiting if not inbox.has(each.address, each.fingerprint)
            ]
        except (SkillrunError, OSError) as error:
            out.note(f"warning: {name}: {str(error).splitlines()[0]}")
            continue
        for each in waiting:
            for address, question in zip(answer_names(each.key, each.questions), each.questions, strict=True):
                out.line(f"{name}  {address}: {_format_question(question)}")
                rows.append({"run": name, "phase": each.phase, "address": each.address, "question": dict(question)})
    end = f"{count_noun(len(rows), 'question')}; `skillrun answers RUN` answers them"
    out.line(end if rows else "no open questions")
    out.data(rows)
    return 0
