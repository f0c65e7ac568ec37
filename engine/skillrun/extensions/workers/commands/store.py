"""`skillrun store`: sets up, checks and prunes the Postgres store, and copies or edits the runs in it."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillrun.cli import completion, options
from skillrun.cli.editing import edit_file
from skillrun.cli.formatting import count_noun
from skillrun.cli.main import CommandGroup
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import OpenStore, open_database, open_store
from skillrun.library.settings import secret_names
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.artifacts import INBOX, variant_names
from skillrun.store.files import LARGEST
from skillrun.store.local.local_store import LocalStore
from skillrun.store.stored_run import Store, StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed_hint, did_you_mean

if TYPE_CHECKING:
    from skillrun.extensions.workers.postgres.files import RunEdits
    from skillrun.extensions.workers.working_copy import WorkingCopy

FINISHED_STATUSES: Final = ("completed", "failed", "cancelled")
PRUNABLE_STATUSES: Final = (*FINISHED_STATUSES, "interrupted", "waiting")


@click.group(cls=CommandGroup, help="Manage the Postgres store, in which several machines share runs.")
def store() -> None:
    """The group of store commands."""


@click.command(help="Create the store's tables, or upgrade them.")
@options.store
def migrate() -> int:
    from skillrun.extensions.workers.dispatch import install as install_queue
    from skillrun.extensions.workers.postgres.maintenance import migrate as migrated

    out, database = Output(), open_database(options.require_store_url())
    done = migrated(database)
    install_queue(database)
    versions = ", ".join(map(str, done))
    out.line(f"{database.location}: applied version {versions}" if done else f"{database.location}: is up to date")
    return 0


@click.command(help="Check the connection and the version, and count the runs.")
@options.store
def check() -> int:
    out, database = Output(), open_store(options.require_store_url()).database
    rows = database.rows("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status")
    out.line(f"{database.location}: {count_noun(sum(number for _, number in rows), 'run')}")
    for status, number in rows:
        out.line(f"  {status}: {number}")
    return 0


@click.command(help="Delete old runs that have ended, and unused content.")
@click.option(
    "--before", type=options.parse_duration, required=True, metavar="TIME", help="Minimum age, for example 90d or 12h."
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(PRUNABLE_STATUSES),
    multiple=True,
    default=FINISHED_STATUSES,
    metavar="STATUS",
    help=f"Only runs with this status; may be repeated. Default: {', '.join(FINISHED_STATUSES)}.",
)
@click.option("--yes", is_flag=True, help="Delete the runs. Without this option, only count them.")
@options.store
def prune(before: timedelta, statuses: tuple[str, ...], yes: bool) -> int:
    from skillrun.extensions.workers.postgres.maintenance import RunPruner

    out, database = Output(), open_store(options.require_store_url()).database
    pruning = RunPruner(database, before, statuses)
    if not yes:
        out.line(f"{database.location}: {count_noun(pruning.count(), 'run')} would be deleted: {', '.join(statuses)}")
        out.line("next: `--yes` deletes them; `skillrun store export RUN` saves a run in a folder")
        return 0
    number, sizes = pruning.remove()
    freed = f"{count_noun(len(sizes), 'unused file')}, {sum(sizes) / 1e6:,.1f} MB"
    out.line(f"{database.location}: deleted {count_noun(number, 'run')} and {freed}")
    return 0


def copy_run(run: StoredRun, target: Store, name: str) -> tuple[StoredRun, list[str]]:
    """Copy a run to the store `target` under `name`. Holds both runs while copying.

    Returns the copy, and the files that were left out, because no run has files with such names.

    Raises UsageError if the name is taken. Raises SkillrunError if another process holds the run, or if the run cannot
    be read.
    """
    run.check()
    run.check_engine_files()
    with run.lease.hold():
        journal = run.read_journal(while_held=True)
        shared = run.state().share
        copy = target.create_run(name, shared=shared)
        if copy.has_state:
            raise UsageError(f"the run `{name}` already exists in {target.location}", "choose another `--name`")
        with copy.lease.hold(), copy.rollback_on_failure(), closing(copy.open_journal(create=True)) as copied_journal:
            if not copied_journal.is_empty:
                raise UsageError(f"parts of a run `{name}` exist in {target.location}", "choose another `--name`")
            copied_journal.restore(journal.rows())
            transcript = copy.open_transcript()
            transcript.restore(run.transcript_lines())
            error = transcript.close()
            if error is not None:
                raise error
            files, source_files = copy.data(copied_journal, shared=shared).files, run.data().files
            left_out = run.copy_files(files)
            for path in source_files.matching(f"{INBOX}/*"):  # answers that the run has not read yet
                files.write(path, source_files.read(path))
            copy.apply_permissions(shared=shared)
    return copy, left_out


@click.command(help="Copy RUN from the store to the runs folder.")
@click.argument("run", shell_complete=completion.runs)
@click.option("--name", default="", metavar="SLUG", help="Name of the copy. Default: the same name.")
@options.runs_folder
@options.as_json
def export(run: str, name: str, runs: Path, out: Output) -> int:
    options.require_store_url()
    copied = copy_run(options.select_store(runs).open_run(run), LocalStore(runs), name or run)
    return _print_copied_run(run, *copied, out)


@click.command("import", help="Copy a run to the store. FOLDER is the path of the run, or its name in the runs folder.")
@click.argument("folder")
@click.option("--name", default="", metavar="SLUG", help="Name of the copy. Default: the folder's name.")
@options.runs_folder
@options.as_json
def import_run(folder: str, name: str, runs: Path, out: Output) -> int:
    options.require_store_url()
    path = options.run_folder_path(folder, runs)
    copied = copy_run(LocalStore(path.parent).open_run(path.name), options.select_store(runs), name or path.name)
    return _print_copied_run(path.name, *copied, out)


def _print_copied_run(name: str, copy: StoredRun, left_out: list[str], out: Output) -> int:
    _note_left_out(left_out, out)
    out.line(f"copied {name} to {copy.location}")
    out.data({"run": name, "place": copy.location})
    return 0


def _note_left_out(names: list[str], out: Output) -> None:
    if names:
        out.note(f"left out: {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}")


REQUEUE_OPTION = click.option("--go-on", "wanted", is_flag=True, help="Queue the run for a worker to resume.")


@click.command(help="Open FILE of RUN in your editor ($VISUAL or $EDITOR). Without FILE, list the files.")
@click.argument("run", shell_complete=completion.runs)
@click.argument("file", default="")
@REQUEUE_OPTION
@options.runs_folder
def edit(run: str, file: str, wanted: bool, runs: Path) -> int:
    from skillrun.extensions.workers.postgres.files import Edit, EditConflict

    out, (store, edits) = Output(), _open_run_edits(run, runs, file)
    files = edits.list_files()
    if not file:
        out.lines(files)
        return 0
    if file not in files:
        raise UsageError(f"`{run}` has no file `{file}`", did_you_mean(file, files) or allowed_hint(files))
    before = edits.content(files[file])
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        tree, name = ConfinedFolder(Path(folder)), Path(file).name
        tree.create(name, before)
        if not asyncio.run(edit_file(tree.path / name)):
            out.line(f"{file} is unchanged")
            return 0
        after = tree.read(name, LARGEST)
    try:
        edits.put({file: Edit(after, files[file])})
    except SkillrunError as error:
        message = error.message
        if isinstance(error, EditConflict):
            message = f"{file} was changed by another user meanwhile; the other user's version stays"
        hint = f"your version is in {_save_own_version(Path(file).name, after)}; {error.next_step}"
        raise SkillrunError(message, hint.removesuffix("; ")) from error
    out.line(f"changed {file} of {run}")
    _requeue_on_request(store, run, out, wanted=wanted)
    return 0


@click.command(
    help="Download the files of RUN into DIR. Default: a folder with the run's name. Files that you changed are kept."
)
@click.argument("run", shell_complete=completion.runs)
@click.argument("folder", metavar="[DIR]", default=None, required=False, type=click.Path(path_type=Path))
@options.runs_folder
@options.as_json
def pull(run: str, folder: Path | None, runs: Path, out: Output) -> int:
    store, edits = _open_run_edits(run, runs)
    copy = _working_copy(store, run, folder or Path(run))
    done = copy.pull(edits)
    for name, beside in done.beside.items():
        out.note(f"{name}: changed here and in the store; your version is kept, and the store's version is in {beside}")
    changed = f", {len(done.kept)} kept with your changes" if done.kept else ""
    out.line(f"pulled {count_noun(len(done.written), 'file')} into {copy.folder}{changed}")
    out.line(f"next: edit the files, then `skillrun store push {run}{f' {folder}' if folder else ''}`")
    out.data({"run": run, "folder": str(copy.folder), **vars(done)})
    return 1 if done.beside else 0


@click.command(
    help="Upload the changed files of DIR to RUN. If any of them also changed in the store, nothing is uploaded."
)
@click.argument("run", shell_complete=completion.runs)
@click.argument("folder", metavar="[DIR]", default=None, required=False, type=click.Path(path_type=Path))
@REQUEUE_OPTION
@options.runs_folder
@options.as_json
def push(run: str, folder: Path | None, wanted: bool, runs: Path, out: Output) -> int:
    from skillrun.cli.loading import open_library
    from skillrun.extensions.workers.postgres.files import EditConflict

    store, edits = _open_run_edits(run, runs)
    pull_command = f"skillrun store pull {run}{f' {folder}' if folder else ''}"
    copy = _working_copy(store, run, folder or Path(run))
    if copy.is_new:
        raise UsageError(f"{copy.folder} is not a copy of `{run}`", f"`{pull_command}` creates one")
    unsettled = copy.open_conflicts()
    if unsettled:
        hint = "merge each version into your file, delete the version, and push again"
        raise UsageError(f"conflicting versions from other users exist: {', '.join(unsettled)}", hint)
    changes, left_out = copy.changes(secret_names(open_library()))
    _note_left_out(left_out, out)
    size = sum(len(each.content) for each in changes.values())
    if changes:
        out.line(f"sending {count_noun(len(changes), 'file')}, {size / 1000:,.0f} KB: {', '.join(changes)}")
        try:
            edits.put(changes)
        except EditConflict as error:
            raise SkillrunError(error.message, f"`{pull_command}` writes the store's version next to yours") from error
        copy.record_push(changes)
    out.line(f"pushed {count_noun(len(changes), 'file')} to {run}")
    out.data({"run": run, "files": sorted(changes), "left_out": left_out})
    _requeue_on_request(store, run, out, wanted=wanted)
    return 0


def _open_run_edits(run: str, runs: Path, file: str = "") -> tuple[OpenStore, RunEdits]:
    """Return the opened store, and the files of `run` for editing. Raises UsageError for a run in a local folder."""
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

    options.check_links(folder)
    return WorkingCopy(folder, run, store.runs.location)


def _save_own_version(name: str, content: bytes) -> Path:
    """Save the user's version in the current folder under an unused name, and return its path."""
    with ConfinedFolder(Path.cwd()) as folder:
        return next(Path(candidate) for candidate in variant_names(name) if folder.create(candidate, content))


def _requeue_on_request(store: OpenStore, run: str, out: Output, *, wanted: bool) -> None:
    """Queue the run for a worker if `wanted`, and report the result."""
    if wanted and store.requeue(run):
        out.line("queued the run for a worker")
    elif wanted:
        reason = "it is already queued, has ended, or was not submitted"
        out.note(f"`{run}` was not queued: {reason}; see `skillrun show {run}`")
