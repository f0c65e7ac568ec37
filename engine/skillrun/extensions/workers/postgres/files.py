"""Stores the files of a run in Postgres: a row for each name, and contents keyed by hash.

The holder of a run writes each file completely or not at all. A user writes several files together, all or none. The
run's row counts the edits by users, so the holder notices an edit. Neither the holder nor a user replaces a version
that they have not seen.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg

from skillrun.extensions.workers.postgres.database import Database, StoreUnavailable
from skillrun.extensions.workers.postgres.lease import RunRow
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.store.artifacts import SUMMARIES, check_artifact_names, normalize_artifact_name
from skillrun.store.files import LARGEST, Files, sha256_of
from skillrun.store.local.local_files import LocalFiles
from skillrun.store.memory import MemoryFiles
from skillrun.store.state import STATE
from skillrun.syntax.diagnostics import SkillrunError, did_you_mean
from skillrun.types.schemas import quote_value

REFRESH_SECONDS: Final = 0.2  # seconds between checks for edits by users
STARTED: Final = "SELECT name FROM runs JOIN files ON files.run = runs.id AND files.path = 'state.md'"

# A write by the holder checks the epoch and renews the lease. A write by a user is counted as an edit.
_HELD: Final = """
    WITH held AS (
        UPDATE runs SET edits = edits + (NOT %(held)s)::integer, lease_until = CASE
            WHEN status = 'running' AND %(held)s AND lease_until < now() + make_interval(secs => %(lease)s * 2 / 3)
            THEN now() + make_interval(secs => %(lease)s) ELSE lease_until
        END
        WHERE id = %(run)s AND (epoch = %(epoch)s OR NOT %(held)s) RETURNING id, edits
    )
"""
_PUT: Final = f"""{_HELD}, blob AS (
        INSERT INTO blobs (sha, content) SELECT %(sha)s, %(content)s FROM held ON CONFLICT (sha) DO NOTHING
    ), put AS (
        INSERT INTO files (run, path, sha) SELECT id, %(path)s, %(sha)s FROM held
        ON CONFLICT (run, path) DO UPDATE SET sha = excluded.sha
        WHERE files.sha IS NOT DISTINCT FROM %(seen)s RETURNING 1
    )
    SELECT edits, EXISTS (SELECT FROM put) FROM held
"""
_RENAME: Final = f"""{_HELD}, gone AS (
        DELETE FROM files USING held WHERE run = held.id AND path = %(path)s RETURNING run, sha
    ), put AS (
        INSERT INTO files (run, path, sha) SELECT run, %(new)s, sha FROM gone
        ON CONFLICT (run, path) DO UPDATE SET sha = excluded.sha
    )
    SELECT edits, true FROM held
"""
_DROP: Final = f"""{_HELD}, gone AS (DELETE FROM files USING held WHERE run = held.id AND path = ANY(%(paths)s))
    SELECT edits, true FROM held
"""
_ADD: Final = f"""{_HELD}, made AS (INSERT INTO files (run, path) SELECT id, %(path)s FROM held ON CONFLICT DO NOTHING)
    SELECT edits, true FROM held
"""
_LIST: Final = "SELECT path, sha FROM files WHERE run = %(run)s"
_CONTENT: Final = "SELECT content FROM blobs WHERE sha = %(sha)s AND octet_length(content) <= %(most)s"


def read_blob(row: RunRow, sha: str) -> bytes:
    """Return the content of a file by its hash. Raises SkillrunError if it is missing or too large."""
    found = row.rows(_CONTENT, sha=sha, most=LARGEST)
    if not found:
        message = f"the store lacks the content {quote_value(sha[:12])} of a file of `{row.name}`, or it is too large"
        raise SkillrunError(message, "restore the store from a backup")
    return bytes(found[0][0])


class PostgresFiles(MemoryFiles):
    """The `Files` of a run in a store. Reads return the run's last write, or a user's later edit."""

    def __init__(self, row: RunRow) -> None:
        super().__init__()
        self.path = Path(row.name)
        self._row, self._seen = row, -1
        self._looked = time.monotonic()
        self._stored = _Contents(row)

    @property
    def _contents(self) -> Mapping[str, bytes]:
        self._refresh()
        return self._stored

    @property
    def _folders(self) -> set[str]:
        self._refresh()
        return self._made

    def open_other_run(self, name: str) -> ConfinedFolder:
        """Open a copy of another run's files. Raises SkillrunError if the run does not exist."""
        database = self._row.database
        row = RunRow.find(database, name)
        if row is None:
            hint = did_you_mean(name, list_started_runs(database))
            raise SkillrunError(f"no run is named `{name}`; {hint}".rstrip("; "))
        copy = _RunCopy(tempfile.TemporaryDirectory(prefix="skillrun-"))
        RunEdits(row).copy(LocalFiles(copy))
        return copy

    def _refresh(self) -> None:
        """Load the changes that users have made."""
        row, now = self._row, time.monotonic()
        if now - self._looked > REFRESH_SECONDS:
            self._looked = now
            found = row.rows("SELECT edits FROM runs WHERE id = %(run)s")
            row.edits = found[0][0] if found else row.edits
        if self._seen == row.edits:
            return
        edits, listed = row.edits, row.rows(_LIST, optional=("sha",))
        self._stored.names = {path: sha for path, sha in listed if sha is not None}
        self._made = {".", *(path for path, sha in listed if sha is None)}
        self._made |= {name[:at] for name in self._stored.names for at, sign in enumerate(name) if sign == "/"}
        self._seen = edits

    def _check(self) -> None:
        if self._row.is_lost:
            raise self._row.lease_error()

    def _put(self, key: str, content: bytes, precondition: Callable[[], None]) -> None:
        sha = sha256_of(content)
        while True:
            precondition()
            base_sha = self._stored.names.get(key)
            if self._write(_PUT, path=key, sha=sha, content=content, seen=base_sha):
                break
            self._seen = -1  # the file changed meanwhile, or the reply to this write was lost
            self._refresh()
            if self._stored.names.get(key) == sha:
                break
        self._stored.put(key, sha, content)

    def _rename(self, key: str, new: str) -> None:
        if key == new:
            return
        self._write(_RENAME, path=key, new=new)
        self._stored.names[new] = self._stored.names.pop(key)

    def _drop(self, files: Iterable[str], folders: Iterable[str]) -> None:
        files, folders = [*files], [*folders]
        self._write(_DROP, paths=[*files, *folders])
        for file in files:
            del self._stored.names[file]
        self._made.difference_update(folders)

    def _add_folder(self, key: str) -> None:
        self._write(_ADD, path=key)
        self._made.add(key)

    def _write(self, statement: LiteralString, **values: Any) -> bool:
        """Execute a write for the run, and return whether the file was written."""
        row = self._row
        try:
            found = row.rows(statement, **values)
        except StoreUnavailable as error:
            raise OSError(error.message) from error
        except UnicodeEncodeError as error:
            raise OSError(f"{error.object!r} is not a valid file name") from error
        if not found:
            raise row.lease_error()
        row.edits, is_written = found[0]
        return bool(is_written)


class _Contents(Mapping[str, bytes]):
    """The contents of files, keyed by name. Each content is loaded when it is first read."""

    def __init__(self, row: RunRow) -> None:
        self._row = row
        self.names: dict[str, str] = {}
        self._had: dict[str, bytes] = {}

    def put(self, name: str, sha: str, content: bytes) -> None:
        self.names[name], self._had[sha] = sha, content

    def __getitem__(self, name: str) -> bytes:
        sha = self.names[name]
        if sha not in self._had:
            self._had[sha] = read_blob(self._row, sha)
        return self._had[sha]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class _RunCopy(ConfinedFolder):
    """A temporary folder with a copy of another run's files. Closing removes the folder."""

    def __init__(self, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._copied = folder
        super().__init__(Path(os.path.realpath(folder.name)))

    def close(self) -> None:
        super().close()
        self._copied.cleanup()


def list_started_runs(database: Database) -> list[str]:
    """Return the names of the runs that have started, the newest first."""
    return [name for (name,) in database.rows(STARTED + " ORDER BY runs.id DESC")]


_LOCK: Final = "UPDATE runs SET edits = edits + 1 WHERE id = %(run)s"
_PUT_EDIT: Final = """
    WITH blob AS (INSERT INTO blobs (sha, content) VALUES (%(sha)s, %(content)s) ON CONFLICT (sha) DO NOTHING)
    INSERT INTO files (run, path, sha) VALUES (%(run)s, %(path)s, %(sha)s)
    ON CONFLICT (run, path) DO UPDATE SET sha = excluded.sha
"""


@dataclass(frozen=True)
class Edit:
    """The new content of a file; `base_sha` is the hash of the version that the user edited, None for a new file."""

    content: bytes
    base_sha: str | None


class EditConflict(SkillrunError):
    """Some files have changed since the user read them. Nothing was written."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        super().__init__(f"changed by another user meanwhile: {', '.join(names)}; nothing was written")


class RunEdits:
    """The files of one run, for users to edit."""

    def __init__(self, row: RunRow) -> None:
        self._row = row

    def list_files(self) -> dict[str, str]:
        """Return the hash of each file, keyed by file name. Files of the engine are left out.

        Raises PathRefused for a name that no run writes, because the file would be dangerous in a folder.
        """
        listed = {
            path: sha
            for path, sha in self._row.rows(_LIST, optional=("sha",))
            if sha is not None and not path.startswith(".run/")
        }
        check_artifact_names(listed)
        return dict(sorted(listed.items()))

    def content(self, sha: str) -> bytes:
        """Return a content by its hash. Raises SkillrunError if it is missing or too large."""
        return read_blob(self._row, sha)

    def copy(self, target: Files) -> None:
        for name, sha in self.list_files().items():
            target.write(name, self.content(sha))

    def put(self, edits: Mapping[str, Edit]) -> None:
        """Write the edited files, all or none.

        Raises EditConflict, StoreUnavailable, and PathRefused for a name that users may not write.
        """

        def work(connection: psycopg.Connection[Any]) -> None:
            connection.execute(_LOCK, self._row.values())
            there: dict[str, str | None] = dict(connection.execute(_LIST, self._row.values()).fetchall())
            for name in edits:
                _check_edit_name(name, there)
            known = {name: (edit.base_sha, sha256_of(edit.content)) for name, edit in edits.items()}
            changed = [name for name, versions in known.items() if there.get(name) not in versions]
            if changed:
                raise EditConflict(changed)  # rolls back
            for name, edit in edits.items():
                sha = sha256_of(edit.content)
                connection.execute(_PUT_EDIT, self._row.values(path=name, sha=sha, content=edit.content))

        self._row.database.transaction(work)


def _check_edit_name(name: str, current: Mapping[str, str | None]) -> None:
    """Raises PathRefused for a name that users may not write, or that conflicts with another file or folder."""
    top = name.partition("/")[0]
    is_summary = current.get(name) is not None and (top == SUMMARIES or top.startswith("round-"))
    if name == STATE or (not is_summary and normalize_artifact_name(name) != name):
        raise PathRefused(f"{quote_value(name)} belongs to the run itself", "`skillrun show` shows its content")
    above = [name[:at] for at, sign in enumerate(name) if sign == "/"]
    if any(current.get(folder) is not None for folder in above):
        raise PathRefused(f"{quote_value(name)} cannot be written: a part of its path is a file")
    if name not in current and any(path.startswith(f"{name}/") for path in current):
        raise PathRefused(f"{quote_value(name)} cannot be written: a folder has that name")
