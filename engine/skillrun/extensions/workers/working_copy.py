"""A run's files in a folder of a person's own: taken from the store, changed there, and brought back.

The folder notes what was taken, so that a change of either side is known: one's own is kept, and the other's has a name
beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from skillrun.extensions.workers.postgres.edits import Edit
from skillrun.repository.confined_folder import Tree
from skillrun.repository.readable_folder import MOST_FILES, Readable
from skillrun.store.artifact_names import names_beside
from skillrun.store.files import LARGEST, sha256_of
from skillrun.store.local.local_files import FolderFiles
from skillrun.store.state import STATE
from skillrun.syntax.diagnostics import SkillrunError, UsageError

NOTE: Final = ".skillrun-pull.json"
MOST: Final = 200_000_000  # bytes of what is brought back together


class Source(Protocol):
    """Where the files come from."""

    def listed(self) -> dict[str, str]: ...

    def content(self, sha: str) -> bytes: ...


@dataclass
class Pulled:
    """What became of the files of a folder: names, and for those in conflict the name of the other's."""

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)


class WorkingCopy:
    """A folder with the files of one run."""

    def __init__(self, folder: Path, run: str, place: str) -> None:
        """Raises UsageError for a folder that holds something else."""
        self.folder = folder
        self._run, self._place = run, place
        self._taken: dict[str, str] = {}
        self._beside: list[str] = []
        note = self._note()
        if note is None:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise UsageError(f"{folder} is there, and no copy of a run", "name a folder that is empty or not there")
            self.is_new = True
            return
        self.is_new = False
        if (note.get("run"), note.get("store")) != (run, place):
            raise UsageError(f"{folder} is a copy of `{note.get('run')}` in {note.get('store')}", "name another folder")
        self._taken, self._beside = dict(note["files"]), list(note["beside"])

    def pull(self, source: Source) -> Pulled:
        """Have the folder hold what the store has. What was changed here stays."""
        self.folder.mkdir(parents=True, exist_ok=True)
        done, there = Pulled(), source.listed()
        with Tree(self.folder.resolve()) as tree:
            files = FolderFiles(tree)
            for name, sha in there.items():
                here = sha256_of(files.read(name)) if files.is_file(name) else None
                before = self._taken.get(name)
                if here not in (None, sha, before):
                    done.kept.append(name)
                    if sha != before:
                        done.beside[name] = self._put_beside(files, name, source.content(sha))
                elif here != sha:
                    files.write(name, source.content(sha))
                    done.written.append(name)
            for name in self._taken.keys() - there.keys():
                if files.is_file(name) and sha256_of(files.read(name)) == self._taken[name]:
                    files.remove(name)
                    done.gone.append(name)
            self._taken = there
            self._write_note(files)
        return done

    def changes(self, secrets: tuple[str, ...]) -> tuple[dict[str, Edit], list[str]]:
        """What was changed or made here, and the names that are left out. Raises UsageError for too much."""
        edits: dict[str, Edit] = {}
        left: list[str] = []
        size = 0
        with Readable(Tree(self.folder.resolve()), secrets, ignores=False) as readable:
            for name in _names(readable, self.folder):
                if name in (NOTE, STATE, *self._beside):
                    continue
                if any(part.startswith(".") for part in name.split("/")) or name.endswith("~"):
                    left.append(name)
                    continue
                with readable.opened(name, judged=True) as opened:
                    content = _read(opened.descriptor, name)
                seen = self._taken.get(name)
                if sha256_of(content) == seen:
                    continue
                size += len(content)
                if size > MOST:
                    raise UsageError(
                        f"what was changed is more than {MOST / 1e6:,.0f} MB", "bring less; nothing was sent"
                    )
                edits[name] = Edit(content, seen)
        return edits, left

    def brought(self, edits: Mapping[str, Edit]) -> None:
        """Note that the store has these now."""
        self._taken |= {name: sha256_of(edit.content) for name, edit in edits.items()}
        with Tree(self.folder.resolve()) as tree:
            self._write_note(FolderFiles(tree))

    def unsettled(self) -> list[str]:
        """What of others stands beside one's own and is still there."""
        return [name for name in self._beside if (self.folder / name).exists()]

    def _put_beside(self, files: FolderFiles, name: str, content: bytes) -> str:
        for beside in names_beside(name):
            if not files.is_taken(beside) or (files.is_file(beside) and files.read(beside) == content):
                break
        files.write(beside, content)
        if beside not in self._beside:
            self._beside.append(beside)
        return beside

    def _note(self) -> dict[str, Any] | None:
        try:
            text = (self.folder / NOTE).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        note: Any = None
        with suppress(ValueError):
            note = json.loads(text)
        known = isinstance(note, dict) and isinstance(note.get("files"), dict) and isinstance(note.get("beside"), list)
        if not isinstance(note, dict) or not known:
            raise SkillrunError(f"{self.folder / NOTE} cannot be read", "pull into another folder")
        return note

    def _write_note(self, files: FolderFiles) -> None:
        note = {"run": self._run, "store": self._place, "files": self._taken, "beside": self.unsettled()}
        files.write(NOTE, json.dumps(note, indent=1, ensure_ascii=False) + "\n")


def _names(readable: Readable, folder: Path) -> list[str]:
    try:
        names = list(readable.files())
    except TimeoutError:
        raise UsageError(f"looking through {folder} takes too long", "bring less; nothing was sent") from None
    if len(names) >= MOST_FILES:
        raise UsageError(f"{folder} has more than {MOST_FILES:,} files", "bring less; nothing was sent")
    return names


def _read(descriptor: int, name: str) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise UsageError(f"{name} is larger than {LARGEST / 1e6:,.0f} MB", "a run's file is smaller; nothing was sent")
    return content
