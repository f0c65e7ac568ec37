"""How a file of a project is opened: a regular file, within one folder, whatever links and pipes stand in the way.

Owns no path and no text. Imports nothing that the start of the command line would feel.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0)
_BY_FOLDER = os.open in os.supports_dir_fd and bool(_UNFOLLOWED)


class PathEscapes(OSError):
    """A link in a folder leads out of it."""


class NotAFile(OSError):
    """A folder, a device, a pipe: nothing that is read."""


def is_outside(path: Path, boundary: Path | None) -> bool:
    """Whether a path, its links followed, is outside the folder `inside`."""
    return boundary is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(boundary))


def open_file(path: Path, boundary: Path | None = None) -> BinaryIO:
    """A regular file, opened so that no pipe makes anybody wait.

    With `inside`, from that folder down and by what its links lead to, so that no link that is put in the way meanwhile
    is followed. Raises PathEscapes, NotAFile, or another OSError.
    """
    descriptor = os.open(path, _FILE) if boundary is None else _open_confined_file(path, boundary)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotAFile(f"{path} is not a file")


def _open_confined_file(path: Path, boundary: Path) -> int:
    above, below = os.fspath(boundary) + os.sep, os.fspath(path)
    parts = below[len(above) :].split(os.sep) if below.startswith(above) else []  # noqa: PTH206 (twice as fast)
    if _BY_FOLDER and parts and ".." not in parts:
        try:
            return _walk(above, parts)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise
    base, target = Path(os.path.realpath(boundary)), Path(os.path.realpath(path))
    if not target.is_relative_to(base):
        raise PathEscapes(f"{path} leads out of {boundary}")
    if target == base:
        raise NotAFile(f"{path} is not a file")
    return _walk(base, target.relative_to(base).parts) if _BY_FOLDER else os.open(target, _FILE)


def _walk(base: str | Path, parts: Sequence[str]) -> int:
    """A descriptor of what the parts name below a folder; no link among them is followed."""
    *folders, name = parts
    above = os.open(base, _FOLDER)
    try:
        for part in folders:
            below = os.open(part, _FOLDER | _UNFOLLOWED, dir_fd=above)
            os.close(above)
            above = below
        return os.open(name, _FILE | _UNFOLLOWED, dir_fd=above)
    finally:
        os.close(above)
