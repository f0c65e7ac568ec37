"""Opens a shared Postgres store. Requires the `workers` extra."""

from __future__ import annotations

import atexit
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from skillrun.installation import extra_hint
from skillrun.syntax.diagnostics import UsageError

if TYPE_CHECKING:
    from skillrun.extensions.workers.postgres.database import Database
    from skillrun.extensions.workers.postgres.queue import RunQueue
    from skillrun.extensions.workers.postgres.roster import Roster
    from skillrun.extensions.workers.postgres.slots import LeasedSlots
    from skillrun.extensions.workers.postgres.stored_run import PostgresStore


@dataclass(frozen=True)
class OpenStore:
    """An open store: its runs, queue, workers and database."""

    url: str
    runs: PostgresStore
    queue: RunQueue
    roster: Roster
    database: Database
    lease: float
    """The duration of a lease, in seconds."""
    limits: LeasedSlots

    def requeue(self, name: str) -> bool:
        """Queue a run for the workers, and return whether it was queued.

        A run is not queued if it was never submitted, is already queued, has completed, or was cancelled.
        """
        due = self.queue.requeue(name)
        if due is not None:
            self.wake_worker(name, due.queue, due.priority)
        return due is not None

    def wake_worker(self, name: str, queue: str, priority: int, in_seconds: float = 0) -> None:
        """Wake a worker that serves `queue`, because the run can start. Raises StoreUnavailable."""
        from skillrun.extensions.workers.dispatch import Dispatcher

        with closing(Dispatcher(self.url)) as dispatch:
            dispatch.wake(name, queue=queue, priority=priority, in_seconds=in_seconds)

    def slots(self) -> LeasedSlots:
        """Return the limits on parallel calls. All workers of the store share these limits."""
        return self.limits


@cache
def open_store(url: str, lease: float = 0) -> OpenStore:
    """Open a store with leases of `lease` seconds (0: the default). Raises SkillrunError.

    Later calls with the same arguments return the same store.
    """
    database = open_database(url)
    from skillrun.extensions.workers.postgres.lease import LEASE
    from skillrun.extensions.workers.postgres.maintenance import check_version
    from skillrun.extensions.workers.postgres.queue import RunQueue
    from skillrun.extensions.workers.postgres.roster import Roster
    from skillrun.extensions.workers.postgres.slots import LeasedSlots
    from skillrun.extensions.workers.postgres.stored_run import PostgresStore

    check_version(database)
    lease = lease or LEASE
    limits = LeasedSlots(url, database, lease)
    return OpenStore(url, PostgresStore(database, lease), RunQueue(database), Roster(database), database, lease, limits)


@cache
def open_database(url: str) -> Database:
    """Open the database of a store without a check of the store's version. Raises SkillrunError."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError("the store URL is not a Postgres URL", "use postgresql://user@host:5432/database")
    try:
        from skillrun.extensions.workers.postgres.database import Database
    except ImportError as error:
        raise UsageError(
            f"the store needs a package that is not installed: {error.name}", extra_hint("workers")
        ) from error
    database = Database(url)
    atexit.register(database.close)
    return database
