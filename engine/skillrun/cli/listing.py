"""`skillrun list`: the workflows, protocols and roles on the search path, and where each comes from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from skillrun.cli.options import as_json
from skillrun.cli.printing import Output
from skillrun.cli.shelf import FOLDERS, items
from skillrun.cli.words import listed


@click.command(name="list", help="Show the workflows, protocols and roles that are found, and where each comes from.")
@as_json
def listing(json: bool) -> int:
    out = Output(json)
    found = {title: items(Path.cwd(), folder) for title, folder in FOLDERS.items()}
    for title, all_of_it in found.items():
        out.line(f"{title}:")
        out.line(listed((f"  {item.name}", f"{item.description} ({item.origin})") for item in all_of_it))
    out.data({title: [asdict(item) for item in all_of_it] for title, all_of_it in found.items()})
    return 0
