"""Copies a run between stores, record by record and byte by byte: journal, files and transcript."""

from __future__ import annotations

from contextlib import closing

from skillrun.store.artifact_names import INBOX
from skillrun.store.stored_run import Store, StoredRun
from skillrun.syntax.diagnostics import UsageError


def copy_run(run: StoredRun, target: Store, name: str) -> StoredRun:
    """Copy a run to another store under this name; the original stays. Both runs are held meanwhile.

    Raises UsageError if the name is taken, SkillrunError if another process holds the run or it cannot be read.
    """
    run.check()
    run.check_engine_files()
    with run.lease.hold():
        journal = run.journal_snapshot()
        shared = run.state().share
        copy = target.create_run(name, shared=shared)
        if copy.has_state:
            raise UsageError(f"the run `{name}` already exists in {target.location}", "choose another `--name`")
        with copy.lease.hold(), copy.rollback_on_failure(), closing(copy.open_or_create_journal()) as copied_journal:
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
            for path in source_files.matching(f"{INBOX}/*"):  # answers that the run has not taken yet
                files.write(path, source_files.read(path))
            copy.apply_permissions(shared=shared)
    return copy
