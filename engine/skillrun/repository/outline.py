"""Builds the outline of a file: its definitions or headings, with their lines."""

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
from skillrun.repository.headings import MARKDOWN, TEXT_SUFFIXES, TEXTS, ending_of, find_headings
from skillrun.repository.readable_folder import ReadableFolder, one_line
from skillrun.repository.results import (
    OutputBudget,
    ToolError,
    count_lines,
    count_noun,
    format_result,
    read_text,
    split_lines,
)
from skillrun.types.schemas import quote_value


@dataclass(frozen=True)
class FileOutline:
    """A file's line count and its definitions, or the reason why it has none.

    `has_failed`: outlines are supported for this type of file, but this file could not be parsed.
    """

    name: str
    lines: int
    definitions: tuple[Definition, ...] = ()
    reason: str = ""
    has_failed: bool = False

    @property
    def title(self) -> str:
        first = f", the first {MAX_DEFINITIONS:,} definitions" if len(self.definitions) >= MAX_DEFINITIONS else ""
        return f"{one_line(self.name)} ({count_noun(self.lines, 'line')}{first})"

    @property
    def top_level(self) -> list[Definition]:
        return [definition for definition in self.definitions if not definition.depth]


def build_outline(finder: DefinitionFinder, name: str, content: bytes) -> FileOutline:
    """Build the outline of one file. Raises TimeoutError."""
    count, ending = count_lines(content), ending_of(name)
    if len(content) > MAX_FILE:
        return FileOutline(name, count, (), f"it is larger than {MAX_FILE:,} bytes", has_failed=True)
    if ending in TEXTS:
        definitions = find_headings(split_lines(content), is_markdown=ending in MARKDOWN)
        return FileOutline(name, count, tuple(definitions), "it has no headings")
    if not finder.supports(name, content):
        kind = quote_value(f".{ending}") if ending else "files without an extension"
        return FileOutline(
            name,
            count,
            (),
            f"outlines are not supported for {kind}, only for {', '.join([*finder.suffixes, *TEXT_SUFFIXES])}",
        )
    try:
        return FileOutline(name, count, tuple(finder.definitions(name, content)), "it has no definitions")
    except NoOutline as error:
        return FileOutline(name, count, (), str(error), has_failed=True)


def render_file_outline(
    folder: ReadableFolder, budget: OutputBudget, finder: DefinitionFinder, path: str, name: str
) -> str:
    """Return the outline of the file at `path`, whose real name is `name`. Raises ToolError and the errors of
    `open_path`."""
    file = build_outline(finder, name, read_text(folder, path))
    if not file.definitions:
        has = f"{quote_value(path)} has {count_noun(file.lines, 'line')} and no outline"
        raise ToolError(f"{has}: {file.reason}; use Read or Grep")
    for lines, remark in (
        (list(map(format_definition, file.definitions)), ""),
        ([_format_short(definition) for definition in file.definitions], "(names only; Read shows a range of lines)"),
        (list(map(format_definition, file.top_level)), "(top level only; Read shows a range of lines)"),
    ):
        if budget.minus(len(remark)).fits([file.title, *lines]):
            break
    return format_result([file.title, *lines], budget.minus(len(remark)), remark, "")


def render_outline_below(name: str, content: bytes, line: int, deadline: float, budget: OutputBudget) -> list[str]:
    """Return the definitions from the given line on, or only the top-level ones if not all of them fit. If the outline
    fails, return a note that says why."""
    try:
        with open_finder(deadline) as finder:
            file = build_outline(finder, name, content)
    except TimeoutError:
        return ["(no outline: out of time)"]
    if file.has_failed:
        return [f"(no outline: {file.reason})"]
    later = [definition for definition in file.definitions if definition.last >= line]
    lines = [_format_short(definition) for definition in later]
    if budget.fits(lines):
        return lines
    return budget.take_lines([_format_short(definition) for definition in later if not definition.depth])


def format_definition(definition: Definition) -> str:
    return f"{_format_line_range(definition)} {definition.header}"


def _format_short(definition: Definition) -> str:
    return f"{_format_line_range(definition)} {definition.name}"


def _format_line_range(definition: Definition) -> str:
    last = f"-{definition.last}" if definition.last > definition.first else ""
    return f"{'  ' * definition.depth}{definition.first}{last}"


def enclosing_definitions(definitions: Sequence[Definition], line: int) -> str:
    """Return, outermost first, the definitions that contain a line, with the lines of the innermost. Empty if there are
    none."""
    enclosing = [definition for definition in definitions if definition.first <= line <= definition.last]
    names = " > ".join(definition.name for definition in enclosing)
    return f"{enclosing[-1].first}-{enclosing[-1].last} {names}" if enclosing else ""
