"""Stores the journal of a run in SQLite, in `.run/journal.db`: append-only, hash-chained and synced.

Once `record` has returned, the record survives the death of the process. Opening a journal verifies all of it before
changing anything.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.store.files import LeaseLost
from skillrun.store.journal import (
    RESTORE_HINT,
    BodyCheck,
    Index,
    Journal,
    JournalDamaged,
    JournalRow,
    accept_any_body,
)
from skillrun.store.kill_points import kill_point
from skillrun.store.local.local_files import open_tree, write_atomic
from skillrun.store.local.lock import LocalLease, ensure_engine_folder, held_error
from skillrun.store.local.verification import (
    DATABASE_SUFFIXES,
    JOURNAL,
    SCHEMA,
    SCHEMA_VERSION,
    WITNESS,
    check_journal_files,
    copy_journal,
    format_witness,
    read_witness,
    verify,
)
from skillrun.store.memory import MemoryJournal
from skillrun.store.rows import TEXT
from skillrun.syntax.diagnostics import SkillrunError

UNFINISHED: Final = JOURNAL + ".new"
DISK_HINT: Final = "nothing was started; check the free disk space and repeat the command"


def make_journal(folder: ConfinedFolder) -> None:
    """Create an empty journal in `.run`, completely or not at all. Raises SkillrunError if the disk is full."""
    _remove_leftovers(folder)
    try:
        os.close(folder.open(UNFINISHED, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        with contextlib.closing(sqlite3.connect(folder.path / UNFINISHED, isolation_level=None)) as database:
            # Written without a log: closing a database moves its log into the file, and does not report a failure.
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


_PERMISSIONS: Final = (
    "Nothing was lost. Check the permissions of its folder and the free disk space, then resume the run."
)
_INSERT: Final = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)"
MAX_COPY_ATTEMPTS: Final = 20  # for a journal that another process writes
RETRY_SECONDS: Final = 0.05  # seconds
_UNSYNCED: Final = frozenset({"sent", "tried", "summary", TEXT})


class SqliteJournal(Journal):
    """A `Journal` on disk. The run's lock ensures that only one process uses it at a time.

    Records of one iteration of the event loop share a commit. A commit is synced to the disk unless it contains only
    `sent`, `tried` and `summary` records. An unsynced commit survives the death of the process, because the operating
    system has the data. A power failure can lose only commits after the last synced commit. Such a loss does little
    harm. A call whose `sent` record is lost has no reply in the journal, and is repeated in any case. Edits of a
    summary whose hash is lost are not noticed. The witness counts only synced records, so it never counts more records
    than the journal has.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        index: Index,
        fits: BodyCheck,
        folder: ConfinedFolder,
        warning: str = "",
    ) -> None:
        """Watch the files of the journal. Write the witness, unless a complete witness exists."""
        super().__init__(index, fits, warning)
        self._database, self._folder = database, folder
        self._synchronous = ""
        witness, line = folder.stat_file(WITNESS), format_witness(index)
        if witness is None or witness.st_size != len(line):
            write_atomic(folder, WITNESS, line)
        self._witness = folder.open(WITNESS, os.O_WRONLY)
        self._witness_identity = folder.identity(WITNESS)
        self._identities = {name: folder.identity(name) for name in (JOURNAL, JOURNAL + DATABASE_SUFFIXES[0])}

    @classmethod
    def create(cls, run_folder: ConfinedFolder | Path, fits: BodyCheck = accept_any_body) -> SqliteJournal:
        """Create a journal in `<run_folder>/.run`. Raises FileExistsError if one exists, PathRefused for links."""
        folder = open_tree(run_folder)
        ensure_engine_folder(folder)
        if check_journal_files(folder) or folder.stat_file(WITNESS) is not None:
            raise FileExistsError(folder.path / JOURNAL)
        make_journal(folder)
        return cls.open(folder, fits)

    @classmethod
    def open(cls, run_folder: ConfinedFolder | Path, fits: BodyCheck = accept_any_body) -> SqliteJournal:
        """Open and verify a journal. Raises JournalDamaged, JournalNewer, JournalOlder, JournalShortened."""
        folder = open_tree(run_folder)
        path = folder.path / JOURNAL
        ensure_engine_folder(folder)
        try:
            check_journal_files(folder)
            witness = read_witness(folder)
            index, warning = verify(path, witness, path)
            database = sqlite3.connect(path, isolation_level=None)
            opened, expected = path.stat(follow_symlinks=False), folder.stat(JOURNAL)
            if (opened.st_dev, opened.st_ino) != (expected.st_dev, expected.st_ino):
                raise PathRefused(
                    f"{path} was replaced while it was opened",
                    "nothing was recorded; find out which process writes there",
                )
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("PRAGMA wal_autocheckpoint=256")  # pages: keeps the log at about 1 MB
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA wal_checkpoint")  # syncs what a killed run left in the log, before it is witnessed
            journal = cls(database, index, fits, folder, warning)
            journal._write_witness()
        except (sqlite3.Error, OSError) as error:
            raise SkillrunError(f"{path} cannot be opened: {error}", _PERMISSIONS) from error
        return journal

    def close(self) -> None:
        """Commit pending records and move the log into the database."""
        super().close()
        if not self._failure:
            with contextlib.suppress(sqlite3.Error, OSError):
                self._database.execute("PRAGMA wal_checkpoint")
                self._write_witness()
        self._database.close()
        os.close(self._witness)

    def _check_place(self) -> None:
        self._folder.check()

    def _persist(self, rows: Sequence[JournalRow]) -> None:
        is_synced = _is_synced(rows)
        if is_synced:
            self._folder.check(verify_path=False)
            for name, identity in self._identities.items():  # further commits to another file would be lost
                if self._folder.identity(name) != identity:
                    raise LeaseLost(
                        f"{self._folder.path / name} was removed or replaced during the run",
                        "restore `.run` from a backup to resume this run, or start a new one",
                    )
        synchronous = "FULL" if is_synced else "NORMAL"
        try:
            if synchronous != self._synchronous:
                self._database.execute(f"PRAGMA synchronous={synchronous}")
                self._synchronous = synchronous
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(_INSERT, rows)
            self._database.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise OSError(str(error)) from error
            raise

    def _attest(self, rows: Sequence[JournalRow]) -> None:
        if _is_synced(rows):
            self._write_witness()

    def _write_witness(self) -> None:
        """Write the witness without syncing it. After a power failure, the witness may be an older, valid line."""
        line = format_witness(self._index)
        if self._folder.identity(WITNESS) != self._witness_identity:
            write_atomic(self._folder, WITNESS, line)
            os.close(self._witness)
            self._witness = self._folder.open(WITNESS, os.O_WRONLY)
            self._witness_identity = self._folder.identity(WITNESS)
        os.pwrite(self._witness, line, 0)

    def _row(self, seq: int) -> JournalRow:
        return _read_row(self._database, seq)


class CopiedJournal(MemoryJournal):
    """A copy of a journal on disk, for reading. It reads the copied records one by one, and keeps new ones in memory.

    The file of the copy has no name any more: it disappears when the journal is closed or no longer used.
    """

    def __init__(self, database: sqlite3.Connection, index: Index, fits: BodyCheck, warning: str) -> None:
        super().__init__((), index, fits, warning)
        self._database, self._copied = database, index.count
        self._close_database = weakref.finalize(self, database.close)

    def close(self) -> None:
        super().close()
        self._close_database()

    def _row(self, seq: int) -> JournalRow:
        return super()._row(seq - self._copied) if seq > self._copied else _read_row(self._database, seq)


def _read_row(database: sqlite3.Connection, seq: int) -> JournalRow:
    try:
        row = database.execute("SELECT * FROM records WHERE seq = ?", (seq,)).fetchone()
    except (sqlite3.Error, OverflowError) as error:
        raise JournalDamaged(f"record {seq} of the journal cannot be read: {error}", RESTORE_HINT) from None
    if row is None:
        raise JournalDamaged(f"record {seq} of the journal has disappeared since it was opened", RESTORE_HINT)
    return JournalRow(*row)


def read_journal(
    run_folder: ConfinedFolder | Path, fits: BodyCheck = accept_any_body, *, while_held: bool = False
) -> CopiedJournal:
    """Return a verified copy of a run's journal for reading only. Recording in the copy does not change the run.

    Raises the same errors as `SqliteJournal.open`. If another process holds the run, returns the records so far with
    `while_held`; without it, raises SkillrunError, which names the holder. A copy is inconsistent if SQLite moved the
    log into the database during the copy. In this case, the journal is copied again. A copy is consistent if its chain
    is intact and it has at least as many records as the witness counted before the copy.
    """
    folder = open_tree(run_folder)
    lease = LocalLease(folder)
    if not while_held and lease.is_held():
        raise held_error(folder)
    for _ in range(MAX_COPY_ATTEMPTS if while_held else 1):
        try:
            return _read_copy(folder, fits)
        except SkillrunError:
            if not lease.is_held():
                raise
            if while_held:
                time.sleep(RETRY_SECONDS)
    raise held_error(folder)


def _read_copy(folder: ConfinedFolder, fits: BodyCheck) -> CopiedJournal:
    """Read the verified journal from a copy of its files. Raises SkillrunError."""
    place = folder.path / JOURNAL
    check_journal_files(folder)
    witness = read_witness(folder)
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder_name:
        try:
            copy = copy_journal(folder, Path(folder_name))
            index, warning = verify(copy, witness, place)
            database = sqlite3.connect(copy, isolation_level=None, check_same_thread=False)
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # opens the files before they are removed
        except (sqlite3.Error, OSError) as error:
            raise SkillrunError(f"{place} cannot be read: {error}", _PERMISSIONS) from error
    return CopiedJournal(database, index, fits, warning)


def _is_synced(rows: Sequence[JournalRow]) -> bool:
    return not all(row.kind in _UNSYNCED for row in rows)
