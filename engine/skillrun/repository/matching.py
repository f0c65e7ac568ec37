"""Parses glob patterns and finds the files that match them. Files are found through descriptors, so links cannot lead
outside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from skillrun.repository.confined_folder import LONGEST, EntryKind
from skillrun.repository.gitignore import IgnoreRules
from skillrun.repository.paths import PathRefused, resolve_parts
from skillrun.repository.results import ToolError
from skillrun.repository.wildcards import InvalidPattern
from skillrun.scoring.patterns import MAX_PATTERN
from skillrun.types.schemas import quote_value

MAX_CHOICES: Final = 100  # number of patterns after expanding `{a,b}`
ANY_FOLDERS: Final = "**"  # as a whole part: any number of folders
DEEPEST: Final = 100  # levels of nested folders that are searched


def parse_glob(pattern: str) -> IgnoreRules:
    """Parse a glob pattern. Raises ToolError if it is invalid."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern is longer than {MAX_PATTERN} characters")
    patterns = [pattern.removeprefix("./")]
    while match := re.search(r"\{([^{}]*)\}", patterns[0]):
        choices = match[1].split(",")
        if len(patterns) * len(choices) > MAX_CHOICES:
            raise ToolError(f"{quote_value(pattern)} expands to more than {MAX_CHOICES} patterns")
        patterns = [pattern.replace(match[0], choice, 1) for pattern in patterns for choice in choices]
    try:
        return IgnoreRules(patterns, strict=True)
    except InvalidPattern:
        raise ToolError(f"{quote_value(pattern)} is not a valid pattern") from None


class SearchableFolder(Protocol):
    """Anything that holds files by name, such as an open folder."""

    path: Path

    def is_file(self, name: str) -> bool: ...

    def is_folder(self, name: str) -> bool: ...

    def entries(self, name: str = ".") -> list[tuple[str, EntryKind]]: ...


def find_matching_files(folder: SearchableFolder, pattern: str) -> list[str]:
    """Return the sorted names of the regular files that match a glob or path.

    Links to files are included if the folder follows links. Raises PathRefused for a pattern that leads outside the
    folder.
    """
    if "\0" in pattern or len(pattern) > LONGEST:
        raise PathRefused(f"{quote_value(pattern)} is not a valid file pattern")
    if pattern.startswith("/"):
        raise PathRefused.outside(pattern, "It is absolute; make it relative to the folder.")
    parts: list[str] = []
    for part in resolve_parts(pattern):
        if not (part == ANY_FOLDERS and parts[-1:] == [ANY_FOLDERS]):
            parts.append(part)
    names: set[str] = set()
    if parts:
        _collect_matches(folder, "", parts, names)
    return sorted(names, key=PurePosixPath)


def _collect_matches(tree: SearchableFolder, folder: str, parts: Sequence[str], names: set[str]) -> None:
    """Add to `names` the files below a folder that match `parts`. A missing or unreadable folder adds none."""
    part, rest = parts[0], parts[1:]
    if part != ANY_FOLDERS and not any(character in part for character in "*?["):
        name = f"{folder}{part}"
        if not rest and tree.is_file(name):
            names.add(name)
        elif rest and tree.is_folder(name):
            _collect_matches(tree, f"{name}/", rest, names)
        return
    if folder.count("/") > DEEPEST:
        raise PathRefused(f"folders in {tree.path} are nested more than {DEEPEST} levels deep", "Move them away.")
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


@lru_cache
def _compile_pattern(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
