"""Checks the version of a store, and migrates the store with numbered SQL files.

Each file is applied once, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from importlib.resources import files
from typing import Any, Final

import psycopg

from skillrun.extensions.workers.postgres.database import Database, StoreRefused

LOCK: Final = 7_233_414  # advisory lock of the migrations; a number that no other program uses
_MADE: Final = """
CREATE TABLE IF NOT EXISTS store_versions (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())
"""


def load_migrations() -> dict[int, str]:
    """Return the SQL of each migration, keyed by number."""
    folder = files("skillrun.extensions.workers.postgres") / "schema"
    found = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    named = {int(file.name.partition("-")[0]): file for file in found}
    assert len(named) == len(found), "two migrations have the same number"
    return {number: named[number].read_text(encoding="utf-8") for number in sorted(named)}


def check_version(database: Database) -> None:
    """Raises StoreRefused unless the store has the version that this program needs. Changes nothing."""
    is_initialized = database.rows("SELECT to_regclass('store_versions') IS NOT NULL")[0][0]
    rows = database.rows("SELECT version FROM store_versions") if is_initialized else []
    applied, known = {number for (number,) in rows}, load_migrations()
    version, latest = max(applied, default=0), max(known)
    if version > latest:
        raise _newer_error(database, version, latest)
    missing = ", ".join(str(number) for number in known if number not in applied)
    if not missing:
        return
    state = f"must be migrated to version {missing} for this skillrun" if applied else "is not a skillrun store yet"
    raise StoreRefused(f"{database.location} {state}", "run `skillrun store migrate`")


def migrate(database: Database) -> list[int]:
    """Migrate a store to this program's version, and return the numbers of the applied migrations.

    Only one process migrates a store at a time. Raises StoreRefused, and changes nothing, if the store is newer than
    this program or the user lacks a privilege.
    """

    def work(connection: psycopg.Connection[Any]) -> list[int]:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        connection.execute(_MADE)
        applied = {row[0] for row in connection.execute("SELECT version FROM store_versions")}
        known = load_migrations()
        if max(applied, default=0) > max(known):
            raise _newer_error(database, max(applied), max(known))
        missing = [number for number in known if number not in applied]
        for number in missing:
            connection.execute(known[number].encode())
            connection.execute("INSERT INTO store_versions (version) VALUES (%s)", (number,))
        return missing

    return database.transaction(work)


def _newer_error(database: Database, version: int, latest: int) -> StoreRefused:
    supported = f"this skillrun supports versions up to {latest}, and leaves the store unchanged"
    message = f"{database.location} has version {version}; {supported}"
    return StoreRefused(message, "upgrade skillrun to the version that migrated it")


RUNS: Final = 100  # per batch
BLOBS: Final = 1000  # per batch
LOCK_TIMEOUT: Final = "5s"  # how long to wait for active writers
MIN_BLOB_AGE: Final = timedelta(days=1)
"""Newer contents are kept even if unused, because `submit` sends a project's content before the run that needs it."""

_OLD: Final = "FROM runs WHERE status = ANY(%(statuses)s) AND coalesce(ended_at, created_at) < now() - %(age)s"
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


class RunPruner:
    """Removes all runs whose status is in `statuses` and that ended longer ago than `age`."""

    def __init__(self, database: Database, age: timedelta, statuses: Sequence[str]) -> None:
        self._database = database
        self._old = {"age": age, "statuses": list(statuses)}

    def count(self) -> int:
        return int(self._database.rows(_COUNT, self._old)[0][0])

    def remove(self, min_age: timedelta = MIN_BLOB_AGE) -> tuple[int, list[int]]:
        """Remove the old runs, and all unused contents that are older than `min_age`.

        Return the number of removed runs, and the size of each removed content in bytes.
        """
        runs = 0
        batch = {**self._old, "most": RUNS}
        while removed := self._database.transaction(lambda connection: connection.execute(_REMOVE, batch).rowcount):
            runs += removed
        sizes: list[int] = []
        shas = [""]

        def drop_unused_blobs(connection: psycopg.Connection[Any]) -> None:
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
            connection.execute("LOCK TABLE files IN SHARE ROW EXCLUSIVE MODE")  # a new file could use one of the blobs
            sizes.extend(size for (size,) in connection.execute(_DROP, {"shas": shas, "fresh": min_age}).fetchall())

        while found := self._database.rows(_FIND, {"fresh": min_age, "after": shas[-1], "most": BLOBS}):
            shas = [sha for (sha,) in found]
            self._database.transaction(drop_unused_blobs)
        return runs, sizes
