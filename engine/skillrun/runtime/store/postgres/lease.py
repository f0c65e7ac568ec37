"""Who has a run in a store: a claim that raises its epoch, kept alive by a thread, and fenced wherever it writes."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from skillrun.language.text.diagnostics import SkillrunError
from skillrun.runtime.store.postgres.database import Database
from skillrun.runtime.store.postgres.row import RunRow

BEATS: Final = 3  # in the time of a lease

_CLAIM: Final = """
    UPDATE runs SET status = 'running', epoch = epoch + 1, owner = %(owner)s,
           lease_until = now() + make_interval(secs => %(lease)s)
    WHERE id = %(run)s AND (status <> 'running' OR lease_until < now()) RETURNING epoch, edits
"""
_RENEW: Final = """
    UPDATE runs SET lease_until = now() + make_interval(secs => %(lease)s)
    FROM unnest(%(runs)s::bigint[], %(epochs)s::bigint[]) AS held (run, held_epoch)
    WHERE runs.id = held.run AND runs.epoch = held.held_epoch AND runs.status = 'running' RETURNING runs.id
"""


def this_process() -> str:
    """How others see who has a run."""
    return f"process {os.getpid()} on {platform.node()[:80]}"


class PostgresLease:
    """The `Lease` of a run in a store. A holder that is stopped for longer than the lease finds its run fenced."""

    def __init__(self, row: RunRow, status: Callable[[], str] = lambda: "waiting", owner: str = "") -> None:
        """`status` says what the run is when it is let go."""
        self._row, self._status, self._owner = row, status, owner or this_process()

    @contextmanager
    def hold(self) -> Iterator[PostgresLease]:
        row = self._row
        claimed = row.database.rows(_CLAIM, row.values(owner=self._owner))
        if not claimed:
            raise SkillrunError(*self._refused())
        (row.epoch, row.edits), row.is_lost, row.is_held = claimed[0], False, True
        keeper = keeper_of(row.database)
        keeper.add(row)
        try:
            yield self
        finally:
            keeper.drop(row)
            row.is_held = False
            if not row.is_lost:
                self._let_go()

    def is_held(self) -> bool:
        found = self._row.database.rows(
            "SELECT status = 'running' AND lease_until >= now() FROM runs WHERE id = %(run)s", self._row.values()
        )
        return bool(found and found[0][0])

    def check(self, *, here: bool = True) -> None:  # noqa: ARG002 (a row is where it is)
        """Raises RunLost once the run is another's."""
        row = self._row
        mine = "SELECT 1 FROM runs WHERE id = %(run)s AND epoch = %(epoch)s"
        if row.is_lost or not row.database.lasting(lambda: row.database.rows(mine, row.values()), row.lease / 2):
            raise row.lost()

    def _let_go(self) -> None:
        row = self._row
        release = """
            UPDATE runs SET status = %(status)s, owner = '', lease_until = NULL
            WHERE id = %(run)s AND epoch = %(epoch)s AND status = 'running'
        """
        status = self._status()
        row.database.lasting(lambda: row.database.rows(release, row.values(status=status)), row.lease / 2)

    def _refused(self) -> tuple[str, str]:
        found = self._row.database.rows("SELECT owner FROM runs WHERE id = %(run)s", self._row.values())
        if not found:
            return f"there is no run `{self._row.name}` any more", "`skillrun runs` lists them"
        return f"{self._row.name} is being run by {found[0][0]}", "Wait for it to end; then type the command again."


class Keeper:
    """Renews the leases of a process from a thread of its own, so that a busy or blocked event loop loses none."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[int, RunRow] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, row: RunRow) -> None:
        with self._changed:
            self._rows[row.number] = row
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="skillrun-leases", daemon=True)
                self._thread.start()

    def drop(self, row: RunRow) -> None:
        with self._changed:
            self._rows.pop(row.number, None)
            self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                if self._rows:
                    self._changed.wait(min(row.lease for row in self._rows.values()) / BEATS)
                if not self._rows:
                    self._thread = None
                    return
                rows = list(self._rows.values())
            self._renew(rows)

    def _renew(self, rows: list[RunRow]) -> None:
        """One statement for all; a store that is away is asked again at the next beat, and every write asks it too."""
        epochs = {row.number: row.epoch for row in rows}
        values = {"lease": max(row.lease for row in rows), "runs": list(epochs), "epochs": list(epochs.values())}
        try:
            kept = {number for (number,) in self._database.rows(_RENEW, values)}
        except SkillrunError:
            return
        for row in rows:
            if row.number not in kept and row.epoch == epochs[row.number]:
                row.is_lost = True


_keepers: WeakKeyDictionary[Database, Keeper] = WeakKeyDictionary()
_making = threading.Lock()


def keeper_of(database: Database) -> Keeper:
    """The one that keeps the leases of this process in a store."""
    with _making:
        return _keepers.setdefault(database, Keeper(database))
