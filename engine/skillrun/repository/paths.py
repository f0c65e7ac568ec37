"""The error for refused paths, the checks of run names and file names, and the check of a file's owner."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from contextlib import suppress
from pathlib import Path
from posixpath import normpath

from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.schemas import quote_value
from skillrun.types.slugs import is_slug


class PathRefused(SkillrunError):
    """A path leads outside its folder, or is invalid."""

    @classmethod
    def outside(cls, name: str, reason: str) -> PathRefused:
        """Return the error for a path that leads out of its folder."""
        return cls(f"{quote_value(name)} leads out of its folder", reason)


def resolve_parts(name: str) -> list[str]:
    """Return the parts of a relative path without `.`, `..` and empty parts. Raises PathRefused if it leads out of its
    folder."""
    parts: list[str] = []
    for part in name.split("/"):
        if part == ".." and not parts:
            raise PathRefused.outside(name, "It goes up with `..`.")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


def fold_name(name: str) -> str:
    """Return a form of a name that is equal for all names that some file system does not distinguish.

    File systems ignore case, the Unicode normal form, invisible characters, or dots and spaces at the end.
    """
    visible = "".join(sign for sign in name if unicodedata.category(sign) not in ("Cc", "Cf"))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", visible).casefold()).rstrip(". ")


def fold_path(path: str) -> str:
    """Return a form of a path that is equal for all paths that some file system does not distinguish."""
    return "/".join(map(fold_name, normpath(path).split("/")))


_GIT_SHORT_NAME = re.compile(r"git~[0-9]+")  # the name of `.git` for programs that need eight letters and an ending


def is_reserved_by_git(name: str) -> bool:
    """Whether some file system takes a file name, or a part of it, for `.git`.

    `\\` can separate the parts of a path, and `:` can begin the name of a stream of the file.
    """
    parts = [fold_name(part.partition(":")[0]) for part in name.split("\\")]
    return any(part == ".git" or _GIT_SHORT_NAME.fullmatch(part) for part in parts)


def require_slug(name: str) -> str:
    """Return the name unchanged. Raises UsageError unless it is a slug."""
    if is_slug(name):
        return name
    raise UsageError(
        f"{quote_value(name)} is not a valid name",
        "Use at most 64 lower-case letters, digits and `-`, and do not start with `-`: `my-feature`.",
    )


def is_user_owned(status: os.stat_result, folder: Path | int) -> bool:
    """Whether a file belongs to this user or root. The file is in `folder`, or is `folder` itself.

    Some file systems choose the owner of files themselves (NFS with `all_squash`, SMB, 9p). There, the user who owns a
    newly created file counts as this user. Never raises: if no file can be created, the result is False.
    """
    if status.st_uid in (os.geteuid(), 0):  # root can read and write everything anyway
        return True
    with suppress(OSError):
        return status.st_uid == _new_file_owner(folder)
    return False


def _new_file_owner(folder: Path | int) -> int:
    """Return the user id of the owner of a new file, which is created in the folder and removed. Raises OSError."""
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
