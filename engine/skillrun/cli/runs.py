"""`skillrun runs` lists the runs. `skillrun logs` prints the events in a run's transcript."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from skillrun.cli import completion, options
from skillrun.cli.formatting import format_event, format_table
from skillrun.cli.options import as_json, runs_folder, select_store, store_url
from skillrun.cli.output import Output
from skillrun.store.stored_run import RunNotStarted

MAX_CELL_LENGTH: Final = 60  # characters of a column
HEADER: Final = ("run", "workflow", "status", "phase", "round", "started", "request")
STATUSES: Final = ("queued", "running", "waiting", "completed", "failed", "interrupted", "cancelled")
DEFAULT_LIMIT: Final = 100  # for a store, which may contain many runs
POLL_INTERVAL: Final = 0.5  # seconds between checks whether the run has started


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
def runs(status: str | None, limit: int | None, runs: Path, out: Output) -> int:
    is_store = bool(store_url())
    most = limit if limit is not None else DEFAULT_LIMIT if is_store else 0
    run_store = select_store(runs)
    rows: list[tuple[str | int, ...]] = []
    for line in run_store.overview(status or "", most):
        if line.unreadable:
            out.note(f"warning: {line.name}: {line.unreadable}")
        phase, number = ", ".join(line.phase), line.round or ""
        rows.append((line.name, line.workflow, line.status, phase, number, line.started_at, line.request))
    if rows:
        cells = [[str(value)[:MAX_CELL_LENGTH] for value in row] for row in rows]
        out.lines(format_table(HEADER, cells))
    else:
        kind = f"{status} runs" if status else "runs"
        out.line(f"there are no {kind} in {run_store.location if is_store else runs}")
    if limit is None and most and len(rows) == most:
        out.note(f"only the newest {most} are listed; `--limit N` lists more, `--status STATUS` filters")
    out.data([dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


@click.command(help="Show the events of RUN, one per line.")
@click.argument("run", shell_complete=completion.runs)
@click.option("-f", "--follow", is_flag=True, help="Wait for new events until the run ends.")
@options.runs_folder
@click.option("--json", is_flag=True, help="Print the recorded events: one JSON object per line.")
def logs(run: str, follow: bool, runs: Path, json: bool) -> int:
    out, last_message = Output(), ""
    stored = None
    while stored is None:
        try:
            stored = options.open_run(run, runs)
        except RunNotStarted as error:  # a worker has not started it
            if not follow:
                raise
            if error.message != last_message:
                last_message = error.message
                out.note(last_message)
            time.sleep(POLL_INTERVAL)
    for event in stored.events(follow=follow):
        if json:
            out.record(event, needs_reader=True)
            continue
        clock = str(event.get("at", ""))[11:19]
        for part in format_event(event).splitlines():
            out.line(f"{clock}  {part}", needs_reader=True)
    return 0
