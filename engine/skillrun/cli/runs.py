"""`skillrun runs`: the runs in the runs folder, newest first."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli.options import as_json, runs_at, runs_folder
from skillrun.cli.printing import Output
from skillrun.cli.story import status_of
from skillrun.cli.words import table
from skillrun.language.text.diagnostics import SkillrunError

LONGEST = 60  # characters of a column
HEADER = ("run", "workflow", "status", "phase", "round", "started")


@click.command(help="List the runs, newest first.")
@runs_folder
@as_json
def runs(runs: Path, json: bool) -> int:
    out = Output(json)
    rows: list[tuple[str | int, ...]] = []
    for name, run in runs_at(runs).listed():
        try:
            if isinstance(run, Exception):
                raise run
            state = run.state()
            status = status_of(run, state)
        except (SkillrunError, OSError) as error:
            out.note(f"warning: {name}: {str(error).splitlines()[0]}")
            rows.append((name, "", "unreadable", "", "", ""))
            continue
        rows.append((name, state.workflow, status, ", ".join(state.phase), state.round, state.started_at))
    rows.sort(key=lambda row: row[-1], reverse=True)
    cells = [[str(value)[:LONGEST] for value in row] for row in rows]
    for line in table(HEADER, cells) if rows else [f"there are no runs in {runs}"]:
        out.line(line)
    out.data([dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0
