"""The files of an open journal: created atomically, watched while it is open, counted by the witness."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Final

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.store.checkpoints import kill_point
from skillrun.store.lease import LeaseLost
from skillrun.store.local.atomic import write_atomic
from skillrun.store.local.verification import DATABASE_SUFFIXES, JOURNAL, SCHEMA, SCHEMA_VERSION, WITNESS
from skillrun.syntax.diagnostics import SkillrunError

UNFINISHED: Final = JOURNAL + ".new"
DISK_HINT: Final = "nothing was started; check the free disk space and repeat the command"


class JournalFiles:
    """The files of a journal that is open for writing."""

    def __init__(self, folder: ConfinedFolder, line: bytes) -> None:
        """Watch the files, which must exist; `line` is written as the witness unless a complete one exists."""
        self._folder = folder
        witness = folder.stat_file(WITNESS)
        if witness is None or witness.st_size != len(line):
            write_atomic(folder, WITNESS, line)
        self._witness = folder.open(WITNESS, os.O_WRONLY)
        self._known = {name: folder.identity(name) for name in (JOURNAL, JOURNAL + DATABASE_SUFFIXES[0])}
        self._itself = folder.identity(WITNESS)

    def check(self) -> None:
        """Raises LeaseLost if a file was removed or replaced: further commits would be lost."""
        self._folder.check(verify_path=False)
        for name, identity in self._known.items():
            if self._folder.identity(name) != identity:
                raise LeaseLost(
                    f"{self._folder.path / name} was removed or replaced during the run",
                    "restore `.run` from a backup to resume this run, or start a new one",
                )

    def check_location(self) -> None:
        """Raises LeaseLost if the run has moved, so that no call may be sent for it."""
        self._folder.check()

    def attest(self, line: bytes) -> None:
        """Write the witness. Not synced: after a power failure it is an older, valid line."""
        if self._folder.identity(WITNESS) != self._itself:
            write_atomic(self._folder, WITNESS, line)
            os.close(self._witness)
            self._witness = self._folder.open(WITNESS, os.O_WRONLY)
            self._itself = self._folder.identity(WITNESS)
        os.pwrite(self._witness, line, 0)

    def close(self) -> None:
        os.close(self._witness)


def make_journal(folder: ConfinedFolder) -> None:
    """Create an empty journal in `.run`, whole or not at all. Raises SkillrunError if the disk is full."""
    _remove_leftovers(folder)
    try:
        os.close(folder.open(UNFINISHED, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        with contextlib.closing(sqlite3.connect(folder.path / UNFINISHED, isolation_level=None)) as database:
            # Not in the log: closing the database moves the log into it, and fails silently.
            database.execute("PRAGMA synchronous=FULL")
            database.execute(SCHEMA)
            database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            database.execute("PRAGMA journal_mode=WAL")
        _check_closed(folder)
        with folder.open_parent(UNFINISHED) as (parent, leaf):
            kill_point("rename journal.db: before")
            os.rename(leaf, "journal.db", src_dir_fd=parent, dst_dir_fd=parent)
            kill_point("rename journal.db: after")
            os.fsync(parent)
    except (sqlite3.Error, OSError) as error:
        with contextlib.suppress(OSError, PathRefused):
            _remove_leftovers(folder)
        raise SkillrunError(f"{folder.path / JOURNAL} cannot be created: {error}", DISK_HINT) from error


def _check_closed(folder: ConfinedFolder) -> None:
    log = folder.stat_file(UNFINISHED + DATABASE_SUFFIXES[0])
    if log is not None and log.st_size:
        raise OSError(f"{UNFINISHED} could not be closed")


def _remove_leftovers(folder: ConfinedFolder) -> None:
    for suffix in ("", *DATABASE_SUFFIXES):
        if folder.stat_file(UNFINISHED + suffix) is not None:
            folder.remove(UNFINISHED + suffix)
