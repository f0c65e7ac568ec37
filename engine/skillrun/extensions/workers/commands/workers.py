"""`skillrun worker list`: list the workers of a store, the runs that each executes, and lost workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from skillrun.cli import options
from skillrun.cli.formatting import count_noun, format_duration, format_table
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import open_store

if TYPE_CHECKING:
    from skillrun.extensions.workers.postgres.roster import RunCounts, WorkerStatus

HEADER: Final = ("worker", "status", "queues", "runs", "executes", "since", "last seen", "version")
MAX_RUNS_SHOWN: Final = 3  # per worker
MAX_RELEASED_SHOWN: Final = 10


@click.command(help="List the workers of the store, the runs that each executes, and lost workers.")
@options.store
@options.as_json
def workers(json: bool) -> int:
    out, store = Output(json), open_store(options.require_store_url())
    seen, load, unserved = store.roster.list_workers(), store.roster.count_runs(), store.roster.count_unserved_runs()
    released = store.roster.declined_runs(MAX_RELEASED_SHOWN)
    out.data({"workers": [_data(each) for each in seen], "runs": vars(load), "unserved": unserved, "left": released})
    for line in format_table(HEADER, [_cells(each) for each in seen]) if seen else ["no workers"]:
        out.line(line)
    out.line(_describe_load(load))
    lost = [each for each in seen if each.status == "lost"]
    if lost:
        names = ", ".join(each.name for each in lost)
        out.note(
            f"no heartbeat from {names}; other workers take over their runs, and `skillrun worker` starts a worker"
        )
    for run, reason in released.items():
        out.note(f"`{run}` was declined by {reason}")
    for queue, number in unserved.items():
        waiting = f"{count_noun(number, 'run')} {'waits' if number == 1 else 'wait'} in the queue `{queue}`"
        out.note(f"{waiting}, which no worker serves; `skillrun worker --queue {queue}` starts one")
    return 0


def _cells(worker: WorkerStatus) -> list[str]:
    more = len(worker.runs) - MAX_RUNS_SHOWN
    named = ", ".join(worker.runs[:MAX_RUNS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    since = worker.started_at.astimezone().isoformat(" ", "minutes")[:16]
    ago = f"{format_duration(worker.seconds_silent)} ago"
    queues, runs = ", ".join(worker.queues), f"{len(worker.runs)} of {worker.most}"
    return [worker.name, worker.status, queues, runs, named, since, ago, worker.version]


def _data(worker: WorkerStatus) -> dict[str, Any]:
    return {
        "worker": worker.name,
        "status": worker.status,
        "runs": list(worker.runs),
        "most": worker.most,
        "queues": list(worker.queues),
        "started_at": worker.started_at.isoformat(),
        "seen_at": worker.seen_at.isoformat(),
        "version": worker.version,
    }


def _describe_load(load: RunCounts) -> str:
    parts = [f"{count_noun(load.queued, 'run')} queued"]
    if load.later:
        parts.append(f"{load.later} of them scheduled for later")
    if load.oldest >= 1:
        parts.append(f"the oldest for {format_duration(load.oldest)}")
    parts.append(f"{load.running} running")
    if load.left:
        parts.append(f"{load.left} of them without a worker")
    parts.append(f"{load.waiting} waiting for a user")
    return ", ".join(parts)
