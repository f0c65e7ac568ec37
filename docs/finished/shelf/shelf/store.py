"""What is kept: things and their loans, in one SQLite file. The only module that knows SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

DAYS = 14  # of a loan whose end nobody has named

MIGRATIONS = (
    "CREATE TABLE thing (id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL)",
    """CREATE TABLE loan (
        id INTEGER PRIMARY KEY, thing INTEGER NOT NULL REFERENCES thing(id), who TEXT NOT NULL,
        since TEXT NOT NULL, until TEXT, back TEXT)""",
    "UPDATE loan SET until = date(since, '+14 days') WHERE until IS NULL",
)


class ShelfError(Exception):
    """What people are told; the message is a whole sentence without a full stop."""


@dataclass(frozen=True)
class Loan:
    id: int
    thing: int
    who: str
    since: str
    until: str
    back: str | None = None


@dataclass(frozen=True)
class Thing:
    id: int
    name: str
    owner: str
    loan: Loan | None = None  # the one that is not over


class Store:
    """An open database. Raises ShelfError for one that is newer than this program."""

    def __init__(self, path: Path | str, today: Callable[[], date] = date.today) -> None:
        self.today = today
        self._database = sqlite3.connect(path, timeout=5)
        self._database.row_factory = sqlite3.Row
        self._migrate()

    def close(self) -> None:
        self._database.close()

    def add(self, name: str, owner: str) -> int:
        with self._change() as database:
            return int(database.execute("INSERT INTO thing (name, owner) VALUES (?, ?)", (name, owner)).lastrowid or 0)

    def lend(self, thing: int, who: str, until: date | None = None) -> Loan:
        """Lend a thing from today on. Raises ShelfError where it is not there, or lent already."""
        found = self.thing(thing)
        if found.loan is not None:
            raise ShelfError(f"{found.name} is with {found.loan.who} until {found.loan.until}")
        since = self.today()
        end = until or since + timedelta(days=DAYS)
        if end < since:
            raise ShelfError(f"{end.isoformat()} is over already")
        with self._change() as database:
            row = (thing, who, since.isoformat(), end.isoformat())
            added = database.execute("INSERT INTO loan (thing, who, since, until) VALUES (?, ?, ?, ?)", row)
        return Loan(int(added.lastrowid or 0), *row)

    def back(self, thing: int) -> None:
        """A thing is here again. Raises ShelfError where it is not there, or not lent."""
        found = self.thing(thing)
        if found.loan is None:
            raise ShelfError(f"{found.name} is not lent")
        with self._change() as database:
            database.execute("UPDATE loan SET back = ? WHERE id = ?", (self.today().isoformat(), found.loan.id))

    def thing(self, thing: int) -> Thing:
        found = next((one for one in self.things() if one.id == thing), None)
        if found is None:
            raise ShelfError(f"there is no thing {thing}")
        return found

    def things(self) -> Iterator[Thing]:
        """All of them, in the order in which they were added."""
        rows = self._database.execute(
            "SELECT thing.id AS thing, name, owner, loan.id AS loan, who, since, until FROM thing "
            "LEFT JOIN loan ON loan.thing = thing.id AND loan.back IS NULL ORDER BY thing.id"
        )
        for row in rows:
            loan = None if row["loan"] is None else Loan(row["loan"], row["thing"], row["who"], row["since"], row["until"])
            yield Thing(row["thing"], row["name"], row["owner"], loan)

    def history(self, thing: int) -> list[Loan]:
        """The loans that are over, the latest first."""
        self.thing(thing)
        rows = self._database.execute(
            "SELECT * FROM loan WHERE thing = ? AND back IS NOT NULL ORDER BY since DESC, id DESC", (thing,)
        )
        return [Loan(*row) for row in rows]

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._database:
                yield self._database
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise ShelfError("somebody else is using the shelf; try again") from None
            raise

    def _migrate(self) -> None:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise ShelfError(f"this shelf is of a newer version ({version}); update the program")
        for number, step in enumerate(MIGRATIONS[version:], version + 1):
            with self._change() as database:
                database.execute(step)
                database.execute(f"PRAGMA user_version = {number}")
