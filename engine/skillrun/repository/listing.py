"""List and Glob: the names of what is in one folder, with sizes, and of the files that a pattern stands for.

The size of a text is its lines, for that is what reading costs; that of a folder is the files in it that may be read.
"""

from __future__ import annotations

from skillrun.repository.globs import glob_rules
from skillrun.repository.readable_folder import MOST_FILES, SECONDS, Readable, one_line, parts_of
from skillrun.repository.results import MAX_FILE, Failed, Room, as_answer, count_of, counted, is_binary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quoted


def glob(folder: Readable, room: Room, pattern: str) -> str:
    """The names of the files that the pattern stands for. Raises Failed."""
    rules = glob_rules(pattern)
    names: list[str] = []
    ended = ""
    try:
        names += (one_line(name) for name in folder.files() if rules.covers(parts_of(name), False, folder.check))
    except TimeoutError:
        ended = f"(stopped after {SECONDS:g} seconds; there may be more)"
    return as_answer(names, room, ended, "(no files)")


def list_folder(folder: Readable, room: Room, path: str = ".") -> str:
    """What is in a folder. Raises Failed, and what opening it raises."""
    with folder.opened(path) as opened:
        if not opened.is_folder:
            raise Failed(f"{quoted(path)} is a file; use Read")
        start = opened.name
    names = list(folder.names(start))
    plain = [f"{one_line(name)}{'/' if is_folder else ''}" for name, is_folder in names]
    sizes: dict[str, str] = {}
    ended = ""
    try:
        below, enough = _files_below(folder, start)
        if enough:
            ended = f"(of the files in folders the first {MOST_FILES:,} are counted)"
        for name, is_folder in names[: len(room.fitting(plain))]:
            count = below.get(name, 0)
            size = (counted(count, "file") if count else "") if is_folder else _size(folder, _path(start, name))
            sizes[f"{one_line(name)}{'/' if is_folder else ''}"] = size
    except TimeoutError:
        ended = f"(stopped after {SECONDS:g} seconds: sizes that are missing are not known)"
    return as_answer(
        [f"{name}  {sizes.get(name, '')}".rstrip() for name in plain], room, ended, "(the folder is empty)"
    )


def _files_below(folder: Readable, start: str) -> tuple[dict[str, int], bool]:
    """How many files each folder in a folder has below it that may be read, and whether there may be more of them."""
    counts: dict[str, int] = {}
    depth, total = len(parts_of(start)), 0
    for name in folder.files(start, runs=True):
        total += 1
        parts = parts_of(name)
        if len(parts) > depth + 1:
            counts[parts[depth]] = counts.get(parts[depth], 0) + 1
    return counts, total >= MOST_FILES


def _size(folder: Readable, name: str) -> str:
    """The lines of a text, the bytes of what is none or very long; nothing where it cannot be read."""
    folder.check()
    try:
        with folder.opened(name) as opened, open(opened.descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE + 1)
            if len(content) > MAX_FILE or is_binary(content):
                return f"{file.seek(0, 2):,} bytes"
    except TimeoutError:
        raise
    except (OSError, SkillrunError):
        return ""
    return counted(count_of(content), "line")


def _path(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"
