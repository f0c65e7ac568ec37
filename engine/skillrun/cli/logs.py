"""`skillrun logs`: prints the events in a run's transcript; with `-f`, it also waits for new events."""

from __future__ import annotations

import json as jsons
import time
from pathlib import Path
from typing import Final

import click

from skillrun.cli import completers, options
from skillrun.cli.formatting import format_event
from skillrun.cli.output import Output
from skillrun.store.stored_run import RunNotStarted, StoredRun

POLL_INTERVAL: Final = 0.5  # seconds between checks whether the run has started


@click.command(help="Show the events of RUN, one per line.")
@click.argument("run", shell_complete=completers.runs)
@click.option("-f", "--follow", is_flag=True, help="Wait for new events until the run ends.")
@options.runs_folder
@click.option("--json", is_flag=True, help="Print the recorded events: one JSON object per line.")
def logs(run: str, follow: bool, runs: Path, json: bool) -> int:
    out = Output()
    stored = _wait_for_start(run, runs, out) if follow else options.open_run(run, runs)
    for event in stored.events(follow=follow):
        if json:
            out.line(jsons.dumps(event))
            continue
        clock = str(event.get("at", ""))[11:19]
        for part in format_event(event).splitlines():
            out.line(f"{clock}  {part}")
    return 0


def _wait_for_start(run: str, runs: Path, out: Output) -> StoredRun:
    """Return the run once a worker has started it. Until then, print the reason for waiting each time it changes."""
    last_message = ""
    while True:
        try:
            return options.open_run(run, runs)
        except RunNotStarted as error:
            if error.message != last_message:
                last_message = error.message
                out.note(last_message)
            time.sleep(POLL_INTERVAL)
