"""What is looked at before a journal is opened: its structure, its chain, its witness. Nothing is changed here.

The witness is a line beside the database: how many records are durable, the head of their chain, and a checksum of the
two. It counts only what the journal has synced before, so it may be behind the journal and is never ahead of it. One
that is damaged witnesses nothing: a journal whose chain is whole is read without it, and that is said.
"""

import contextlib
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.base_journal import RESTORE_HINT
from skillrun.store.index import Index
from skillrun.store.journal import JournalDamaged, JournalRow
from skillrun.store.rows import NO_CHAIN, chain_hash
from skillrun.syntax.diagnostics import SkillrunError

JOURNAL: Final = ".run/journal.db"
WITNESS: Final = ".run/witness"
DATABASE_SUFFIXES: Final = ("-wal", "-shm", "-journal")  # what SQLite opens beside a database, by its name
LARGEST: Final = 1 << 30  # bytes of a journal that is looked at
SCHEMA_VERSION = 3
UNCOMPRESSED_VERSION: Final = 2  # the version whose pieces of text are stored as they are; a journal stays what it is
SCHEMA = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, kind TEXT, address TEXT, fingerprint TEXT, body BLOB, chain BLOB)"
)
_WAL_FORMAT = b"\2\2"  # how SQLite marks a database with a write-ahead log, for writing and for reading
_LINE = re.compile(rb"((\d{20}) ([0-9a-f]{64}))(?: ([0-9a-f]{8}))?\n")
_NOT_DAMAGE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY)


class JournalNewer(SkillrunError):
    """The journal was written by a later version of skillrun."""


class JournalOlder(SkillrunError):
    """The journal was written by an earlier version of skillrun, in a form that is no longer read."""


class JournalShortened(SkillrunError):
    """Records that were acknowledged are missing."""


def format_witness(index: Index) -> bytes:
    """The line that says how many records are durable, and which is the last."""
    line = b"%020d %s" % (index.count, index.chain.hex().encode())
    return b"%s %08x\n" % (line, crc32(line))


def check_journal_files(folder: ConfinedFolder) -> bool:
    """Whether there is a journal. Raises PathRefused where a file that SQLite would open is a link or nothing regular.

    SQLite opens by name, so that the names are looked at before. Nobody else can exchange them in a folder that only
    its owner may enter.
    """
    for suffix in DATABASE_SUFFIXES:
        folder.stat_file(JOURNAL + suffix)
    return folder.stat_file(JOURNAL) is not None


class Witness(NamedTuple):
    """How many records are durable, and the link of the last one; of a damaged one only that it is there."""

    records: int = 0
    chain: str = ""
    is_damaged: bool = False


def read_witness(folder: ConfinedFolder) -> Witness | None:
    """What the witness says; None where there is none."""
    if folder.stat_file(WITNESS) is None:
        return None
    data = folder.read(WITNESS, len(format_witness(Index())))
    line = _LINE.fullmatch(data)
    if line is None or (line[4] is not None and int(line[4], 16) != crc32(line[1])):
        return Witness(is_damaged=True)
    return Witness(int(line[2]), line[3].decode())


def witness_warning(folder: ConfinedFolder, witness: Witness | None, index: Index) -> str:
    """What has to be said of a journal that was read without its witness; empty for any other."""
    if witness is None or not witness.is_damaged:
        return ""
    place = folder.path / WITNESS
    return (
        f"{place} was damaged: the {index.count} records of the journal are whole, but that these are all is not known"
    )


def copy_journal(folder: ConfinedFolder, target: Path) -> Path:
    """A copy of a journal and its log below `target`, for who only looks: SQLite changes what it reads in place."""
    path = target / "journal.db"
    for suffix in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError), os.fdopen(folder.open(JOURNAL + suffix), "rb") as source:
            if os.fstat(source.fileno()).st_size > LARGEST:
                raise SkillrunError(
                    f"{folder.path / JOURNAL}{suffix} has more than {LARGEST:,} bytes", "see what it is"
                )
            with path.with_name(path.name + suffix).open("xb") as file:
                shutil.copyfileobj(source, file)
    return path


def verify(
    path: Path, witness: Witness | None, place: Path, on_row: Callable[[JournalRow], object] = lambda _row: None
) -> Index:
    """Read the whole journal at `path` and compare it with its chain and the witness; `place` is where it belongs.

    Every row is handed to `keep`. Raises one of the errors above.
    """
    count = witness.records if witness is not None else 0
    if not path.exists():
        raise JournalShortened(f"{place} is missing: {count} acknowledged records", RESTORE_HINT)
    with path.open("rb") as file:
        header = file.read(512)
    if len(header) < 512:  # SQLite would take a stub for a new database and delete its log
        raise JournalDamaged(f"{place} is empty", RESTORE_HINT)
    index = Index()
    try:
        head = _read(path, place, index, count, on_row)
    except (sqlite3.DatabaseError, TypeError, ValueError, AttributeError) as error:
        if getattr(error, "sqlite_errorcode", 0) in _NOT_DAMAGE:
            raise
        raise JournalDamaged(f"{place} is damaged after record {index.count}: {error}", RESTORE_HINT) from None
    if header[18:20] != _WAL_FORMAT:
        raise JournalDamaged(f"{place} is damaged: its format is {header[18:20].hex(' ')}", RESTORE_HINT)
    if witness is None and index.count:
        raise JournalShortened(f"{place}: {index.count} records found, but no witness that these are all", RESTORE_HINT)
    if index.count < count:
        lost = f"{count} acknowledged records, {index.count} found: the tail is lost"
        raise JournalShortened(f"{place}: {lost}", RESTORE_HINT)
    if witness is not None and not witness.is_damaged and head.hex() != witness.chain:
        raise JournalShortened(f"{place}: record {count} is not the one that was acknowledged", RESTORE_HINT)
    return index


def _read(path: Path, place: Path, index: Index, witnessed: int, on_row: Callable[[JournalRow], object]) -> bytes:
    """Fill the index from the chained records; returns the link at the witnessed one."""
    log, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    # Without a log nobody writes here, and an immutable database is read without making one.
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    had_shared = shared.exists()
    head = NO_CHAIN
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as database:
            database.execute("PRAGMA trusted_schema=OFF")
            index.packs = _version(place, database) > UNCOMPRESSED_VERSION
            _check_schema(place, database)
            for columns in database.execute("SELECT * FROM records ORDER BY seq"):
                row = JournalRow(*columns)
                if row.seq != index.count + 1 or row.chain != chain_hash(index.chain, *row[1:5]):
                    raise JournalDamaged(f"{place}: record {index.count + 1} is damaged", RESTORE_HINT)
                index.add(row)
                on_row(row)
                if row.seq == witnessed:
                    head = row.chain
            _check_pages(place, database)
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
            "Nothing was changed. Go on with the skillrun that began the run, or begin the run again.",
        )
    if version < UNCOMPRESSED_VERSION:
        raise JournalDamaged(f"{path} is not a journal (version {version})", RESTORE_HINT)
    return version


def _check_schema(path: Path, database: sqlite3.Connection) -> None:
    """Before a row is read: `records` could be a view that never ends, or a trigger change what is written."""
    schema = database.execute("SELECT sql FROM sqlite_schema LIMIT 2").fetchall()
    if schema != [(SCHEMA,)]:
        raise JournalDamaged(f"{path} is damaged: its schema is {str(schema)[:300]}", RESTORE_HINT)


def _check_pages(path: Path, database: sqlite3.Connection) -> None:
    """What the records do not show, and the next write would trip over: free pages, pages used twice."""
    (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        raise JournalDamaged(f"{path} is damaged: {result}", RESTORE_HINT)
