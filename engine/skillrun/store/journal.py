"""The journal of a run: an append-only list of records of calls, tools, answers and writes.

`Journal` is a protocol. `base_journal.py` has the common code, `local/journal.py` stores a journal in SQLite, and
`memory.py` in memory. The contract is `tests/contract/test_journal.py`. This module knows nothing about workflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args

from skillrun.syntax.diagnostics import SkillrunError

Kind = Literal["sent", "tried", "reply", "failed", "tool", "answer", "wrote", "void", "note", "summary"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

Body = dict[str, Any]
"""A JSON object; `journal_bodies.py` defines the keys for each kind of record."""

BodyCheck = Callable[[str, Body], bool]
"""Returns whether a body is valid for a record of this kind. A journal may be untrusted."""


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
    """A record as it is stored; `chain` links it to the previous one."""

    seq: int
    kind: str
    address: str
    fingerprint: str
    body: bytes
    chain: bytes


class Journal(Protocol):
    """An open journal. One process uses it at a time, and only in the thread of the event loop.

    Records keep the order in which `record` was called. Bodies are JSON objects. They are read back unchanged, with
    keys in order, except that tuples become lists. Changing a body after it was recorded or read does not change the
    record. Once `record` has returned, `find`, `entries`, `pending_calls` and `call_count` include the record.
    """

    warning: str
    """A warning for the reader; empty if the journal is known to be complete."""

    async def record(self, kind: Kind, address: str, fingerprint: str, body: Body) -> None:
        """Append a record. On return, the record is as durable as this journal can make it.

        Records that are appended in one iteration of the event loop become durable together, all or none. Raises
        JournalUnwritable if the record cannot be written, and for every later record, so that no new call is sent.
        Raises LeaseLost if another process has claimed the run. Results from outside (`tried`, `reply`, `failed`,
        `tool`, `answer`) are still kept after a failed write, and written as soon as possible; `write_error` reports
        whether they were written.
        """
        ...

    def check(self) -> None:
        """Raises JournalUnwritable if a record could not be written, LeaseLost if this process may not write any."""
        ...

    def write_error(self) -> SkillrunError | None:
        """Return an error if a write to the journal has failed; None if none has.

        Tries once more to write the pending records. The error says why the write failed, whether replies are lost, and
        what to do.
        """
        ...

    def find(self, kind: Kind, address: str, fingerprint: str) -> Body | None:
        """Return the body of the latest record with this kind, address and fingerprint; None if there is none.

        Raises JournalDamaged if the body is invalid.
        """
        ...

    def entries(self, kind: Kind) -> Iterator[JournalEntry]:
        """Return all records of a kind, oldest first, including duplicates.

        Records that are added during the iteration are left out.
        """
        ...

    def pending_calls(self) -> list[tuple[str, str]]:
        """Return (address, fingerprint) of calls that were sent and have no result since, oldest first."""
        ...

    def latest_fingerprint(self, address: str) -> str:
        """Return the fingerprint of the prompt that was last sent or reused at an address; empty if there is none."""
        ...

    @property
    def call_count(self) -> int:
        """The number of calls that were sent; a retried call counts once."""
        ...

    @property
    def is_empty(self) -> bool: ...

    def restore(self, rows: Sequence[JournalRow]) -> None:
        """Copy the verified records of another journal, unchanged, to this one, which must be empty.

        Raises JournalUnwritable, LeaseLost.
        """
        ...

    def close(self) -> None:
        """Commit pending records; nothing may be recorded afterwards."""
        ...
