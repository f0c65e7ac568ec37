"""What a journal is: records of calls, tools, answers and writes, in order, appended and never changed.

A protocol; `chained.py` has what every kind of journal has in common, `disk/journal.py` keeps it in SQLite, `memory.py`
for as long as the process lives. The contract is `tests/contract/test_journal.py`. Knows no workflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args

from skillrun.syntax.diagnostics import SkillrunError

Kind = Literal["sent", "tried", "reply", "failed", "tool", "answer", "wrote", "void", "note", "summary"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

Body = dict[str, Any]
"""A JSON object, by the kind of its record one of `journal_bodies.py`."""

BodyCheck = Callable[[str, Body], bool]
"""Whether a body is one that a run writes in a record of this kind: a journal may come from anybody."""


class JournalUnwritable(SkillrunError):
    """A record could not be written, so that nothing more may be sent."""


class JournalDamaged(SkillrunError):
    """What is there is not readable as a journal, or a record is not what was written."""


class JournalEntry(NamedTuple):
    """A record as it is read; `seq` counts all records of the journal from 1."""

    seq: int
    address: str
    fingerprint: str
    body: Body


class JournalRow(NamedTuple):
    """A record as it is kept; `chain` links it to the one before."""

    seq: int
    kind: str
    address: str
    fingerprint: str
    body: bytes
    chain: bytes


class Journal(Protocol):
    """An open journal. One process has it at a time, and in it the thread of the event loop.

    Records keep the order in which `record` was called. Bodies are JSON objects and come back as they were, keys in
    their order, tuples as lists; changing what was put in or read changes nothing on record. What is appended is found
    at once by `find`, `entries`, `unanswered` and `calls` once `record` has returned.
    """

    warning: str
    """What its reader has to know of it; empty for one that is known to be whole."""

    async def record(self, kind: Kind, address: str, fingerprint: str, body: Body) -> None:
        """Append a record; on return it is as durable as this journal makes it.

        Records that are appended in one turn of the event loop become durable together, all or none.

        Raises JournalUnwritable when it cannot be written, and from then on, so that no new call is sent; LeaseLost if
        another process has taken the run. What has come from outside all the same (`tried`, `reply`, `failed`,
        `tool`, `answer`) is kept and written as soon as that is possible; `unwritten` says whether it was.
        """
        ...

    def check(self) -> None:
        """Raises JournalUnwritable when a record could not be written, LeaseLost when none may be any more."""
        ...

    def write_error(self) -> SkillrunError | None:
        """Why the journal could not be written, what became of what was received, and what to do; None where it could.

        Tries once more to write it.
        """
        ...

    def find(self, kind: Kind, address: str, fingerprint: str) -> Body | None:
        """The body of the latest such record, as it was put in. Raises JournalDamaged where no run has written it."""
        ...

    def entries(self, kind: Kind) -> Iterator[JournalEntry]:
        """All records of a kind, oldest first, duplicates included; those that come meanwhile are left out."""
        ...

    def pending_calls(self) -> list[tuple[str, str]]:
        """(address, fingerprint) of calls that were sent and of which nothing has come since, oldest first."""
        ...

    def latest_fingerprint(self, address: str) -> str:
        """The fingerprint of the prompt that was asked at an address last, or taken up again since; empty for none."""
        ...

    @property
    def call_count(self) -> int:
        """How many calls were sent; one that was tried again counts once."""
        ...

    @property
    def is_empty(self) -> bool: ...

    def restore(self, rows: Sequence[JournalRow]) -> None:
        """Take over the records of another journal as they are, whose chain was verified; this one must be empty.

        Raises JournalUnwritable, LeaseLost.
        """
        ...

    def close(self) -> None:
        """Commit what is pending; nothing may be recorded afterwards."""
        ...
