"""The Postgres store that several machines share, and the runs in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

from skillrun.extensions.workers.postgres.database import Database, StoreRefused, StoreUnavailable
from skillrun.extensions.workers.postgres.files import STARTED, PostgresFiles, RunEdits, list_started_runs
from skillrun.extensions.workers.postgres.journal import (
    PostgresJournal,
    PostgresTranscript,
    last_omitted_event,
    read_lines,
    read_rows,
)
from skillrun.extensions.workers.postgres.lease import LEASE, PostgresLease, RunRow
from skillrun.repository.paths import require_slug
from skillrun.store.event_lines import OMITTED_EVENTS, Record, parse_event_line
from skillrun.store.files import Files
from skillrun.store.journal import Journal
from skillrun.store.journal_bodies import body_fits
from skillrun.store.memory import MemoryJournal
from skillrun.store.state import STATE, State, parse_state
from skillrun.store.stored_run import RunListing, RunNotStarted, StoredRun, slug_from_request
from skillrun.syntax.diagnostics import SkillrunError, UsageError, did_you_mean
from skillrun.syntax.source import MAX_BYTES

_UNBEGUN: Final = """
    SELECT left(status, 50), left(queue, 200), left(reason, 1000), left(owner, 200) FROM runs
    WHERE name = %(name)s AND request IS NOT NULL
"""
_OVERVIEW: Final = """
    SELECT runs.name,
           CASE WHEN runs.status = 'running' AND lease_until < now() THEN 'interrupted' ELSE left(runs.status, 50) END,
           left(runs.workflow, 200), runs.created_at,
           CASE WHEN octet_length(blobs.content) > %(largest)s THEN '' ELSE blobs.content END AS content
    FROM (
        SELECT * FROM runs WHERE status <> 'new' AND (%(status)s = '' OR status = ANY(%(among)s))
        AND CASE %(status)s
            WHEN 'running' THEN lease_until >= now()
            WHEN 'interrupted' THEN status = 'interrupted' OR lease_until < now()
            ELSE true
        END
        ORDER BY id DESC LIMIT %(most)s
    ) AS runs
    LEFT JOIN files ON files.run = runs.id AND files.path = 'state.md' LEFT JOIN blobs ON blobs.sha = files.sha
    ORDER BY runs.id DESC
"""
_STATUS: Final = """
    SELECT left(status, 50), coalesce(status = 'running' AND lease_until >= now(), false) FROM runs WHERE id = %(run)s
"""
_FORGET: Final = """
    DELETE FROM runs WHERE id = %(run)s AND request IS NULL AND records = 0
    AND NOT EXISTS (SELECT FROM files WHERE files.run = runs.id) AND (status <> 'running' OR epoch = %(epoch)s)
"""


class PostgresRun(StoredRun):
    """A run in Postgres. Other users can write to the store, so the seal of a run counts, as in a run folder."""

    def __init__(self, row: RunRow) -> None:
        self._row = row
        self.lease: PostgresLease = PostgresLease(row, self._release_status)

    def __exit__(self, *_: object) -> None:
        """Nothing to close: runs share the store's connections."""

    @property
    def name(self) -> str:
        return self._row.name

    @property
    def location(self) -> str:
        return f"`{self.name}` in {self._row.database.location}"

    def command_argument(self, project: Path) -> str:  # noqa: ARG002 (the same in every project)
        return self.name

    @property
    def has_journal(self) -> bool:
        return True

    def check(self) -> None:
        """Nothing to check: only programs write to the store."""

    def check_engine_files(self) -> None:
        """Nothing to check: all data of a run is in the store."""

    def check_lease(self) -> None:
        """Raises LeaseLost if this process held the run and has lost it."""
        self.lease.check()

    # contents

    def open_journal(self, *, create: bool = False) -> Journal:  # noqa: ARG002 (every run has a journal)
        return PostgresJournal(self._row, body_fits)

    def read_journal(self, *, while_held: bool = False) -> MemoryJournal:  # noqa: ARG002 (always possible)
        return MemoryJournal(*read_rows(self._row), body_fits)

    def files(self, *, shared: bool = False) -> PostgresFiles:  # noqa: ARG002 (no owners)
        return PostgresFiles(self._row)

    def status(self, state: State) -> str:
        """Return the row's status if it is `queued`, `cancelled` or `failed`, and otherwise the status in `state`.

        If `state` says `running` but no process holds the run, return `interrupted`.
        """
        ((status, is_held),) = self._row.database.rows(_STATUS, self._row.values())
        if status in ("queued", "cancelled", "failed"):
            return str(status)
        return "interrupted" if state.status == "running" and not is_held else state.status

    def copy_files(self, target: Files) -> list[str]:
        self.edits().copy(target)
        return []

    def edits(self) -> RunEdits:
        """Return the run's files, for users to edit."""
        return RunEdits(self._row)

    def open_transcript(self) -> PostgresTranscript:
        return PostgresTranscript(self._row)

    def transcript_lines(self) -> Iterator[str]:
        return read_lines(self._row, self.lease.is_held)

    def events(self, *, follow: bool = False) -> Iterator[Record]:
        """Yield the events so far. With `follow`, continue until the run is released."""
        after = last_omitted_event(self._row)
        if after:
            yield {**OMITTED_EVENTS}
        yield from filter(None, map(parse_event_line, read_lines(self._row, self.lease.is_held, after, follow=follow)))

    # starting and resuming

    @contextmanager
    def rollback_on_failure(self) -> Iterator[None]:
        """Remove the run if starting it fails before it has a state."""
        try:
            yield
        except BaseException:
            with suppress(SkillrunError):
                if not self.has_state:
                    self._row.database.rows(_FORGET, self._row.values())
            raise

    def apply_permissions(self, *, shared: bool) -> None:
        """Nothing to do: the store controls access."""

    def _release_status(self) -> str:
        """Return the status that the run gets when it is released."""
        try:
            status = self.state().status
        except StoreUnavailable:
            raise  # the status is unknown; the lease expires, and the next holder determines it
        except SkillrunError:
            return "new"
        return "interrupted" if status == "running" else status


class PostgresStore:
    """The `Store` in Postgres."""

    def __init__(self, database: Database, lease: float = LEASE) -> None:
        self._database, self._lease = database, lease

    @property
    def location(self) -> str:
        return self._database.location

    def create_run(self, name: str, *, shared: bool) -> PostgresRun:  # noqa: ARG002 (no owners)
        """Return a run to start. Insert its row if it is missing."""
        row = RunRow.find(self._database, require_slug(name), self._lease)
        return PostgresRun(row or RunRow.create(self._database, name, self._lease))

    def open_run(self, name: str) -> PostgresRun:
        """Return a run that has started.

        Raises RunNotStarted for a submitted run that waits for a worker, and UsageError if no such run will start.
        """
        row = RunRow.find(self._database, require_slug(name), self._lease)
        run = PostgresRun(row) if row is not None else None
        if run is None or not run.has_state:
            for status, queue, reason, owner in self._database.rows(_UNBEGUN, {"name": name}):
                why = f": {reason}" if reason else ""
                match status:
                    case "queued":
                        message = f"`{name}` has not started; it waits for a worker of the queue `{queue}`{why}"
                        raise RunNotStarted(message, "`skillrun worker list` lists the workers")
                    case "running":
                        raise RunNotStarted(f"`{name}` is being started by {owner}", "try again in a moment")
                    case _:
                        raise UsageError(f"`{name}` never started and is {status}{why}", "submit it under another name")
            hint = did_you_mean(name, list_started_runs(self._database)) or "`skillrun runs` lists the runs"
            raise UsageError(f"there is no run `{name}` in {self.location}", hint)
        return run

    def list_runs(self) -> Iterator[tuple[str, PostgresRun | Exception]]:
        """Yield the runs that have started."""
        for name in list_started_runs(self._database):
            row = RunRow.find(self._database, name, self._lease)
            if row is not None:
                yield name, PostgresRun(row)

    def overview(self, status: str = "", most: int = 0) -> list[RunListing]:
        """Return the newest runs, including those that no worker has started yet. Uses a single statement."""
        among = ["running", "interrupted"] if status == "interrupted" else [status]
        values = {"status": status, "among": among, "most": most or None, "largest": MAX_BYTES}
        return [_run_listing(*row) for row in self._database.rows(_OVERVIEW, values, optional=("content",))]

    def reserve_name(self, request: str, *, shared: bool = False) -> str:  # noqa: ARG002 (no owners)
        """Insert a row under a free name made from the request, and return the name."""
        base = slug_from_request(request)
        for name in chain([base], (f"{base}-{number}" for number in count(2))):
            with suppress(StoreRefused):
                return RunRow.create(self._database, name, self._lease).name
        raise AssertionError("unreachable")

    def release_name(self, name: str) -> None:
        """Remove the row of a name under which no run has started."""
        row = RunRow.find(self._database, name, self._lease)
        if row is not None:
            self._database.rows(_FORGET, row.values())

    def has(self, name: str) -> bool:
        return bool(self._database.rows(STARTED + " WHERE name = %(name)s", {"name": name}))

    def run_location(self, name: str) -> str:
        return f"`{name}` in {self.location}"

    def command_argument(self, name: str, project: Path) -> str:  # noqa: ARG002 (the same in every project)
        return name


def _run_listing(name: str, status: str, workflow: str, created_at: datetime, content: bytes | None) -> RunListing:
    if content is None:  # it has not started
        return RunListing(name, status, workflow, started_at=created_at.astimezone(UTC).isoformat(timespec="seconds"))
    try:
        state, _ = parse_state(Path(name) / STATE, content)
    except SkillrunError as error:
        return RunListing(name, "unreadable", unreadable=str(error).splitlines()[0])
    return RunListing.from_state(name, status, state)
