"""Finds the files in a folder that match a glob, through descriptors, so that links cannot lead the search outside."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from skillrun.repository.confined_folder import LONGEST, EntryKind
from skillrun.repository.paths import PathRefused
from skillrun.types.schemas import quote_value

ANY_FOLDERS: Final = "**"  # as a whole part: any number of folders
DEEPEST: Final = 100  # levels of nested folders that are searched


class SearchableFolder(Protocol):
    """An open folder, or another collection of files by name."""

    path: Path

    def is_file(self, name: str) -> bool: ...

    def is_folder(self, name: str) -> bool: ...

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]: ...


def find_matching_files(folder: SearchableFolder, pattern: str) -> list[str]:
    """Return the names of the regular files that match a glob or path, sorted.

    Links to files are included if the folder follows links. Raises PathRefused for a pattern that leads outside.
    """
    parts = _split_pattern(pattern)
    if not parts:
        return []
    names: set[str] = set()
    _collect_matches(folder, "", parts, names)
    return sorted(names, key=PurePosixPath)


def _split_pattern(pattern: str) -> tuple[str, ...]:
    """Split a pattern into parts; `a/..` is resolved as in a path."""
    if "\0" in pattern or len(pattern) > LONGEST:
        raise PathRefused(f"{quote_value(pattern)} is not a valid file pattern")
    if pattern.startswith("/"):
        raise PathRefused(
            f"{quote_value(pattern)} leads out of its folder", "It is absolute; make it relative to the folder."
        )
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == "..":
            if not parts:
                raise PathRefused(f"{quote_value(pattern)} leads out of its folder", "It goes up with `..`.")
            parts.pop()
        elif part not in ("", ".") and not (part == ANY_FOLDERS and parts[-1:] == [ANY_FOLDERS]):
            parts.append(part)
    return tuple(parts)


def _collect_matches(tree: SearchableFolder, folder: str, parts: tuple[str, ...], names: set[str]) -> None:
    """Add the files below a folder that match `parts`; a missing or unreadable folder has none."""
    part, rest = parts[0], parts[1:]
    if part != ANY_FOLDERS and not _is_pattern(part):
        name = f"{folder}{part}"
        if not rest and tree.is_file(name):
            names.add(name)
        elif rest and tree.is_folder(name):
            _collect_matches(tree, f"{name}/", rest, names)
        return
    if folder.count("/") > DEEPEST:
        raise PathRefused(f"folders are nested more than {DEEPEST} deep in {tree.path}", "Move them away.")
    try:
        entries = tree.entries(folder or ".")
    except OSError:
        return
    if part == ANY_FOLDERS:
        if rest:
            _collect_matches(tree, folder, rest, names)
        for name, kind in entries:
            if kind == "folder":
                _collect_matches(tree, f"{folder}{name}/", parts, names)
        return
    regex = _compile_pattern(part)
    for name, kind in entries:
        if regex.fullmatch(name) is None or kind == "other":
            continue
        if not rest and tree.is_file(f"{folder}{name}"):
            names.add(f"{folder}{name}")
        elif rest and tree.is_folder(f"{folder}{name}"):
            _collect_matches(tree, f"{folder}{name}/", rest, names)


def _is_pattern(part: str) -> bool:
    return any(character in part for character in "*?[")


@lru_cache
def _compile_pattern(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
