"""`skillrun questions`: what the runs wait for, all of them."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli.formatting import counted
from skillrun.cli.options import as_json, runs_at, runs_folder
from skillrun.cli.output import Output
from skillrun.questions.answers import choices_of, on_one_line
from skillrun.store.inbox import Inbox, waiting_questions
from skillrun.syntax.diagnostics import SkillrunError


@click.command(help="List the open questions of all runs.")
@runs_folder
@as_json
def questions(runs: Path, json: bool) -> int:
    out = Output(json)
    told = []
    for name, run in runs_at(runs).listed():
        try:
            if isinstance(run, Exception):
                raise run
            if run.status(run.state()) != "waiting":
                continue
            inbox = Inbox(run.store().files)
            waiting = [each for each in waiting_questions(run.events()) if not inbox.has(each.where, each.fingerprint)]
        except (SkillrunError, OSError) as error:
            out.note(f"warning: {name}: {str(error).splitlines()[0]}")
            continue
        for each in waiting:
            for question in each.questions:
                choices = ", ".join(map(on_one_line, choices_of(question)))
                text = on_one_line(question.get("text", ""))
                out.line(f"{name}  {each.phase}  {question['id']}: {text}{f' ({choices})' if choices else ''}")
                told.append({"run": name, "phase": each.phase, "address": each.where, "question": dict(question)})
    end = f"{counted(len(told), 'question')}; `skillrun answers RUN` answers"
    out.line(end if told else "no run waits for an answer")
    out.data(told)
    return 0
