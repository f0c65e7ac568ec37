"""The outline of a file: what is defined in it, or its headings, with their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillrun.repository.definitions import (
    MAX_DEFINITIONS,
    MAX_FILE,
    Definition,
    DefinitionFinder,
    NoOutline,
    open_finder,
)
from skillrun.repository.headings import MARKDOWN, TEXT_SUFFIXES, TEXTS, ending_of, headings
from skillrun.repository.readable_folder import Readable, one_line
from skillrun.repository.results import Failed, Room, as_answer, count_of, counted, lines_of, text_content
from skillrun.types.schemas import quoted


@dataclass(frozen=True)
class Outlined:
    """A file: how many lines it has, what is defined in it, and why nothing is or could be found.

    `failed`: its kind has outlines, and this file could not be read as one of it.
    """

    name: str
    lines: int
    definitions: tuple[Definition, ...] = ()
    reason: str = ""
    failed: bool = False

    @property
    def title(self) -> str:
        first = f", the first {MAX_DEFINITIONS:,} definitions" if len(self.definitions) >= MAX_DEFINITIONS else ""
        return f"{one_line(self.name)} ({counted(self.lines, 'line')}{first})"

    @property
    def outer(self) -> list[Definition]:
        return [definition for definition in self.definitions if not definition.depth]


def outlined(finder: DefinitionFinder, name: str, content: bytes) -> Outlined:
    """The outline of one file. Raises TimeoutError."""
    count, ending = count_of(content), ending_of(name)
    if len(content) > MAX_FILE:
        return Outlined(name, count, (), f"it is larger than {MAX_FILE:,} bytes", failed=True)
    if ending in TEXTS:
        definitions = headings(lines_of(content), marked=ending in MARKDOWN)
        return Outlined(name, count, tuple(definitions), "it has no headings")
    if not finder.supports(name, content):
        kind = quoted(f".{ending}") if ending else "files without an ending"
        return Outlined(
            name, count, (), f"there is none for {kind}, only for {', '.join([*finder.suffixes, *TEXT_SUFFIXES])}"
        )
    try:
        return Outlined(name, count, tuple(finder.definitions(name, content)), "nothing is defined in it")
    except NoOutline as error:
        return Outlined(name, count, (), str(error), failed=True)


def outline_of_file(folder: Readable, room: Room, finder: DefinitionFinder, path: str, name: str) -> str:
    """The outline of the file at a path, whose real name is known. Raises Failed, and what opening it raises."""
    file = outlined(finder, name, text_content(folder, path))
    if not file.definitions:
        has = f"{quoted(path)} has {counted(file.lines, 'line')} and no outline"
        raise Failed(f"{has}: {file.reason}; use Read or Grep")
    for lines, less in (
        (list(map(in_full, file.definitions)), ""),
        ([_short(definition) for definition in file.definitions], "(names alone; Read shows a range of lines)"),
        (list(map(in_full, file.outer)), "(only what stands outermost; Read shows a range of lines)"),
    ):
        if room.less(len(less)).holds([file.title, *lines]):
            break
    return as_answer([file.title, *lines], room.less(len(less)), less, "")


def outline_below(name: str, content: bytes, line: int, until: float, room: Room) -> list[str]:
    """What is defined in a file from a line on: all of it, or what stands outermost; why that is not known."""
    try:
        with open_finder(until) as finder:
            file = outlined(finder, name, content)
    except TimeoutError:
        return ["(no outline: there was no time for it)"]
    if file.failed:
        return [f"(no outline: {file.reason})"]
    later = [definition for definition in file.definitions if definition.last >= line]
    lines = [_short(definition) for definition in later]
    if room.holds(lines):
        return lines
    return room.fitting([_short(definition) for definition in later if not definition.depth])


def in_full(definition: Definition) -> str:
    return f"{_lines(definition)} {definition.header}"


def _short(definition: Definition) -> str:
    return f"{_lines(definition)} {definition.name}"


def _lines(definition: Definition) -> str:
    last = f"-{definition.last}" if definition.last > definition.first else ""
    return f"{'  ' * definition.depth}{definition.first}{last}"


def place_of(definitions: Sequence[Definition], line: int) -> str:
    """The definitions around a line, outermost first, with the lines of the innermost; nothing outside of all."""
    around = [definition for definition in definitions if definition.first <= line <= definition.last]
    names = " > ".join(definition.name for definition in around)
    return f"{around[-1].first}-{around[-1].last} {names}" if around else ""
