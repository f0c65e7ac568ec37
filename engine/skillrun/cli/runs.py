"""`skillrun runs`: the runs in the runs folder, newest first."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli.options import as_json, runs_folder
from skillrun.cli.printing import Output
from skillrun.cli.story import read_state, status_of
from skillrun.cli.words import table
from skillrun.language.diagnostics import SkillrunError

HEADER = ("run", "workflow", "status", "phase", "round", "started")


@click.command(help="List the runs, newest first.")
@runs_folder
@as_json
def runs(runs: Path, json: bool) -> int:
    out = Output(json)
    rows: list[tuple[str | int, ...]] = []
    for file in runs.glob("*/state.md"):
        folder = file.parent
        try:
            state = read_state(folder)
        except SkillrunError as error:
            out.note(f"warning: {folder.name}: {error.message}")
            continue
        phases = ", ".join(state.phase)
        rows.append((folder.name, state.workflow, status_of(folder, state), phases, state.round, state.started_at))
    rows.sort(key=lambda row: row[-1], reverse=True)
    shown = [[str(value) for value in row] for row in rows]
    for line in table(HEADER, shown) if rows else [f"there are no runs in {runs}"]:
        out.line(line)
    out.data([dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0
