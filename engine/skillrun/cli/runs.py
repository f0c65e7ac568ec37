"""`skillrun runs`: the runs in the runs folder, or in the store, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from skillrun.cli.formatting import table
from skillrun.cli.options import as_json, runs_at, runs_folder, store_url
from skillrun.cli.output import Output

LONGEST: Final = 60  # characters of a column
HEADER: Final = ("run", "workflow", "status", "phase", "round", "started")
STATUSES: Final = ("queued", "running", "waiting", "completed", "failed", "interrupted", "cancelled")
USUAL: Final = 100  # of a store, which may hold any number


@click.command(help="List the runs, newest first.")
@click.option(
    "--status", type=click.Choice(STATUSES), default=None, metavar="STATUS", help="Only runs with this status."
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help=f"Maximum number of runs; 0 for all. Default: {USUAL} from a store, all from a folder.",
)
@runs_folder
@as_json
def runs(status: str | None, limit: int | None, runs: Path, json: bool) -> int:
    out, is_store = Output(json), bool(store_url())
    most = limit if limit is not None else USUAL if is_store else 0
    where = runs_at(runs)
    lines = where.overview(status or "", most)
    for line in lines:
        if line.unreadable:
            out.note(f"warning: {line.name}: {line.unreadable}")
    rows: list[tuple[str | int, ...]] = [
        (line.name, line.workflow, line.status, ", ".join(line.phase), line.round or "", line.started_at)
        for line in lines
    ]
    cells = [[str(value)[:LONGEST] for value in row] for row in rows]
    kind = f"{status} runs" if status else "runs"
    for text in table(HEADER, cells) if rows else [f"there are no {kind} in {where.place if is_store else runs}"]:
        out.line(text)
    if limit is None and most and len(rows) == most:
        out.note(f"these are the newest {most}; `--limit N` shows more, `--status STATUS` fewer")
    out.data([dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0
