"""A run goes from one place to another, record by record and byte by byte: journal, files and transcript."""

from __future__ import annotations

from contextlib import closing

from skillrun.store.artifact_names import INBOX
from skillrun.store.stored_run import Runs, StoredRun
from skillrun.syntax.diagnostics import UsageError


def copied(run: StoredRun, runs: Runs, name: str) -> StoredRun:
    """The run as it is in its new place, under that name; the old one stays. Nobody runs either meanwhile.

    Raises UsageError where the name is taken, SkillrunError where the run is being run or cannot be read whole.
    """
    run.check()
    run.check_inside()
    with run.lease.hold():
        journal = run.journal_so_far()
        shared = run.state().share
        copy = runs.new(name, shared=shared)
        if copy.has_state:
            raise UsageError(f"the run `{name}` already exists in {runs.place}", "choose another `--name`")
        with copy.lease.hold(), copy.undone(), closing(copy.new_journal()) as own:
            if not own.empty:
                raise UsageError(f"something of a run `{name}` is in {runs.place}", "choose another `--name`")
            own.restore(journal.rows)
            transcript = copy.transcript()
            transcript.restore(run.lines())
            error = transcript.close()
            if error is not None:
                raise error
            files, others = copy.store(own, shared=shared).files, run.store().files
            run.copy_files(files)
            for path in others.matching(f"{INBOX}/*"):  # answers that were left and not taken yet
                files.write(path, others.read(path))
            copy.settle_modes(shared=shared)
    return copy
