"""Errors of a run's files, and the pause of a run."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from skillrun.store.next_step import NO_NEXT_STEP, NextStep
from skillrun.syntax.diagnostics import SkillrunError

ROOM: Final = "make room on the disk"
OS_ERROR_HINTS: Final[Mapping[int, str]] = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EACCES: "see who may write there",
    errno.EPERM: "see who may write there",
    errno.EROFS: "have the disk writable again",
    errno.EIO: "see what is wrong with the disk",
    errno.EISDIR: "move the folder that stands in its place away",
    errno.ENOTDIR: "move the file that stands in the place of its folder away",
}


class WaitingForUser(Exception):
    """A person has to do something before this phase can go on."""

    def __init__(self, reason: str, next_step: NextStep = NO_NEXT_STEP, pause_type: str = "interactive") -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step
        self.pause_type = pause_type
        """`exit` where the person has something to do outside of the run, such as filling in a file."""


def file_error(error: OSError) -> SkillrunError:
    """What is said of a file of the run that the system refuses, and what to do about it."""
    place = f"{error.filename} cannot be read or written: " if error.filename else ""
    way = OS_ERROR_HINTS.get(error.errno or 0, "look at its permissions and at the room on the disk")
    return SkillrunError(f"{place}{error.strerror or error}", way)
