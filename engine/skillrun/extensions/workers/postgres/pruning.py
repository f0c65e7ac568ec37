"""Removes old runs and unused contents from a store while workers keep running.

Works in small batches. An interrupted prune leaves no run half removed, and can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg

from skillrun.extensions.workers.postgres.database import Database

RUNS: Final = 100  # per batch
BLOBS: Final = 1000  # per batch
LOCK_TIMEOUT: Final = "5s"  # how long to wait for active writers
MIN_BLOB_AGE: Final = timedelta(days=1)
"""Younger contents stay even if unused, because `submit` sends a project's content before the run that refers to it."""

_OLD: Final = """
    FROM runs WHERE status = ANY(%(statuses)s) AND coalesce(ended_at, created_at) < now() - %(age)s
"""
_COUNT: Final = "SELECT count(*) " + _OLD
_REMOVE: Final = (
    "DELETE FROM runs WHERE id IN (SELECT id " + _OLD + " ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED)"
)
_LEFT: Final = """
    FROM blobs WHERE made_at < now() - %(fresh)s AND NOT EXISTS (SELECT FROM files WHERE files.sha = blobs.sha)
    AND NOT EXISTS (SELECT FROM runs WHERE runs.bundle = blobs.sha)
"""
_FIND: Final = "SELECT sha " + _LEFT + " AND sha > %(after)s ORDER BY sha LIMIT %(most)s"
_DROP: Final = (
    "DELETE FROM blobs WHERE sha IN (SELECT sha " + _LEFT + " AND sha = ANY(%(shas)s)) RETURNING length(content)"
)


@dataclass(frozen=True)
class PruneResult:
    """How many runs and contents were removed, and the total size of these contents in bytes."""

    runs: int
    contents: int
    size: int


class RunPruner:
    """Removes the runs of a store that have one of these statuses and ended longer ago than `age`."""

    def __init__(self, database: Database, age: timedelta, statuses: Sequence[str]) -> None:
        self._database = database
        self._old = {"age": age, "statuses": list(statuses)}

    def count(self) -> int:
        return int(self._database.rows(_COUNT, self._old)[0][0])

    def remove(self, min_age: timedelta = MIN_BLOB_AGE) -> PruneResult:
        """Remove the runs, and unused contents that are older than `min_age`. Return what was removed."""
        runs = 0
        while removed := self._remove_batch():
            runs += removed
        contents = size = 0
        after = ""
        while found := self._database.rows(_FIND, {"fresh": min_age, "after": after, "most": BLOBS}):
            shas = [sha for (sha,) in found]
            after = shas[-1]
            sizes = self._drop_blobs(shas, min_age)
            contents, size = contents + len(sizes), size + sum(sizes)
        return PruneResult(runs, contents, size)

    def _remove_batch(self) -> int:
        def work(connection: psycopg.Connection[Any]) -> int:
            return connection.execute(_REMOVE, {**self._old, "most": RUNS}).rowcount

        return self._database.transaction(work)

    def _drop_blobs(self, shas: list[str], min_age: timedelta) -> list[int]:
        """Delete the unused blobs and return their sizes.

        No file can be written meanwhile, since it could use one of the blobs.
        """

        def work(connection: psycopg.Connection[Any]) -> list[int]:
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
            connection.execute("LOCK TABLE files IN SHARE ROW EXCLUSIVE MODE")
            return [size for (size,) in connection.execute(_DROP, {"shas": shas, "fresh": min_age}).fetchall()]

        return self._database.transaction(work)
