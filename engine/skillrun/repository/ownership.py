"""Checks whether a file belongs to this user or root, including on file systems that set the owner themselves."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def is_user_owned(status: os.stat_result, folder: Path | int) -> bool:
    """Whether a file in this folder, or the folder itself, belongs to this user or root.

    On file systems that set the owner themselves (NFS with `all_squash`, SMB, 9p), the owner of a new file counts as
    this user. Never raises: if no file can be created, the result is False.
    """
    if status.st_uid in (os.geteuid(), 0):  # root can read and write everything anyway
        return True
    with suppress(OSError):
        return status.st_uid == _new_file_owner(folder)
    return False


def _new_file_owner(folder: Path | int) -> int:
    """Return the owner's user id of a new file in the folder; creates and removes one. Raises OSError."""
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
