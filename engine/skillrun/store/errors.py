"""The error for a file of a run that cannot be accessed, and the exception that pauses a run."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from skillrun.store.next_step import NO_NEXT_STEP, NextStep
from skillrun.syntax.diagnostics import SkillrunError

ROOM: Final = "free disk space"
OS_ERROR_HINTS: Final[Mapping[int, str]] = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EACCES: "check the permissions",
    errno.EPERM: "check the permissions",
    errno.EROFS: "make the disk writable",
    errno.EIO: "check the disk for errors",
    errno.EISDIR: "move the folder with this name away",
    errno.ENOTDIR: "move away the file that has the name of its folder",
}


class WaitingForUser(Exception):
    """The user has to act before this phase can continue."""

    def __init__(self, reason: str, next_step: NextStep = NO_NEXT_STEP, pause_type: str = "interactive") -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step
        self.pause_type = pause_type
        """`exit` if the user has to act outside of the run, for example to fill in a file."""


def file_error(error: OSError) -> SkillrunError:
    """Return the error for a file of the run that cannot be accessed, with a hint."""
    place = f"{error.filename} cannot be read or written: " if error.filename else ""
    way = OS_ERROR_HINTS.get(error.errno or 0, "check its permissions and the free disk space")
    return SkillrunError(f"{place}{error.strerror or error}", way)
