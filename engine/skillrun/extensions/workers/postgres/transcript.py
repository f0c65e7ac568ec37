"""The transcript of a run in Postgres: every event is a row, kept within a moment, and by the run's holder only.

The disk is not waited for: no evaluation reads it, and a server that loses its power may lose its last moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from skillrun.events import Event
from skillrun.extensions.workers.postgres.database import StoreUnavailable
from skillrun.extensions.workers.postgres.row import RunRow
from skillrun.store.event_lines import Record, format_event_line, parse_event_line
from skillrun.syntax.diagnostics import SkillrunError

FLUSH: Final = 0.1  # seconds
POLL: Final = 0.5  # seconds between two looks at a transcript that grows
SIZE: Final = 1000  # events that are read at once

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
    """What hears every event of a run and has it in the store within a moment."""

    what = "the transcript"

    def __init__(self, row: RunRow) -> None:
        self._row = row
        self._lines: list[str] = []
        self._flush: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._away: Exception | None = None

    def write_event(self, event: Event) -> None:
        """Raises why an earlier event could not be kept."""
        if self._error is not None:
            raise self._error
        self._lines.append(format_event_line(event))
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH, self._write)

    def close(self) -> Exception | None:
        """Keep what is left; why not all of it was kept, where it was not."""
        if self._flush is not None:
            self._flush.cancel()
        self._write()
        return self._error or (self._away if self._lines else None)

    def restore(self, lines: Iterable[str]) -> None:
        """Take over the lines of another transcript."""
        self._lines += lines

    def _write(self) -> None:
        """Keep what was heard; while the store is away it waits for the next time."""
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
    """The transcript, oldest first, and with `follow` what comes until the run is let go."""
    return filter(None, map(parse_event_line, read_lines(row, is_held, follow=follow)))


def read_lines(row: RunRow, is_held: Callable[[], bool], *, follow: bool = False) -> Iterator[str]:
    """The same as it is kept."""
    after = 0
    while True:
        is_followed = follow and is_held()
        while found := row.database.rows(_READ, row.values(after=after, most=SIZE)):
            after = found[-1][0]
            yield from (line for _, line in found)
        if not is_followed:
            return
        time.sleep(POLL)
