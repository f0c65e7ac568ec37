"""Opens the store of runs that a team shares; what it needs is an extra."""

from __future__ import annotations

import atexit
from functools import cache
from typing import TYPE_CHECKING

from skillrun.language.text.diagnostics import UsageError
from skillrun.runtime.store.stored_run import Runs

if TYPE_CHECKING:
    from skillrun.runtime.store.postgres.database import Database


@cache
def open_store(url: str) -> Runs:
    """The runs in a store; opened once in a process. Raises SkillrunError where it cannot be had."""
    database = open_database(url)
    from skillrun.runtime.store.postgres.migrations import check_version
    from skillrun.runtime.store.postgres.stored_run import StoreRuns

    check_version(database)
    return StoreRuns(database)


@cache
def open_database(url: str) -> Database:
    """The database of a store, of whatever version. Raises SkillrunError where it cannot be had."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError("the store is no Postgres", "write its URL as postgresql://user@host:5432/database")
    try:
        from skillrun.runtime.store.postgres.database import Database
    except ImportError as error:
        hint = "`pip install 'skillrun[workers]'`"
        raise UsageError(f"a store needs what is not installed: {error.name}", hint) from error
    database = Database(url)
    atexit.register(database.close)
    return database
