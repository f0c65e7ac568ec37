"""Wakes workers with Procrastinate jobs in the store's Postgres database.

A job only says that a run can continue. The run's row decides whether the run is executed, and every worker regularly
sweeps the store for due runs. So a job can be lost, duplicated, or closed by another worker without harm. No other
module imports Procrastinate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Status
from procrastinate.schema import SchemaManager

from skillrun.extensions.workers.postgres.database import CONNECT_TIMEOUT, Database, StoreUnavailable
from skillrun.extensions.workers.postgres.queue import DEFAULT_QUEUE, DueRun
from skillrun.types.records import parse_json
from skillrun.types.slugs import is_slug

logging.getLogger("procrastinate").setLevel(logging.CRITICAL)  # this module reports Procrastinate's failures

TASK: Final = "skillrun.go_on"
RUN_KEPT_HINT: Final = "the run is kept, and a running worker will find it; `skillrun store check` tests the connection"
POLL: Final = 5.0  # seconds between polls, in addition to notifications
RECONNECT_SECONDS: Final = 1.0  # seconds before reconnecting
_TOLD: Final = "SELECT queueing_lock FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = ANY(%(locks)s)"
CLEANUP_SECONDS: Final = 60.0  # seconds between removals of dead workers' jobs
HEARTBEAT_TIMEOUT: Final = 60.0  # seconds without a heartbeat until a worker is dead; one is sent every ten seconds


def install(database: Database) -> None:
    """Create Procrastinate's tables if they are missing."""
    if database.rows("SELECT to_regclass('procrastinate_jobs') IS NULL") == [(True,)]:
        database.script(SchemaManager.get_schema())


class Dispatcher:
    """Notifies workers of runs that can continue. Thread-safe."""

    def __init__(self, url: str) -> None:
        """Connect to the queue. Raises StoreUnavailable."""
        connector = SyncPsycopgConnector(conninfo=url, min_size=1, max_size=2, timeout=CONNECT_TIMEOUT)
        self._app = App(connector=connector)
        with _report_errors("reached"):
            self._app.open()

    def close(self) -> None:
        self._app.close()

    def wake(self, name: str, *, queue: str = DEFAULT_QUEUE, priority: int = 0, in_seconds: float = 0) -> None:
        """Queue a job for the run, unless the run already has a waiting job with this priority."""
        when: dict[str, Any] = {"schedule_in": {"seconds": in_seconds}} if in_seconds > 0 else {}
        lock = _job_lock(name, priority)
        if when:  # delayed by this machine's clock, so it must not block a job that the sweep queues
            lock = f"{lock} later"
        task = self._app.configure_task(TASK, queueing_lock=lock, priority=priority, queue=queue, **when)
        with suppress(AlreadyEnqueued), _report_errors("notified"):
            task.defer(run=name)

    def wake_all(self, runs: Iterable[DueRun]) -> None:
        """Queue a job for each run that has no waiting job."""
        locks = {_job_lock(due.name, due.priority): due for due in runs}
        with _report_errors("read"):
            queued_rows = self._app.connector.get_sync_connector().execute_query_all(_TOLD, locks=[*locks])
        for lock in {each["queueing_lock"] for each in queued_rows}:
            del locks[lock]
        for due in locks.values():
            self.wake(due.name, queue=due.queue, priority=due.priority)


def _job_lock(name: str, priority: int) -> str:
    """Return the key that prevents duplicate jobs.

    The key contains the priority. So a run whose worker died gets a second job, with a higher priority.
    """
    return f"{name} {priority}"


@contextmanager
def _report_errors(action: str) -> Iterator[None]:
    """Raise StoreUnavailable if the block cannot connect. `action` completes the message "the queue … cannot be …"."""
    try:
        yield
    except ConnectorException as error:
        message = f"the queue of the store cannot be {action}: {error.__cause__ or error}"
        raise StoreUnavailable(message, RUN_KEPT_HINT) from error


async def serve(
    url: str,
    on_job: Callable[[str], Awaitable[None]],
    name: str,
    queues: Sequence[str],
    stopping: asyncio.Event,
    log: Callable[[str], None],
) -> None:
    """Pass the jobs of `queues` to `on_job`, one at a time, until `stopping` is set.

    The next job is fetched when `on_job` has returned. If the connection breaks, Procrastinate waits for the current
    job to end. Only then is another connection opened, so `on_job` must not execute long work itself.
    """
    asyncio.get_running_loop().set_exception_handler(_handle_loop_error)
    while not stopping.is_set():
        try:
            await _serve_connection(url, on_job, name, queues, stopping)
        except Exception as error:  # noqa: BLE001 (a worker survives any error)
            why = " ".join(str(error.__cause__ or error).split())
            log(f"the queue of the store is unavailable, reconnecting: {why}")
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), RECONNECT_SECONDS)


def _handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors about jobs that could not be closed: the run's row says whether the run is done."""
    if not isinstance(context.get("exception"), ConnectorException):
        loop.default_exception_handler(context)


async def _serve_connection(
    url: str, on_job: Callable[[str], Awaitable[None]], name: str, queues: Sequence[str], stopping: asyncio.Event
) -> None:
    """Serve jobs until the connection breaks or `stopping` is set."""
    pool: dict[str, Any] = {"min_size": 1, "max_size": 4, "timeout": CONNECT_TIMEOUT}
    app = App(connector=PsycopgConnector(conninfo=url, json_loads=_parse_arguments, **pool))

    @app.task(name=TASK)
    async def process_job(run: object) -> None:
        if isinstance(run, str) and is_slug(run):  # anybody who can write to the store can queue a job
            await on_job(run)

    async with app.open_async():
        worker = asyncio.create_task(
            app.run_worker_async(
                queues=list(queues),
                name=name,
                concurrency=1,
                fetch_job_polling_interval=POLL,
                abort_job_polling_interval=60.0,
                shutdown_graceful_timeout=0.1,
                delete_jobs="always",
                install_signal_handlers=False,
            )
        )
        stop, tidying = asyncio.create_task(stopping.wait()), asyncio.create_task(_remove_stalled_jobs(app))
        await asyncio.wait({worker, stop}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stop, tidying, worker):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await worker


def _parse_arguments(text: str | bytes) -> dict[str, Any]:
    """Return the arguments of a job. They are empty if they are invalid, because Procrastinate needs an object."""
    try:
        arguments = parse_json(text)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


async def _remove_stalled_jobs(app: App) -> None:
    """Periodically remove the unfinished jobs of dead workers. The sweep finds the runs of these jobs."""
    while True:
        with suppress(ConnectorException):
            stalled = app.job_manager.get_stalled_jobs(task_name=TASK, seconds_since_heartbeat=HEARTBEAT_TIMEOUT)
            for job in await stalled:
                with suppress(ConnectorException):  # another worker has removed it
                    await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
        await asyncio.sleep(CLEANUP_SECONDS)
