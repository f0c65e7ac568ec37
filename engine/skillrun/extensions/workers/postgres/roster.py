"""The workers of a store: what each reports about itself, when it was last seen, and which runs it holds.

Only users and monitoring read this information.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.queue import DEFAULT_QUEUE

EXPIRY_DAYS: Final = 7  # days without a heartbeat after which a worker is removed

_BEAT: Final = """
    INSERT INTO workers (name, host, process, most, lease, version, queues, draining)
    VALUES (%(name)s, %(host)s, %(process)s, %(most)s, %(lease)s, %(version)s, %(queues)s, %(draining)s)
    ON CONFLICT (name) DO UPDATE SET
        seen_at = now(), most = excluded.most, lease = excluded.lease, version = excluded.version,
        queues = excluded.queues, draining = excluded.draining,
        started_at = CASE WHEN %(begins)s THEN now() ELSE workers.started_at END
"""
_LEAVE: Final = "DELETE FROM workers WHERE name = %(name)s OR seen_at < now() - make_interval(days => %(forgotten)s)"
_LISTED: Final = """
    SELECT workers.name, left(version, 50), most,
           array(SELECT left(queue, 200) FROM unnest(queues) AS queue WHERE queue IS NOT NULL LIMIT 100),
           started_at, seen_at, draining,
           extract(epoch FROM now() - seen_at)::double precision, workers.lease,
           array(SELECT runs.name FROM runs WHERE runs.status = 'running'
                 AND runs.owner = 'process ' || workers.process || ' on ' || workers.host ORDER BY runs.id)
    FROM workers ORDER BY started_at, workers.name
"""
_COUNTED: Final = """
    SELECT (SELECT count(*) FROM runs WHERE status = 'queued'),
           (SELECT count(*) FROM runs WHERE status = 'queued' AND not_before > now()),
           (SELECT count(*) FROM runs WHERE status = 'running'),
           (SELECT count(*) FROM runs WHERE status = 'running' AND lease_until < now()),
           (SELECT count(*) FROM runs WHERE status = 'waiting'),
           (SELECT coalesce(extract(epoch FROM now() - min(not_before)), 0)::double precision FROM runs
            WHERE status = 'queued' AND not_before <= now() AND isfinite(not_before))
"""
_UNSERVED: Final = """
    SELECT left(runs.queue, 200), count(*) FROM runs WHERE (runs.status = 'queued' OR (runs.status = 'running'
        AND runs.request IS NOT NULL AND runs.lease_until < now()))
    AND NOT EXISTS (SELECT FROM workers WHERE runs.queue = ANY (workers.queues) AND NOT draining
        AND seen_at >= now() - make_interval(secs => workers.lease))
    GROUP BY 1 ORDER BY 1
"""
_LEFT: Final = (
    "SELECT name, left(reason, 1000) FROM runs WHERE status = 'queued' AND reason <> '' ORDER BY id LIMIT %(most)s"
)


@dataclass(frozen=True)
class WorkerHeartbeat:
    """What a worker reports about itself."""

    name: str
    host: str
    process: int
    most: int
    lease: float
    version: str
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)


@dataclass(frozen=True)
class WorkerStatus:
    """The last report of a worker, and its runs. `seconds_silent` is the time since its last heartbeat."""

    name: str
    version: str
    most: int
    queues: list[str]
    started_at: datetime
    seen_at: datetime
    draining: bool
    seconds_silent: float
    lease: float
    runs: list[str]

    @property
    def status(self) -> str:
        """The status of the worker: `there`, `ending` or `lost`.

        A lost worker has sent no heartbeat for longer than its lease, so other workers take over its runs.
        """
        if self.seconds_silent > self.lease:
            return "lost"
        return "ending" if self.draining else "there"

    def serves(self, queue: str) -> bool:
        return self.status == "there" and queue in self.queues


@dataclass(frozen=True)
class RunCounts:
    """How many runs of a store have each status. `oldest` is the longest wait in the queue, in seconds."""

    queued: int
    later: int
    running: int
    left: int
    """The `running` runs whose lease has expired."""
    waiting: int
    oldest: float


class Roster:
    """The workers of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record_heartbeat(self, presence: WorkerHeartbeat, *, begins: bool = False, draining: bool = False) -> None:
        """Record that a worker is running. Raises StoreUnavailable, StoreRefused."""
        self._database.rows(
            _BEAT, {**vars(presence), "queues": list(presence.queues), "begins": begins, "draining": draining}
        )

    def remove_worker(self, name: str) -> None:
        """Remove a worker that has ended, and all workers without a heartbeat for `EXPIRY_DAYS`."""
        self._database.rows(_LEAVE, {"name": name, "forgotten": EXPIRY_DAYS})

    def list_workers(self) -> list[WorkerStatus]:
        """Return all workers, the oldest first."""
        return [WorkerStatus(*row) for row in self._database.rows(_LISTED)]

    def count_runs(self) -> RunCounts:
        return RunCounts(*self._database.rows(_COUNTED)[0])

    def count_unserved_runs(self) -> dict[str, int]:
        """Return how many runs wait in each queue that no worker serves."""
        return dict(self._database.rows(_UNSERVED))

    def declined_runs(self, most: int) -> dict[str, str]:
        """Return at most `most` queued runs that a worker has declined, with the reason for each."""
        return dict(self._database.rows(_LEFT, {"most": most}))
