"""`skillrun logs`: the events of a run, from its transcript; `-f` waits for more."""

from __future__ import annotations

import json as jsons
from pathlib import Path

import click

from skillrun.cli import completing, options
from skillrun.cli.printing import Output
from skillrun.cli.words import line_of


@click.command(help="Show the events of RUN, a line each.")
@click.argument("run", shell_complete=completing.runs)
@click.option("-f", "--follow", is_flag=True, help="Wait for more until the run ends.")
@options.runs_folder
@click.option("--json", is_flag=True, help="The events as they are kept: a JSON object on each line.")
def logs(run: str, follow: bool, runs: Path, json: bool) -> int:
    out = Output()
    for event in options.stored_run(run, runs).events(follow=follow):
        if json:
            out.line(jsons.dumps(event))
            continue
        clock = str(event.get("at", ""))[11:19]
        for part in line_of(event).splitlines():
            out.line(f"{clock}  {part}")
    return 0
