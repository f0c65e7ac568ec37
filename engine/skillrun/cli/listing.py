"""`skillrun list`: the workflows, protocols and roles on the search path, and where each comes from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from skillrun.cli import shelf
from skillrun.cli.figures import table
from skillrun.cli.options import as_json
from skillrun.cli.printing import Output


@click.command(name="list", help="Show the workflows, protocols and roles that are found, and where each comes from.")
@as_json
def listing(json: bool) -> int:
    out = Output(json)
    project = Path.cwd()
    found = {
        "workflows": shelf.workflows(project),
        "protocols": shelf.protocols(project),
        "roles": shelf.roles(project),
    }
    if json:
        out.data({title: [asdict(item) for item in items] for title, items in found.items()})
        return 0
    for number, (title, items) in enumerate(found.items()):
        if number:
            out.line()
        out.line(f"{title}:")
        for line in table(["", "", ""], [[f"  {item.name}", item.origin, item.description] for item in items])[1:]:
            out.line(line)
    return 0
