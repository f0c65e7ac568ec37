"""`skillrun answers`: answers what a run waits for, from another terminal than the one that has it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli import completers, options
from skillrun.cli.formatting import counted, line_of
from skillrun.cli.inbox_answers import answer_here, leave, prepared_answers
from skillrun.cli.output import Output
from skillrun.cli.project_folder import project_here
from skillrun.questions.answers import choices_of, on_one_line
from skillrun.questions.prepared_answers import own_name, read_answers
from skillrun.questions.responder import has_terminal
from skillrun.store.inbox import Inbox, WaitingQuestions, waiting_questions
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError

PATIENCE: Final = 5.0  # seconds until a process that has the run has taken the answers
BETWEEN: Final = 0.1
CANCELLED: Final = "cancelled"  # in a store: what it has asked is withdrawn
HELP: Final = """Answer the questions of RUN, in the terminal or from a file.

If a process such as `skillrun dev` has the run open, it continues by itself. Otherwise use `skillrun resume RUN`."""


@click.command(help=HELP)
@click.argument("run", shell_complete=completers.runs)
@options.answers
@options.runs_folder
@click.option("--json", "json", is_flag=True, help="Print the open questions as JSON, without answering.")
def answers(run: str, answers: Path | None, runs: Path, json: bool) -> int:
    out = Output(json)
    stored = options.stored_run(run, runs)
    is_over = stored.status(stored.state()) == CANCELLED
    waiting = waiting_questions(stored.events()) if not is_over else []
    if json:
        out.data({"run": stored.name, "questions": [_data(each) for each in waiting]})
        return 0
    inbox = Inbox(stored.store().files)
    left = [each for each in waiting if not inbox.has(each.where, each.fingerprint)]
    if not left:
        _refuse(stored, answered=bool(waiting))
    given = asyncio.run(_answered(left, inbox, answers, out))
    return _follow(stored, given, out) if given else 1


def _refuse(run: StoredRun, *, answered: bool) -> None:
    """Raises SkillrunError: there is nothing to answer."""
    typed = run.called(project_here())
    if answered:
        way = f"`skillrun resume {typed}` goes on with them, where nothing has the run"
        raise SkillrunError(f"what `{run.name}` asks is answered already", way)
    state = run.state()
    status = run.status(state)
    why = f": {state.reason}" if state.reason and status == state.status else ""
    raise SkillrunError(
        f"no question of `{run.name}` waits (it is {status}{why})",
        f"`skillrun show {typed}` tells where it stands",
    )


async def _answered(
    left: list[WaitingQuestions], inbox: Inbox, file: Path | None, out: Output
) -> list[WaitingQuestions]:
    """Those that were answered, from the file or else by asking. Raises SkillrunError where nobody can be asked."""
    if file is not None:
        prepared = read_answers(file)
        given = []
        for waiting in left:
            if (answers := prepared_answers(waiting, prepared)) is not None:
                leave(waiting, answers, inbox)
                given.append(waiting)
        for name in prepared.unused():
            out.note(f"warning: no question that waits has taken the prepared answer `{name}`")
        if not given:
            raise SkillrunError(f"{file} answers nothing that waits", f"it asks: {_told(left)}")
        return given
    if not has_terminal():
        raise UsageError(
            f"questions need a terminal: {_told(left)}",
            "run this command in a terminal, or give answers with `--answers FILE`",
        )
    return [waiting for waiting in left if await answer_here(waiting, inbox, out, {})]


def _told(left: list[WaitingQuestions]) -> str:
    """The questions as one line: their ids, and what may be answered."""
    lines = []
    for waiting in left:
        for question in waiting.questions:
            choices = ", ".join(map(on_one_line, choices_of(question)))
            asked = on_one_line(question.get("text", "")) + (f" ({choices})" if choices else "")
            lines.append(f"`{own_name(waiting.key, question)}`: {asked}")
    return "; ".join(lines)


def _follow(run: StoredRun, given: list[WaitingQuestions], out: Output) -> int:
    """Say what becomes of the answers; what the run has taken is told by the run itself."""
    typed = run.called(project_here())
    goes_on = (url := options.store_url()) and options.open_store(url).requeue(
        run.name
    )  # also of one that is about to wait
    if not run.lease.is_held():
        out.line(f"answered: {counted(sum(len(each.questions) for each in given), 'question')}")
        if goes_on:
            out.line("a worker goes on with the run")
            return 0
        out.line(f"next: `skillrun resume {typed}`")
        return 0
    places = {each.where for each in given}
    until = time.monotonic() + PATIENCE
    while len(taken := _taken(run, places)) < len(places) and time.monotonic() < until:
        time.sleep(BETWEEN)
    for event in taken:
        out.line(line_of({**event, "replayed": False}))
    if len(taken) == len(places):
        out.line("the run goes on")
    elif run.lease.is_held():
        out.line("the process that has the run has not taken it up yet; it does as soon as it gets there")
    else:
        out.line(f"next: `skillrun resume {typed}`")
    return 0


def _taken(run: StoredRun, places: set[str]) -> list[dict[str, Any]]:
    """What the run has taken for answers at these places, where it has asked for none since."""
    last = {event["address"]: event for event in run.events() if event["event"] in ("Asked", "Answered")}
    return [last[place] for place in sorted(places) if last[place]["event"] == "Answered"]


def _data(waiting: WaitingQuestions) -> dict[str, Any]:
    return {"address": waiting.where, "phase": waiting.phase, "questions": [dict(each) for each in waiting.questions]}
