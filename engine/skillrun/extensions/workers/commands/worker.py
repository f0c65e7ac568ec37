"""`skillrun worker`, `worker once` and `cancel`: execute and cancel the runs of a store."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillrun.cli import completion, options
from skillrun.cli.loading import LoadedWorkflow, cache_folder, load_from_project
from skillrun.cli.main import CommandGroup
from skillrun.cli.output import Output
from skillrun.extensions.workers.commands.open_store import OpenStore, open_store
from skillrun.installation import extra_hint
from skillrun.syntax.diagnostics import SkillrunError, UsageError

if TYPE_CHECKING:
    from skillrun.extensions.workers.metrics import Metrics
    from skillrun.extensions.workers.work import WorkerHost

FILE_URLS: Final = click.option(
    "--file-urls", is_flag=True, help="Allow repositories with file:// URLs on this machine."
)


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND [ARGS]...]",
    help="Run a worker: execute queued runs until SIGTERM or Ctrl-C, then return unfinished runs to the queue.",
)
@click.option(
    "--runs", "most", type=click.IntRange(1, 200), default=10, metavar="N", help="Maximum number of runs at a time."
)
@click.option(
    "--queue",
    "queues",
    type=options.QueueNameType(),
    multiple=True,
    metavar="NAME",
    help="Only runs of this queue; may be repeated. Default: `default`.",
)
@click.option(
    "--lease",
    type=click.FloatRange(2, 3600),
    default=30,
    metavar="SECONDS",
    help="Seconds without a heartbeat after which other workers take over a run.",
)
@click.option(
    "--metrics",
    default="",
    metavar="[HOST]:PORT",
    help="Serve /metrics (Prometheus) and /healthz at this address. Without a host, only this machine can connect.",
)
@FILE_URLS
@options.store
@click.pass_context
def worker(
    context: click.Context, most: int, queues: tuple[str, ...], lease: float, metrics: str, file_urls: bool
) -> int:
    if context.invoked_subcommand is not None:
        return 0
    from skillrun.extensions.workers.postgres.queue import DEFAULT_QUEUE
    from skillrun.extensions.workers.worker import Worker

    out, store = Output(), open_store(options.require_store_url(), lease)
    counts = _serve_metrics(metrics, store, most, out) if metrics else None
    place = build_worker_host(store, out.line, file_urls=file_urls)
    queues = tuple(dict.fromkeys(queues)) or (DEFAULT_QUEUE,)
    instance = Worker(store.url, store.queue, store.roster, place, most, store.lease, queues, out.line, counts)

    async def run_until_signal() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, stopping.set)
        what = f"{most} runs at a time from {', '.join(queues)}"
        out.line(f"worker {instance.name}: {what}, on {store.runs.location}")
        await instance.run(stopping)
        out.line(f"worker {instance.name}: ended; unfinished runs were returned to the queue")

    asyncio.run(run_until_signal())
    return 0


def _serve_metrics(address: str, store: OpenStore, most: int, out: Output) -> Metrics:
    """Create the metrics of a worker, serve them at an address, and return them."""
    try:
        from skillrun.extensions.workers.metrics import Metrics, parse_address, start_server
    except ImportError as error:
        raise UsageError(
            f"`--metrics` needs a package that is not installed: {error.name}", extra_hint("workers")
        ) from error

    counts = Metrics(most)
    store.database.on_statement = counts.statement
    host, port = start_server(counts, parse_address(address), max(2 * store.lease, 10)).server_address[:2]
    shown = f"[{host!s}]" if ":" in str(host) else str(host)
    out.line(f"metrics: http://{shown}:{port}/metrics, http://{shown}:{port}/healthz")
    return counts


@click.command(help="Execute RUN of the store in this process, until it ends or waits for an answer.")
@click.argument("run", shell_complete=completion.runs)
@FILE_URLS
@options.store
def once(run: str, file_urls: bool) -> int:
    from skillrun.extensions.workers.work import process_run

    out, store = Output(), open_store(options.require_store_url())
    outcome = asyncio.run(process_run(build_worker_host(store, out.line, file_urls=file_urls), run))
    if outcome is None:
        out.line(f"{run}: nothing to do")
        return 0
    out.line(f"{run}: {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    return outcome.exit_code


@click.command(help="Cancel RUN in the store, whichever worker executes it. Its results so far are kept.")
@click.argument("run", shell_complete=completion.runs)
@options.store
def cancel(run: str) -> int:
    out, store = Output(), open_store(options.require_store_url())
    if not store.queue.cancel(run, "cancelled"):
        hint = f"`skillrun show {run}` shows its status"
        raise UsageError(f"there is no run `{run}` to cancel", hint)
    out.line(f"cancelled {run}")
    return 0


def build_worker_host(store: OpenStore, say: Callable[[str], None], *, file_urls: bool) -> WorkerHost:
    """Return what this machine needs to execute runs of the store."""
    from skillrun.extensions.workers.fetching import CommitCache
    from skillrun.extensions.workers.work import WorkerHost

    folder = cache_folder() / "projects"
    commits = CommitCache(folder, files=file_urls)
    return WorkerHost(store.runs, store.queue, folder, _load_workflow, commits, log=say, slots=store.slots())


def _load_workflow(project: Path, workflow: str) -> LoadedWorkflow:
    """Load a workflow from an unpacked project. Raises SkillrunError with the first problem of an invalid workflow."""
    loaded = load_from_project(project, workflow)
    if isinstance(loaded, LoadedWorkflow):
        return loaded
    first = loaded[0]
    raise SkillrunError(f"{first.path}:{first.line}: {first.message}", "fix it and submit the run again")
