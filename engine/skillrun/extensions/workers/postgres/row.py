"""A run's row as this process knows it: the epoch in which it writes, and the edits that it has seen.

The lease, journal and files of a run share one `RunRow`. If one of them notices that the lease is lost, all of them
stop writing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from skillrun.extensions.workers.postgres.database import Database, Rows, StoreRefused, StoreUnavailable
from skillrun.store.files import LeaseLost

T = TypeVar("T")

LEASE: Final = 30.0  # seconds


class RunRow:
    """One run in a store, and the epoch in which this process writes for it."""

    def __init__(self, database: Database, name: str, number: int, epoch: int, edits: int, lease: float) -> None:
        self.database, self.name, self.number = database, name, number
        self.epoch, self.edits, self.lease = epoch, edits, lease
        self.is_held = self.is_lost = False

    @classmethod
    def create(cls, database: Database, name: str, lease: float = LEASE) -> RunRow:
        """Insert the row of a new run. Raises StoreRefused if the name is taken."""
        made = database.rows(
            "INSERT INTO runs (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING RETURNING id", {"name": name}
        )
        if not made:
            raise StoreRefused(f"the run `{name}` already exists in {database.location}", "choose another `--name`")
        return cls(database, name, made[0][0], 0, 0, lease)

    @classmethod
    def find(cls, database: Database, name: str, lease: float = LEASE) -> RunRow | None:
        """Return the row of a run; None if it does not exist."""
        found = database.rows("SELECT id, epoch, edits FROM runs WHERE name = %(name)s", {"name": name})
        if not found:
            return None
        number, epoch, edits = found[0]
        return cls(database, name, number, epoch, edits, lease)

    def values(self, **more: Any) -> dict[str, Any]:
        """Return the parameters for a statement about the run."""
        return {"run": self.number, "epoch": self.epoch, "lease": self.lease, "held": self.is_held, **more}

    def retry(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which must be idempotent.

        While the store is unavailable, `work` is retried for half the duration of a lease. After that, raises
        StoreUnavailable or, if this process holds the run, marks the run as lost and raises LeaseLost.
        """
        try:
            return self.database.retry(work, self.lease / 2)
        except StoreUnavailable as error:
            if not self.is_held:
                raise
            self.is_lost = True
            hint = "acknowledged records are kept; resume the run once the store answers"
            raise LeaseLost(f"the run `{self.name}` was interrupted: {error.message}", hint) from error

    def lease_error(self) -> LeaseLost:
        """Mark the run as lost, and return an error that names its new holder."""
        self.is_lost = True
        found: Rows = [("", "")]
        with suppress(StoreUnavailable):
            found = self.database.rows("SELECT status, owner FROM runs WHERE id = %(run)s", {"run": self.number})
        if not found:
            return LeaseLost(f"the run `{self.name}` was removed from {self.database.location}", "start it again")
        status, owner = found[0]
        if status == "cancelled":
            return LeaseLost(f"the run `{self.name}` was cancelled", "its results so far are kept")
        whose = f"by {owner}" if owner else "by another process"
        return LeaseLost(
            f"the run `{self.name}` was taken over {whose}", "it continues there; this process writes nothing more"
        )
