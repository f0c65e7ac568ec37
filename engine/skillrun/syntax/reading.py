"""Reads an author's file into a `Source`, and reports why a file cannot be read."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path, PosixPath
from typing import Final

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.source import MAX_BYTES, Source, normalize_newlines

_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0)
_BY_FOLDER = os.open in os.supports_dir_fd and bool(_UNFOLLOWED)


class PathEscapes(OSError):
    """Raised if a link leads out of the allowed folder."""


class NotAFile(OSError):
    """Raised if a path is a folder, a device or a pipe."""


class PipedFile(PosixPath):
    """A copy of what the user has piped into a command in place of a file. It is removed when the command ends."""


def is_outside(path: Path, boundary: Path | None) -> bool:
    """Whether a path is outside the folder `boundary` after links are resolved. An impossible path is outside."""
    try:
        return boundary is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(boundary))
    except ValueError:  # a NUL character, or half of a surrogate pair
        return True


def open_file(path: Path, boundary: Path | None = None) -> BufferedReader:
    """Open a regular file. A pipe does not block the call.

    If `boundary` is given, the file must be in that folder after links are resolved. A link that is created while the
    file is being opened is not followed. Raises PathEscapes, NotAFile or another OSError.
    """
    try:
        descriptor = os.open(path, _FILE) if boundary is None else _open_confined_file(path, boundary)
    except ValueError:
        raise OSError(errno.EINVAL, "its path contains a NUL character or half of a surrogate pair") from None
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
    """Open the file at a path below the folder `base`, without following links. Return the file's descriptor."""
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
_BYTE_ORDER_MARKS: Final = (  # UTF-32 first, because its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL: Final = bytes({*range(32), 127} - set(b"\a\b\t\n\v\f\r\x1b"))
_SAMPLE: Final = 8192  # bytes
_BINARY_SHARE: Final = 0.02  # of control characters; random bytes have 0.1
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def is_binary(content: bytes) -> bool:
    """Whether the content of a file is not text: it has a null byte at its beginning, or it has control characters and
    is not UTF-8. UTF-16 and UTF-32 with a byte order mark are text."""
    start = content[:_SAMPLE]
    if decode_by_mark(content) is not None:
        return False
    if b"\0" in start:
        return True
    controls = len(start) - len(start.translate(None, _CONTROL))
    return controls > len(start) * _BINARY_SHARE and decode_text(content)[1] > 0


def decode_text(content: bytes) -> tuple[str, int]:
    """Return the text of a file, and how many of its characters cannot be decoded.

    The text is UTF-8, or UTF-16 or UTF-32 with a byte order mark. What cannot be decoded becomes U+FFFD.
    """
    marked = decode_by_mark(content)
    if marked is not None:
        return marked, 0
    text = content.decode("utf-8-sig", "replace")
    return text, text.count(_REPLACEMENT) - content.count(_REPLACEMENT.encode())


def decode_by_mark(content: bytes) -> str | None:
    """Return the text of content with a byte order mark of UTF-16 or UTF-32; None for any other content."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            with suppress(UnicodeDecodeError):
                return content[len(mark) :].decode(encoding)
    return None


def encoding_warning(name: str, count: int) -> str:
    """Return a warning for a file with characters that cannot be decoded."""
    characters = "1 character is" if count == 1 else f"{count:,} characters are"
    return f"{name} is not UTF-8: {characters} shown as {_REPLACEMENT}"


def read_source(
    path: Path, label: str, problems: Problems, max_bytes: int = MAX_BYTES, boundary: Path | None = None
) -> Source | None:
    """Read a UTF-8 file of at most `max_bytes` bytes. If this fails, report a problem and return None.

    If `boundary` is given, reading fails if a link leads out of that folder.
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
    """Decode the content of a file. If this fails, report a problem and return None.

    Content of more than `max_bytes` bytes is reported as too large, so the caller need not read more than one byte
    beyond the limit.
    """
    if len(content) > max_bytes:
        message = f"the file is larger than {max_bytes:,} bytes"
        problems.add(Problem(label, 1, 1, "too-large", message, "split it into several files"))
        return None
    if decode_by_mark(content) is not None:
        message = "the file is UTF-16 or UTF-32"
        problems.add(Problem(label, 1, 1, "encoding", message, _SAVE))
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
        message = "the file looks like UTF-16, because every other byte is 0"
        problems.add(Problem(label, 1, 1, "encoding", message, _SAVE))
        return None
    return Source(path, label, normalize_newlines(text))


def outside_problem(label: str) -> Problem:
    """Return the problem for a link in a project to a file or folder outside the project."""
    hint = "move the link's target into the project; links are allowed in your config folder"
    return Problem(label, 1, 1, "outside", "this link leads out of the project", hint)
