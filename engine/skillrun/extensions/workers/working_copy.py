"""A user's copy of a run's files: pulled from the store, edited in a local folder, and pushed back.

A note in the folder records the pulled versions, so that changes on either side are detected. On a conflict the local
file stays, and the store's version is written next to it under another name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillrun.extensions.workers.bundle import list_files
from skillrun.extensions.workers.postgres.files import Edit, RunEdits
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.readable_folder import ReadableFolder
from skillrun.store.artifacts import variant_names
from skillrun.store.files import LARGEST, sha256_of
from skillrun.store.local.local_files import LocalFiles
from skillrun.store.state import STATE
from skillrun.syntax.diagnostics import SkillrunError, UsageError

NOTE_NAME: Final = ".skillrun-pull.json"
MAX_PUSH_BYTES: Final = 200_000_000  # bytes of all pushed files together


@dataclass
class PullResult:
    """The names of the files that a pull has written, kept, or removed.

    `beside` maps each file with a conflict to the name of the store's version.
    """

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)


class WorkingCopy:
    """A folder with the files of one run."""

    def __init__(self, folder: Path, run: str, place: str) -> None:
        """Open a copy, or prepare a new one.

        Raises UsageError if the folder contains anything but a copy of this run.
        """
        self.folder = folder
        self._run, self._place = run, place
        self._taken: dict[str, str] = {}
        self._beside: list[str] = []
        note = self._read_note()
        if note is None:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise UsageError(f"{folder} exists and is not a copy of a run", "use a new or empty folder")
            self.is_new = True
            return
        self.is_new = False
        if (note.get("run"), note.get("store")) != (run, place):
            raise UsageError(f"{folder} is a copy of `{note.get('run')}` in {note.get('store')}", "use another folder")
        self._taken, self._beside = dict(note["files"]), list(note["beside"])

    def pull(self, source: RunEdits) -> PullResult:
        """Update the folder from the store. Files that the user has changed in the folder are kept."""
        result, remote = PullResult(), source.list_files()
        self.folder.mkdir(parents=True, exist_ok=True)
        with ConfinedFolder(Path(os.path.realpath(self.folder))) as tree:
            files = LocalFiles(tree)
            for name, sha in remote.items():
                local_sha = sha256_of(files.read(name)) if files.is_file(name) else None
                base_sha = self._taken.get(name)
                if local_sha not in (None, sha, base_sha):
                    result.kept.append(name)
                    if sha != base_sha:
                        result.beside[name] = self._write_conflict(files, name, source.content(sha))
                elif local_sha != sha:
                    files.write(name, source.content(sha))
                    result.written.append(name)
            for name in self._taken.keys() - remote.keys():
                if files.is_file(name) and sha256_of(files.read(name)) == self._taken[name]:
                    files.remove(name)
                    result.gone.append(name)
            self._taken = remote
            self._write_note(files)
        return result

    def changes(self, secrets: tuple[str, ...]) -> tuple[dict[str, Edit], list[str]]:
        """Return the changed and new files, and the names of hidden and backup files, which are left out.

        Raises UsageError if the changed and new files are too large.
        """
        edits: dict[str, Edit] = {}
        skipped: list[str] = []
        size = 0
        with ReadableFolder(
            ConfinedFolder(Path(os.path.realpath(self.folder))), secrets, use_gitignore=False
        ) as readable:
            for name in list_files(readable, self.folder, "push fewer files; nothing was sent"):
                if name in (NOTE_NAME, STATE, *self._beside):
                    continue
                if any(part.startswith(".") for part in name.split("/")) or name.endswith("~"):
                    skipped.append(name)
                    continue
                with (
                    readable.open_path(name, is_checked=True) as opened,
                    open(opened.descriptor, "rb", closefd=False) as file,
                ):
                    content = file.read(LARGEST + 1)
                if len(content) > LARGEST:
                    message = f"{name} is larger than {LARGEST / 1e6:,.0f} MB"
                    raise UsageError(message, "use a smaller file; nothing was sent")
                base_sha = self._taken.get(name)
                if sha256_of(content) == base_sha:
                    continue
                size += len(content)
                if size > MAX_PUSH_BYTES:
                    raise UsageError(
                        f"the changed files exceed {MAX_PUSH_BYTES / 1e6:,.0f} MB", "push fewer files; nothing was sent"
                    )
                edits[name] = Edit(content, base_sha)
        return edits, skipped

    def record_push(self, edits: Mapping[str, Edit]) -> None:
        """Record that the store now has these versions."""
        self._taken |= {name: sha256_of(edit.content) for name, edit in edits.items()}
        with ConfinedFolder(Path(os.path.realpath(self.folder))) as tree:
            self._write_note(LocalFiles(tree))

    def open_conflicts(self) -> list[str]:
        """Return the names of the store's versions that pulls wrote next to local files, if they still exist."""
        return [name for name in self._beside if (self.folder / name).exists()]

    def _write_conflict(self, files: LocalFiles, name: str, content: bytes) -> str:
        for variant in variant_names(name):
            if not files.is_taken(variant) or (files.is_file(variant) and files.read(variant) == content):
                break
        files.write(variant, content)
        if variant not in self._beside:
            self._beside.append(variant)
        return variant

    def _read_note(self) -> dict[str, Any] | None:
        try:
            with ConfinedFolder(Path(os.path.realpath(self.folder))) as tree:
                text = tree.read(NOTE_NAME, LARGEST).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        note: Any = None
        with suppress(ValueError):
            note = json.loads(text)
        parts = (note.get("files"), note.get("beside")) if isinstance(note, dict) else ()
        if not isinstance(note, dict) or list(map(type, parts)) != [dict, list]:
            raise SkillrunError(f"{self.folder / NOTE_NAME} cannot be read", "pull into another folder")
        return note

    def _write_note(self, files: LocalFiles) -> None:
        note = {"run": self._run, "store": self._place, "files": self._taken, "beside": self.open_conflicts()}
        files.write(NOTE_NAME, json.dumps(note, indent=1, ensure_ascii=False) + "\n")
