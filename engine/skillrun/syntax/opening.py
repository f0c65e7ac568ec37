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


class LeadsOut(OSError):
    """A link in a folder leads out of it."""


class NotAFile(OSError):
    """A folder, a device, a pipe: nothing that is read."""


def leads_out(path: Path, inside: Path | None) -> bool:
    """Whether a path, its links followed, is outside the folder `inside`."""
    return inside is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside))


def open_file(path: Path, inside: Path | None = None) -> BinaryIO:
    """A regular file, opened so that no pipe makes anybody wait.

    With `inside`, from that folder down and by what its links lead to, so that no link that is put in the way meanwhile
    is followed. Raises LeadsOut, NotAFile, or another OSError.
    """
    descriptor = os.open(path, _FILE) if inside is None else _open_inside(path, inside)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotAFile(f"{path} is not a file")


def _open_inside(path: Path, inside: Path) -> int:
    above, below = os.fspath(inside) + os.sep, os.fspath(path)
    parts = below[len(above) :].split(os.sep) if below.startswith(above) else []  # noqa: PTH206 (twice as fast)
    if _BY_FOLDER and parts and ".." not in parts:
        try:
            return _walk(above, parts)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise
    base, target = Path(os.path.realpath(inside)), Path(os.path.realpath(path))
    if not target.is_relative_to(base):
        raise LeadsOut(f"{path} leads out of {inside}")
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
