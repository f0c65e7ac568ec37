"""Lists the files of the roots that belong to a library, by folder, depth and extension. Reads no files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from skillrun.library.roots import Root
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.reading import is_outside, outside_problem

FOLDERS: Final = ("workflows", "skills", "roles", "config")
FileIndex = dict[str, list[tuple[Root, Path]]]
"""Every library file by its path below a root, with its locations, strongest root first."""


def is_in_library(relative: str) -> bool:
    """Whether a file belongs to the library, by its path below a root."""
    *folders, name = relative.split("/")
    if not folders or name == "README.md" or any(part.startswith(".") for part in (*folders, name)):
        return False
    depth, suffix = (2, ".md") if folders[0] == "skills" else (1, ".yaml" if folders[0] == "config" else ".md")
    return folders[0] in FOLDERS and len(folders) == depth and name.endswith(suffix)


def build_file_index(roots: Iterable[Root], unsaved: Iterable[Path], problems: Problems) -> FileIndex:
    """Return every library file by its path below a root, with its locations, strongest root first."""
    places: FileIndex = {}
    for root in roots:
        new = (path.relative_to(root.path).as_posix() for path in unsaved if path.is_relative_to(root.path))
        for relative in dict.fromkeys((*_files(root, problems), *filter(is_in_library, new))):
            places.setdefault(relative, []).append((root, root.path / relative))
    return places


def _files(root: Root, problems: Problems) -> Iterator[str]:
    for folder in FOLDERS:
        inside = [folder]
        if folder == "skills":
            inside = [f"{folder}/{name}" for name, is_dir in _entries(root, folder, problems) if is_dir]
        suffix = ".yaml" if folder == "config" else ".md"
        for parent in inside:
            for name, is_dir in _entries(root, parent, problems):
                if not is_dir and name.endswith(suffix) and name != "README.md":
                    yield f"{parent}/{name}"


def _entries(root: Root, folder: str, problems: Problems) -> list[tuple[str, bool]]:
    """The names in a folder, without hidden ones, and whether each is a folder; empty if outside the root."""
    path = root.path / folder
    if is_outside(path, root.boundary):
        problems.add(outside_problem(root.label + folder))
        return []
    try:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []
