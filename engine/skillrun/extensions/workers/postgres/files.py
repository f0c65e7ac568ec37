"""Stores the files of a run in Postgres: a row for each name, and contents keyed by hash.

A file is written completely or not at all, and only for the holder of the run. The run's row counts edits by users, so
that the holder notices an edit and replaces only versions that it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, LiteralString

from skillrun.extensions.workers.postgres.database import StoreUnavailable
from skillrun.extensions.workers.postgres.row import RunRow
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.files import Files, sha256_of
from skillrun.store.memory import MemoryFiles

REFRESH_SECONDS: Final = 0.2  # seconds between checks for edits by users

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
_PUT: Final = (
    _HELD
    + """, blob AS (
        INSERT INTO blobs (sha, content) SELECT %(sha)s, %(content)s FROM held ON CONFLICT (sha) DO NOTHING
    ), put AS (
        INSERT INTO files (run, path, sha) SELECT id, %(path)s, %(sha)s FROM held
        ON CONFLICT (run, path) DO UPDATE SET sha = excluded.sha
        WHERE files.sha IS NOT DISTINCT FROM %(seen)s RETURNING 1
    )
    SELECT edits, EXISTS (SELECT FROM put) FROM held
"""
)
_RENAME: Final = (
    _HELD
    + """, gone AS (
        DELETE FROM files USING held WHERE run = held.id AND path = %(path)s RETURNING run, sha
    ), put AS (
        INSERT INTO files (run, path, sha) SELECT run, %(new)s, sha FROM gone
        ON CONFLICT (run, path) DO UPDATE SET sha = excluded.sha
    )
    SELECT edits FROM held
"""
)
_DROP: Final = (
    _HELD
    + """, gone AS (DELETE FROM files USING held WHERE run = held.id AND path = ANY(%(paths)s))
    SELECT edits FROM held
"""
)
_ADD: Final = (
    _HELD
    + """, made AS (INSERT INTO files (run, path) SELECT id, %(path)s FROM held ON CONFLICT DO NOTHING)
    SELECT edits FROM held
"""
)
_EDITS: Final = "SELECT edits FROM runs WHERE id = %(run)s"
_LIST: Final = "SELECT path, sha FROM files WHERE run = %(run)s"
_CONTENT: Final = "SELECT content FROM blobs WHERE sha = %(sha)s"


class PostgresFiles(MemoryFiles):
    """The `Files` of a run in a store. Reads return the run's last write, or a user's later edit."""

    def __init__(self, row: RunRow, other: Callable[[str], ConfinedFolder]) -> None:
        """`other` opens the files of another run by name, or raises SkillrunError."""
        super().__init__()
        self.path = Path(row.name)
        self._row, self._seen, self._other = row, -1, other
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
        return self._other(name)

    def copy(self, target: Files) -> None:
        """Write all files except the engine's own to `target`."""
        for name, content in self._contents.items():
            if not name.startswith(".run/"):
                target.write(name, content)

    def _refresh(self) -> None:
        """Load the changes that users have made."""
        row, now = self._row, time.monotonic()
        if now - self._looked > REFRESH_SECONDS:
            self._looked = now
            found = row.retry(lambda: row.database.rows(_EDITS, row.values()))
            row.edits = found[0][0] if found else row.edits
        if self._seen == row.edits:
            return
        edits = row.edits
        listed = row.retry(lambda: row.database.rows(_LIST, row.values()))
        self._stored.names = {path: sha for path, sha in listed if sha is not None}
        self._made = {".", *(path for path, sha in listed if sha is None), *_folders_of(self._stored.names)}
        self._seen = edits

    def _check(self) -> None:
        if self._row.is_lost:
            raise self._row.lease_error()

    def _put(self, key: str, content: bytes, precondition: Callable[[], None]) -> None:
        sha = sha256_of(content)
        while True:
            precondition()
            base_sha = self._stored.names.get(key)
            if self._write(_PUT, path=_check_encodable(key), sha=sha, content=content, seen=base_sha)[1]:
                break
            self._seen = -1  # the file changed meanwhile, or the reply to this write was lost
            self._refresh()
            if self._stored.names.get(key) == sha:
                break
        self._stored.put(key, sha, content)

    def _rename(self, key: str, new: str) -> None:
        if key == new:
            return
        self._write(_RENAME, path=key, new=_check_encodable(new))
        self._stored.names[new] = self._stored.names.pop(key)

    def _drop(self, files: Iterable[str], folders: Iterable[str]) -> None:
        files, folders = [*files], [*folders]
        self._write(_DROP, paths=[*files, *folders])
        for file in files:
            del self._stored.names[file]
        self._made.difference_update(folders)

    def _add_folder(self, key: str) -> None:
        self._write(_ADD, path=_check_encodable(key))
        self._made.add(key)

    def _write(self, statement: LiteralString, **values: object) -> tuple[int, bool]:
        """Execute a write for the run. Return the number of edits so far, and whether the file was written."""
        row = self._row
        try:
            found = row.retry(lambda: row.database.rows(statement, row.values(**values)))
        except StoreUnavailable as error:
            raise OSError(error.message) from error
        if not found:
            raise row.lease_error()
        row.edits, done = found[0] if len(found[0]) > 1 else (found[0][0], True)
        return row.edits, done


class _Contents(Mapping[str, bytes]):
    """The contents of files, keyed by name. Each content is loaded when it is first read."""

    def __init__(self, row: RunRow) -> None:
        self._row = row
        self.names: dict[str, str] = {}
        self._had: dict[str, bytes] = {}

    def put(self, name: str, sha: str, content: bytes) -> None:
        self.names[name], self._had[sha] = sha, content

    def __getitem__(self, name: str) -> bytes:
        sha, row = self.names[name], self._row
        if sha not in self._had:
            values = {"sha": sha}
            self._had[sha] = row.retry(lambda: row.database.rows(_CONTENT, values))[0][0]
        return self._had[sha]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _folders_of(names: Iterable[str]) -> set[str]:
    return {name[:at] for name in names for at, sign in enumerate(name) if sign == "/"}


def _check_encodable(key: str) -> str:
    """Return the name unchanged. Raises OSError if the name cannot be encoded."""
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise OSError(f"{key!r} is not a valid file name") from error
    return key
