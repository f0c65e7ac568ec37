"""Loads starter files and writes them into a project without overwriting existing files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from skillrun.library.roots import package_library
from skillrun.repository.confined_folder import ConfinedFolder

STARTERS: Final = "starters"


def load_starter(kind: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the starter files, keyed by path. `names` has the values that replace `NAME` and `AREA`."""
    folder = package_library() / STARTERS / kind
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        _fill_placeholders(path.relative_to(folder).as_posix(), names): _fill_placeholders(
            path.read_text("utf-8"), names
        )
        for path in paths
    }


def _fill_placeholders(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b(AREA|NAME)\b", lambda word: names.get(word[0], word[0]), text) if names else text


def has_file(project: Path, name: str) -> bool:
    """Whether a file of this name exists in a project; a broken link counts as a file."""
    return os.path.lexists(project / name)


def write_missing_files(project: Path, files: Mapping[str, str]) -> list[str]:
    """Write the files that do not exist, with their folders, and return the names of the written files.

    Raises PathRefused if a parent folder is a link to outside the project, and OSError if a file cannot be written.
    """
    with ConfinedFolder(project, links=True) as tree:
        return [name for name, text in files.items() if _write_new_file(tree, name, text)]


def _write_new_file(tree: ConfinedFolder, name: str, text: str) -> bool:
    folder = os.path.dirname(name)  # noqa: PTH120 (a name relative to the project, not a path)
    if folder:
        tree.make_folder(folder)
    try:
        descriptor = tree.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, follow=False)
    except (FileExistsError, IsADirectoryError):
        return False
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError:
        with suppress(OSError):
            tree.remove(name)
        raise
    return True
