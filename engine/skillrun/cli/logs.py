"""`skillrun logs`: the events of a run, from its transcript; `-f` waits for more."""

from __future__ import annotations

import json as jsons
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from skillrun.cli import options
from skillrun.cli.printing import Output

POLL = 0.2  # seconds between two looks at a transcript that grows


@click.command(help="Show the events of RUN, a line each.")
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Wait for more until the run ends.")
@options.runs_folder
@click.option("--json", is_flag=True, help="The events as they are kept: a JSON object on each line.")
def logs(run: str, follow: bool, runs: Path, json: bool) -> int:
    from skillrun.cli.lines import line_of
    from skillrun.runtime.session import existing

    folder = existing(*options.located(run, runs))
    out = Output()
    for event in _events(folder, follow=follow):
        if json:
            out.line(jsons.dumps(event))
            continue
        line = line_of(event)
        if line:
            clock = str(event.get("at", ""))[11:19]
            out.line("\n".join(f"{clock}  {part}" for part in line.split("\n")))
    return 0


def _events(folder: Path, *, follow: bool) -> Iterator[dict[str, Any]]:
    from skillrun.cli.story import events, is_held

    if not follow:
        yield from events(folder)
        return
    path = folder / ".run" / "transcript.ndjson"
    rest = ""
    place = 0
    while True:
        held = is_held(folder)
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as file:
                file.seek(place)
                rest += file.read()
                place = file.tell()
        *whole, rest = rest.split("\n")
        for line in whole:
            event = jsons.loads(line)
            if isinstance(event, dict):
                yield event
        if not held:
            return
        time.sleep(POLL)
