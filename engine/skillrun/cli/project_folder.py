"""Finds the project that contains the current folder, and converts paths between the two folders.

It reads no files, and imports nothing slow.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from skillrun.library.roots import enclosing_project

PARTS: Final = (".", "workflows", "skills", "roles", "config")


def current_project() -> Path:
    """Return the project around the current folder if it belongs to this user, otherwise the current folder."""
    folder = Path.cwd()
    project = enclosing_project(folder)
    return folder if project is None or is_foreign(project) else project


def foreign_project() -> Path | None:
    """Return the project around the current folder if it is ignored because another user owns it."""
    folder = Path.cwd()
    project = enclosing_project(folder)
    return project if project not in (None, folder) and is_foreign(project) else None


def is_foreign(project: Path) -> bool:
    """Whether another user may have created this project above the current folder, as is possible in `/tmp`."""
    return any(_is_foreign_folder(project / part) for part in PARTS)


def _is_foreign_folder(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:  # missing or unreadable
        return False
    if status.st_uid == os.geteuid():
        return False
    return status.st_uid != 0 or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def relative_to_cwd(path: Path) -> Path:
    """Return a path relative to the current folder."""
    return Path(os.path.relpath(path))


def relative_to_project(text: str) -> str:
    """Return a path relative to the project, given a path relative to the current folder."""
    path, folders = Path(text), list(Path.cwd().relative_to(current_project()).parts)
    if path.is_absolute() or not folders or not text:
        return text
    parts = list(path.parts)
    while parts and folders and parts[0] == "..":  # the folders below the project are not links
        del parts[0], folders[-1]
    return os.path.join(*folders, *parts) if folders or parts else "."  # noqa: PTH118 (keeps `..`)
