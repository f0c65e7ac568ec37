"""A run's own row as its holder knows it: which epoch it writes in, and what has been seen of others.

Lease, journal and files of a run share one, so that each statement of any of them fences all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from skillrun.extensions.workers.postgres.database import Database, Rows, StoreRefused, StoreUnavailable
from skillrun.store.lease import LeaseLost

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
        """That of a new run. Raises StoreRefused where the name is taken."""
        made = database.rows(
            "INSERT INTO runs (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING RETURNING id", {"name": name}
        )
        if not made:
            raise StoreRefused(f"the run `{name}` already exists in {database.location}", "choose another `--name`")
        return cls(database, name, made[0][0], 0, 0, lease)

    @classmethod
    def find(cls, database: Database, name: str, lease: float = LEASE) -> RunRow | None:
        """That of a run which is there; None where there is none."""
        found = database.rows("SELECT id, epoch, edits FROM runs WHERE name = %(name)s", {"name": name})
        if not found:
            return None
        number, epoch, edits = found[0]
        return cls(database, name, number, epoch, edits, lease)

    def values(self, **more: Any) -> dict[str, Any]:
        """What its statements are given."""
        return {"run": self.number, "epoch": self.epoch, "lease": self.lease, "held": self.is_held, **more}

    def retry(self, work: Callable[[], T]) -> T:
        """What `work` gives, which may be done twice; tried again while the store is away, for half of the lease.

        Raises StoreUnavailable, and LeaseLost if another worker holds the run. The run is then unchanged.
        """
        try:
            return self.database.retry(work, self.lease / 2)
        except StoreUnavailable as error:
            if not self.is_held:
                raise
            self.is_lost = True
            hint = "what was acknowledged is kept; go on with the run once the store answers"
            raise LeaseLost(f"the run `{self.name}` was left: {error.message}", hint) from error

    def lease_error(self) -> LeaseLost:
        """That the run is another's now, and whose."""
        self.is_lost = True
        found: Rows = [("", "")]
        with suppress(StoreUnavailable):
            found = self.database.rows("SELECT status, owner FROM runs WHERE id = %(run)s", {"run": self.number})
        if not found:
            return LeaseLost(f"the run `{self.name}` was removed from {self.database.location}", "begin it again")
        status, owner = found[0]
        if status == "cancelled":
            return LeaseLost(f"the run `{self.name}` was cancelled", "what it has done is kept")
        whose = f"by {owner}" if owner else "by another process"
        return LeaseLost(
            f"the run `{self.name}` was taken up {whose}", "it goes on there; nothing more is written here"
        )
