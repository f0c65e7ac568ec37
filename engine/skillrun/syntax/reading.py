"""Reading an author's file: its bytes as a source, and what is wrong where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.opening import NotAFile, PathEscapes, open_file
from skillrun.syntax.source import MAX_BYTES, Source, normalize_newlines

_SAVE: Final = "save the file with the encoding UTF-8"


def read_source(
    path: Path, label: str, problems: Problems, max_bytes: int = MAX_BYTES, boundary: Path | None = None
) -> Source | None:
    """Read a UTF-8 file of at most so many bytes; whatever is in the way is a problem, and then there is no source.

    With `inside`, a link that leads out of that folder is in the way.
    """
    try:
        with open_file(path, boundary) as file:
            size = min(os.fstat(file.fileno()).st_size, max_bytes) + 1
            content = file.read(size)  # with a room that is no larger than it has to be, which takes half the time
            if len(content) == size:  # it has grown
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
    """The source of a file that has been read: at most `most` bytes of it, and one more where it is larger."""
    if len(content) > max_bytes:
        message = f"the file is larger than {max_bytes:,} bytes"
        problems.add(Problem(label, 1, 1, "too-large", message, "split it into several files"))
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        preceding_text = normalize_newlines(content[: error.start].decode("utf-8"))
        line, column = preceding_text.count("\n") + 1, len(preceding_text) - preceding_text.rfind("\n")
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        problems.add(Problem(label, line, column, "encoding", message, _SAVE))
        return None
    if text.count("\0", 0, 1000) > 0 and text.count("\0") * 3 > len(text):
        problems.add(Problem(label, 1, 1, "encoding", "every other byte is 0, as in UTF-16", _SAVE))
        return None
    return Source(path, label, normalize_newlines(text))


def outside_problem(label: str) -> Problem:
    """What is wrong with a file or folder of the project that is a link to somewhere else."""
    hint = "put what it leads to into the project; your own config folder may have links"
    return Problem(label, 1, 1, "outside", "this leads out of the project", hint)
