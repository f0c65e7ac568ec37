"""Reads and writes a project's ejected files and their originals.

The originals are in `.skillrun/ejected/`, under the same paths as in the project. They should be committed, since a
three-way merge needs the common ancestor.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillrun.cli.new import write_missing_files
from skillrun.library.roots import package_library, shipped_files
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.syntax.document import find_conflict_marks
from skillrun.syntax.source import MAX_PROSE

ORIGINALS: Final = ".skillrun/ejected"
SHIPPED_PREFIX: Final = "skillrun:"  # prefix for the path of a shipped file in messages


@dataclass(frozen=True)
class FileOverride:
    """A file of the project at the path of a shipped file.

    `current` is the project's text, None if the project no longer has the file. `original` is the shipped text at the
    time of ejecting, None if the file was not ejected. `shipped` is the shipped text, None if skillrun no longer has
    the file.
    """

    path: str
    current: str | None
    original: str | None
    shipped: str | None

    @property
    def status(self) -> str:
        """The status of the file; `outdated.STATUS_DESCRIPTIONS` describes each."""
        if self.current is None:
            return "removed"
        if self.shipped is None:
            return "gone"
        if find_conflict_marks(self.current):
            return "conflict"
        if self.current == self.shipped:
            return "same"
        if self.original is None:
            return "by hand"
        return "changed" if self.original == self.shipped else "outdated"


def find_overrides(project: Path) -> list[FileOverride]:
    """Return the project's files that were ejected or that override a shipped file.

    Config files are left out, since they are merged with the shipped ones. Raises PathRefused if a file is outside the
    project, and OSError.
    """
    if project.resolve() == package_library().resolve():
        return []
    shipped = {path: read_shipped_file(path) for path in shipped_files() if not path.startswith("config/")}
    with ConfinedFolder(project, links=True) as tree:
        paths = sorted({*_original_paths(tree), *shipped})
        files = (
            FileOverride(path, _read(tree, path), _read(tree, f"{ORIGINALS}/{path}"), shipped.get(path))
            for path in paths
        )
        return [file for file in files if file.current is not None or file.original is not None]


def read_shipped_file(path: str) -> str:
    """Return the text of a shipped file."""
    return (package_library() / path).read_text("utf-8")


def eject(project: Path, path: str) -> list[str]:
    """Copy a shipped file into a project, also as its original. Return the names of the written files."""
    text, original = read_shipped_file(path), f"{ORIGINALS}/{path}"
    created = write_missing_files(project, {path: text, original: text})
    if original not in created:  # the project had the file before
        with ConfinedFolder(project, links=True) as tree:
            _replace(tree, original, text)
    return created


def save_merge(project: Path, path: str, merged: str, original: str) -> None:
    """Replace the text of a project's file with the merged text, and its original with the new shipped text."""
    with ConfinedFolder(project, links=True) as tree:
        _replace(tree, path, merged)
        _replace(tree, f"{ORIGINALS}/{path}", original)


def _original_paths(tree: ConfinedFolder) -> Iterator[str]:
    """Yield the paths of the ejected files."""
    folders = [ORIGINALS]
    while folders:
        folder = folders.pop()
        if not tree.is_folder(folder):
            continue
        for name, kind in tree.entries(folder):
            if kind == "folder":
                folders.append(f"{folder}/{name}")
            elif name.endswith(".md"):
                yield f"{folder}/{name}".removeprefix(f"{ORIGINALS}/")


def _read(tree: ConfinedFolder, path: str) -> str | None:
    try:
        content = tree.read(path, MAX_PROSE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return content.decode("utf-8", "surrogateescape")


def _replace(tree: ConfinedFolder, path: str, text: str) -> None:
    """Replace the content of a file atomically, and keep its mode."""
    with tree.open_path(path) as opened:
        name, mode = opened.name, os.fstat(opened.descriptor).st_mode & 0o777
    with tree.open_parent(name) as (folder, leaf):
        temporary = f".{leaf}.{secrets.token_hex(4)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                file.write(text.encode("utf-8", "surrogateescape"))
            os.rename(temporary, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
