"""`skillrun store`: makes a database into a store, brings one up to date, and tells what one is."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import click

from skillrun.cli import options
from skillrun.cli.printing import Output
from skillrun.cli.store import open_database
from skillrun.cli.words import counted

OVER: Final = ("completed", "failed", "cancelled")
ENDED: Final = (*OVER, "interrupted", "waiting")


@click.group(help="The store of runs that several machines share.")
def store() -> None:
    """A group of commands."""


@store.command(help="Make the database a store, or bring it to the version of this skillrun.")
@options.store
def migrate() -> int:
    from skillrun.runtime.store.postgres.migrations import migrate as migrated
    from skillrun.workers.dispatch import install as install_queue

    out, database = Output(), open_database(options.named_store())
    done = migrated(database)
    install_queue(database)
    versions = ", ".join(map(str, done))
    out.line(f"{database.place}: brought to version {versions}" if done else f"{database.place}: is up to date")
    return 0


@store.command(help="Look whether the store answers, is of this version, and what is in it.")
@options.store
def check() -> int:
    from skillrun.runtime.store.postgres.migrations import check_version

    out, database = Output(), open_database(options.named_store())
    check_version(database)
    rows = database.rows("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status")
    out.line(f"{database.place}: {counted(sum(number for _, number in rows), 'run')}")
    for status, number in rows:
        out.line(f"  {status}: {number}")
    return 0


@store.command(help="Remove runs that are over and older, and contents that nobody refers to any more.")
@click.option("--before", type=options.Span(), required=True, metavar="TIME", help="Let go longer ago: 90d, 12h.")
@click.option(
    "--status",
    "statuses",
    type=click.Choice(ENDED),
    multiple=True,
    default=OVER,
    metavar="STATUS",
    help=f"Only runs of this status, once or more; {', '.join(OVER)} without it.",
)
@click.option("--yes", is_flag=True, help="Do it; without it is only said how many they are.")
@options.store
def prune(before: timedelta, statuses: tuple[str, ...], yes: bool) -> int:
    from skillrun.runtime.store.postgres.migrations import check_version
    from skillrun.runtime.store.postgres.pruning import Pruning

    out, database = Output(), open_database(options.named_store())
    check_version(database)
    pruning = Pruning(database, before, statuses)
    if not yes:
        out.line(f"{database.place}: {counted(pruning.count(), 'run')} would go: {', '.join(statuses)}")
        out.line("next: the same with `--yes` removes them; `skillrun export RUN` keeps one as a folder")
        return 0
    done = pruning.remove()
    freed = f"{counted(done.contents, 'content')} that nobody refers to, {done.size / 1e6:,.1f} MB"
    out.line(f"{database.place}: removed {counted(done.runs, 'run')}, and {freed}")
    return 0
