"""The lease of a run in a store.

A claim increments the run's epoch, and every write checks the epoch. A thread renews the lease.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, LiteralString, TypeVar

from skillrun.extensions.workers.postgres.database import Database, Rows, StoreRefused, StoreUnavailable
from skillrun.store.files import LeaseLost
from skillrun.store.kill_points import kill_point
from skillrun.syntax.diagnostics import SkillrunError

T = TypeVar("T")

LEASE: Final = 30.0  # seconds


class RunRow:
    """The row of a run in a store, and the epoch in which this process writes to the run."""

    def __init__(self, database: Database, name: str, lease: float, number: int, epoch: int, edits: int) -> None:
        self.database, self.name, self.number = database, name, number
        self.epoch, self.edits, self.lease = epoch, edits, lease
        self.is_held = self.is_lost = False

    @classmethod
    def create(cls, database: Database, name: str, lease: float = LEASE) -> RunRow:
        """Insert the row of a new run. Raises StoreRefused if the name is taken."""
        statement = "INSERT INTO runs (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING RETURNING id, epoch, edits"
        made = database.rows(statement, {"name": name})
        if not made:
            raise StoreRefused(f"the run `{name}` already exists in {database.location}", "choose another `--name`")
        return cls(database, name, lease, *made[0])

    @classmethod
    def find(cls, database: Database, name: str, lease: float = LEASE) -> RunRow | None:
        """Return the row of a run; None if it does not exist."""
        found = database.rows("SELECT id, epoch, edits FROM runs WHERE name = %(name)s", {"name": name})
        return cls(database, name, lease, *found[0]) if found else None

    def values(self, **more: Any) -> dict[str, Any]:
        """Return the parameters for a statement about the run."""
        return {"run": self.number, "epoch": self.epoch, "lease": self.lease, "held": self.is_held, **more}

    def rows(self, statement: LiteralString, *, optional: Container[str] = (), **more: Any) -> Rows:
        """Execute an idempotent statement about the run, with retries, and return its rows.

        Only the columns in `optional` can be NULL.
        """
        values = self.values(**more)
        return self.retry(lambda: self.database.rows(statement, values, optional=optional))

    def retry(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which must be idempotent.

        While the store is unavailable, `work` is retried for half the duration of a lease. After that, raises
        StoreUnavailable if this process does not hold the run. Otherwise marks the run as lost and raises LeaseLost.
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
            found = self.database.rows(_HOLDER, self.values())
        if not found:
            return LeaseLost(f"the run `{self.name}` was removed from {self.database.location}", "start it again")
        status, owner = found[0]
        if status == "cancelled":
            return LeaseLost(f"the run `{self.name}` was cancelled", "its results so far are kept")
        message = f"the run `{self.name}` was taken over by {owner or 'another process'}"
        return LeaseLost(message, "it continues there; this process writes nothing more")


RENEWALS_PER_LEASE: Final = 3

_HOLDER: Final = "SELECT left(status, 50), left(owner, 200) FROM runs WHERE id = %(run)s"
_CLAIM: Final = """
    UPDATE runs SET status = 'running', epoch = epoch + 1, owner = %(owner)s, takes = takes + 1, again = false,
           fruitful_at = CASE WHEN takes = 0 THEN now() ELSE fruitful_at END,
           lease_until = now() + make_interval(secs => %(lease)s), ended_at = NULL, reason = ''
    WHERE id = %(run)s AND status <> 'cancelled' AND (status <> 'running' OR lease_until < now())
    RETURNING epoch, edits
"""
# The same statement queues a submitted run again if it is unfinished, or was answered while it was about to wait.
_LET_GO: Final = """
    UPDATE runs SET owner = '', lease_until = NULL, ended_at = now(),
           takes = CASE WHEN %(status)s::text = 'new' THEN takes ELSE 0 END,
           status = CASE
               WHEN request IS NOT NULL AND %(status)s::text IN ('new', 'interrupted') THEN 'queued'
               WHEN request IS NOT NULL AND %(status)s::text = 'waiting' AND again THEN 'queued'
               ELSE %(status)s::text
           END
    WHERE id = %(run)s AND epoch = %(epoch)s AND status = 'running'
"""
_RENEW: Final = """
    UPDATE runs SET lease_until = now() + make_interval(secs => %(lease)s)
    FROM unnest(%(runs)s::bigint[], %(epochs)s::bigint[]) AS held (run, held_epoch)
    WHERE runs.id = held.run AND runs.epoch = held.held_epoch AND runs.status = 'running' RETURNING runs.id, runs.epoch
"""


class RunUnavailable(SkillrunError):
    """The run cannot be claimed now: another process holds it, or it was cancelled or removed."""


class PostgresLease:
    """The `Lease` of a run in a store. A holder that is suspended for longer than the lease can lose the run."""

    def __init__(self, row: RunRow, status: Callable[[], str] = lambda: "waiting") -> None:
        """`status` is called when the run is released, and returns the run's new status."""
        self._row, self._status = row, status

    @contextmanager
    def hold(self) -> Iterator[PostgresLease]:
        row = self._row
        kill_point("claim: before")
        owner = f"process {os.getpid()} on {platform.node()[:80]}"
        claimed = row.database.rows(_CLAIM, row.values(owner=owner))
        if not claimed:
            raise RunUnavailable(*self._refusal_message())
        kill_point("claim: after")
        (row.epoch, row.edits), row.is_lost, row.is_held = claimed[0], False, True
        _KEEPER.add(row)
        try:
            yield self
        finally:
            _KEEPER.drop(row)
            row.is_held = False
            if not row.is_lost:
                new_status = self._status()
                kill_point("let go: before")
                row.rows(_LET_GO, status=new_status)
                kill_point("let go: after")

    def is_held(self) -> bool:
        statement = "SELECT 1 FROM runs WHERE id = %(run)s AND status = 'running' AND lease_until >= now()"
        return bool(self._row.database.rows(statement, self._row.values()))

    def check(self, *, verify_path: bool = True) -> None:  # noqa: ARG002 (a row has no path)
        """Raises LeaseLost if another process has claimed the run."""
        row = self._row
        if row.is_lost or not row.rows("SELECT 1 FROM runs WHERE id = %(run)s AND epoch = %(epoch)s"):
            raise row.lease_error()

    def _refusal_message(self) -> tuple[str, str]:
        name = self._row.name
        found = self._row.database.rows(_HOLDER, self._row.values())
        if not found:
            return f"the run `{name}` no longer exists", "`skillrun runs` lists the runs"
        status, owner = found[0]
        if status == "cancelled":
            return f"{name} was cancelled and cannot be resumed", f"`skillrun show {name}` shows its results"
        return f"{name} is being run by {owner}", "Wait for it to end, then repeat the command."


class LeaseKeeper:
    """Renews all leases of a process in a thread. So no lease expires while the event loop is busy or blocked."""

    def __init__(self) -> None:
        self._rows: list[RunRow] = []  # a run that was lost and claimed again has two rows here
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, row: RunRow) -> None:
        with self._changed:
            self._rows.append(row)
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew_loop, name="skillrun-leases", daemon=True)
                self._thread.start()

    def drop(self, row: RunRow) -> None:
        with self._changed:
            self._rows = [each for each in self._rows if each is not row]
            self._changed.notify()

    def _renew_loop(self) -> None:
        while True:
            with self._changed:
                if self._rows:
                    self._changed.wait(min(row.lease for row in self._rows) / RENEWALS_PER_LEASE)
                if not self._rows:
                    self._thread = None
                    return
                rows = [row for row in self._rows if not row.is_lost]
            for database in {row.database for row in rows}:
                self._renew(database, [row for row in rows if row.database is database])

    def _renew(self, database: Database, rows: list[RunRow]) -> None:
        """Renew all leases with one statement. If the store is unavailable, the next renewal or write tries again."""
        values = {
            "lease": max(row.lease for row in rows),
            "runs": [row.number for row in rows],
            "epochs": [row.epoch for row in rows],
        }
        try:
            renewed = {*database.rows(_RENEW, values)}
        except SkillrunError:
            return
        for row in rows:
            if (row.number, row.epoch) not in renewed:
                row.is_lost = True


_KEEPER: Final = LeaseKeeper()  # renews all leases of this process
