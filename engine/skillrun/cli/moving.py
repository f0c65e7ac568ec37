"""`skillrun export` and `skillrun import`: a run goes between the store and a folder; the one it came from stays."""

from __future__ import annotations

from pathlib import Path

import click

from skillrun.cli import completing, options
from skillrun.cli.printing import Output
from skillrun.language.text.diagnostics import UsageError
from skillrun.runtime.store.disk.run_folders import RunFolders
from skillrun.runtime.store.moving import copied


@click.command(help="Copy RUN from the store into the folder of the runs.")
@click.argument("run", shell_complete=completing.runs)
@click.option("--name", default="", metavar="SLUG", help="What it is called there; as in the store without it.")
@options.runs_folder
@options.as_json
def export(run: str, name: str, runs: Path, json: bool) -> int:
    _check_store()
    copy = copied(options.runs_at(runs).existing(run), RunFolders(runs), name or run)
    return _said(run, copy.place, json=json)


@click.command("import", help="Copy the run in FOLDER, or of that name in the folder of the runs, into the store.")
@click.argument("folder")
@click.option("--name", default="", metavar="SLUG", help="What it is called there; as its folder without it.")
@options.runs_folder
@options.as_json
def import_run(folder: str, name: str, runs: Path, json: bool) -> int:
    _check_store()
    path = options.path_of(folder, runs)
    copy = copied(RunFolders(path.parent).existing(path.name), options.runs_at(runs), name or path.name)
    return _said(path.name, copy.place, json=json)


def _check_store() -> None:
    if not options.store_url():
        raise UsageError("no store is named", options.NO_STORE)


def _said(name: str, place: str, *, json: bool) -> int:
    out = Output(json)
    out.line(f"copied {name} to {place}")
    out.data({"run": name, "place": place})
    return 0
