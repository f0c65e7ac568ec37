"""The lease of a run in a store.

A claim increments the run's epoch, and every write checks the epoch. A thread renews the lease.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.row import RunRow
from skillrun.store.checkpoints import kill_point
from skillrun.syntax.diagnostics import SkillrunError

RENEWALS_PER_LEASE: Final = 3

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


def this_process() -> str:
    """Return a text that identifies this process as the holder of a run."""
    return f"process {os.getpid()} on {platform.node()[:80]}"


class PostgresLease:
    """The `Lease` of a run in a store. A holder that is suspended for longer than the lease lasts may lose the run."""

    def __init__(self, row: RunRow, status: Callable[[], str] = lambda: "waiting", owner: str = "") -> None:
        """`status` is called when the run is released, and returns the run's new status."""
        self._row, self._status, self._owner = row, status, owner or this_process()

    @contextmanager
    def hold(self) -> Iterator[PostgresLease]:
        row = self._row
        kill_point("claim: before")
        claimed = row.database.rows(_CLAIM, row.values(owner=self._owner))
        if not claimed:
            raise RunUnavailable(*self._refusal_message())
        kill_point("claim: after")
        (row.epoch, row.edits), row.is_lost, row.is_held = claimed[0], False, True
        keeper = get_keeper(row.database)
        keeper.add(row)
        try:
            yield self
        finally:
            keeper.drop(row)
            row.is_held = False
            if not row.is_lost:
                self._release()

    def is_held(self) -> bool:
        found = self._row.database.rows(
            "SELECT status = 'running' AND lease_until >= now() FROM runs WHERE id = %(run)s", self._row.values()
        )
        return bool(found and found[0][0])

    def check(self, *, verify_path: bool = True) -> None:  # noqa: ARG002 (a row has no path)
        """Raises LeaseLost if another process has claimed the run."""
        row = self._row
        query = "SELECT 1 FROM runs WHERE id = %(run)s AND epoch = %(epoch)s"
        if row.is_lost or not row.retry(lambda: row.database.rows(query, row.values())):
            raise row.lease_error()

    def _release(self) -> None:
        row = self._row
        status = self._status()
        kill_point("let go: before")
        row.retry(lambda: row.database.rows(_LET_GO, row.values(status=status)))
        kill_point("let go: after")

    def _refusal_message(self) -> tuple[str, str]:
        name = self._row.name
        found = self._row.database.rows("SELECT status, owner FROM runs WHERE id = %(run)s", self._row.values())
        if not found:
            return f"the run `{name}` no longer exists", "`skillrun runs` lists the runs"
        status, owner = found[0]
        if status == "cancelled":
            return f"{name} was cancelled and cannot be resumed", f"`skillrun show {name}` shows its results"
        return f"{name} is being run by {owner}", "Wait for it to end, then repeat the command."


class LeaseKeeper:
    """Renews the leases of a process in a thread, so that none expires while the event loop is busy or blocked."""

    def __init__(self, database: Database) -> None:
        self._database = database
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
            if rows:
                self._renew(rows)

    def _renew(self, rows: list[RunRow]) -> None:
        """Renew all leases with one statement. If the store is unavailable, the next renewal or write tries again."""
        values = {
            "lease": max(row.lease for row in rows),
            "runs": [row.number for row in rows],
            "epochs": [row.epoch for row in rows],
        }
        try:
            renewed = {*self._database.rows(_RENEW, values)}
        except SkillrunError:
            return
        for row in rows:
            if (row.number, row.epoch) not in renewed:
                row.is_lost = True


_keepers: WeakKeyDictionary[Database, LeaseKeeper] = WeakKeyDictionary()
_making = threading.Lock()


def get_keeper(database: Database) -> LeaseKeeper:
    """Return the object that renews this process's leases in a store."""
    with _making:
        return _keepers.setdefault(database, LeaseKeeper(database))
