"""Reads an author's file as a source, and reports why a file cannot be read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.source import MAX_BYTES, Source, normalize_newlines

_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0)
_BY_FOLDER = os.open in os.supports_dir_fd and bool(_UNFOLLOWED)


class PathEscapes(OSError):
    """A link leads out of the allowed folder."""


class NotAFile(OSError):
    """The path is a folder, a device or a pipe."""


def is_outside(path: Path, boundary: Path | None) -> bool:
    """Whether a path, with links resolved, is outside the folder `boundary`."""
    return boundary is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(boundary))


def open_file(path: Path, boundary: Path | None = None) -> BinaryIO:
    """Open a regular file without blocking on a pipe.

    With `boundary`, links are resolved within that folder, and a link created in the meantime is not followed.
    Raises PathEscapes, NotAFile, or another OSError.
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
    """Open the file at the parts of a path below a folder, without following links; return its descriptor."""
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


_SAVE: Final = "save the file as UTF-8"


def read_source(
    path: Path, label: str, problems: Problems, max_bytes: int = MAX_BYTES, boundary: Path | None = None
) -> Source | None:
    """Read a UTF-8 file of at most `max_bytes` bytes; on failure, report a problem and return None.

    With `boundary`, a link that leads out of that folder is a failure.
    """
    try:
        with open_file(path, boundary) as file:
            size = min(os.fstat(file.fileno()).st_size, max_bytes) + 1
            content = file.read(size)  # a buffer of the exact size takes half the time
            if len(content) == size:  # the file has grown
                content += file.read(max_bytes + 1 - size)
    except PathEscapes:
        problems.add(outside_problem(label))
        return None
    except NotAFile:
        problems.add(Problem(label, 1, 1, "unreadable", "this is not a file"))
        return None
    except OSError as error:
        problems.add(Problem(label, 1, 1, "unreadable", f"the file cannot be read: {error.strerror or error}"))
        return None
    return decode_source(content, path, label, problems, max_bytes)


def decode_source(
    content: bytes, path: Path, label: str, problems: Problems, max_bytes: int = MAX_BYTES
) -> Source | None:
    """Decode the content of a file. A larger file is passed with `max_bytes` + 1 bytes."""
    if len(content) > max_bytes:
        message = f"the file is larger than {max_bytes:,} bytes"
        problems.add(Problem(label, 1, 1, "too-large", message, "split it into several files"))
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        preceding_text = normalize_newlines(content[: error.start].decode("utf-8"))
        line, column = preceding_text.count("\n") + 1, len(preceding_text) - preceding_text.rfind("\n")
        message = f"the byte 0x{content[error.start]:02x} is not valid UTF-8"
        problems.add(Problem(label, line, column, "encoding", message, _SAVE))
        return None
    if text.count("\0", 0, 1000) > 0 and text.count("\0") * 3 > len(text):
        problems.add(Problem(label, 1, 1, "encoding", "every other byte is 0, as in UTF-16", _SAVE))
        return None
    return Source(path, label, normalize_newlines(text))


def outside_problem(label: str) -> Problem:
    """The problem of a project file or folder that is a link out of the project."""
    hint = "move the link's target into the project; links are allowed in your config folder"
    return Problem(label, 1, 1, "outside", "this leads out of the project", hint)
