"""Implements `Files` with the folder of a run.

The folder is accessed by its descriptor, so that no link is followed and no name leads out of the run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from skillrun.repository.confined_folder import FILE_MODE, PRIVATE_MODE, ConfinedFolder, EntryKind
from skillrun.repository.matching import find_matching_files
from skillrun.repository.paths import PathRefused
from skillrun.store.files import LARGEST, check_run_exists, encode, walk_folders
from skillrun.store.kill_points import kill_point

SHARED: Final = 0o755  # mode of a shared folder
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def open_tree(folder: ConfinedFolder | Path) -> ConfinedFolder:
    """Return the folder, opened if necessary."""
    return folder if isinstance(folder, ConfinedFolder) else ConfinedFolder(folder)


def folder_mode(*, shared: bool) -> int:
    """Return the mode of a new folder: private to its owner or, with `shared`, readable for all users."""
    return SHARED if shared else PRIVATE_MODE


def write_atomic(
    folder: ConfinedFolder,
    name: str,
    content: str | bytes,
    *,
    shared: bool = False,
    precondition: Callable[[], None] = lambda: None,
) -> None:
    """Replace or create a file below `folder`. The content has reached the disk when this function returns.

    The file and new parent folders are private to their owner or, with `shared`, readable for all users. The umask has
    no influence.
    `precondition` is called just before the change. If it raises FileChanged, the file stays unchanged.
    """
    leaf = name.rpartition("/")[2]

    def check() -> None:
        kill_point(f"rename {leaf}: before")
        precondition()

    mode = folder_mode(shared=shared)
    folder.write(name, encode(content), mode=mode & FILE_MODE, folder_mode=mode, is_exact=True, precondition=check)
    kill_point(f"rename {leaf}: after")


def write_new(folder: ConfinedFolder, name: str, content: str | bytes, *, shared: bool = False) -> bool:
    """Write a file unless its name is taken. Return whether it was written."""
    mode = folder_mode(shared=shared)
    return folder.create(name, encode(content), mode=mode & FILE_MODE, folder_mode=mode, is_exact=True)


def apply_shared_modes(folder: ConfinedFolder) -> None:
    """Add the modes of a shared run to all files and folders of a run, except `.run`."""
    for name in walk_folders(folder):
        if name == ".run" or name.startswith(".run/"):
            continue
        folder.add_mode(name, SHARED)
        for leaf, kind in folder.entries(name):
            if kind == "file":
                with contextlib.suppress(PathRefused, FileNotFoundError):
                    folder.add_mode(leaf if name == "." else f"{name}/{leaf}", SHARED & FILE_MODE)


def remove_leftovers(folder: ConfinedFolder, name: str = ".") -> list[str]:
    """Remove the temporary files of killed writes, and return their names.

    Only the holder of the run may call this, because the temporary files of running writes have such names too.
    """
    at = "" if name == "." else f"{name}/"
    leftovers = [f"{at}{leaf}" for leaf, kind in folder.entries(name) if kind == "file" and _LEFTOVER.fullmatch(leaf)]
    for leftover in leftovers:
        folder.remove(leftover)
    return leftovers


class LocalFiles:
    """The `Files` of a run on disk. With `shared`, new files are readable for all users."""

    def __init__(self, tree: ConfinedFolder, *, shared: bool = False) -> None:
        self._tree, self._shared = tree, shared
        self.path = tree.path

    def has(self, name: str) -> bool:
        return self._tree.stat_file(name) is not None

    def is_file(self, name: str) -> bool:
        return self._tree.is_file(name)

    def is_folder(self, name: str) -> bool:
        return self._tree.is_folder(name)

    def is_taken(self, name: str) -> bool:
        return self._tree.identity(name) is not None

    def read(self, name: str, limit: int = LARGEST) -> bytes:
        return self._tree.read(name, limit)

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]:
        return self._tree.entries(name)

    def matching(self, pattern: str) -> list[str]:
        return find_matching_files(self._tree, pattern)

    def write(self, name: str, content: str | bytes, *, precondition: Callable[[], None] = lambda: None) -> None:
        write_atomic(self._tree, name, content, shared=self._shared, precondition=precondition)

    def write_new(self, name: str, content: str | bytes) -> bool:
        return write_new(self._tree, name, content, shared=self._shared)

    def move(self, name: str, target: str) -> None:
        if not self.has(name):  # before the parent folders of the target are made
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path / name))
        with (
            self._tree.open_parent(name) as (source, old),
            self._tree.open_parent(target, create=True, mode=folder_mode(shared=self._shared)) as (parent, new),
        ):
            self._tree.check()
            kill_point(f"rename {name}: before")
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=parent)
            kill_point(f"rename {name}: after")
            os.fsync(parent)
            os.fsync(source)

    def remove(self, name: str) -> None:
        self._tree.remove(name)

    def make_folder(self, name: str) -> None:
        self._tree.make_folder(name, folder_mode(shared=self._shared))

    def open_other_run(self, name: str) -> ConfinedFolder:
        check_run_exists(self.path.parent, name)
        return self._tree.sibling(name)

    def remove_leftovers(self) -> None:
        for folder in walk_folders(self._tree):
            remove_leftovers(self._tree, folder)
