"""The engine that wakes workers: Procrastinate, on the same Postgres. A job says only: go on with this run.

It may lose a job, double it or close it for another worker: the run's row decides, and the sweep asks for what is due.
Nothing else imports it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Status
from procrastinate.schema import SchemaManager

from skillrun.extensions.workers.postgres.database import CONNECT_TIMEOUT, Database, StoreUnavailable
from skillrun.extensions.workers.postgres.queue import DEFAULT_QUEUE, DueRun

logging.getLogger("procrastinate").setLevel(logging.CRITICAL)  # what ends it is said here

TASK: Final = "skillrun.go_on"
RUN_KEPT_HINT: Final = "the run is kept, and a worker that is there finds it; `skillrun store check` looks at the store"
POLL: Final = 5.0  # seconds between two looks, beside being told
RECONNECT_SECONDS: Final = 1.0  # seconds until the connection is made again
_TOLD: Final = "SELECT queueing_lock FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = ANY(%(locks)s)"
CLEANUP_SECONDS: Final = 60.0  # seconds between two looks for jobs of dead workers
HEARTBEAT_TIMEOUT: Final = 60.0  # seconds without a heartbeat, of which the engine has one every ten


def install(database: Database) -> None:
    """Make the engine's tables where there are none."""
    there = database.rows("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")[0][0]
    if not there:
        database.script(SchemaManager.get_schema())


class Dispatcher:
    """Tells workers that runs may go on; from any thread."""

    def __init__(self, url: str) -> None:
        """Raises StoreUnavailable."""
        self._app = _make_app(SyncPsycopgConnector(conninfo=url, min_size=1, max_size=2, timeout=CONNECT_TIMEOUT))
        try:
            self._app.open()
        except ConnectorException as error:
            raise StoreUnavailable(
                f"the queue of the store cannot be reached: {error.__cause__ or error}", RUN_KEPT_HINT
            ) from error

    def close(self) -> None:
        self._app.close()

    def wake(self, name: str, *, queue: str = DEFAULT_QUEUE, priority: int = 0, in_seconds: float = 0) -> None:
        """Have a worker of the queue go on with a run; once for each priority, however often it is said."""
        when: dict[str, Any] = {"schedule_in": {"seconds": in_seconds}} if in_seconds > 0 else {}
        lock = _job_lock(name, priority)
        if when:  # its time is by this machine's clock, and must not hold up the sweep
            lock = f"{lock} later"
        task = self._app.configure_task(TASK, queueing_lock=lock, priority=priority, queue=queue, **when)
        try:
            task.defer(run=name)
        except AlreadyEnqueued:
            pass
        except ConnectorException as error:
            raise StoreUnavailable(
                f"the queue of the store cannot be told: {error.__cause__ or error}", RUN_KEPT_HINT
            ) from error

    def wake_all(self, runs: Iterable[DueRun]) -> None:
        """Have workers go on with those of the runs that none has been told of yet."""
        locks = {_job_lock(due.name, due.priority): due for due in runs}
        try:
            queued_rows = self._app.connector.get_sync_connector().execute_query_all(_TOLD, locks=[*locks])
        except ConnectorException as error:
            raise StoreUnavailable(
                f"the queue of the store cannot be asked: {error.__cause__ or error}", RUN_KEPT_HINT
            ) from error
        for lock in {each["queueing_lock"] for each in queued_rows}:
            del locks[lock]
        for due in locks.values():
            self.wake(due.name, queue=due.queue, priority=due.priority)


def _job_lock(name: str, priority: int) -> str:
    """What is told once: a run that had been begun is told of anew, or it would wait behind all that were not."""
    return f"{name} {priority}"


def _make_app(connector: Any) -> App:
    return App(connector=connector)


async def serve(
    url: str,
    on_job: Callable[[str], Awaitable[None]],
    *,
    name: str,
    queues: Sequence[str],
    stopping: asyncio.Event,
    log: Callable[[str], None],
) -> None:
    """Tell of the jobs of these queues, one after the other, until `stopping`.

    The next one is fetched once `told` has returned. Where the connection breaks it is made again: the engine ends
    then, and waits for what it has begun, so that nothing that takes long may be begun in it.
    """
    asyncio.get_running_loop().set_exception_handler(_handle_loop_error)
    while not stopping.is_set():
        try:
            await _serve_connection(url, on_job, name, queues, stopping)
        except Exception as error:  # noqa: BLE001 (whatever ends it, a worker goes on)
            why = " ".join(str(error.__cause__ or error).split())
            log(f"the queue of the store is away, and looked for again: {why}")
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), RECONNECT_SECONDS)


def _handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A job of the engine that could not be closed is of no account: whether it is done, its run's row says."""
    if not isinstance(context.get("exception"), ConnectorException):
        loop.default_exception_handler(context)


async def _serve_connection(
    url: str, on_job: Callable[[str], Awaitable[None]], name: str, queues: Sequence[str], stopping: asyncio.Event
) -> None:
    """The same until the connection breaks."""
    app = _make_app(PsycopgConnector(conninfo=url, min_size=1, max_size=4, timeout=CONNECT_TIMEOUT))

    @app.task(name=TASK)
    async def process_job(run: str) -> None:
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


async def _remove_stalled_jobs(app: App) -> None:
    """Now and then, remove jobs that dead workers have left under way; the runs themselves are the sweep's to find."""
    while True:
        with suppress(ConnectorException):
            for job in await app.job_manager.get_stalled_jobs(
                task_name=TASK, seconds_since_heartbeat=HEARTBEAT_TIMEOUT
            ):
                with suppress(ConnectorException):  # another worker has removed it
                    await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
        await asyncio.sleep(CLEANUP_SECONDS)
