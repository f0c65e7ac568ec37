"""`skillrun worker` and `cancel`: execute, list and cancel runs of a store, list workers, and limit parallel calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillrun.cli import completion, options
from skillrun.cli.formatting import count_noun, format_duration, format_table
from skillrun.cli.loading import (
    LoadedWorkflow,
    cache_folder,
    load_from_project,
    open_catalogue,
    open_library,
    problems_for_display,
)
from skillrun.cli.main import CommandGroup
from skillrun.cli.output import Output
from skillrun.extensions.workers.bundle import InvalidRun
from skillrun.extensions.workers.commands.open_store import OpenStore, open_store
from skillrun.installation import extra_hint
from skillrun.syntax.diagnostics import SkillrunError, UsageError, did_you_mean
from skillrun.types.schemas import quote_value

if TYPE_CHECKING:
    from skillrun.extensions.workers.metrics import Metrics
    from skillrun.extensions.workers.postgres.roster import RunCounts, WorkerStatus
    from skillrun.extensions.workers.work import WorkerHost
    from skillrun.store.outcome import Outcome

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
    type=options.parse_queue,
    multiple=True,
    metavar="NAME",
    help="Only runs of this queue; may be repeated. Default: `default`.",
)
@click.option(
    "--lease",
    type=click.FloatRange(2, 3600),
    default=30,
    metavar="SECONDS",
    help="Other workers take over a run after this many seconds without a heartbeat.",
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
        _on_ending_signal(stopping.set)
        what = f"up to {count_noun(most, 'run')} at a time from {', '.join(queues)}"
        out.line(f"worker {instance.name}: {what}, on {store.runs.location}")
        await instance.run(stopping)
        out.line(f"worker {instance.name}: ended; unfinished runs were returned to the queue")

    asyncio.run(run_until_signal())
    return 0


def _on_ending_signal(work: Callable[[], None]) -> None:
    """Call `work` in the running event loop when a signal asks this process to end."""
    from skillrun.runtime.session import ending_signals

    loop = asyncio.get_running_loop()
    for number in ending_signals():
        with suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, work)


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


@click.command(help="Execute RUN of the store in this process, until the run ends or waits for an answer.")
@click.argument("run", shell_complete=completion.runs)
@FILE_URLS
@options.store
def once(run: str, file_urls: bool) -> int:
    from skillrun.extensions.workers.work import Drain, process_run_or_drain

    out, store = Output(), open_store(options.require_store_url())
    place, drain = build_worker_host(store, out.line, file_urls=file_urls), Drain()

    async def run_until_signal() -> Outcome | None:
        _on_ending_signal(drain.start)
        return await process_run_or_drain(place, run, drain)

    outcome = asyncio.run(run_until_signal())
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
    if not loaded:
        raise InvalidRun(f"the project of the run has no workflow {quote_value(workflow)}", "submit the run again")
    first = loaded[0]
    raise SkillrunError(f"{first.path}:{first.line}: {first.message}", "fix it and submit the run again")


HEADER: Final = ("worker", "status", "queues", "runs", "executes", "since", "last seen", "version")
MAX_RUNS_SHOWN: Final = 3  # per worker
MAX_RELEASED_SHOWN: Final = 10


@click.command(help="List the workers of the store, including lost workers, and the runs that each of them executes.")
@options.store
@options.as_json
def workers(out: Output) -> int:
    store = open_store(options.require_store_url())
    seen, load, unserved = store.roster.list_workers(), store.roster.count_runs(), store.roster.count_unserved_runs()
    released = store.roster.declined_runs(MAX_RELEASED_SHOWN)
    out.data({"workers": [_data(each) for each in seen], "runs": vars(load), "unserved": unserved, "left": released})
    out.lines(format_table(HEADER, [_cells(each) for each in seen]) if seen else ["no workers"])
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


SETTING: Final = re.compile(r"([a-z0-9][a-z0-9_.-]*)=(none|[1-9][0-9]{0,5})")


@click.command(
    help="Limit how many calls all workers together make to a PROVIDER at a time.\n\n"
    "Without arguments, show the limits. `PROVIDER=none` removes a limit."
)
@click.argument("settings", nargs=-1, metavar="[PROVIDER=N …]")
@options.store
@options.as_json
def limits(settings: tuple[str, ...], out: Output) -> int:
    from skillrun.extensions.workers.postgres.slots import ProviderLimits

    url = options.require_store_url()
    parsed_settings = [_parse_setting(setting) for setting in settings]
    stored_limits = ProviderLimits(open_store(url).database)
    library = open_library()
    library.config("models")
    provider_names = [] if problems_for_display(library) else list(open_catalogue(library).providers)
    for provider, _ in parsed_settings:
        if provider_names and provider not in provider_names:
            hint = did_you_mean(provider, provider_names)
            out.note(f"warning: no provider is named `{provider}`; {hint}".rstrip("; "))
    for provider, most in parsed_settings:
        stored_limits.set_limit(provider, most)
    shown = [limit for limit in stored_limits.list_limits() if limit.most or limit.pause or limit.held or limit.waiting]
    for limit in shown:
        usage_text = (
            f"{limit.held} of {count_noun(limit.most, 'slot')} held" if limit.most else f"no limit, {limit.held} held"
        )
        waiting = f", {count_noun(limit.waiting, 'call')} waiting" if limit.waiting else ""
        pause = f", paused for {limit.pause:.0f} s" if limit.pause else ""
        out.line(f"{limit.provider}: {usage_text}{waiting}{pause}")
    if not shown:
        out.line("no provider has a shared limit; `skillrun worker limits anthropic=40` sets one")
    out.data([vars(limit) for limit in shown])
    return 0


def _parse_setting(setting: str) -> tuple[str, int | None]:
    found = SETTING.fullmatch(setting)
    if found is None:
        raise UsageError(
            f"`{setting}` is not a valid limit", "use PROVIDER=N, for example anthropic=40, or anthropic=none"
        )
    return found[1], None if found[2] == "none" else int(found[2])
