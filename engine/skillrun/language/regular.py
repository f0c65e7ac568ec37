"""Reading a file that somebody else may have put there: regular files only, and never more than was asked for.

Imports nothing that the start of the command line would feel.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

NO_FILE: Final = errno.EISDIR  # what a folder, a device or a pipe is refused with


def read_regular(path: Path, most: int) -> bytes:
    """The first bytes of a file. Raises OSError, for what is no regular file with NO_FILE; it never waits for one."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(NO_FILE, "this is not a file")
        parts = []
        while most > 0 and (part := os.read(handle, most)):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(handle)
