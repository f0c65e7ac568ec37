"""What is looked at before a journal is opened: its structure, its chain, its witness. Nothing is changed here.

The witness is a line beside the database: how many records are durable, and the head of their chain. It counts only
what the journal has synced before, so it may be behind the journal and is never ahead of it.
"""

import contextlib
import re
import sqlite3
from pathlib import Path

from skillrun.language.diagnostics import SkillrunError
from skillrun.runtime.records import NO_CHAIN, TEXT, Row, chained

SCHEMA_VERSION = 2
SCHEMA = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, kind TEXT, address TEXT, fingerprint TEXT, body BLOB, chain BLOB)"
)

KEPT = (
    "Nothing was changed. Put `.run` back from a backup to go on with this run, or start a new one; "
    "the artifacts, summaries and state.md of this one are kept."
)
_LOGGED = b"\2\2"  # how SQLite marks a database with a write-ahead log, for writing and for reading
_LINE = re.compile(rb"(\d{20}) ([0-9a-f]{64})\n")
_NOT_DAMAGE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY)


class JournalDamaged(SkillrunError):
    """The file is not readable as a journal, or a record is not what was written."""


class JournalNewer(SkillrunError):
    """The journal was written by a later version of skillrun."""


class JournalOlder(SkillrunError):
    """The journal was written by an earlier version of skillrun, in a form that is no longer read."""


class JournalShortened(SkillrunError):
    """Records that were acknowledged are missing."""


class Index:
    """Where the records are, and how far the chain has come."""

    def __init__(self) -> None:
        self.count, self.chain = 0, NO_CHAIN
        self.latest: dict[tuple[str, str, str], int] = {}
        self.of_kind: dict[str, list[int]] = {}
        self.texts: dict[str, int] = {}
        self.unanswered: dict[tuple[str, str], None] = {}

    @property
    def witnessed(self) -> bytes:
        """The line of the witness."""
        return b"%020d %s\n" % (self.count, self.chain.hex().encode())

    def add(self, row: Row) -> None:
        self.count, self.chain = row.seq, row.chain
        seq, kind, address, fingerprint = row[:4]
        if kind == TEXT:
            self.texts[fingerprint] = seq
            return
        self.latest[kind, address, fingerprint] = seq
        self.of_kind.setdefault(kind, []).append(seq)
        call = (address, fingerprint)
        if kind == "sent":
            self.unanswered[call] = None
        elif kind in ("reply", "failed"):
            self.unanswered.pop(call, None)


def verified(path: Path, witness: Path) -> Index:
    """Read the whole journal and compare it with its chain and the witness. Raises one of the three errors above."""
    data = witness.read_bytes() if witness.exists() else b""
    line = _LINE.fullmatch(data)
    if line is None and witness.exists():
        raise JournalDamaged(f"{witness} is damaged: it holds {data[:100]!r}", KEPT)
    acknowledged, expected = (int(line[1]), line[2].decode()) if line else (0, "")
    if not path.exists():
        raise JournalShortened(f"{path} is missing: {acknowledged} acknowledged records", KEPT)
    with path.open("rb") as file:
        header = file.read(512)
    if len(header) < 512:  # SQLite would take a stub for a new database and delete its log
        raise JournalDamaged(f"{path} is empty", KEPT)
    index = Index()
    try:
        head = _read(path, index, acknowledged)
    except (sqlite3.DatabaseError, TypeError, ValueError, AttributeError) as error:
        if getattr(error, "sqlite_errorcode", 0) in _NOT_DAMAGE:
            raise
        raise JournalDamaged(f"{path} is damaged after record {index.count}: {error}", KEPT) from None
    if header[18:20] != _LOGGED:
        raise JournalDamaged(f"{path} is damaged: its format is {header[18:20].hex(' ')}", KEPT)
    if line is None and index.count:
        raise JournalShortened(f"{path}: {index.count} records found, but no witness that these are all", KEPT)
    if index.count < acknowledged:
        lost = f"{acknowledged} acknowledged records, {index.count} found: the tail is lost"
        raise JournalShortened(f"{path}: {lost}", KEPT)
    if line is not None and head.hex() != expected:
        raise JournalShortened(f"{path}: record {acknowledged} is not the one that was acknowledged", KEPT)
    return index


def _read(path: Path, index: Index, witnessed: int) -> bytes:
    """Fill the index from the chained records; returns the link at the witnessed one."""
    log, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    # Without a log nobody writes here, and an immutable database is read without making one.
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    had_shared = shared.exists()
    head = NO_CHAIN
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as database:
            _check_version(path, database)
            for found in database.execute("SELECT * FROM records ORDER BY seq"):
                row = Row(*found)
                if row.seq != index.count + 1 or row.chain != chained(index.chain, *row[1:5]):
                    raise JournalDamaged(f"{path}: record {index.count + 1} is damaged", KEPT)
                index.add(row)
                if row.seq == witnessed:
                    head = row.chain
            _check_structure(path, database)
    finally:
        if not had_shared:
            shared.unlink(missing_ok=True)
    return head


def _check_version(path: Path, database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise JournalNewer(
            f"{path} has version {version}, and this skillrun reads version {SCHEMA_VERSION}",
            "Nothing was changed. Upgrade skillrun and resume the run again.",
        )
    if 0 < version < SCHEMA_VERSION:
        raise JournalOlder(
            f"{path} has version {version}, and this skillrun reads version {SCHEMA_VERSION}",
            "Nothing was changed. Go on with the skillrun that began the run, or begin the run again.",
        )
    if version != SCHEMA_VERSION:
        raise JournalDamaged(f"{path} is not a journal (version {version})", KEPT)


def _check_structure(path: Path, database: sqlite3.Connection) -> None:
    """What the records do not show, and the next write would trip over: the schema, free pages, pages used twice."""
    schema = database.execute("SELECT sql FROM sqlite_schema").fetchall()
    (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if schema != [(SCHEMA,)] or result != "ok":
        raise JournalDamaged(f"{path} is damaged: {result if result != 'ok' else schema}", KEPT)
