"""`skillrun questions`: lists the open questions of all runs."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli.formatting import count_noun
from skillrun.cli.options import as_json, runs_folder, select_store
from skillrun.cli.output import Output
from skillrun.questions.answers import choices_of, to_one_line
from skillrun.store.inbox import AnswerInbox, pending_questions
from skillrun.syntax.diagnostics import SkillrunError


@click.command(help="List the open questions of all runs.")
@runs_folder
@as_json
def questions(runs: Path, json: bool) -> int:
    out = Output(json)
    rows = []
    for name, run in select_store(runs).list_runs():
        try:
            if isinstance(run, Exception):
                raise run
            if run.status(run.state()) != "waiting":
                continue
            inbox = AnswerInbox(run.data().files)
            waiting = [
                each for each in pending_questions(run.events()) if not inbox.has(each.address, each.fingerprint)
            ]
        except (SkillrunError, OSError) as error:
            out.note(f"warning: {name}: {str(error).splitlines()[0]}")
            continue
        for each in waiting:
            for question in each.questions:
                choices = ", ".join(map(to_one_line, choices_of(question)))
                text = to_one_line(question.get("text", ""))
                out.line(f"{name}  {each.phase}  {question['id']}: {text}{f' ({choices})' if choices else ''}")
                rows.append({"run": name, "phase": each.phase, "address": each.address, "question": dict(question)})
    end = f"{count_noun(len(rows), 'question')}; `skillrun answers RUN` answers them"
    out.line(end if rows else "no open questions")
    out.data(rows)
    return 0
