"""`skillrun store`: makes a database into a store, brings one up to date, and tells what one is."""

from __future__ import annotations

import click

from skillrun.cli import options
from skillrun.cli.printing import Output
from skillrun.cli.store import open_database
from skillrun.cli.words import counted
from skillrun.language.text.diagnostics import UsageError


@click.group(help="The store of runs that several machines share.")
def store() -> None:
    """A group of commands."""


@store.command(help="Make the database a store, or bring it to the version of this skillrun.")
@options.store
def migrate() -> int:
    from skillrun.runtime.store.postgres.migrations import migrate as migrated

    out, database = Output(), open_database(_named())
    done = migrated(database)
    versions = ", ".join(map(str, done))
    out.line(f"{database.place}: brought to version {versions}" if done else f"{database.place}: is up to date")
    return 0


@store.command(help="Look whether the store answers, is of this version, and what is in it.")
@options.store
def check() -> int:
    from skillrun.runtime.store.postgres.migrations import check_version

    out, database = Output(), open_database(_named())
    check_version(database)
    rows = database.rows("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status")
    out.line(f"{database.place}: {counted(sum(number for _, number in rows), 'run')}")
    for status, number in rows:
        out.line(f"  {status}: {number}")
    return 0


def _named() -> str:
    url = options.store_url()
    if not url:
        raise UsageError("no store is named", options.NO_STORE)
    return url
