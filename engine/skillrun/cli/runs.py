"""`skillrun runs`: the runs in the runs folder, newest first."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli.options import as_json, runs_folder
from skillrun.cli.printing import Output
from skillrun.cli.story import read_state, status_of
from skillrun.cli.words import table
from skillrun.language.text.diagnostics import SkillrunError
from skillrun.runtime.store.disk.run_folder import RunFolder
from skillrun.runtime.store.disk.run_names import is_run
from skillrun.tools.paths import PathRefused
from skillrun.tools.tree import Tree

LONGEST = 60  # characters of a column
HEADER = ("run", "workflow", "status", "phase", "round", "started")


@click.command(help="List the runs, newest first.")
@runs_folder
@as_json
def runs(runs: Path, json: bool) -> int:
    out = Output(json)
    rows: list[tuple[str | int, ...]] = []
    names = Tree(runs.resolve(), links=True).entries() if runs.is_dir() else []
    for name, kind in names:
        folder = runs.resolve() / name
        try:
            if kind == "link" and is_run(folder):
                raise PathRefused(f"{folder} is a symbolic link")
            if kind != "folder" or not RunFolder(folder).has_state:
                continue
            state = read_state(folder)
            status = status_of(folder, state)
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
