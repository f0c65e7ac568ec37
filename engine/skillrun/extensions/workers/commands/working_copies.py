"""`skillrun edit`, `pull` and `push`: the files of a run in a store, changed by a person on whatever machine."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillrun.cli import completers, options
from skillrun.cli.editing import edited
from skillrun.cli.formatting import counted
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import Store, open_store
from skillrun.store.local.local_store import RunFolders
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed, did_you_mean

if TYPE_CHECKING:
    from skillrun.extensions.workers.postgres.edits import RunEdits
    from skillrun.extensions.workers.working_copy import WorkingCopy

GO_ON = click.option("--go-on", "wanted", is_flag=True, help="Queue the run, so that a worker resumes it.")


@click.command(help="Open FILE of RUN in your editor ($VISUAL or $EDITOR). Without FILE, list the files.")
@click.argument("run", shell_complete=completers.runs)
@click.argument("file", default="")
@GO_ON
@options.runs_folder
def edit(run: str, file: str, wanted: bool, runs: Path) -> int:
    from skillrun.extensions.workers.postgres.edits import Changed, Edit

    out, (store, edits) = Output(), _opened(run, runs, file)
    there = edits.listed()
    if not file:
        for name in there:
            out.line(name)
        return 0
    if file not in there:
        raise UsageError(f"`{run}` has no file `{file}`", did_you_mean(file, there) or allowed(there))
    before = edits.content(there[file])
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        path = Path(folder) / Path(file).name
        path.write_bytes(before)
        if not asyncio.run(edited(path)):
            out.line(f"{file} is as it was")
            return 0
        after = path.read_bytes()
    try:
        edits.put({file: Edit(after, there[file])})
    except Changed as error:
        kept = _kept(Path(file).name, after)
        raise SkillrunError(
            f"{file} was changed by somebody else meanwhile, and theirs stays", f"yours is in {kept}"
        ) from error
    except SkillrunError as error:
        kept = _kept(Path(file).name, after)
        raise SkillrunError(error.message, f"yours is in {kept}; {error.next_step}".removesuffix("; ")) from error
    out.line(f"changed {file} of {run}")
    _go_on(store, run, out, wanted=wanted)
    return 0


@click.command(
    help="Download the files of RUN into DIR. Default: a folder with the run's name. Keeps files changed there."
)
@click.argument("run", shell_complete=completers.runs)
@click.argument("folder", metavar="[DIR]", default=None, required=False, type=click.Path(path_type=Path))
@options.runs_folder
@options.as_json
def pull(run: str, folder: Path | None, runs: Path, json: bool) -> int:
    out, (store, edits) = Output(json), _opened(run, runs)
    copy = _copy(store, run, folder or Path(run))
    done = copy.pull(edits)
    for name, beside in done.beside.items():
        out.note(f"{name}: changed on both sides; yours stays, theirs is {beside}")
    changed = f", {len(done.kept)} kept as you changed them" if done.kept else ""
    out.line(f"pulled {counted(len(done.written), 'file')} into {copy.folder}{changed}")
    out.line(f"next: change them, then `skillrun push {run}{f' {folder}' if folder else ''}`")
    out.data({"run": run, "folder": str(copy.folder), **vars(done)})
    return 1 if done.beside else 0


@click.command(
    help="Upload the files that you changed in DIR to RUN: all of them, or none if one has changed in the store."
)
@click.argument("run", shell_complete=completers.runs)
@click.argument("folder", metavar="[DIR]", default=None, required=False, type=click.Path(path_type=Path))
@GO_ON
@options.runs_folder
@options.as_json
def push(run: str, folder: Path | None, wanted: bool, runs: Path, json: bool) -> int:
    from skillrun.cli.loading import open_library
    from skillrun.extensions.workers.postgres.edits import Changed
    from skillrun.library.secrets import secret_names

    out, (store, edits) = Output(json), _opened(run, runs)
    typed = f"skillrun pull {run}{f' {folder}' if folder else ''}"
    copy = _copy(store, run, folder or Path(run))
    if copy.is_new:
        raise UsageError(f"{copy.folder} is no copy of `{run}`", f"`{typed}` makes one")
    unsettled = copy.unsettled()
    if unsettled:
        hint = "take from them what you want, then remove them, and push again"
        raise UsageError(f"what others have changed stands beside yours: {', '.join(unsettled)}", hint)
    changes, left = copy.changes(secret_names(open_library()))
    if left:
        out.note(f"left out: {', '.join(left[:5])}{f' and {len(left) - 5} more' if len(left) > 5 else ''}")
    size = sum(len(each.content) for each in changes.values())
    if changes:
        out.line(f"sending {counted(len(changes), 'file')}, {size / 1000:,.0f} KB: {', '.join(changes)}")
        try:
            edits.put(changes)
        except Changed as error:
            raise SkillrunError(error.message, f"`{typed}` puts theirs beside yours") from error
        copy.brought(changes)
    out.line(f"pushed {counted(len(changes), 'file')} to {run}")
    out.data({"run": run, "files": sorted(changes), "left_out": left})
    _go_on(store, run, out, wanted=wanted)
    return 0


def _opened(run: str, runs: Path, file: str = "") -> tuple[Store, RunEdits]:
    """The store, and the files of a run in it. Raises UsageError for a run in a folder, whose files are there."""
    url = options.store_url()
    path = options.path_of(run, runs)
    if not url or "/" in run:
        if RunFolders(path.parent).has(path.name):
            what = path / file if file else path
            raise UsageError(f"`{run}` is in a folder, and its files are there", f"change them in {what}")
        options.named_store()
    store = open_store(url)
    return store, store.runs.existing(run).edits()


def _copy(store: Store, run: str, folder: Path) -> WorkingCopy:
    from skillrun.extensions.workers.working_copy import WorkingCopy

    return WorkingCopy(folder, run, store.runs.place)


def _kept(name: str, content: bytes) -> Path:
    """A file beside nothing else, in the current folder, with what a person has written."""
    from skillrun.store.artifact_names import names_beside

    for beside in names_beside(name):
        try:
            with Path(beside).open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return Path(beside)
    raise AssertionError("numbers have ended")


def _go_on(store: Store, run: str, out: Output, *, wanted: bool) -> None:
    """Have a worker go on, where that was typed."""
    if not wanted:
        return
    if store.requeue(run):
        out.line("a worker goes on with the run")
    else:
        out.note(f"`{run}` is being run, is over, or was not submitted: `skillrun show {run}`")
