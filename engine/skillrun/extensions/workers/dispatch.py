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

from skillrun.extensions.workers.postgres.database import CONNECTING, Database, StoreAway
from skillrun.extensions.workers.postgres.queue import DEFAULT, Due

logging.getLogger("procrastinate").setLevel(logging.CRITICAL)  # what ends it is said here

TASK: Final = "skillrun.go_on"
LATER: Final = "the run is kept, and a worker that is there finds it; `skillrun store check` looks at the store"
POLL: Final = 5.0  # seconds between two looks, beside being told
AGAIN: Final = 1.0  # seconds until the connection is made again
_TOLD: Final = "SELECT queueing_lock FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = ANY(%(locks)s)"
TIDY: Final = 60.0  # seconds between two looks for jobs of dead workers
DEAD: Final = 60.0  # seconds without a heartbeat, of which the engine has one every ten


def install(database: Database) -> None:
    """Make the engine's tables where there are none."""
    there = database.rows("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")[0][0]
    if not there:
        database.script(SchemaManager.get_schema())


class Dispatch:
    """Tells workers that runs may go on; from any thread."""

    def __init__(self, url: str) -> None:
        """Raises StoreAway."""
        self._app = _app(SyncPsycopgConnector(conninfo=url, min_size=1, max_size=2, timeout=CONNECTING))
        try:
            self._app.open()
        except ConnectorException as error:
            raise StoreAway(f"the queue of the store cannot be reached: {error.__cause__ or error}", LATER) from error

    def close(self) -> None:
        self._app.close()

    def wake(self, name: str, *, queue: str = DEFAULT, priority: int = 0, in_seconds: float = 0) -> None:
        """Have a worker of the queue go on with a run; once for each priority, however often it is said."""
        when: dict[str, Any] = {"schedule_in": {"seconds": in_seconds}} if in_seconds > 0 else {}
        lock = _lock(name, priority)
        if when:  # its time is by this machine's clock, and must not hold up the sweep
            lock = f"{lock} later"
        task = self._app.configure_task(TASK, queueing_lock=lock, priority=priority, queue=queue, **when)
        try:
            task.defer(run=name)
        except AlreadyEnqueued:
            pass
        except ConnectorException as error:
            raise StoreAway(f"the queue of the store cannot be told: {error.__cause__ or error}", LATER) from error

    def wake_all(self, runs: Iterable[Due]) -> None:
        """Have workers go on with those of the runs that none has been told of yet."""
        locks = {_lock(due.name, due.priority): due for due in runs}
        try:
            told = self._app.connector.get_sync_connector().execute_query_all(_TOLD, locks=[*locks])
        except ConnectorException as error:
            raise StoreAway(f"the queue of the store cannot be asked: {error.__cause__ or error}", LATER) from error
        for lock in {each["queueing_lock"] for each in told}:
            del locks[lock]
        for due in locks.values():
            self.wake(due.name, queue=due.queue, priority=due.priority)


def _lock(name: str, priority: int) -> str:
    """What is told once: a run that had been begun is told of anew, or it would wait behind all that were not."""
    return f"{name} {priority}"


def _app(connector: Any) -> App:
    return App(connector=connector)


async def serve(
    url: str,
    told: Callable[[str], Awaitable[None]],
    *,
    name: str,
    queues: Sequence[str],
    stopping: asyncio.Event,
    say: Callable[[str], None],
) -> None:
    """Tell of the jobs of these queues, one after the other, until `stopping`.

    The next one is fetched once `told` has returned. Where the connection breaks it is made again: the engine ends
    then, and waits for what it has begun, so that nothing that takes long may be begun in it.
    """
    asyncio.get_running_loop().set_exception_handler(_heard)
    while not stopping.is_set():
        try:
            await _served(url, told, name, queues, stopping)
        except Exception as error:  # noqa: BLE001 (whatever ends it, a worker goes on)
            why = " ".join(str(error.__cause__ or error).split())
            say(f"the queue of the store is away, and looked for again: {why}")
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), AGAIN)


def _heard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A job of the engine that could not be closed is of no account: whether it is done, its run's row says."""
    if not isinstance(context.get("exception"), ConnectorException):
        loop.default_exception_handler(context)


async def _served(
    url: str, told: Callable[[str], Awaitable[None]], name: str, queues: Sequence[str], stopping: asyncio.Event
) -> None:
    """The same until the connection breaks."""
    app = _app(PsycopgConnector(conninfo=url, min_size=1, max_size=4, timeout=CONNECTING))

    @app.task(name=TASK)
    async def go_on(run: str) -> None:
        await told(run)

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
        stop, tidying = asyncio.create_task(stopping.wait()), asyncio.create_task(_tidy(app))
        await asyncio.wait({worker, stop}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stop, tidying, worker):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await worker


async def _tidy(app: App) -> None:
    """Now and then, remove jobs that dead workers have left under way; the runs themselves are the sweep's to find."""
    while True:
        with suppress(ConnectorException):
            for job in await app.job_manager.get_stalled_jobs(task_name=TASK, seconds_since_heartbeat=DEAD):
                with suppress(ConnectorException):  # another worker has removed it
                    await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
        await asyncio.sleep(TIDY)
