"""The kinds of stores: each test of this folder runs on all of them, and a new kind is a line in `KINDS`.

A `Kind` opens the lease, journal and files of one run, and opens them again as a second process does, or as a later
process does after the first one has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

import pytest

from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.journal import PostgresJournal
from skillrun.extensions.workers.postgres.lease import PostgresLease, RunRow
from skillrun.extensions.workers.postgres.maintenance import migrate
from skillrun.extensions.workers.postgres.stored_run import PostgresRun
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store import kill_points
from skillrun.store.files import Files
from skillrun.store.journal import Journal
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.local_files import LocalFiles
from skillrun.store.local.lock import LocalLease
from skillrun.store.memory import MemoryFiles, MemoryJournal, MemoryLease
from skillrun.store.stored_run import Lease
from tests.servers.postgres import empty


class Store(Protocol):
    """One run in a store of a kind."""

    @property
    def lease(self) -> Lease: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def files(self) -> Files: ...

    def other_lease(self) -> Lease:
        """The lease as a second process sees it."""
        ...

    def lose(self) -> None:
        """Take the run from its holder, as another process does."""
        ...

    def close(self) -> None: ...


class OnDisk:
    def __init__(self, folder: Path) -> None:
        self.folder, tree = folder, ConfinedFolder(folder)
        self.lease = LocalLease(tree)
        self.journal = SqliteJournal.create(tree)
        self.files = LocalFiles(tree)

    def other_lease(self) -> LocalLease:
        return LocalLease(self.folder)

    def lose(self) -> None:
        (self.folder / ".run" / "lock").unlink()
        (self.folder / ".run" / "lock").touch()

    def close(self) -> None:
        self.journal.close()


class InMemory:
    def __init__(self, _folder: Path) -> None:
        self.lease = MemoryLease()
        self.journal = MemoryJournal(guard=self.lease)
        self.files = MemoryFiles(guard=self.lease)

    def other_lease(self) -> MemoryLease:
        return self.lease

    def lose(self) -> None:
        self.lease.lose()

    def close(self) -> None:
        self.journal.close()


class InPostgres:
    def __init__(self, _folder: Path) -> None:
        self._opened = ExitStack()
        self.database = self._opened.enter_context(closing(Database(self._opened.enter_context(empty()))))
        migrate(self.database)
        row = RunRow.create(self.database, "run")
        self.lease, self.journal = PostgresLease(row), PostgresJournal(row)
        self.files = PostgresRun(row).data().files

    def other_lease(self) -> PostgresLease:
        row = RunRow.find(self.database, "run")
        assert row is not None
        return PostgresLease(row)

    def lose(self) -> None:
        self.database.rows("UPDATE runs SET epoch = epoch + 1, owner = 'another'")

    def close(self) -> None:
        self.journal.close()
        self._opened.close()


KINDS: dict[str, Callable[[Path], Store]] = {"disk": OnDisk, "memory": InMemory, "postgres": InPostgres}


@pytest.fixture(params=list(KINDS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "postgres":
        request.getfixturevalue("postgres")
    with closing(KINDS[request.param](tmp_path)) as store:
        yield store


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the checkpoints, in the order in which they are reached."""
    reached: list[str] = []
    monkeypatch.setattr(kill_points, "hook", reached.append)
    return reached
