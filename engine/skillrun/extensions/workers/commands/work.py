"""`skillrun worker`, `work` and `cancel`: who works on runs of a store, and for how long."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillrun.cli import completers, options
from skillrun.cli.loading import Loaded, cache_folder, load_at
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import Store, open_store
from skillrun.installation import extra_hint
from skillrun.syntax.diagnostics import SkillrunError, UsageError

if TYPE_CHECKING:
    from skillrun.extensions.workers.metrics import Metrics
    from skillrun.extensions.workers.work import Workplace

FILE_URLS: Final = click.option(
    "--file-urls", is_flag=True, help="Allow repositories with file:// URLs on this machine."
)


@click.command(
    help="Run a worker: execute queued runs until SIGTERM or Ctrl-C, which return unfinished runs to the queue."
)
@click.option(
    "--runs", "most", type=click.IntRange(1, 200), default=10, metavar="N", help="Maximum number of runs at a time."
)
@click.option(
    "--queue",
    "queues",
    type=options.Queue(),
    multiple=True,
    metavar="NAME",
    help="Only runs of this queue; may be repeated. Default: `default`.",
)
@click.option(
    "--lease",
    type=click.FloatRange(2, 3600),
    default=30,
    metavar="SECONDS",
    help="Seconds without a heartbeat until other workers take over a run.",
)
@click.option(
    "--metrics",
    default="",
    metavar="[HOST]:PORT",
    help="Serve /metrics (Prometheus) and /healthz at this address. Without a host, only on this machine.",
)
@FILE_URLS
@options.store
def worker(most: int, queues: tuple[str, ...], lease: float, metrics: str, file_urls: bool) -> int:
    from skillrun.extensions.workers.postgres.queue import DEFAULT
    from skillrun.extensions.workers.worker import Worker

    out, store = Output(), open_store(options.named_store(), lease)
    counts = _told_at(metrics, store, most, out) if metrics else None
    place = workplace(store, out.line, file_urls=file_urls)
    queues = tuple(dict.fromkeys(queues)) or (DEFAULT,)
    made = Worker(store.url, store.queue, store.roster, place, most, store.lease, queues, out.line, counts)

    async def until_told() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, stopping.set)
        what = f"{most} runs at a time of {', '.join(queues)}"
        out.line(f"worker {made.name}: {what}, on {store.runs.place}")
        await made.run(stopping)
        out.line(f"worker {made.name}: ended; what was under way was handed back")

    asyncio.run(until_told())
    return 0


def _told_at(typed: str, store: Store, most: int, out: Output) -> Metrics:
    """What a worker counts, told at an address from now on."""
    try:
        from skillrun.extensions.workers.metrics import Metrics, address_of, served
    except ImportError as error:
        raise UsageError(f"`--metrics` needs what is not installed: {error.name}", extra_hint("workers")) from error

    counts = Metrics(most)
    store.database.told = counts.statement
    host, port = served(counts, address_of(typed), max(2 * store.lease, 10)).server_address[:2]
    shown = f"[{host!s}]" if ":" in str(host) else str(host)
    out.line(f"metrics: http://{shown}:{port}/metrics, http://{shown}:{port}/healthz")
    return counts


@click.command(help="Execute RUN of the store in this process, until it ends or waits for an answer.")
@click.argument("run", shell_complete=completers.runs)
@FILE_URLS
@options.store
def work(run: str, file_urls: bool) -> int:
    from skillrun.extensions.workers.work import work_on

    out, store = Output(), open_store(options.named_store())
    outcome = asyncio.run(work_on(workplace(store, out.line, file_urls=file_urls), run))
    if outcome is None:
        out.line(f"{run}: nothing to do")
        return 0
    out.line(f"{run}: {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    return outcome.exit_code


@click.command(help="Cancel RUN in the store, on any worker. Keeps its results so far.")
@click.argument("run", shell_complete=completers.runs)
@options.store
def cancel(run: str) -> int:
    out, store = Output(), open_store(options.named_store())
    if not store.queue.cancel(run, "cancelled"):
        hint = f"`skillrun show {run}` tells where it stands"
        raise UsageError(f"there is no run `{run}` that could be cancelled", hint)
    out.line(f"cancelled {run}")
    return 0


def workplace(store: Store, say: Callable[[str], None], *, file_urls: bool) -> Workplace:
    """This machine's part of the work on a store."""
    from skillrun.extensions.workers.fetching import Commits
    from skillrun.extensions.workers.work import Workplace

    folder = cache_folder() / "projects"
    commits = Commits(folder, files=file_urls)
    return Workplace(store.runs, store.queue, folder, _loaded, commits, say=say, slots=store.slots())


def _loaded(project: Path, workflow: str) -> Loaded:
    """The workflow of an unpacked project. Raises SkillrunError with its first problem."""
    loaded = load_at(project, workflow)
    if isinstance(loaded, Loaded):
        return loaded
    first = loaded[0]
    raise SkillrunError(f"{first.path}:{first.line}: {first.message}", "mend it and submit the run again")
