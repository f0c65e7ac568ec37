"""`skillrun runs`: lists the runs in the runs folder or in the store, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from skillrun.cli.formatting import format_table
from skillrun.cli.options import as_json, runs_folder, select_store, store_url
from skillrun.cli.output import Output

MAX_CELL_LENGTH: Final = 60  # characters of a column
HEADER: Final = ("run", "workflow", "status", "phase", "round", "started")
STATUSES: Final = ("queued", "running", "waiting", "completed", "failed", "interrupted", "cancelled")
DEFAULT_LIMIT: Final = 100  # for a store, which may contain many runs


@click.command(help="List the runs, newest first.")
@click.option(
    "--status", type=click.Choice(STATUSES), default=None, metavar="STATUS", help="List only runs with this status."
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help=f"Maximum number of runs; 0 for all. Default: {DEFAULT_LIMIT} from a store, all from a folder.",
)
@runs_folder
@as_json
def runs(status: str | None, limit: int | None, runs: Path, json: bool) -> int:
    out, is_store = Output(json), bool(store_url())
    most = limit if limit is not None else DEFAULT_LIMIT if is_store else 0
    run_store = select_store(runs)
    lines = run_store.overview(status or "", most)
    for line in lines:
        if line.unreadable:
            out.note(f"warning: {line.name}: {line.unreadable}")
    rows: list[tuple[str | int, ...]] = [
        (line.name, line.workflow, line.status, ", ".join(line.phase), line.round or "", line.started_at)
        for line in lines
    ]
    cells = [[str(value)[:MAX_CELL_LENGTH] for value in row] for row in rows]
    kind = f"{status} runs" if status else "runs"
    for text in (
        format_table(HEADER, cells) if rows else [f"there are no {kind} in {run_store.location if is_store else runs}"]
    ):
        out.line(text)
    if limit is None and most and len(rows) == most:
        out.note(f"only the newest {most} are listed; `--limit N` lists more, `--status STATUS` filters")
    out.data([dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0
