"""Implements `Files` with the folder of a run.

The folder is accessed by its descriptor, so that no link is followed and no name leads out of the run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from skillrun.repository.confined_folder import ConfinedFolder, EntryKind
from skillrun.repository.matching import find_matching_files
from skillrun.repository.paths import PathRefused
from skillrun.store.artifact_names import SUMMARIES
from skillrun.store.files import LARGEST, check_run_exists, walk_folders
from skillrun.store.journal import Journal
from skillrun.store.local.atomic import folder_mode, move, open_tree, remove_leftovers, write_atomic, write_new
from skillrun.store.run_data import RunData
from skillrun.store.state import STATE
from skillrun.store.summaries import ROUND


class LocalFiles:
    """The `Files` of a run on disk. With `shared`, new files are readable as the umask allows."""

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
        move(self._tree, name, target, shared=self._shared)

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


def open_run_data(folder: ConfinedFolder | Path, journal: Journal | None = None, *, shared: bool = False) -> RunData:
    """Return the data in a run folder. The data are read-only if no journal is given."""
    return RunData(LocalFiles(open_tree(folder), shared=shared), journal)


def check_folder(folder: ConfinedFolder | Path) -> None:
    """Raises PathRefused if one of the run's own files is a link or not a regular file."""
    tree = open_tree(folder)
    for name, kind in tree.entries():
        if name in (".run", SUMMARIES) or ROUND.fullmatch(name):
            if kind != "folder":
                raise PathRefused(
                    f"`{name}` in {tree.path} is not a folder", "remove it; skillrun creates a folder there"
                )
        elif name == STATE:
            tree.stat_file(name)
    if tree.is_folder(".run"):
        for name, kind in tree.entries(".run"):
            if kind != "folder":
                tree.stat_file(f".run/{name}")
