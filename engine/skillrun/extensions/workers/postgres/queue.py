"""The queue of a store: the runs that wait for a worker, and the requests that start the runs.

The row of a run holds the run's request, project, queue and start time. A worker claims a run before it executes the
run, so a second notification changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Final, Self

from psycopg.types.json import Jsonb
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillrun.extensions.workers.bundle import MAX_BUNDLE_BYTES, InvalidRun
from skillrun.extensions.workers.postgres.database import Database
from skillrun.library.settings import LIMIT_NAMES
from skillrun.syntax.diagnostics import UsageError, sanitize
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.records import MAX_NUMBER, check_values
from skillrun.types.schemas import quote_value
from skillrun.types.slugs import is_slug

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
_FAIL: Final = _END + "(status IN ('queued', 'waiting') OR (status = 'running' AND lease_until < now())) RETURNING id"
_DUE: Final = """
    SELECT due.* FROM unnest(%(queues)s::text[]) AS served (queue), LATERAL (
        (SELECT name, runs.queue, %(begun)s FROM runs
         WHERE runs.queue = served.queue AND status = 'running' AND lease_until < now() AND request IS NOT NULL
         AND name <> ALL(%(without)s)
         ORDER BY lease_until LIMIT %(most)s)
        UNION ALL
        (SELECT name, runs.queue, coalesce(priority, 0) FROM runs
         WHERE runs.queue = served.queue AND status = 'queued' AND not_before <= now() AND name <> ALL(%(without)s)
         ORDER BY priority DESC, id LIMIT %(most)s)
    ) AS due
"""
_WANTED: Final = """
    SELECT coalesce(left(workflow, 200), ''), coalesce(bundle, ''),
           CASE WHEN octet_length(request::text) <= %(most)s THEN request::text ELSE '' END,
           coalesce(takes, 0), coalesce(left(status, 50), ''), coalesce(left(queue, 200), ''),
           coalesce(status <> 'queued' OR not_before <= now(), true)
    FROM runs WHERE name = %(name)s AND request IS NOT NULL
"""
_BUNDLE_SIZE: Final = "SELECT octet_length(content) FROM blobs WHERE sha = %(sha)s"
_BUNDLE: Final = "SELECT substring(content FROM %(start)s FOR %(size)s) FROM blobs WHERE sha = %(sha)s"
PIECE: Final = 16_000_000  # bytes of an archive per statement
_SHA: Final = re.compile(r"[0-9a-f]{64}")  # of an archive, and the name of its folder on a worker


@dataclass(frozen=True)
class SubmittedRun:
    """A submitted run: its request, as JSON, and its current status. `bundle` is the hash of its project."""

    workflow: str
    bundle: str
    request: str
    takes: int
    status: str
    queue: str = DEFAULT_QUEUE
    is_due: bool = True

    def check_bundle(self) -> None:
        """Raises InvalidRun if the hash of the project could be another path on this machine."""
        if not _SHA.fullmatch(self.bundle):
            raise InvalidRun("the row of the run has no valid hash of a project", RESUBMIT_HINT)


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
        """Mark a run without a holder as failed, because no worker can execute it. Return whether it was marked.

        A run that waits for an answer is marked too: no worker could use the answer.
        """
        return bool(self._database.rows(_FAIL, {"name": name, "status": "failed", "reason": sanitize(reason)}))

    def set_reason(self, name: str, reason: str) -> None:
        """Record why a worker declined a run. The reason is kept until a worker starts the run."""
        statement = "UPDATE runs SET reason = %(reason)s WHERE name = %(name)s AND status = 'queued'"
        self._database.rows(statement, {"name": name, "reason": sanitize(reason)})

    def due_runs(
        self, most: int, exclude: Sequence[str] = (), queues: Sequence[str] = (DEFAULT_QUEUE,)
    ) -> list[DueRun]:
        """Return the runs of `queues` that can be executed now, without those in `exclude`.

        For each queue, returns at most `most` runs whose worker died, and at most `most` queued runs. A run whose
        worker died gets `ORPHAN_PRIORITY`, and so does not wait for all queued runs.
        """
        values = {"most": most, "without": list(exclude), "queues": list(queues), "begun": ORPHAN_PRIORITY}
        found = self._database.retry(lambda: self._database.rows(_DUE, values), RETRY_SECONDS)
        due = [DueRun(*row) for row in found]
        for each in due:
            if not is_slug(each.name):
                self.fail(each.name, f"{quote_value(each.name)} is not a valid name of a run")
        return [each for each in due if is_slug(each.name)]

    def find_run(self, name: str) -> SubmittedRun | None:
        """Return a submitted run, or None if no run with this name was submitted."""
        values = {"name": name, "most": MAX_REQUEST_BYTES}
        found = self._database.retry(lambda: self._database.rows(_WANTED, values), RETRY_SECONDS)
        return SubmittedRun(*found[0]) if found else None

    def copy_archive(self, sha: str, target: BinaryIO) -> None:
        """Write the archive of a project to `target`, in pieces. Raises InvalidRun if it is missing or too large."""
        sizes = self._database.rows(_BUNDLE_SIZE, {"sha": sha})
        if not sizes or sizes[0][0] > MAX_BUNDLE_BYTES:
            raise InvalidRun("the store lacks the archive of the run's project, or it is too large", RESUBMIT_HINT)
        for start in range(1, sizes[0][0] + 1, PIECE):
            pieces = self._database.rows(_BUNDLE, {"sha": sha, "start": start, "size": PIECE})
            target.writelines(piece for (piece,) in pieces)


RESUBMIT_HINT: Final = "submit the run again"
MAX_REQUEST_BYTES: Final = 16_000_000
MAX_URL: Final = 2_100  # characters of URL@COMMIT
LimitName = Annotated[str, Field(pattern=f"^({'|'.join(LIMIT_NAMES)})$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class RunSubmission(BaseModel):
    """A request, which anybody who can write to the store may have changed.

    `answers` is the text of a file with prepared answers. `repositories` maps the names of path inputs to URL@COMMIT.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    inputs: Annotated[dict[Name, object], Field(max_length=1_000)]
    typed: Annotated[list[str], Field(exclude=True)] = []  # earlier versions wrote it; it has no effect
    model: Annotated[str, Field(max_length=200)] = ""
    budget: dict[LimitName, Annotated[float, Field(ge=0, le=MAX_NUMBER)]] = {}
    answers: Annotated[str, Field(max_length=MAX_BYTES)] = ""
    unattended: bool = False
    estimate: dict[str, object] | None = None
    repositories: Annotated[dict[Name, Annotated[str, Field(max_length=MAX_URL)]], Field(max_length=100)] = {}

    def to_data(self) -> dict[str, Any]:
        # workers of the previous version do not know the key `repositories`
        return self.model_dump(exclude=None if self.repositories else {"repositories"})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Load a stored request. Raises InvalidRun unless it is a valid request of this version."""
        try:
            check_values(text)
            return cls.model_validate_json(text)
        except ValidationError as error:
            places = dict.fromkeys(str(each["loc"][0]) for each in error.errors(include_input=False) if each["loc"])
            names = ", ".join(quote_value(place[:40]) for place in [*places][:5])
            message = f"the request of the run has invalid fields: {names}" if names else "the run has no valid request"
            raise InvalidRun(message, RESUBMIT_HINT) from None
        except ValueError as error:
            raise InvalidRun(f"the request of the run cannot be read: {error}", RESUBMIT_HINT) from None
