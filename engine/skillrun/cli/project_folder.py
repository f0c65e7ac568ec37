"""Where a command was typed: the project that it is for, and what the paths mean that were typed there.

Reads no file; what a project's files say is for the library. Imports nothing that the start of the command line would
feel.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from skillrun.library.roots import enclosing_project

PARTS: Final = (".", "workflows", "skills", "roles", "config")


def current_project() -> Path:
    """The folder of the project: the one that encloses the current folder and is this user's, or the current folder."""
    folder = Path.cwd()
    project = enclosing_project(folder)
    return folder if project is None or is_foreign(project) else project


def foreign_project() -> Path | None:
    """A project that encloses the current folder and is not taken, since it is somebody else's."""
    folder = Path.cwd()
    project = enclosing_project(folder)
    return project if project not in (None, folder) and is_foreign(project) else None


def is_foreign(project: Path) -> bool:
    """Whether somebody else may have put this project above a folder of ours, as anybody can in `/tmp`."""
    return any(_is_foreign_folder(project / part) for part in PARTS)


def _is_foreign_folder(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:  # there is none, or nobody can read it
        return False
    if status.st_uid == os.geteuid():
        return False
    return status.st_uid != 0 or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def relative_to_cwd(path: Path) -> Path:
    """A path as it is typed in the current folder."""
    return Path(os.path.relpath(path))


def relative_to_project(text: str) -> str:
    """A path that was typed in the current folder, as it is written from the project on."""
    path, folders = Path(text), list(Path.cwd().relative_to(current_project()).parts)
    if path.is_absolute() or not folders or not text:
        return text
    parts = list(path.parts)
    while parts and folders and parts[0] == "..":  # the folders from the project down are no links
        del parts[0], folders[-1]
    return os.path.join(*folders, *parts) if folders or parts else "."  # noqa: PTH118 (`..` stays as it was typed)
