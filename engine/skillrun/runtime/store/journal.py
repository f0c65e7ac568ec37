"""The journal of a run, `.run/journal.db`: append-only, hash-chained records of calls, tools, answers and writes.

A record is durable when `record` returns. Opening checks everything before it changes anything. Knows no workflows.
"""

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from skillrun.language.text.diagnostics import SkillrunError
from skillrun.runtime.store.checkpoints import reached
from skillrun.runtime.store.files import digest, tree_of
from skillrun.runtime.store.journal_check import (
    JOURNAL,
    KEPT,
    SCHEMA,
    WITNESS,
    Index,
    JournalDamaged,
    acknowledged,
    copied,
    doubts,
    sound,
    verified,
)
from skillrun.runtime.store.journal_files import Files, make_journal
from skillrun.runtime.store.lock import RunLost, held, is_held, own
from skillrun.runtime.store.records import (
    KINDS,
    TEXT,
    Kind,
    Row,
    body_from_bytes,
    body_to_bytes,
    chained,
    packed,
    unpacked,
)
from skillrun.tools.paths import PathRefused
from skillrun.tools.tree import Tree

_PERMISSIONS = (
    "Nothing was lost. Look at the permissions of its folder and at the room on the disk, then resume the run."
)
_ROOM = "look at the permissions of its folder and at the room on the disk"
_INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)"
_UNSYNCED = frozenset({"sent", "tried", "summary", TEXT})
_HAD = frozenset({"tried", "reply", "failed", "tool", "answer"})
"""What has come from outside and would have to be asked for again; kept also when the journal could not be written."""


Fits = Callable[[str, dict[str, Any]], bool]


def anything(_kind: str, _body: dict[str, Any]) -> bool:
    return True


class JournalUnwritable(SkillrunError):
    """A record could not be written, so that nothing more may be sent."""


class Entry(NamedTuple):
    seq: int
    address: str
    fingerprint: str
    body: dict[str, Any]


class Journal:
    """An open journal. One process has it at a time (the run's lock), and one thread: that of the event loop.

    Records of one turn of the event loop share one commit. A commit is synced to the disk, except one that holds
    nothing but `sent`, `tried` and `summary`: it survives the death of the process (the operating system has it), and
    a power cut can take only what came after the last synced commit, because that one synced the whole log before it.
    What such a cut loses is the notice that a call was in flight, which has no reply in the journal and is asked again
    either way, or the hash of a summary, whose edits are then not noticed. The witness counts synced records only, so
    it never runs ahead.

    Once a record could not be written nothing new is taken, so that no call goes out. What calls bring that are under
    way is kept, and written, with what could not be, as soon as the disk takes it; nothing once the run is lost.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        index: Index,
        fits: Fits = anything,
        files: Files | None = None,
        doubt: str = "",
    ) -> None:
        """`files` are those on the disk, without which nothing is kept; `doubt` is what its reader has to know of it.

        `fits` says whether a body is one that a run writes: a journal from anybody may have a chain that is whole.
        """
        self._database, self._index, self._fits, self._files = database, index, fits, files
        self.doubt = doubt
        self._pending: list[Row] = []
        self._commits = 0
        self._synchronous = ""
        self._failure = ""
        self._lost: RunLost | None = None
        self._torn = False  # by an interrupt or a bug in a commit: how far it came is unknown

    @classmethod
    def create(cls, run_folder: Tree | Path, fits: Fits = anything) -> "Journal":
        """A new journal in `<run_folder>/.run`. Raises FileExistsError when one is there, PathRefused for links."""
        folder = tree_of(run_folder)
        own(folder)
        if sound(folder) or folder.known(WITNESS) is not None:
            raise FileExistsError(folder.path / JOURNAL)
        make_journal(folder)
        return cls.open(folder, fits)

    @classmethod
    def open(cls, run_folder: Tree | Path, fits: Fits = anything) -> "Journal":
        """The verified journal of a run. JournalDamaged, JournalNewer, JournalOlder, JournalShortened leave it."""
        folder = tree_of(run_folder)
        path = folder.path / JOURNAL
        own(folder)
        try:
            sound(folder)
            witness = acknowledged(folder)
            index = verified(path, witness, path)
            database = sqlite3.connect(path, isolation_level=None)
            _check_same(folder, path)
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("PRAGMA wal_autocheckpoint=256")  # pages: keeps the log at about 1 MB
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA wal_checkpoint")  # syncs what a killed run left in the log, before it is witnessed
            journal = cls(database, index, fits, Files(folder, index), doubts(folder, witness, index))
            journal._attest()
        except (sqlite3.Error, OSError) as error:
            raise SkillrunError(f"{path} cannot be opened: {error}", _PERMISSIONS) from error
        return journal

    @classmethod
    def read(cls, run_folder: Tree | Path, fits: Fits = anything) -> "Journal":
        """The same for who only looks: nothing of the run is changed, and nothing may be recorded.

        Raises SkillrunError, naming the holder, while another process has the run.
        """
        folder = tree_of(run_folder)
        if is_held(folder):
            raise held(folder)
        place = folder.path / JOURNAL
        sound(folder)
        witness = acknowledged(folder)
        with tempfile.TemporaryDirectory(prefix="skillrun-") as private:
            try:
                path = copied(folder, Path(private))
                index = verified(path, witness, place)
                database = sqlite3.connect(":memory:", isolation_level=None)
                with contextlib.closing(sqlite3.connect(path)) as copy:
                    copy.backup(database)
            except (sqlite3.Error, OSError, SkillrunError) as error:
                if is_held(folder):  # since it was looked at; the copy is of two moments
                    raise held(folder) from None
                if isinstance(error, SkillrunError):
                    raise
                raise SkillrunError(f"{place} cannot be read: {error}", _PERMISSIONS) from error
        return cls(database, index, fits, None, doubts(folder, witness, index))

    @classmethod
    def in_memory(cls) -> "Journal":
        """An empty journal that nobody keeps: for what is walked through and not run."""
        database = sqlite3.connect(":memory:", isolation_level=None)
        database.execute(SCHEMA)
        return cls(database, Index())

    def copied(self) -> "Journal":
        """A journal in memory with the records of this one."""
        database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.backup(database)
        return Journal(database, deepcopy(self._index), self._fits)

    async def record(self, kind: Kind, address: str, fingerprint: str, body: dict[str, Any]) -> None:
        """Append a record; it is durable on return. Raises JournalUnwritable when it cannot be, and ever after.

        What was received all the same may still be written later: `unwritten` says whether it was.
        """
        self._append(kind, address, fingerprint, body)
        commit = self._commits
        try:
            await asyncio.sleep(0)  # whoever else has something to record in this turn does it now
        finally:
            if commit == self._commits:
                self._flush()
        self.check()

    def check(self) -> None:
        """Raises JournalUnwritable when a record could not be written, RunLost when none may be any more."""
        if self._lost is not None:
            raise RunLost(self._lost.message, self._lost.next_step)
        if self._failure:
            raise JournalUnwritable(f"the journal cannot be written: {self._failure}", f"{_ROOM}, then resume the run")

    def unwritten(self) -> SkillrunError | None:
        """Why the journal could not be written, what became of what was received, and what to do; None where it could.

        Tries once more to write it.
        """
        if not self._failure or self._lost is not None:
            return self._lost
        self._flush()
        lost = sum(row.kind in ("reply", "answer") for row in self._pending)
        kept = "all that was answered is on record"
        if lost:
            kept = f"{lost} answer{'s' if lost > 1 else ''} that came could not be kept: what was asked is asked again"
        return JournalUnwritable(f"the journal could not be written ({self._failure}); {kept}", _ROOM)

    def find(self, kind: Kind, address: str, fingerprint: str) -> dict[str, Any] | None:
        """The body of the latest such record, as it was put in."""
        seq = self._index.latest.get((kind, address, fingerprint))
        return None if seq is None else self._entry(seq).body

    def entries(self, kind: Kind) -> Iterator[Entry]:
        """All records of a kind, oldest first."""
        return map(self._entry, tuple(self._index.of_kind.get(kind, ())))

    def unanswered(self) -> list[tuple[str, str]]:
        """(address, fingerprint) of calls that were sent and of which nothing has come since, oldest first."""
        return list(self._index.unanswered)

    @property
    def calls(self) -> int:
        """How many calls were sent; one that was tried again counts once."""
        return self._index.calls

    @property
    def empty(self) -> bool:
        return not self._index.count

    def close(self) -> None:
        """Commit what is pending and move the log into the database."""
        self._flush()
        if not self._failure:
            with contextlib.suppress(sqlite3.Error, OSError):
                self._database.execute("PRAGMA wal_checkpoint")
                self._attest()
        self._database.close()
        if self._files is not None:
            self._files.close()

    def _append(self, kind: Kind, address: str, fingerprint: str, body: dict[str, Any]) -> None:
        assert kind in KINDS, kind
        if kind not in _HAD or self._torn:
            self.check()
        if kind == "sent" and self._files is not None:
            self._files.check_here()
        self._push(kind, address, fingerprint, body_to_bytes(body, self._number_of))

    def _number_of(self, text: bytes) -> int:
        key = digest(text)
        seq = self._index.texts.get(key)
        if seq is None:
            seq = self._index.texts[key] = self._push(TEXT, "", key, packed(text) if self._index.packs else text)
        return seq

    def _push(self, kind: str, address: str, fingerprint: str, body: bytes) -> int:
        previous = self._pending[-1].chain if self._pending else self._index.chain
        seq = self._index.count + len(self._pending) + 1
        chain = chained(previous, kind, address, fingerprint, body)
        self._pending.append(Row(seq, kind, address, fingerprint, body, chain))
        return seq

    def _flush(self) -> None:
        self._commits += 1
        if not self._pending or self._torn:
            return
        try:
            self._commit()
        except RunLost as error:
            self._lost, self._torn = error, True
            self._fail(error.message)
        except (sqlite3.Error, OSError) as error:
            self._fail(str(error))
        except BaseException as error:
            self._torn = True
            self._fail(type(error).__name__)
            raise

    def _commit(self) -> None:
        rows = self._pending
        synced = not all(row.kind in _UNSYNCED for row in rows)
        if synced and self._files is not None:
            self._files.check()
        synchronous = "FULL" if synced else "NORMAL"
        if synchronous != self._synchronous:
            self._database.execute(f"PRAGMA synchronous={synchronous}")
            self._synchronous = synchronous
        reached("commit: before")
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(_INSERT, rows)
        self._database.execute("COMMIT")
        reached("commit: after")
        self._pending = []
        for row in rows:
            self._index.add(row)
        if synced:
            self._attest()
        reached("commit: witnessed")

    def _attest(self) -> None:
        if self._files is not None:
            self._files.attest(self._index.witnessed)

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("ROLLBACK")

    def _entry(self, seq: int) -> Entry:
        row = self._row(seq)
        try:
            body = body_from_bytes(row.body, lambda number: unpacked(self._row(number).body))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise JournalDamaged(f"record {seq} of the journal cannot be read: {error}", KEPT) from None
        if not self._fits(row.kind, body):
            raise JournalDamaged(f"record {seq} of the journal is no `{row.kind}` of a run", KEPT)
        return Entry(seq, row.address, row.fingerprint, body)

    def _row(self, seq: int) -> Row:
        try:
            found = self._database.execute("SELECT * FROM records WHERE seq = ?", (seq,)).fetchone()
        except sqlite3.Error as error:
            raise JournalDamaged(f"record {seq} of the journal cannot be read: {error}", KEPT) from None
        if found is None:
            raise JournalDamaged(f"record {seq} of the journal is gone since it was opened", KEPT)
        return Row(*found)


def _check_same(folder: Tree, path: Path) -> None:
    """Raises PathRefused where the name by which SQLite has opened the journal leads elsewhere than the folder."""
    there, known = path.stat(follow_symlinks=False), folder.stat(JOURNAL)
    if (there.st_dev, there.st_ino) != (known.st_dev, known.st_ino):
        raise PathRefused(f"{path} was exchanged while it was opened", "nothing was recorded; look who writes there")
