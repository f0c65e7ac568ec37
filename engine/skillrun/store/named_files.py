"""The base class for files of a run that are stored by name, without a file system.

Resolves names, and ensures that a name is either a file or a folder. Subclasses in `memory.py` and `postgres/files.py`
store and change the files.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from skillrun.repository.confined_folder import LONGEST, ConfinedFolder, EntryKind
from skillrun.repository.matching import find_matching_files
from skillrun.repository.paths import PathRefused
from skillrun.store.checkpoints import kill_point
from skillrun.store.files import LARGEST, encode
from skillrun.types.schemas import quote_value


class NamedFiles(ABC):
    """The `Files` of a run, stored by name. Every change calls `_check` first, and is made completely or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def _contents(self) -> Mapping[str, bytes]:
        """The contents of the current files, keyed by name."""

    @property
    @abstractmethod
    def _folders(self) -> AbstractSet[str]:
        """The current folders, including `.`."""

    @abstractmethod
    def _check(self) -> None:
        """Raises LeaseLost if another process has claimed the run."""

    @abstractmethod
    def _put(self, key: str, content: bytes, precondition: Callable[[], None]) -> None:
        """Write a file, whose parent folders exist, after calling `precondition`."""

    @abstractmethod
    def _rename(self, key: str, new: str) -> None:
        """Rename a file, replacing any file at `new`."""

    @abstractmethod
    def _drop(self, files: Iterable[str], folders: Iterable[str]) -> None:
        """Remove files and folders."""

    @abstractmethod
    def _add_folder(self, key: str) -> None:
        """Add a folder."""

    @abstractmethod
    def open_other_run(self, name: str) -> ConfinedFolder:
        """Open the folder of another run in the same store. Raises SkillrunError if it does not exist."""

    def has(self, name: str) -> bool:
        key = _key(name)
        if key in self._folders:
            raise _error(errno.EISDIR, self.path / name)
        return key in self._contents

    def is_file(self, name: str) -> bool:
        try:
            return _key(name) in self._contents
        except PathRefused:
            return False

    def is_folder(self, name: str) -> bool:
        try:
            return _key(name) in self._folders
        except PathRefused:
            return False

    def is_taken(self, name: str) -> bool:
        return _key(name) in self._contents or _key(name) in self._folders

    def read(self, name: str, limit: int = LARGEST) -> bytes:
        if not self.has(name):
            raise self._missing(name)
        return self._contents[_key(name)][: limit + 1]

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]:
        key = _key(name)
        if key not in self._folders:
            raise _error(errno.ENOTDIR, self.path / name) if key in self._contents else self._missing(name)
        inside: list[tuple[str, EntryKind]] = [(_leaf(path), "file") for path in self._contents if _parent(path) == key]
        inside += [(_leaf(path), "folder") for path in self._folders if path != "." and _parent(path) == key]
        return sorted(inside)

    def matching(self, pattern: str) -> list[str]:
        return find_matching_files(self, pattern)

    def write(self, name: str, content: str | bytes, *, precondition: Callable[[], None] = lambda: None) -> None:
        key = self._prepare_key(name)
        self._check()
        kill_point(f"rename {_leaf(key)}: before")
        self._put(key, encode(content), precondition)
        kill_point(f"rename {_leaf(key)}: after")

    def write_new(self, name: str, content: str | bytes) -> bool:
        if self.is_taken(name):
            return False
        self.write(name, content)
        return True

    def move(self, name: str, target: str) -> None:
        if not self.has(name):
            raise self._missing(name)
        new = self._prepare_key(target)
        self._check()
        kill_point(f"rename {name}: before")
        self._rename(_key(name), new)
        kill_point(f"rename {name}: after")

    def remove(self, name: str) -> None:
        key = _key(name)
        if not self.is_taken(name):
            raise self._missing(name)
        self._check()
        below = f"{key}/"
        inside = [[each for each in kept if f"{each}/".startswith(below)] for kept in (self._contents, self._folders)]
        self._drop(*inside)

    def make_folder(self, name: str) -> None:
        key = _key(name)
        for folder in _parent_folders(key):
            self._make(folder, name)
        if key not in self._contents and key not in self._folders:
            self._add_folder(key)

    def remove_leftovers(self) -> None:  # noqa: B027 (no subclass needs it)
        """Nothing to remove: a killed write leaves nothing."""

    def _prepare_key(self, name: str) -> str:
        """Return the key of a file to write, after making the file's parent folders."""
        key = _key(name)
        if key in self._folders:
            raise _error(errno.EISDIR, self.path / name)
        for folder in _parent_folders(key):
            self._make(folder, name)
        return key

    def _make(self, folder: str, name: str) -> None:
        """Make a parent folder of a name."""
        if folder in self._contents:
            raise _error(errno.ENOTDIR, self.path / name)
        if folder not in self._folders:
            self._add_folder(folder)

    def _missing(self, name: str) -> OSError:
        is_below = any(folder in self._contents for folder in _parent_folders(_key(name)))
        return _error(errno.ENOTDIR if is_below else errno.ENOENT, self.path / name)


def _key(name: str) -> str:
    """Return the canonical form of a name. Raises PathRefused for a name that leads out of the run."""
    if "\0" in name or len(name) > LONGEST:
        raise PathRefused(f"{quote_value(name)} is not a valid path")
    if name.startswith("/"):
        raise PathRefused(
            f"{quote_value(name)} leads out of its folder", "It is absolute; use a path relative to the folder."
        )
    parts: list[str] = []
    for part in name.split("/"):
        if part == "..":
            if not parts:
                raise PathRefused(f"{quote_value(name)} leads out of its folder", "It goes up with `..`.")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or "."


def _leaf(key: str) -> str:
    return key.rpartition("/")[2]


def _parent(key: str) -> str:
    return key.rpartition("/")[0] or "."


def _parent_folders(key: str) -> list[str]:
    """Return the parent folders of a name, the outermost first."""
    return [key[:at] for at, sign in enumerate(key) if sign == "/"]


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
