"""Which version a store is of, and how it becomes one of this program's: numbered files of SQL, each once, in order."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

import psycopg

from skillrun.extensions.workers.postgres.database import Database, StoreRefused

LOCK: Final = 7_233_414  # of the store's migrations alone; a number that nobody else takes
_MADE: Final = """
CREATE TABLE IF NOT EXISTS store_versions (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())
"""


def load_migrations() -> dict[int, str]:
    """The SQL of each version, by its number."""
    folder = files("skillrun.extensions.workers.postgres") / "schema"
    found = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    named = {int(file.name.partition("-")[0]): file for file in found}
    assert len(named) == len(found), "two steps have the same number"
    return {number: named[number].read_text(encoding="utf-8") for number in sorted(named)}


def applied_versions(database: Database) -> set[int]:
    """The steps that a store has been through; none where it is no store yet. Raises StoreUnavailable, StoreRefused."""
    there = database.rows("SELECT to_regclass('store_versions') IS NOT NULL")[0][0]
    return {number for (number,) in database.rows("SELECT version FROM store_versions")} if there else set()


def check_version(database: Database) -> None:
    """Raises StoreRefused where a store is not of this program's version; changes nothing."""
    applied, known = applied_versions(database), load_migrations()
    version, latest = max(applied, default=0), max(known)
    if version > latest:
        raise StoreRefused(_newer_message(database, version, latest), "use the skillrun that made it, or a later one")
    missing = ", ".join(str(number) for number in known if number not in applied)
    if not missing:
        return
    state = f"lacks version {missing}, which this skillrun needs" if applied else "is no store of skillrun yet"
    raise StoreRefused(f"{database.location} {state}", "`skillrun store migrate` brings it there")


def migrate(database: Database) -> list[int]:
    """Bring a store to this program's version; the versions that were new to it. One process does it at a time.

    Raises StoreRefused, with nothing changed, for a store that is newer or a user that may not.
    """

    def work(connection: psycopg.Connection[Any]) -> list[int]:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        connection.execute(_MADE)
        applied = {row[0] for row in connection.execute("SELECT version FROM store_versions")}
        known = load_migrations()
        if max(applied, default=0) > max(known):
            newer = _newer_message(database, max(applied), max(known))
            raise StoreRefused(newer, "use the skillrun that made it, or a later one")
        missing = [number for number in known if number not in applied]
        for number in missing:
            connection.execute(known[number].encode())
            connection.execute("INSERT INTO store_versions (version) VALUES (%s)", (number,))
        return missing

    return database.transaction(work)


def _newer_message(database: Database, version: int, latest: int) -> str:
    return f"{database.location} is of version {version}; this skillrun knows {latest}, and leaves it unchanged"
