"""Lets users edit the files of a run in a store.

Several files are written together, all or none. Only versions that the user has seen are replaced. The run treats the
changes as manual edits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from skillrun.extensions.workers.postgres.row import RunRow
from skillrun.repository.paths import PathRefused
from skillrun.store.artifacts import SUMMARIES, normalize_artifact_name
from skillrun.store.files import sha256_of
from skillrun.store.state import STATE
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quote_value

_LISTED: Final = """
    SELECT path, sha FROM files WHERE run = %(run)s AND sha IS NOT NULL AND path NOT LIKE '.run/%%' ORDER BY path
"""
_CONTENT: Final = "SELECT content FROM blobs WHERE sha = %(sha)s"
_LOCK: Final = "UPDATE runs SET edits = edits + 1 WHERE id = %(run)s"
_THERE: Final = "SELECT path, sha FROM files WHERE run = %(run)s"
_PUT: Final = """
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


class _Rollback(Exception):
    """Rolls back the transaction."""


class RunEdits:
    """The files of one run, for users to edit."""

    def __init__(self, row: RunRow) -> None:
        self._row = row

    def list_files(self) -> dict[str, str]:
        """Return the hash of each file, keyed by file name. Files of the engine are left out."""
        return dict(self._row.retry(lambda: self._row.database.rows(_LISTED, self._row.values())))

    def content(self, sha: str) -> bytes:
        found: bytes = self._row.retry(lambda: self._row.database.rows(_CONTENT, {"sha": sha}))[0][0]
        return found

    def put(self, edits: Mapping[str, Edit]) -> None:
        """Write these files, all or none.

        Raises EditConflict, StoreUnavailable, and PathRefused for a name that users may not write.
        """
        changed: list[str] = []

        def work(connection: psycopg.Connection[Any]) -> None:
            connection.execute(_LOCK, self._row.values())
            there: dict[str, str | None] = dict(connection.execute(_THERE, self._row.values()).fetchall())
            for name, edit in edits.items():
                _check_name(name, there)
                if there.get(name) not in (edit.base_sha, sha256_of(edit.content)):
                    changed.append(name)
            if changed:
                raise _Rollback
            for name, edit in edits.items():
                sha = sha256_of(edit.content)
                connection.execute(_PUT, self._row.values(path=name, sha=sha, content=edit.content))

        try:
            self._row.database.transaction(work)
        except _Rollback:
            raise EditConflict(changed) from None


def _check_name(name: str, current: Mapping[str, str | None]) -> None:
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
