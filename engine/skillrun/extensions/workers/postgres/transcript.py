"""The transcript of a run in Postgres: one row per event, written shortly after it and only by the run's holder.

Commits do not wait for the disk: no evaluation reads the transcript, so a power failure may lose the last events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from skillrun.events import Asked, Event
from skillrun.extensions.workers.postgres.database import StoreUnavailable
from skillrun.extensions.workers.postgres.row import RunRow
from skillrun.store.event_lines import Record, format_event_line, parse_event_line
from skillrun.syntax.diagnostics import SkillrunError

FLUSH: Final = 0.1  # seconds
POLL: Final = 0.5  # seconds between reads of a growing transcript
SIZE: Final = 1000  # events per read

_KEEP: Final = """
    WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO events (run, line) SELECT runs.id, new.line
    FROM quick, runs, unnest(%(lines)s::text[]) WITH ORDINALITY AS new (line, at)
    WHERE runs.id = %(run)s AND runs.epoch = %(epoch)s ORDER BY new.at
"""
_READ: Final = """
    SELECT number, line FROM events WHERE run = %(run)s AND number > %(after)s ORDER BY number LIMIT %(most)s
"""


class PostgresTranscript:
    """Writes every event of a run to the store within `FLUSH` seconds."""

    what = "the transcript"

    def __init__(self, row: RunRow) -> None:
        self._row = row
        self._lines: list[str] = []
        self._flush: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._away: Exception | None = None

    def write_event(self, event: Event) -> None:
        """Raises the error of an earlier event that could not be written."""
        if self._error is not None:
            raise self._error
        self._lines.append(format_event_line(event))
        if isinstance(event, Asked) and self._flush is not None:  # another process may answer at once
            self._flush.cancel()
            self._flush = None
        if self._flush is None:
            delay = 0 if isinstance(event, Asked) else FLUSH
            self._flush = asyncio.get_running_loop().call_later(delay, self._write)

    def close(self) -> Exception | None:
        """Write the remaining events; returns the error if some could not be written."""
        if self._flush is not None:
            self._flush.cancel()
        self._write()
        return self._error or (self._away if self._lines else None)

    def restore(self, lines: Iterable[str]) -> None:
        """Add the lines of another transcript."""
        self._lines += lines

    def _write(self) -> None:
        """Write the pending events; while the store is unavailable, they wait for the next write."""
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


def read_events(row: RunRow, is_held: Callable[[], bool], *, follow: bool = False) -> Iterator[Record]:
    """Yield the transcript, oldest first; with `follow`, continue until the run is released."""
    return filter(None, map(parse_event_line, read_lines(row, is_held, follow=follow)))


def read_lines(row: RunRow, is_held: Callable[[], bool], *, follow: bool = False) -> Iterator[str]:
    """Yield the stored lines of the transcript, like `read_events`."""
    after = 0
    while True:
        is_followed = follow and is_held()
        while found := row.database.rows(_READ, row.values(after=after, most=SIZE)):
            after = found[-1][0]
            yield from (line for _, line in found)
        if not is_followed:
            return
        time.sleep(POLL)
