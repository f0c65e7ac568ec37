"""What every journal does, wherever its records are kept: chain them, commit together what comes together, find them.

A subclass keeps rows (`_keep`) and gives one back (`_row`). It says nothing of files or databases.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

from skillrun.store.checkpoints import kill_point
from skillrun.store.files import sha256_of
from skillrun.store.index import Index
from skillrun.store.journal import (
    KINDS,
    Body,
    BodyCheck,
    JournalDamaged,
    JournalEntry,
    JournalRow,
    JournalUnwritable,
    Kind,
)
from skillrun.store.lease import LeaseLost
from skillrun.store.rows import TEXT, body_from_bytes, body_to_bytes, chain_hash, compress_piece, decompress_piece
from skillrun.syntax.diagnostics import SkillrunError

RESTORE_HINT: Final = (
    "Nothing was changed. Put `.run` back from a backup to go on with this run, or start a new one; "
    "the artifacts, summaries and state.md of this one are kept."
)
DISK_HINT: Final = "look at the permissions of its folder and at the room on the disk"
_EXTERNAL_KINDS: Final = frozenset({"tried", "reply", "failed", "tool", "answer"})
"""What has come from outside and would have to be asked for again; kept also when the journal could not be written."""


def accept_any_body(_kind: str, _body: Body) -> bool:
    return True


class ChainedJournal(ABC):
    """A `Journal` whose records are linked by their hashes.

    Once a record could not be written nothing new is taken, so that no call goes out. What calls bring that are under
    way is kept, and written, with what could not be, as soon as it can; nothing once the run is lost.
    """

    def __init__(self, index: Index, fits: BodyCheck = accept_any_body, warning: str = "") -> None:
        """`fits` looks at every body that is read: a journal from anybody may have a chain that is whole."""
        self._index, self._fits = index, fits
        self.warning = warning
        self._pending: list[JournalRow] = []
        self._commits = 0
        self._failure = ""
        self._lost: LeaseLost | None = None
        self._torn = False  # by an interrupt or a bug in a commit: how far it came is unknown

    @abstractmethod
    def _persist(self, rows: Sequence[JournalRow]) -> None:
        """Make rows durable, all or none. Raises OSError where that failed, LeaseLost where it must not be."""

    @abstractmethod
    def _row(self, seq: int) -> JournalRow:
        """A row that is durable. Raises JournalDamaged where it cannot be had."""

    def _check_place(self) -> None:  # noqa: B027 (not every journal has to)
        """Before a call goes out: raises LeaseLost where the run is not where it was."""

    def _check_rows(self, rows: Sequence[JournalRow]) -> None:  # noqa: B027 (not every journal has to)
        """Before rows are kept: raises LeaseLost where they may not be any more."""

    def _attest(self, rows: Sequence[JournalRow]) -> None:  # noqa: B027 (not every journal has to)
        """After rows were kept, and are in the index: note how many there are."""

    def _undo(self) -> None:  # noqa: B027 (not every journal has to)
        """After a commit that has failed: leave nothing of it half done."""

    def close(self) -> None:
        """Commit what is pending."""
        self._flush()

    async def record(self, kind: Kind, address: str, fingerprint: str, body: Body) -> None:
        """Append a record; see `Journal`."""
        self._append(kind, address, fingerprint, body)
        commit = self._commits
        try:
            await asyncio.sleep(0)  # whoever else has something to record in this turn does it now
        finally:
            if commit == self._commits:
                self._flush()
        self.check()

    def check(self) -> None:
        """Raises JournalUnwritable when a record could not be written, LeaseLost when none may be any more."""
        if self._lost is not None:
            raise LeaseLost(self._lost.message, self._lost.next_step)
        if self._failure:
            raise JournalUnwritable(
                f"the journal cannot be written: {self._failure}", f"{DISK_HINT}, then resume the run"
            )

    def write_error(self) -> SkillrunError | None:
        """Why the journal could not be written, what became of what was received, and what to do; None where it could.

        Tries once more to write it.
        """
        if not self._failure or self._lost is not None:
            return self._lost
        self._flush()
        lost_answers = sum(row.kind in ("reply", "answer") for row in self._pending)
        consequence = "all that was answered is on record"
        if lost_answers:
            noun = "answers" if lost_answers > 1 else "answer"
            consequence = f"{lost_answers} {noun} that came could not be kept: what was asked is asked again"
        return JournalUnwritable(f"the journal could not be written ({self._failure}); {consequence}", DISK_HINT)

    def restore(self, rows: Sequence[JournalRow]) -> None:
        """Take over the records of another journal as they are, whose chain was verified; this one must be empty.

        Raises JournalUnwritable, LeaseLost, and then nothing is kept.
        """
        assert self.is_empty
        self._pending = list(rows)
        self._flush()
        self.check()

    def find(self, kind: Kind, address: str, fingerprint: str) -> Body | None:
        """The body of the latest such record, as it was put in."""
        seq = self._index.latest.get((kind, address, fingerprint))
        return None if seq is None else self._entry(seq).body

    def entries(self, kind: Kind) -> Iterator[JournalEntry]:
        """All records of a kind, oldest first."""
        return map(self._entry, tuple(self._index.of_kind.get(kind, ())))

    def pending_calls(self) -> list[tuple[str, str]]:
        """(address, fingerprint) of calls that were sent and of which nothing has come since, oldest first."""
        return list(self._index.unanswered)

    def latest_fingerprint(self, address: str) -> str:
        """The fingerprint of the prompt that was asked at an address last, or taken up again since; empty for none."""
        return self._index.present.get(address, "")

    @property
    def call_count(self) -> int:
        """How many calls were sent; one that was tried again counts once."""
        return self._index.calls

    @property
    def is_empty(self) -> bool:
        return not self._index.count

    def _append(self, kind: Kind, address: str, fingerprint: str, body: Body) -> None:
        assert kind in KINDS, kind
        if kind not in _EXTERNAL_KINDS or self._torn:
            self.check()
        if kind == "sent":
            self._check_place()
        self._push(kind, address, fingerprint, body_to_bytes(body, self._number_of))

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
        try:
            self._commit()
        except LeaseLost as error:
            self._lost, self._torn = error, True
            self._fail(error.message)
        except OSError as error:
            self._fail(str(error))
        except BaseException as error:
            self._torn = True
            self._fail(type(error).__name__)
            raise

    def _commit(self) -> None:
        rows = self._pending
        self._check_rows(rows)
        kill_point("commit: before")
        self._persist(rows)
        kill_point("commit: after")
        self._pending = []
        for row in rows:
            self._index.add(row)
        self._attest(rows)
        kill_point("commit: witnessed")

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._undo()

    def _entry(self, seq: int) -> JournalEntry:
        row = self._row(seq)
        try:
            body = body_from_bytes(row.body, lambda number: decompress_piece(self._row(number).body))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise JournalDamaged(f"record {seq} of the journal cannot be read: {error}", RESTORE_HINT) from None
        if not self._fits(row.kind, body):
            raise JournalDamaged(f"record {seq} of the journal is no `{row.kind}` of a run", RESTORE_HINT)
        return JournalEntry(seq, row.address, row.fingerprint, body)
