"""Outline: of a file, or of the files of a folder in as much detail as there is room for, code in most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from skillrun.repository.definitions import DefinitionFinder, open_finder
from skillrun.repository.file_ranking import TEXTS, worth
from skillrun.repository.globs import chosen
from skillrun.repository.outline import Outlined, in_full, outline_of_file, outlined
from skillrun.repository.readable_folder import MOST_FILES, SECONDS, Readable, one_line, parts_of
from skillrun.repository.results import Binary, Failed, Room, as_answer, counted, text_content
from skillrun.syntax.diagnostics import SkillrunError

MOST_PARSED: Final = 400  # files of a folder; of one with more, folders are counted
DEEPEST: Final = 6  # folders in folders that are told apart then
MOST_DEEP: Final = 5  # definitions in definitions that are named
IN_LINE: Final = 10  # files that are named in a line
TAIL: Final = 300  # characters of the room for what is said of what is not shown

ALL, OUTER, MEMBERS, BARE, LINES = range(5)
_DETAIL: Final = (  # of code, of tests, of all the rest; the first that fits is taken
    (ALL, ALL, OUTER),
    (ALL, BARE, LINES),
    (ALL, LINES, LINES),
    (MEMBERS, BARE, LINES),
    (MEMBERS, LINES, LINES),
    (BARE, LINES, LINES),
    (LINES, LINES, LINES),
)
_LESS: Final = {
    OUTER: "only what stands outermost",
    MEMBERS: "names and first lines",
    BARE: "names and first lines of what stands outermost",
    LINES: "only numbers of lines",
}
_KINDS: Final = ("code", "tests", "other texts")


def outline(folder: Readable, room: Room, path: str = ".", glob: str | None = None) -> str:
    """The outline of a file or a folder. Raises Failed, and what opening it raises."""
    with folder.opened(path) as opened:
        start, is_folder = opened.name, opened.is_folder
    with open_finder(folder.until) as finder:
        if not is_folder:
            return outline_of_file(folder, room, finder, path, start)
        names = list(chosen(folder, folder.files(start), glob))
        if len(names) > MOST_PARSED:
            return _counted(names, len(parts_of(start)), room)
        return _of_files(folder, room, finder, sorted(names, key=worth))


def _of_files(folder: Readable, room: Room, finder: DefinitionFinder, names: Sequence[str]) -> str:
    files: list[Outlined] = []
    ended = ""
    try:
        files.extend(file for name in names if (file := _of_one(folder, finder, name)) is not None)
    except TimeoutError:
        ended = f"(stopped after {SECONDS:g} seconds, {len(files)} of {len(names)} files; use a narrower path)"
    room = room.less(TAIL)
    lines: list[str] = []
    detail = _DETAIL[-1]
    for detail in _DETAIL:
        lines = _lines(files, detail)
        if room.holds(lines):
            break
    return as_answer(lines, room, "\n".join(filter(None, (_left_out(files, detail), ended))), "(no files)")


def _of_one(folder: Readable, finder: DefinitionFinder, name: str) -> Outlined | None:
    """A file of a folder; None for one that is no text, or cannot be read. Raises TimeoutError."""
    try:
        return outlined(finder, name, text_content(folder, name, judged=True))
    except TimeoutError:
        raise
    except Failed as error:
        return None if isinstance(error, Binary) else Outlined(name, 0, (), str(error), failed=True)
    except (SkillrunError, OSError):
        return None


def _lines(files: Sequence[Outlined], detail: tuple[int, int, int]) -> list[str]:
    """What is shown of the files; those of which there are only numbers of lines stand together by folders."""

    def together(file: Outlined) -> str | None:
        if detail[_kind(file)] != LINES and file.definitions:
            return None
        return None if file.failed else one_line(file.name.rpartition("/")[0])

    lines: list[str] = []
    for place, group in groupby(files, key=together):
        some = list(group)
        if place is None:
            lines += [line for file in some for line in _in_detail(file, detail[_kind(file)])]
            continue
        own = [f"{one_line(file.name.rpartition('/')[2])} {file.lines}" for file in some]
        parts = [", ".join(own[at : at + IN_LINE]) for at in range(0, len(own), IN_LINE)]
        lines += [f"{place or '.'}/: {part}" for part in parts]
    return lines


def _in_detail(file: Outlined, detail: int) -> list[str]:
    if file.failed:
        return [f"{file.title if file.lines else one_line(file.name)}: no outline, {file.reason}"]
    if detail in (MEMBERS, BARE):
        return [f"{file.title}: {_named(file, MOST_DEEP if detail == MEMBERS else 0)}"]
    definitions = file.definitions if detail == ALL else file.outer
    return [file.title, *(f"  {in_full(definition)}" for definition in definitions)]


def _left_out(files: Sequence[Outlined], detail: tuple[int, int, int]) -> str:
    """What is not shown, of which kinds of files."""
    kinds = sorted({_kind(file) for file in files if file.definitions and detail[_kind(file)] != ALL})
    remarks = "; ".join(f"{_KINDS[kind]}: {_LESS[detail[kind]]}" for kind in kinds)
    return f"({remarks}; Outline of a file or a narrower folder shows more)" if remarks else ""


def _kind(file: Outlined) -> int:
    return min(worth(file.name), TEXTS)


def _counted(names: Sequence[str], depth: int, room: Room) -> str:
    """The folders with the numbers of files below them, as deep as there is room for."""
    many = f"{len(names):,}{' or more' if len(names) >= MOST_FILES else ''} files are more than are outlined at once"
    lines: list[str] = []
    for deep in range(1, DEEPEST):
        counts = Counter(parts_of(name)[:-1][: depth + deep] for name in names)
        deeper = [f"({many}; by folder:)"]
        deeper += [
            f"{one_line('/'.join(place) or '.')}/  {counted(count, 'file')}" for place, count in sorted(counts.items())
        ]
        if lines and not room.holds(deeper):
            break
        lines = deeper
    return as_answer(lines, room, "", "")


def _named(file: Outlined, deepest: int) -> str:
    """The names and first lines of definitions, what one holds in brackets behind it."""
    text = ""
    depth = 0
    for definition in file.definitions:
        if definition.depth <= deepest:
            closing = ")" * (depth - definition.depth)
            between = " (" if definition.depth > depth else f"{closing}, " if text else ""
            text += f"{between}{definition.name} {definition.first}"
            depth = definition.depth
    return text + ")" * depth
