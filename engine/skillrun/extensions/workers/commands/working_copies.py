"""`skillrun store edit`, `pull` and `push`: edit the files of a run in a store."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillrun.cli import completion, options
from skillrun.cli.editing import edit_file
from skillrun.cli.formatting import count_noun
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import OpenStore, open_store
from skillrun.store.local.local_store import LocalStore
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed_hint, did_you_mean

if TYPE_CHECKING:
    from skillrun.extensions.workers.postgres.edits import RunEdits
    from skillrun.extensions.workers.working_copy import WorkingCopy

REQUEUE_OPTION = click.option("--go-on", "wanted", is_flag=True, help="Queue the run, so that a worker resumes it.")


@click.command(help="Open FILE of RUN in your editor ($VISUAL or $EDITOR). Without FILE, list the files.")
@click.argument("run", shell_complete=completion.runs)
@click.argument("file", default="")
@REQUEUE_OPTION
@options.runs_folder
def edit(run: str, file: str, wanted: bool, runs: Path) -> int:
    from skillrun.extensions.workers.postgres.edits import Edit, EditConflict

    out, (store, edits) = Output(), _open_run_edits(run, runs, file)
    files = edits.list_files()
    if not file:
        for name in files:
            out.line(name)
        return 0
    if file not in files:
        raise UsageError(f"`{run}` has no file `{file}`", did_you_mean(file, files) or allowed_hint(files))
    before = edits.content(files[file])
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        path = Path(folder) / Path(file).name
        path.write_bytes(before)
        if not asyncio.run(edit_file(path)):
            out.line(f"{file} is unchanged")
            return 0
        after = path.read_bytes()
    try:
        edits.put({file: Edit(after, files[file])})
    except EditConflict as error:
        kept = _save_own_version(Path(file).name, after)
        raise SkillrunError(
            f"{file} was changed by another user meanwhile; the other user's version stays",
            f"your version is in {kept}",
        ) from error
    except SkillrunError as error:
        kept = _save_own_version(Path(file).name, after)
        raise SkillrunError(
            error.message, f"your version is in {kept}; {error.next_step}".removesuffix("; ")
        ) from error
    out.line(f"changed {file} of {run}")
    _requeue_on_request(store, run, out, wanted=wanted)
    return 0


@click.command(
    help="Download the files of RUN into DIR. Default: a folder with the run's name. Files that you changed there stay."
)
@click.argument("run", shell_complete=completion.runs)
@click.argument("folder", metavar="[DIR]", default=None, required=False, type=click.Path(path_type=Path))
@options.runs_folder
@options.as_json
def pull(run: str, folder: Path | None, runs: Path, json: bool) -> int:
    out, (store, edits) = Output(json), _open_run_edits(run, runs)
    copy = _working_copy(store, run, folder or Path(run))
    done = copy.pull(edits)
    for name, beside in done.beside.items():
        out.note(f"{name}: changed on both sides; your version stays, theirs is {beside}")
    changed = f", {len(done.kept)} kept with your changes" if done.kept else ""
    out.line(f"pulled {count_noun(len(done.written), 'file')} into {copy.folder}{changed}")
    out.line(f"next: edit them, then `skillrun store push {run}{f' {folder}' if folder else ''}`")
    out.data({"run": run, "folder": str(copy.folder), **vars(done)})
    return 1 if done.beside else 0


@click.command(
    help="Upload the files that you changed in DIR to RUN. If one has changed in the store, nothing is uploaded."
)
@click.argument("run", shell_complete=completion.runs)
@click.argument("folder", metavar="[DIR]", default=None, required=False, type=click.Path(path_type=Path))
@REQUEUE_OPTION
@options.runs_folder
@options.as_json
def push(run: str, folder: Path | None, wanted: bool, runs: Path, json: bool) -> int:
    from skillrun.cli.loading import open_library
    from skillrun.extensions.workers.postgres.edits import EditConflict
    from skillrun.library.settings import secret_names

    out, (store, edits) = Output(json), _open_run_edits(run, runs)
    pull_command = f"skillrun store pull {run}{f' {folder}' if folder else ''}"
    copy = _working_copy(store, run, folder or Path(run))
    if copy.is_new:
        raise UsageError(f"{copy.folder} is not a copy of `{run}`", f"`{pull_command}` creates one")
    unsettled = copy.open_conflicts()
    if unsettled:
        hint = "merge them into your files, delete them, and push again"
        raise UsageError(f"conflicting versions from other users exist: {', '.join(unsettled)}", hint)
    changes, left_out = copy.changes(secret_names(open_library()))
    if left_out:
        out.note(f"left out: {', '.join(left_out[:5])}{f' and {len(left_out) - 5} more' if len(left_out) > 5 else ''}")
    size = sum(len(each.content) for each in changes.values())
    if changes:
        out.line(f"sending {count_noun(len(changes), 'file')}, {size / 1000:,.0f} KB: {', '.join(changes)}")
        try:
            edits.put(changes)
        except EditConflict as error:
            raise SkillrunError(error.message, f"`{pull_command}` writes their version next to yours") from error
        copy.record_push(changes)
    out.line(f"pushed {count_noun(len(changes), 'file')} to {run}")
    out.data({"run": run, "files": sorted(changes), "left_out": left_out})
    _requeue_on_request(store, run, out, wanted=wanted)
    return 0


def _open_run_edits(run: str, runs: Path, file: str = "") -> tuple[OpenStore, RunEdits]:
    """Open the store, and the files of one of its runs for editing. Raises UsageError for a run in a local folder."""
    url = options.store_url()
    path = options.run_folder_path(run, runs)
    if not url or "/" in run:
        if LocalStore(path.parent).has(path.name):
            location = path / file if file else path
            raise UsageError(f"`{run}` is a run in a local folder", f"edit its files in {location}")
        options.require_store_url()
    store = open_store(url)
    return store, store.runs.open_run(run).edits()


def _working_copy(store: OpenStore, run: str, folder: Path) -> WorkingCopy:
    from skillrun.extensions.workers.working_copy import WorkingCopy

    return WorkingCopy(folder, run, store.runs.location)


def _save_own_version(name: str, content: bytes) -> Path:
    """Save the user's version in the current folder under a free name, and return its path."""
    from skillrun.store.artifacts import variant_names

    for candidate in variant_names(name):
        try:
            with Path(candidate).open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return Path(candidate)
    raise AssertionError("unreachable")


def _requeue_on_request(store: OpenStore, run: str, out: Output, *, wanted: bool) -> None:
    """Queue the run for a worker, if `wanted`."""
    if not wanted:
        return
    if store.requeue(run):
        out.line("queued the run for a worker")
    else:
        out.note(
            f"`{run}` was not queued: it is already queued, has ended, or was not submitted; see `skillrun show {run}`"
        )
