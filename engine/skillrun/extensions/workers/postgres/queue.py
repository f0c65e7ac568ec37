"""The queue of a store: the runs that wait for a worker, and the requests that start the runs.

The row of a run holds the run's request, project, queue and start time. A worker claims a run before it executes the
run, so a second notification changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from psycopg.types.json import Jsonb

from skillrun.extensions.workers.postgres.database import Database
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.records import NonNegativeFloat, field_checks, invalid_keys, required_fields

DEFAULT_QUEUE: Final = "default"
"""The queue of a run or a worker that names no queue."""
RETRY_SECONDS: Final = 2.0  # how long a query is retried while the store is unavailable
MAX_CLAIMS: Final = 5
"""A run fails after this many claims without a reply in between, if `GIVE_UP_SECONDS` have passed since the last reply.
"""
GIVE_UP_SECONDS: Final = 600  # long, because most runs that died with a worker did not cause its death

ORPHAN_PRIORITY: Final = 1_000_000_000
"""The priority of a run whose worker died. It is higher than the priority of any submitted run."""

_SUBMIT: Final = """
    INSERT INTO runs (name, status, workflow, bundle, request, queue, priority, not_before)
    VALUES (%(name)s, 'queued', %(workflow)s, %(sha)s, %(request)s, %(queue)s, %(priority)s,
            now() + make_interval(secs => %(in_seconds)s))
    ON CONFLICT (name) DO UPDATE SET
        status = 'queued', workflow = excluded.workflow, bundle = excluded.bundle, request = excluded.request,
        reason = '', queue = excluded.queue, priority = excluded.priority, not_before = excluded.not_before
    WHERE runs.status = 'new' AND runs.records = 0
    RETURNING id
"""
_QUEUE: Final = """
    UPDATE runs SET not_before = now(), again = (status = 'running'),
           status = CASE WHEN status = 'running' THEN status ELSE 'queued' END,
           takes = CASE WHEN status = 'running' THEN takes ELSE 0 END, fruitful_at = now(),
           ended_at = NULL, reason = ''
    WHERE name = %(name)s AND status NOT IN ('queued', 'completed', 'cancelled') AND request IS NOT NULL
    RETURNING name, queue, priority
"""
_END: Final = """
    UPDATE runs SET status = %(status)s, epoch = epoch + 1, owner = '', lease_until = NULL, ended_at = now(),
           reason = %(reason)s
    WHERE name = %(name)s AND
"""
_CANCEL: Final = _END + "status NOT IN ('completed', 'cancelled') RETURNING id"
_GIVE_UP: Final = f"""{_END}
    takes >= %(takes)s AND (status = 'queued' OR lease_until < now())
    AND fruitful_at < now() - make_interval(secs => %(fruitless)s) RETURNING id
"""
_FAIL: Final = _END + "(status = 'queued' OR (status = 'running' AND lease_until < now())) RETURNING id"
_DUE: Final = """
    SELECT due.* FROM unnest(%(queues)s::text[]) AS served (queue), LATERAL (
        (SELECT name, runs.queue, %(begun)s FROM runs
         WHERE runs.queue = served.queue AND status = 'running' AND lease_until < now() AND request IS NOT NULL
         AND name <> ALL(%(without)s)
         ORDER BY lease_until LIMIT %(most)s)
        UNION ALL
        (SELECT name, runs.queue, priority FROM runs
         WHERE runs.queue = served.queue AND status = 'queued' AND not_before <= now() AND name <> ALL(%(without)s)
         ORDER BY priority DESC, id LIMIT %(most)s)
    ) AS due
"""
_WANTED: Final = """
    SELECT workflow, bundle, request, takes, status, queue, status <> 'queued' OR not_before <= now() FROM runs
    WHERE name = %(name)s
"""


@dataclass(frozen=True)
class SubmittedRun:
    """A submitted run: its request and its current status."""

    workflow: str
    bundle: str
    request: Mapping[str, Any]
    takes: int
    status: str
    queue: str = DEFAULT_QUEUE
    is_due: bool = True


@dataclass(frozen=True)
class DueRun:
    """A run that workers of its queue may execute now."""

    name: str
    queue: str
    priority: int


class RunQueue:
    """The runs of a store that wait for a worker."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self,
        name: str,
        workflow: str,
        request: Mapping[str, Any],
        sha: str,
        content: bytes,
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        in_seconds: float = 0,
    ) -> None:
        """Queue a new run, to start after `in_seconds`. Raises UsageError if the name is taken."""
        if not self._database.rows("SELECT 1 FROM blobs WHERE sha = %(sha)s", {"sha": sha}):
            statement = "INSERT INTO blobs (sha, content) VALUES (%(sha)s, %(content)s) ON CONFLICT (sha) DO NOTHING"
            self._database.rows(statement, {"sha": sha, "content": content})
        start = {"queue": queue, "priority": priority, "in_seconds": in_seconds}
        values = {"name": name, "workflow": workflow, "request": Jsonb(dict(request)), "sha": sha, **start}
        if not self._database.rows(_SUBMIT, values):
            hint = f"`skillrun show {name}` shows its status; choose another `--name`"
            raise UsageError(f"the run `{name}` already exists in {self._database.location}", hint)

    def requeue(self, name: str) -> DueRun | None:
        """Queue a submitted run again; a running run is queued as soon as it waits.

        Return None if the run was never submitted, is already queued, has completed, or was cancelled.
        """
        found = self._database.rows(_QUEUE, {"name": name})
        return DueRun(*found[0]) if found else None

    def cancel(self, name: str, reason: str) -> bool:
        """Cancel a run at once. Its worker can then write nothing more.

        Return False if the run has completed, was already cancelled, or does not exist.
        """
        return bool(self._database.rows(_CANCEL, {"name": name, "status": "cancelled", "reason": reason}))

    def give_up(self, name: str, reason: str) -> bool:
        """Mark a run as failed if it has no holder and was claimed too often without a reply.

        Return whether it was marked.
        """
        limits = {"takes": MAX_CLAIMS, "fruitless": GIVE_UP_SECONDS}
        return bool(self._database.rows(_GIVE_UP, {"name": name, "status": "failed", "reason": reason, **limits}))

    def fail(self, name: str, reason: str) -> bool:
        """Mark a run without a holder as failed, because no worker can execute it. Return whether it was marked."""
        return bool(self._database.rows(_FAIL, {"name": name, "status": "failed", "reason": reason}))

    def set_reason(self, name: str, reason: str) -> None:
        """Record why a worker declined a run. The reason is kept until a worker starts the run."""
        statement = "UPDATE runs SET reason = %(reason)s WHERE name = %(name)s AND status = 'queued'"
        self._database.rows(statement, {"name": name, "reason": reason})

    def due_runs(
        self, most: int, exclude: Sequence[str] = (), queues: Sequence[str] = (DEFAULT_QUEUE,)
    ) -> list[DueRun]:
        """Return the runs of `queues` that can be executed now, without those in `exclude`.

        For each queue, returns at most `most` runs whose worker died, and at most `most` queued runs. A run whose
        worker died gets `ORPHAN_PRIORITY`, and so does not wait for all queued runs.
        """
        values = {"most": most, "without": list(exclude), "queues": list(queues), "begun": ORPHAN_PRIORITY}
        return [DueRun(*row) for row in self._database.retry(lambda: self._database.rows(_DUE, values), RETRY_SECONDS)]

    def find_run(self, name: str) -> SubmittedRun | None:
        """Return a submitted run, or None if no run with this name was submitted."""
        found = self._database.retry(lambda: self._database.rows(_WANTED, {"name": name}), RETRY_SECONDS)
        return SubmittedRun(*found[0]) if found and found[0][2] is not None else None

    def content(self, sha: str) -> bytes:
        """Return the archive of a project by its hash."""
        return bytes(self._database.rows("SELECT content FROM blobs WHERE sha = %(sha)s", {"sha": sha})[0][0])


@dataclass(frozen=True)
class RunSubmission:
    """A request with valid inputs.

    `answers` is the text of a file with prepared answers. `repositories`
    maps the names of path inputs to URL@COMMIT.
    """

    inputs: dict[str, object]
    model: str = ""
    budget: dict[str, NonNegativeFloat] = field(default_factory=dict)
    answers: str = ""
    unattended: bool = False
    estimate: dict[str, object] | None = None
    repositories: dict[str, str] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        data = asdict(self)
        if not self.repositories:
            del data["repositories"]  # workers of the previous version do not know this key
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Load a stored request. Raises SkillrunError unless it is a valid request of this version."""
        data = {key: value for key, value in data.items() if key != "typed"}  # earlier versions wrote it
        unknown = sorted(data.keys() - field_checks(RunSubmission).keys())
        missing = sorted(required_fields(RunSubmission) - data.keys())
        names = ", ".join(f"`{name}`" for name in (*unknown, *invalid_keys(RunSubmission, data), *missing))
        if names:
            raise SkillrunError(f"the request of the run has invalid fields: {names}", "submit the run again")
        return cls(**data)
