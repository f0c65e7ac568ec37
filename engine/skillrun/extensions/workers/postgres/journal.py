"""Stores the journal and the transcript of a run in Postgres.

A single statement writes records, checks the run's epoch, renews the lease, and updates the record count and the chain
hash in the run's row. Opening a journal reads all records, checks their chain against the run's row, and keeps the
records in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from skillrun.extensions.workers.postgres.database import StoreUnavailable
from skillrun.extensions.workers.postgres.lease import RunRow
from skillrun.store.event_lines import MAX_EVENTS, Transcript
from skillrun.store.journal import RESTORE_HINT, BodyCheck, Index, JournalDamaged, JournalRow, accept_any_body
from skillrun.store.memory import MemoryJournal
from skillrun.store.rows import chain_hash
from skillrun.syntax.diagnostics import SkillrunError

MAX_JOURNAL_BYTES: Final = 1 << 30  # of all records of a run, which are kept in memory
ROW_BYTES: Final = 1000  # of memory for each record, besides its content
BATCH_ROWS: Final = 10_000  # records per read
BATCH_BYTES: Final = 50_000_000  # per read

_COMMIT: Final = """
    WITH held AS (
        UPDATE runs SET records = records + %(count)s, chain = %(head)s,
               takes = CASE WHEN %(answered)s THEN 0 ELSE takes END,
               fruitful_at = CASE WHEN %(answered)s THEN now() ELSE fruitful_at END,
               lease_until = CASE
                   WHEN status <> 'running' THEN NULL
                   WHEN lease_until > now() + make_interval(secs => %(lease)s * 2 / 3) THEN lease_until
                   ELSE now() + make_interval(secs => %(lease)s)
               END
        WHERE id = %(run)s AND epoch = %(epoch)s AND records = %(before)s RETURNING id, edits
    ), kept AS (
        INSERT INTO records (run, seq, kind, address, fingerprint, body, chain, epoch)
        SELECT held.id, new.*, %(epoch)s FROM held, unnest(
            %(seqs)s::integer[], %(kinds)s::text[], %(addresses)s::text[], %(fingerprints)s::text[],
            %(bodies)s::bytea[], %(chains)s::bytea[]
        ) AS new
    )
    SELECT edits FROM held
"""
_CAME_THROUGH: Final = """
    SELECT runs.edits FROM records JOIN runs ON runs.id = records.run
    WHERE records.run = %(run)s AND seq = %(last)s AND records.epoch = %(epoch)s AND records.chain = %(head)s
"""
_SIZE: Final = "octet_length(kind) + octet_length(address) + octet_length(fingerprint) + octet_length(body)"
_ACKNOWLEDGED: Final = f"""
    SELECT runs.records, runs.chain,
           (SELECT coalesce(sum({_SIZE} + {ROW_BYTES}), 0)::bigint FROM records WHERE run = %(run)s),
           (SELECT coalesce(max({_SIZE}), 0) FROM records WHERE run = %(run)s)
    FROM runs WHERE id = %(run)s
"""
_READ: Final = f"""
    SELECT seq, kind, address, fingerprint, body, chain FROM (
        SELECT *, sum({_SIZE}) OVER (ORDER BY seq) AS size FROM (
            SELECT * FROM records WHERE run = %(run)s AND seq > %(after)s ORDER BY seq LIMIT {BATCH_ROWS}
        ) AS next
    ) AS sized WHERE size <= {BATCH_BYTES} ORDER BY seq
"""


class PostgresJournal(MemoryJournal):
    """A `Journal` in a store. A single statement writes all records of an event loop iteration."""

    max_bytes = MAX_JOURNAL_BYTES // 2

    def __init__(self, row: RunRow, fits: BodyCheck = accept_any_body) -> None:
        """Open and verify the journal of a run. Raises JournalDamaged, StoreUnavailable."""
        super().__init__(*read_rows(row), fits)
        self._run = row

    def _persist(self, rows: Sequence[JournalRow]) -> None:
        run = self._run
        seqs, kinds, addresses, fingerprints, bodies, chains = map(list, zip(*rows, strict=True))
        values = run.values(
            count=len(rows), before=rows[0].seq - 1, last=rows[-1].seq, head=rows[-1].chain, seqs=seqs, kinds=kinds,
            addresses=addresses, fingerprints=fingerprints, bodies=bodies, chains=chains, answered="reply" in kinds,
        )  # fmt: skip

        def commit() -> list[tuple[int]]:
            # the commit may have succeeded before the connection broke
            return run.database.rows(_COMMIT, values) or run.database.rows(_CAME_THROUGH, values)

        try:
            found = run.retry(commit)
            if not found:
                raise run.lease_error()
        except StoreUnavailable as error:
            raise OSError(error.message) from error
        run.edits = found[0][0]
        super()._persist(rows)


def read_rows(row: RunRow) -> tuple[list[JournalRow], Index]:
    """Return all records of a run and their index. Raises JournalDamaged for a broken chain and a too large journal."""
    acknowledged = row.rows(_ACKNOWLEDGED)
    if not acknowledged:
        raise SkillrunError(f"the run `{row.name}` no longer exists", "`skillrun runs` lists the runs")
    count, head, size, largest = acknowledged[0]
    if size > MAX_JOURNAL_BYTES or largest > BATCH_BYTES:
        raise JournalDamaged(f"the journal of `{row.name}` is larger than any that a run writes", RESTORE_HINT)
    rows: list[JournalRow] = []
    while found := row.rows(_READ, after=rows[-1].seq if rows else 0):
        rows += (JournalRow(*each) for each in found)
    index = Index()
    index.packs = True
    for each in rows:
        if each.seq != index.count + 1 or each.chain != chain_hash(index.chain, *each[1:5]):
            raise JournalDamaged(f"record {each.seq} of the journal of `{row.name}` is damaged", RESTORE_HINT)
        index.add(each)
        if each.seq == count and each.chain != head:
            raise JournalDamaged(f"the journal of `{row.name}` does not match the store's chain hash", RESTORE_HINT)
    if index.count < count:
        message = f"the journal of `{row.name}` has {index.count} of {count} acknowledged records"
        raise JournalDamaged(message, RESTORE_HINT)
    return rows, index


POLL: Final = 0.5  # seconds between reads of a growing transcript
SIZE: Final = 1000  # events per read
LONGEST: Final = 16_000_000  # bytes of the events of a read; a longer line contains no valid event

_KEEP: Final = """
    WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO events (run, line) SELECT runs.id, new.line
    FROM quick, runs, unnest(%(lines)s::text[]) WITH ORDINALITY AS new (line, at)
    WHERE runs.id = %(run)s AND runs.epoch = %(epoch)s ORDER BY new.at
"""
_LAST_OMITTED: Final = "SELECT number FROM events WHERE run = %(run)s ORDER BY number DESC OFFSET %(most)s LIMIT 1"
_READ_EVENTS: Final = """
    SELECT number, line FROM (
        SELECT number, line, sum(octet_length(line)) OVER (ORDER BY number) AS size FROM (
            SELECT number, CASE WHEN octet_length(line) <= %(longest)s THEN line ELSE '' END AS line
            FROM events WHERE run = %(run)s AND number > %(after)s ORDER BY number LIMIT %(most)s
        ) AS next
    ) AS sized WHERE size <= %(longest)s ORDER BY number
"""


class PostgresTranscript(Transcript):
    """Writes every event of a run to the store."""

    def __init__(self, row: RunRow) -> None:
        super().__init__()
        self._row = row
        self._away: Exception | None = None

    def close(self) -> Exception | None:
        return super().close() or (self._away if self._lines else None)

    def _write(self) -> None:
        """Write the pending events. If the store is unavailable, keep them for the next write."""
        self._flush = None
        lines, self._lines = self._lines, []
        if not lines or self._error is not None:
            return
        try:
            self._row.database.rows(_KEEP, self._row.values(lines=lines))
        except StoreUnavailable as error:
            self._lines = lines
            self._away = error
        except SkillrunError as error:
            self._error = error


def last_omitted_event(row: RunRow) -> int:
    """Return the number of the last event before the last `MAX_EVENTS` events of the run; 0 if it has no more."""
    found = row.database.rows(_LAST_OMITTED, row.values(most=MAX_EVENTS))
    return int(found[0][0]) if found else 0


def read_lines(row: RunRow, is_held: Callable[[], bool], after: int = 0, *, follow: bool = False) -> Iterator[str]:
    """Yield the lines of the transcript after the event with the number `after`, oldest first. With `follow`, continue
    until the run is released."""
    while True:
        is_followed = follow and is_held()
        while found := row.database.rows(_READ_EVENTS, row.values(after=after, most=SIZE, longest=LONGEST)):
            after = found[-1][0]
            yield from (line for _, line in found)
        if not is_followed:
            return
        time.sleep(POLL)
