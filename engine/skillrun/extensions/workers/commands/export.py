"""`skillrun export` and `skillrun import`: copy a run between the store and a folder."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli import completers, options
from skillrun.cli.output import Output
from skillrun.store.copying import copy_run
from skillrun.store.local.local_store import LocalStore


@click.command(help="Copy RUN from the store to the runs folder.")
@click.argument("run", shell_complete=completers.runs)
@click.option("--name", default="", metavar="SLUG", help="Name of the copy. Default: the same name.")
@options.runs_folder
@options.as_json
def export(run: str, name: str, runs: Path, json: bool) -> int:
    options.require_store_url()
    copy = copy_run(options.select_store(runs).open_run(run), LocalStore(runs), name or run)
    return _print_copied_run(run, copy.location, json=json)


@click.command("import", help="Copy a run to the store. FOLDER is its path, or its name in the runs folder.")
@click.argument("folder")
@click.option("--name", default="", metavar="SLUG", help="Name of the copy. Default: the folder's name.")
@options.runs_folder
@options.as_json
def import_run(folder: str, name: str, runs: Path, json: bool) -> int:
    options.require_store_url()
    path = options.run_folder_path(folder, runs)
    copy = copy_run(LocalStore(path.parent).open_run(path.name), options.select_store(runs), name or path.name)
    return _print_copied_run(path.name, copy.location, json=json)


def _print_copied_run(name: str, place: str, *, json: bool) -> int:
    out = Output(json)
    out.line(f"copied {name} to {place}")
    out.data({"run": name, "place": place})
    return 0
