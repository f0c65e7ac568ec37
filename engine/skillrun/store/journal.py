"""The journal of a run: an append-only list of records of calls, tools, answers and writes.

`Journal` chains and indexes records, and commits concurrent records together. Subclasses store rows: `local/journal.py`
in SQLite, `memory.py` in memory. The contract is `tests/contract/test_journal.py`. This module knows nothing about
workflows, files or databases.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, get_args

from skillrun.store.files import LeaseLost, sha256_of
from skillrun.store.kill_points import kill_point
from skillrun.store.rows import (
    NO_CHAIN,
    TEXT,
    BodyDecoder,
    BodyTooLarge,
    body_to_bytes,
    chain_hash,
    compress_piece,
    decompress_piece,
)
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.records import check_values

Kind = Literal["sent", "tried", "reply", "failed", "tool", "answer", "wrote", "void", "note", "summary"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

Body = dict[str, Any]
"""A JSON object; `journal_bodies.py` defines the keys for each kind of record."""

BodyCheck = Callable[[str, Body], bool]
"""Returns whether a body is valid for a record of the given kind. Bodies of untrusted journals can be invalid."""


class JournalUnwritable(SkillrunError):
    """A record could not be written, so no further call may be sent."""


class JournalDamaged(SkillrunError):
    """The journal cannot be read, or a record was changed."""


class JournalEntry(NamedTuple):
    """A record as it is read; `seq` is its number among all records of the journal, from 1."""

    seq: int
    address: str
    fingerprint: str
    body: Body


class JournalRow(NamedTuple):
    """A record as it is stored; `chain` links it to the previous record."""

    seq: int
    kind: str
    address: str
    fingerprint: str
    body: bytes
    chain: bytes


REUSED_SUFFIX = "/again"
"""Suffix of a note's address. The note records that an earlier prompt at the address is current again."""

LOST_SUFFIX = "/lost"
"""Suffix of a note's address. The note records that the user accepted that no step will use a reply."""


MAX_RECORDS: Final = 1_000_000  # a journal with more sends no further call
MAX_BYTES: Final = 1 << 30  # bytes of all bodies as they are stored; a larger journal sends no further call
MAX_RECORD_BYTES: Final = 1 << 24  # a longer text is stored in pieces


class Index:
    """An index of the journal's records. `chain` is the chain hash of the last record.

    `size` is the number of bytes of all stored bodies.
    """

    def __init__(self) -> None:
        self.count, self.size, self.chain = 0, 0, NO_CHAIN
        self.latest: dict[tuple[str, str, str], int] = {}
        self.of_kind: dict[str, list[int]] = {}
        self.texts: dict[str, int] = {}
        self.unanswered: dict[tuple[str, str], None] = {}
        self.present: dict[str, str] = {}
        self.calls = 0
        self.packs = False
        self._tried: set[tuple[str, str]] = set()

    def add(self, row: JournalRow) -> None:
        self.count, self.chain = row.seq, row.chain
        self.size += len(row.body)
        seq, kind, address, fingerprint = row[:4]
        if kind == TEXT:
            self.texts[fingerprint] = seq
            return
        self.latest[kind, address, fingerprint] = seq
        self.of_kind.setdefault(kind, []).append(seq)
        call = (address, fingerprint)
        if kind == "note" and address.endswith(REUSED_SUFFIX):
            self.present[address.removesuffix(REUSED_SUFFIX)] = fingerprint
        elif kind == "sent":
            self.present[address] = fingerprint
            self.unanswered[call] = None
            self.calls += call not in self._tried
        elif kind in ("tried", "reply", "failed"):
            self.unanswered.pop(call, None)
            (self._tried.add if kind == "tried" else self._tried.discard)(call)


RESTORE_HINT: Final = (
    "Nothing was changed. Restore `.run` from a backup to resume this run, or start a new one; "
    "the artifacts, summaries and state.md of this run are kept."
)
SIZE_HINT: Final = "no run writes such a journal: move the folder of the run away"
FULL_HINT: Final = "divide the work: start a new run for the phases that are left"
DISK_HINT: Final = "check the permissions of its folder and the free disk space"
_EXTERNAL_KINDS: Final = frozenset({"tried", "reply", "failed", "tool", "answer"})
"""Kinds of records with results from outside the run. A lost result would have to be requested again.

The journal therefore keeps these records even after a failed write.
"""


def accept_any_body(_kind: str, _body: Body) -> bool:
    return True


class Journal(ABC):
    """An open journal. One process uses it at a time, and only in the thread of the event loop.

    Records keep the order in which `record` was called, and are linked by their hashes. Bodies are JSON objects. They
    are read back unchanged, with keys in order, except that tuples become lists. Changing a body after it was recorded
    or read does not change the record. Once `record` has returned, `find`, `entries`, `pending_calls` and `call_count`
    include the record.

    After a failed write, the journal refuses new records, so that no new call is sent. It still keeps the results of
    running calls, and writes them with the failed records as soon as possible, unless this process loses the run.

    Subclasses implement `_persist`, which stores rows, and `_row`, which reads a row.
    """

    max_bytes: ClassVar[int] = MAX_BYTES

    def __init__(self, index: Index, fits: BodyCheck = accept_any_body, warning: str = "") -> None:
        """`fits` checks every body that is read, because even an untrusted journal can have an intact chain.

        `warning` tells readers that records could be missing; empty if the journal is known to be complete.
        """
        self._index, self._fits, self.warning = index, fits, warning
        self._decoder = BodyDecoder(lambda number: decompress_piece(self._row(number).body))
        self._pending: list[JournalRow] = []
        self._commits = 0
        self._failure = ""
        self._lost: LeaseLost | None = None
        self._torn = False  # a commit was interrupted: how much it wrote is unknown

    @abstractmethod
    def _persist(self, rows: Sequence[JournalRow]) -> None:
        """Make rows durable, all or none.

        Raises OSError if the rows cannot be written, and LeaseLost if this process has lost the run. In both cases,
        no row is written. After any other error, it is unknown whether the rows were written.
        """

    @abstractmethod
    def _row(self, seq: int) -> JournalRow:
        """Return a durable row. Raises JournalDamaged if it cannot be read."""

    def _check_place(self) -> None:  # noqa: B027 (optional)
        """Called before a call is sent. Raises LeaseLost if the run has moved."""

    def _attest(self, rows: Sequence[JournalRow]) -> None:  # noqa: B027 (optional)
        """Record the number of rows. Called after rows were stored and indexed."""

    def close(self) -> None:
        """Commit pending records. Do not call `record` afterwards."""
        self._flush()

    async def record(self, kind: Kind, address: str, fingerprint: str, body: Body) -> None:
        """Append a record. On return, the record is as durable as this journal can make it.

        Records that are appended in one iteration of the event loop become durable together, all or none. Raises
        JournalUnwritable, which prevents new calls, if this or an earlier record could not be written. Raises
        LeaseLost if another process has claimed the run. After a failed write, results from outside (`tried`,
        `reply`, `failed`, `tool`, `answer`) are still kept and written as soon as possible. `write_error` reports
        whether the results were written.
        """
        assert kind in KINDS, kind
        if kind not in _EXTERNAL_KINDS or self._torn:
            self.check()
        if kind == "sent":
            self._check_place()
            if self._index.count > MAX_RECORDS or self._index.size > self.max_bytes:
                limit = f"{MAX_RECORDS:,} records or {self.max_bytes:,} bytes"
                raise JournalUnwritable(f"the journal has more than {limit}, so no call is sent", FULL_HINT)
        encoded = body_to_bytes(body, self._number_of)
        try:  # a record that could not be read again
            check_values(encoded)
            reason = f"it has more than {MAX_RECORD_BYTES:,} bytes" if len(encoded) > MAX_RECORD_BYTES else ""
        except ValueError as error:
            reason = str(error)
        if reason:
            message = f"the `{kind}` record of {address} cannot be written: {reason}"
            raise JournalUnwritable(message, "shorten the conversation of this step, then resume the run")
        self._push(kind, address, fingerprint, encoded)
        commit = self._commits
        try:
            await asyncio.sleep(0)  # other tasks of this loop iteration add their records
        finally:
            if commit == self._commits:
                self._flush()
        self.check()

    def check(self) -> None:
        """Raises JournalUnwritable if a record could not be written, LeaseLost if this process has lost the run."""
        if self._lost is not None:
            raise LeaseLost(self._lost.message, self._lost.next_step)
        if self._failure:
            raise JournalUnwritable(
                f"the journal cannot be written: {self._failure}", f"{DISK_HINT}, then resume the run"
            )

    def write_error(self) -> SkillrunError | None:
        """Return the error of a failed write; None if every write succeeded.

        First tries again to write the pending records. The error says why the write failed, whether replies are lost,
        and what to do.
        """
        if not self._failure or self._lost is not None:
            return self._lost
        self._flush()
        lost_answers = sum(row.kind in ("reply", "answer") for row in self._pending)
        consequence = "all replies are recorded"
        if lost_answers:
            noun = "replies" if lost_answers > 1 else "reply"
            consequence = f"{lost_answers} {noun} could not be stored and will be requested again"
        return JournalUnwritable(f"the journal could not be written ({self._failure}); {consequence}", DISK_HINT)

    def rows(self) -> Iterator[JournalRow]:
        """Return all durable records as they are stored, in order. Raises JournalDamaged if one cannot be read."""
        return map(self._row, range(1, self._index.count + 1))

    def restore(self, rows: Iterable[JournalRow]) -> None:
        """Copy the verified rows of another journal to this journal, which must be empty.

        Raises JournalUnwritable or LeaseLost; in both cases, nothing is copied.
        """
        assert self.is_empty
        self._pending = list(rows)
        self._flush()
        self.check()

    def find(self, kind: Kind, address: str, fingerprint: str) -> Body | None:
        """Return the body of the latest record with this kind, address and fingerprint; None if there is none.

        Raises JournalDamaged if the body is invalid.
        """
        seq = self._index.latest.get((kind, address, fingerprint))
        return None if seq is None else self.entry(seq).body

    def entries(self, kind: Kind, *, texts: bool = True) -> Iterator[JournalEntry]:
        """Return all records of a kind, oldest first, including duplicates. Without `texts`, long texts are empty.

        Records that are added during the iteration are left out.
        """
        return (self.entry(seq, texts=texts) for seq in tuple(self._index.of_kind.get(kind, ())))

    def entry(self, seq: int, *, texts: bool = True) -> JournalEntry:
        """Return record number `seq`. Without `texts`, long texts are empty. Raises JournalDamaged if it is invalid."""
        row = self._row(seq)
        try:
            body = self._decoder.decode(row.body, texts=texts)
        except BodyTooLarge as error:
            raise JournalDamaged(f"record {seq} of the journal cannot be read: {error}", SIZE_HINT) from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise JournalDamaged(f"record {seq} of the journal cannot be read: {error}", RESTORE_HINT) from None
        if not self._fits(row.kind, body):
            raise JournalDamaged(f"record {seq} of the journal is not a valid `{row.kind}`", RESTORE_HINT)
        return JournalEntry(seq, row.address, row.fingerprint, body)

    def pending_calls(self) -> list[tuple[str, str]]:
        """Return (address, fingerprint) of each sent call without a later result, oldest first."""
        return list(self._index.unanswered)

    def latest_fingerprint(self, address: str) -> str:
        """Return the fingerprint of the latest prompt, sent or reused, at an address; empty if there is none."""
        return self._index.present.get(address, "")

    @property
    def call_count(self) -> int:
        """The number of calls that were sent; a retried call counts once."""
        return self._index.calls

    @property
    def is_empty(self) -> bool:
        return not self._index.count

    def _number_of(self, text: bytes) -> int:
        key = sha256_of(text)
        seq = self._index.texts.get(key)
        if seq is None:
            seq = self._index.texts[key] = self._push(
                TEXT, "", key, compress_piece(text) if self._index.packs else text
            )
        return seq

    def _push(self, kind: str, address: str, fingerprint: str, body: bytes) -> int:
        previous = self._pending[-1].chain if self._pending else self._index.chain
        seq = self._index.count + len(self._pending) + 1
        chain = chain_hash(previous, kind, address, fingerprint, body)
        self._pending.append(JournalRow(seq, kind, address, fingerprint, body, chain))
        return seq

    def _flush(self) -> None:
        self._commits += 1
        if not self._pending or self._torn:
            return
        rows = self._pending
        try:
            kill_point("commit: before")
            self._persist(rows)
            kill_point("commit: after")
            self._pending = []
            for row in rows:
                self._index.add(row)
            self._attest(rows)
            kill_point("commit: witnessed")
        except LeaseLost as error:
            self._lost, self._torn = error, True
            self._failure = self._failure or error.message
        except OSError as error:
            self._failure = self._failure or str(error)
        except BaseException as error:
            self._torn = True
            self._failure = self._failure or type(error).__name__
            raise
