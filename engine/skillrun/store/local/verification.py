"""Verifies the structure, chain and witness of a journal before the journal is opened. Changes nothing.

The witness is a line in a separate file: the number of durable records, the head of their chain, and a checksum of
both. It counts only records that were synced before, so it never counts more records than the journal has. If the
witness is damaged, a journal with an intact chain is still read, with a warning.
"""

import contextlib
import os
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.journal import (
    MAX_BYTES,
    MAX_RECORD_BYTES,
    MAX_RECORDS,
    RESTORE_HINT,
    SIZE_HINT,
    Index,
    JournalDamaged,
    JournalRow,
)
from skillrun.store.rows import NO_CHAIN, chain_hash
from skillrun.syntax.diagnostics import SkillrunError

JOURNAL: Final = ".run/journal.db"
WITNESS: Final = ".run/witness"
DATABASE_SUFFIXES: Final = ("-wal", "-shm", "-journal")  # files that SQLite opens with a database, by name
LARGEST: Final = 2 * MAX_BYTES  # bytes of a file; the results of the last calls and the index are still written
MOST_RECORDS: Final = MAX_RECORDS + 500_000  # the results of the last calls are still recorded
SCHEMA_VERSION = 3
UNCOMPRESSED_VERSION: Final = 2  # stores pieces of text uncompressed; a journal keeps its version
SCHEMA = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, kind TEXT, address TEXT, fingerprint TEXT, body BLOB, chain BLOB)"
)
_WAL_FORMAT = b"\2\2"  # how SQLite marks a database with a write-ahead log, for writing and for reading
_LINE = re.compile(rb"((\d{20}) ([0-9a-f]{64}))(?: ([0-9a-f]{8}))?\n")
_NOT_DAMAGE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY)


class JournalNewer(SkillrunError):
    """The journal was written by a later version of skillrun."""


class JournalOlder(SkillrunError):
    """The journal was written by an earlier version of skillrun, in a format that is no longer supported."""


class JournalShortened(SkillrunError):
    """The journal lacks records that were acknowledged as durable."""


def format_witness(index: Index) -> bytes:
    """Return the witness: the number of durable records, the chain hash of the last record, and a checksum."""
    line = b"%020d %s" % (index.count, index.chain.hex().encode())
    return b"%s %08x\n" % (line, crc32(line))


def check_journal_files(folder: ConfinedFolder) -> bool:
    """Whether a journal exists. Raises SkillrunError if it is too large, and PathRefused if a file that SQLite would
    open is a link or not a regular file.

    SQLite opens files by name, so the files are checked first. No other user can replace the files after the
    check, because their folder is private to its owner.
    """
    found = {name: folder.stat_file(name) for name in (JOURNAL, *(JOURNAL + suffix for suffix in DATABASE_SUFFIXES))}
    for name, status in found.items():
        if status is not None and status.st_size > LARGEST:
            raise SkillrunError(f"{folder.path / name} has more than {LARGEST:,} bytes", SIZE_HINT)
    return found[JOURNAL] is not None


class Witness(NamedTuple):
    """The number of durable records, and the chain hash of the last record. A damaged witness has no values."""

    records: int = 0
    chain: str = ""
    is_damaged: bool = False


def read_witness(folder: ConfinedFolder) -> Witness | None:
    """Read the witness; None if it does not exist."""
    if folder.stat_file(WITNESS) is None:
        return None
    data = folder.read(WITNESS, len(format_witness(Index())))
    line = _LINE.fullmatch(data)
    if line is None or (line[4] is not None and int(line[4], 16) != crc32(line[1])):
        return Witness(is_damaged=True)
    return Witness(int(line[2]), line[3].decode())


def copy_journal(folder: ConfinedFolder, target: Path) -> Path:
    """Copy a journal and its log to `target`. Readers use the copy because SQLite changes the files that it reads."""
    path = target / "journal.db"
    for suffix in ("", "-wal"):
        with (
            contextlib.suppress(FileNotFoundError),
            os.fdopen(folder.open(JOURNAL + suffix), "rb") as source,
            path.with_name(path.name + suffix).open("xb") as file,
        ):
            shutil.copyfileobj(source, file)
    return path


def verify(path: Path, witness: Witness | None, place: Path) -> tuple[Index, str]:
    """Read the whole journal at `path`, and compare it with its chain and the witness.

    Returns the index, and a warning if the witness is damaged and was ignored, otherwise an empty text. `place` is the
    original path of the journal, for messages. Raises JournalDamaged, JournalNewer, JournalOlder or
    JournalShortened.
    """
    count = witness.records if witness is not None else 0
    if not path.exists():
        raise JournalShortened(f"{place} is missing; it had {count} acknowledged records", RESTORE_HINT)
    with path.open("rb") as file:
        header = file.read(512)
    if len(header) < 512:  # SQLite would treat a stub as a new database and delete its log
        raise JournalDamaged(f"{place} is empty", RESTORE_HINT)
    index = Index()
    try:
        head = _read(path, place, index, count)
    except (sqlite3.DatabaseError, TypeError, ValueError, AttributeError) as error:
        if getattr(error, "sqlite_errorcode", 0) in _NOT_DAMAGE:
            raise
        raise JournalDamaged(f"{place} is damaged after record {index.count}: {error}", RESTORE_HINT) from None
    if header[18:20] != _WAL_FORMAT:
        raise JournalDamaged(f"{place} is damaged: its format is {header[18:20].hex(' ')}", RESTORE_HINT)
    if witness is None and index.count:
        raise JournalShortened(
            f"{place}: {index.count} records were found, but no witness confirms that these are all", RESTORE_HINT
        )
    if index.count < count:
        raise JournalShortened(f"{place} has only {index.count} of {count} acknowledged records", RESTORE_HINT)
    if witness is not None and witness.is_damaged:
        text = f"the {index.count} records of the journal are intact, but later ones may be missing"
        return index, f"{place.with_name('witness')} was damaged: {text}"
    if witness is not None and head.hex() != witness.chain:
        raise JournalShortened(f"{place}: record {count} differs from the acknowledged record", RESTORE_HINT)
    return index, ""


def _read(path: Path, place: Path, index: Index, witnessed: int) -> bytes:
    """Fill the index from the chained records. Return the chain hash of record number `witnessed`."""
    log, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    # Without a log, no process is writing, and reading the database as immutable creates no log.
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    had_shared = shared.exists()
    head = NO_CHAIN
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_RECORD_BYTES)
            database.execute("PRAGMA trusted_schema=OFF")
            index.packs = _version(place, database) > UNCOMPRESSED_VERSION
            # before rows are read: `records` could be an endless view, or a trigger could change writes
            schema = database.execute("SELECT sql FROM sqlite_schema LIMIT 2").fetchall()
            if schema != [(SCHEMA,)]:
                raise JournalDamaged(f"{place} is damaged: its schema is {str(schema)[:300]}", RESTORE_HINT)
            for columns in database.execute("SELECT * FROM records ORDER BY seq"):
                row = JournalRow(*columns)
                if index.count == MOST_RECORDS:
                    raise SkillrunError(f"{place} has more than {MOST_RECORDS:,} records", SIZE_HINT)
                if row.seq != index.count + 1 or row.chain != chain_hash(index.chain, *row[1:5]):
                    raise JournalDamaged(f"{place}: record {index.count + 1} is damaged", RESTORE_HINT)
                index.add(row)
                if row.seq == witnessed:
                    head = row.chain
            # finds damage that the records do not show but that breaks the next write, such as pages used twice
            (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if result != "ok":
                raise JournalDamaged(f"{place} is damaged: {result}", RESTORE_HINT)
    finally:
        if not had_shared:
            shared.unlink(missing_ok=True)
    return head


def _version(path: Path, database: sqlite3.Connection) -> int:
    version: int
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise JournalNewer(
            f"{path} has version {version}, and this skillrun reads version {SCHEMA_VERSION}",
            "Nothing was changed. Upgrade skillrun and resume the run again.",
        )
    if 0 < version < UNCOMPRESSED_VERSION:
        raise JournalOlder(
            f"{path} has version {version}, and this skillrun reads version {SCHEMA_VERSION}",
            "Nothing was changed. Resume with the skillrun version that started the run, or start the run again.",
        )
    if version < UNCOMPRESSED_VERSION:
        raise JournalDamaged(f"{path} is not a journal (version {version})", RESTORE_HINT)
    return version
