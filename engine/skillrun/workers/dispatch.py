"""The engine that wakes workers: Procrastinate, on the same Postgres. A job says only: go on with this run.

It may lose a job, double it or close it for another worker: the run's row decides, and the sweep asks for what is due.
Nothing else imports it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.schema import SchemaManager

from skillrun.runtime.store.postgres.database import Database, StoreAway

TASK: Final = "skillrun.go_on"
LATER: Final = "the run is kept, and a worker that is there finds it; `skillrun store check` looks at the store"
POLL: Final = 5.0  # seconds between two looks, beside being told


def install(database: Database) -> None:
    """Make the engine's tables where there are none."""
    there = database.rows("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")[0][0]
    if not there:
        database.script(SchemaManager.get_schema())


class Dispatch:
    """Tells workers that runs may go on; from any thread."""

    def __init__(self, url: str) -> None:
        self._app = _app(SyncPsycopgConnector(conninfo=url, min_size=1, max_size=2))
        self._app.open()

    def close(self) -> None:
        self._app.close()

    def wake(self, name: str, *, queue: str = "default", priority: int = 0, in_seconds: float = 0) -> None:
        """Have a worker go on with a run; once, however often it is said before one does."""
        when: dict[str, Any] = {"schedule_in": {"seconds": in_seconds}} if in_seconds > 0 else {}
        task = self._app.configure_task(TASK, queueing_lock=name, priority=priority, queue=queue, **when)
        try:
            task.defer(run=name)
        except AlreadyEnqueued:
            pass
        except ConnectorException as error:
            raise StoreAway(f"the queue of the store cannot be told: {error.__cause__ or error}", LATER) from error


def _app(connector: Any) -> App:
    return App(connector=connector)


async def serve(
    url: str,
    work: Callable[[str], Awaitable[None]],
    *,
    name: str,
    most: int,
    queues: Sequence[str] | None,
    stopping: asyncio.Event,
) -> None:
    """Do the jobs of these queues, or of all, `most` at a time, until `stopping`; those under way are waited for.

    Where the connection breaks it is made again.
    """
    while not stopping.is_set():
        app = _app(PsycopgConnector(conninfo=url, min_size=1, max_size=4))

        @app.task(name=TASK)
        async def go_on(run: str) -> None:
            await work(run)

        with suppress(ConnectorException, OSError):
            async with app.open_async():
                worker = asyncio.create_task(
                    app.run_worker_async(
                        queues=queues,  # type: ignore[arg-type]
                        name=name,
                        concurrency=most,
                        fetch_job_polling_interval=POLL,
                        abort_job_polling_interval=60.0,
                        delete_jobs="always",
                        install_signal_handlers=False,
                    )
                )
                stop = asyncio.create_task(stopping.wait())
                await asyncio.wait({worker, stop}, return_when=asyncio.FIRST_COMPLETED)
                stop.cancel()
                worker.cancel()
                with suppress(asyncio.CancelledError, ConnectorException):
                    await worker
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), 1.0)
