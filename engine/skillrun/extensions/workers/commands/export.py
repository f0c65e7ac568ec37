"""`skillrun export` and `skillrun import`: a run goes between the store and a folder; the one it came from stays."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli import completers, options
from skillrun.cli.output import Output
from skillrun.store.copying import copied
from skillrun.store.local.local_store import RunFolders


@click.command(help="Copy RUN from the store to the runs folder.")
@click.argument("run", shell_complete=completers.runs)
@click.option("--name", default="", metavar="SLUG", help="Name of the copy. Default: the same name.")
@options.runs_folder
@options.as_json
def export(run: str, name: str, runs: Path, json: bool) -> int:
    options.named_store()
    copy = copied(options.runs_at(runs).existing(run), RunFolders(runs), name or run)
    return _said(run, copy.place, json=json)


@click.command("import", help="Copy a run to the store. FOLDER is its path, or its name in the runs folder.")
@click.argument("folder")
@click.option("--name", default="", metavar="SLUG", help="Name of the copy. Default: the folder's name.")
@options.runs_folder
@options.as_json
def import_run(folder: str, name: str, runs: Path, json: bool) -> int:
    options.named_store()
    path = options.path_of(folder, runs)
    copy = copied(RunFolders(path.parent).existing(path.name), options.runs_at(runs), name or path.name)
    return _said(path.name, copy.place, json=json)


def _said(name: str, place: str, *, json: bool) -> int:
    out = Output(json)
    out.line(f"copied {name} to {place}")
    out.data({"run": name, "place": place})
    return 0
