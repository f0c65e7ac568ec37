"""The floor: plain asyncio with one SQLite insert per call, WAL and `synchronous=FULL`."""

import asyncio
import sqlite3

from bench.subject import Work, main


def open_database(work: Work) -> sqlite3.Connection:
    database = sqlite3.connect(work.folder / "floor.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS replies (number INTEGER PRIMARY KEY, reply TEXT)")
    return database


async def call(work: Work, database: sqlite3.Connection, number: int) -> None:
    reply = await work.call(number)
    database.execute("INSERT INTO replies VALUES (?, ?)", (number, reply))


async def chain(work: Work) -> None:
    database = open_database(work)
    work.start()
    (done,) = database.execute("SELECT count(*) FROM replies").fetchone()
    for number in range(done, work.calls):
        await call(work, database, number)
    work.stop()
    database.close()


async def fan_out(work: Work) -> None:
    database = open_database(work)
    work.start()
    await asyncio.gather(*(call(work, database, number) for number in range(work.calls)))
    work.stop()
    database.close()


if __name__ == "__main__":
    main(chain=chain, fan_out=fan_out)
