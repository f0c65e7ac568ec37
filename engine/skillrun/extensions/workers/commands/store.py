"""`skillrun store migrate`, `check` and `prune`: create, upgrade, check and prune the Postgres store."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import click

from skillrun.cli import options
from skillrun.cli.formatting import count_noun
from skillrun.cli.main import CommandGroup
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import open_database

FINISHED_STATUSES: Final = ("completed", "failed", "cancelled")
PRUNABLE_STATUSES: Final = (*FINISHED_STATUSES, "interrupted", "waiting")


@click.group(cls=CommandGroup, help="Manage the Postgres store, in which several machines share runs.")
def store() -> None:
    """The group of store commands."""


@click.command(help="Create the store's tables, or upgrade them to this version.")
@options.store
def migrate() -> int:
    from skillrun.extensions.workers.dispatch import install as install_queue
    from skillrun.extensions.workers.postgres.migrations import migrate as migrated

    out, database = Output(), open_database(options.require_store_url())
    done = migrated(database)
    install_queue(database)
    versions = ", ".join(map(str, done))
    out.line(f"{database.location}: applied version {versions}" if done else f"{database.location}: is up to date")
    return 0


@click.command(help="Check the connection and the version, and count the runs.")
@options.store
def check() -> int:
    from skillrun.extensions.workers.postgres.migrations import check_version

    out, database = Output(), open_database(options.require_store_url())
    check_version(database)
    rows = database.rows("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status")
    out.line(f"{database.location}: {count_noun(sum(number for _, number in rows), 'run')}")
    for status, number in rows:
        out.line(f"  {status}: {number}")
    return 0


@click.command(help="Delete old runs that have ended, and unused content.")
@click.option(
    "--before", type=options.DurationType(), required=True, metavar="TIME", help="Minimum age, for example 90d or 12h."
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(PRUNABLE_STATUSES),
    multiple=True,
    default=FINISHED_STATUSES,
    metavar="STATUS",
    help=f"Only runs with this status; may be repeated. Default: {', '.join(FINISHED_STATUSES)}.",
)
@click.option("--yes", is_flag=True, help="Delete the runs. Without it, only count them.")
@options.store
def prune(before: timedelta, statuses: tuple[str, ...], yes: bool) -> int:
    from skillrun.extensions.workers.postgres.migrations import check_version
    from skillrun.extensions.workers.postgres.pruning import RunPruner

    out, database = Output(), open_database(options.require_store_url())
    check_version(database)
    pruning = RunPruner(database, before, statuses)
    if not yes:
        out.line(f"{database.location}: {count_noun(pruning.count(), 'run')} would be deleted: {', '.join(statuses)}")
        out.line("next: `--yes` deletes them; `skillrun store export RUN` saves a run in a folder")
        return 0
    done = pruning.remove()
    freed = f"{count_noun(done.contents, 'unused file')}, {done.size / 1e6:,.1f} MB"
    out.line(f"{database.location}: deleted {count_noun(done.runs, 'run')} and {freed}")
    return 0
