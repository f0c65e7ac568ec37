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


def project_here() -> Path:
    """The folder of the project: the one that encloses the current folder and is this user's, or the current folder."""
    here = Path.cwd()
    project = enclosing_project(here)
    return here if project is None or is_of_others(project) else project


def project_of_others() -> Path | None:
    """A project that encloses the current folder and is not taken, since it is somebody else's."""
    here = Path.cwd()
    project = enclosing_project(here)
    return project if project not in (None, here) and is_of_others(project) else None


def is_of_others(project: Path) -> bool:
    """Whether somebody else may have put this project above a folder of ours, as anybody can in `/tmp`."""
    return any(_is_of_others(project / part) for part in PARTS)


def _is_of_others(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:  # there is none, or nobody can read it
        return False
    if status.st_uid == os.geteuid():
        return False
    return status.st_uid != 0 or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def from_here(path: Path) -> Path:
    """A path as it is typed in the current folder."""
    return Path(os.path.relpath(path))


def in_project(typed: str) -> str:
    """A path that was typed in the current folder, as it is written from the project on."""
    path, below = Path(typed), list(Path.cwd().relative_to(project_here()).parts)
    if path.is_absolute() or not below or not typed:
        return typed
    parts = list(path.parts)
    while parts and below and parts[0] == "..":  # the folders from the project down are no links
        del parts[0], below[-1]
    return os.path.join(*below, *parts) if below or parts else "."  # noqa: PTH118 (`..` stays as it was typed)
