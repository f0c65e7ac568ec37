"""Reads an author's file as a source, and reports why a file cannot be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.opening import NotAFile, PathEscapes, open_file
from skillrun.syntax.source import MAX_BYTES, Source, normalize_newlines

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
