"""`skillrun store export` and `import`: copy a run between the store and a folder."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from skillrun.cli import completion, options
from skillrun.cli.output import Output
from skillrun.store.artifacts import INBOX
from skillrun.store.local.local_store import LocalStore
from skillrun.store.stored_run import Store, StoredRun
from skillrun.syntax.diagnostics import UsageError


def copy_run(run: StoredRun, target: Store, name: str) -> StoredRun:
    """Copy a run to another store under this name, and leave the original unchanged. Holds both runs while copying.

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
            copied_journal.restore(journal.rows)
            transcript = copy.open_transcript()
            transcript.restore(run.transcript_lines())
            error = transcript.close()
            if error is not None:
                raise error
            files, source_files = copy.data(copied_journal, shared=shared).files, run.data().files
            run.copy_files(files)
            for path in source_files.matching(f"{INBOX}/*"):  # answers that the run has not read yet
                files.write(path, source_files.read(path))
            copy.apply_permissions(shared=shared)
    return copy


@click.command(help="Copy RUN from the store to the runs folder.")
@click.argument("run", shell_complete=completion.runs)
@click.option("--name", default="", metavar="SLUG", help="Name of the copy. Default: the same name.")
@options.runs_folder
@options.as_json
def export(run: str, name: str, runs: Path, json: bool) -> int:
    options.require_store_url()
    copy = copy_run(options.select_store(runs).open_run(run), LocalStore(runs), name or run)
    return _print_copied_run(run, copy.location, json=json)


@click.command("import", help="Copy a run to the store. FOLDER is the path of the run, or its name in the runs folder.")
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
