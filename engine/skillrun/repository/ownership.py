"""Whose a file is: this user's, root's, or somebody else's. Some file systems give all files to one user of theirs."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def is_user_owned(status: os.stat_result, folder: Path | int) -> bool:
    """Whether what is in this folder, or the folder itself, is this user's or root's.

    On file systems that set the owner themselves (NFS with `all_squash`, SMB, 9p) it is who a new file belongs to.
    Raises nothing: where no file can be made, nothing is this user's.
    """
    if status.st_uid in (os.geteuid(), 0):  # root reads and writes everything anyway
        return True
    with suppress(OSError):
        return status.st_uid == _new_file_owner(folder)
    return False


def _new_file_owner(folder: Path | int) -> int:
    """The number of the user to whom a new file in the folder belongs; makes one and removes it. Raises OSError."""
    parent = folder if isinstance(folder, int) else os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = f".{secrets.token_hex(8)}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=parent)
        try:
            return os.fstat(descriptor).st_uid
        finally:
            os.close(descriptor)
            os.unlink(name, dir_fd=parent)
    finally:
        if parent is not folder:
            os.close(parent)
