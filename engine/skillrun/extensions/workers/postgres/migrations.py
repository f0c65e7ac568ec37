"""Checks the version of a store, and migrates the store with numbered SQL files.

Each file is applied once, in order.
"""

from __future__ import annotations

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


def applied_versions(database: Database) -> set[int]:
    """Return the numbers of the applied migrations; empty for an uninitialized store.

    Raises StoreUnavailable, StoreRefused.
    """
    there = database.rows("SELECT to_regclass('store_versions') IS NOT NULL")[0][0]
    return {number for (number,) in database.rows("SELECT version FROM store_versions")} if there else set()


def check_version(database: Database) -> None:
    """Raises StoreRefused unless the store has the version that this program needs. Changes nothing."""
    applied, known = applied_versions(database), load_migrations()
    version, latest = max(applied, default=0), max(known)
    if version > latest:
        raise StoreRefused(
            _newer_message(database, version, latest), "upgrade skillrun to the version that migrated it"
        )
    missing = ", ".join(str(number) for number in known if number not in applied)
    if not missing:
        return
    state = f"lacks version {missing}, which this skillrun needs" if applied else "is not a skillrun store yet"
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
            newer = _newer_message(database, max(applied), max(known))
            raise StoreRefused(newer, "upgrade skillrun to the version that migrated it")
        missing = [number for number in known if number not in applied]
        for number in missing:
            connection.execute(known[number].encode())
            connection.execute("INSERT INTO store_versions (version) VALUES (%s)", (number,))
        return missing

    return database.transaction(work)


def _newer_message(database: Database, version: int, latest: int) -> str:
    return f"{database.location} has version {version}; this skillrun supports up to {latest}, and leaves it unchanged"
