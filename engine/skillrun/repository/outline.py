"""The tool Outline. It lists the definitions or headings of a file, or of all files in a folder, with line numbers. It
shows as much detail as fits, and the most for code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from skillrun.repository.definitions import (
    MARKDOWN,
    MAX_DEFINITIONS,
    MAX_FILE,
    TEXT_ENDINGS,
    TEXT_SUFFIXES,
    Definition,
    DefinitionFinder,
    NoOutline,
    ending_of,
    find_headings,
    open_finder,
)
from skillrun.repository.matching import parse_glob
from skillrun.repository.readable_folder import MAX_FILES, SECONDS, ReadableFolder, one_line, split_path
from skillrun.repository.results import (
    TEXTS,
    OutputBudget,
    ToolError,
    count_lines,
    count_noun,
    encoding_notes,
    format_result,
    rank_file,
    read_listed_text,
    read_text,
    split_lines,
)
from skillrun.types.schemas import quote_value

MAX_PARSED_FILES: Final = 400  # if a folder has more files, they are only counted by folder
DEEPEST: Final = 6  # levels of nested folders that are counted separately
MAX_MEMBER_DEPTH: Final = 5  # levels of nested definitions that are listed
FILES_PER_LINE: Final = 10
SUMMARY_RESERVE: Final = 300  # characters reserved for the note about omissions
ALL, TOP_LEVEL, MEMBERS, TOP_LEVEL_NAMES, LINE_COUNTS = range(5)
_DETAIL_LEVELS: Final = (  # each row: detail of code, tests and other files; the first row that fits is used
    (ALL, ALL, TOP_LEVEL),
    (ALL, TOP_LEVEL_NAMES, LINE_COUNTS),
    (ALL, LINE_COUNTS, LINE_COUNTS),
    (MEMBERS, TOP_LEVEL_NAMES, LINE_COUNTS),
    (MEMBERS, LINE_COUNTS, LINE_COUNTS),
    (TOP_LEVEL_NAMES, LINE_COUNTS, LINE_COUNTS),
    (LINE_COUNTS, LINE_COUNTS, LINE_COUNTS),
)
_DETAIL_REMARKS: Final = {
    TOP_LEVEL: "top level only",
    MEMBERS: "names and line numbers only",
    TOP_LEVEL_NAMES: "top-level names and line numbers only",
    LINE_COUNTS: "line counts only",
}
_KINDS: Final = ("code", "tests", "other texts")


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
    def category(self) -> int:
        """CODE, TESTS or TEXTS."""
        return min(rank_file(self.name), TEXTS)

    @property
    def top_level(self) -> list[Definition]:
        return [definition for definition in self.definitions if not definition.depth]


def build_outline(finder: DefinitionFinder, name: str, content: bytes) -> FileOutline:
    """Build the outline of one file. Raises TimeoutError."""
    count, ending = count_lines(content), ending_of(name)
    if len(content) > MAX_FILE:
        return FileOutline(name, count, (), f"it is larger than {MAX_FILE:,} bytes", has_failed=True)
    if ending in TEXT_ENDINGS:
        definitions = find_headings(split_lines(content), is_markdown=ending in MARKDOWN)
        return FileOutline(name, count, tuple(definitions), "it has no headings")
    if not finder.supports(name, content):
        kind = quote_value(f".{ending}") if ending else "files without an extension"
        supported = ", ".join([*finder.suffixes, *TEXT_SUFFIXES])
        return FileOutline(name, count, (), f"outlines are not supported for {kind}, only for {supported}")
    try:
        return FileOutline(name, count, tuple(finder.definitions(name, content)), "it has no definitions")
    except NoOutline as error:
        return FileOutline(name, count, (), str(error), has_failed=True)


def render_outline_below(name: str, content: bytes, line: int, deadline: float, budget: OutputBudget) -> list[str]:
    """Return the definitions from `line` on, or only those at the top level if not all fit. If the outline fails,
    return a note with the reason."""
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


def format_definition(definition: Definition, text: str = "") -> str:
    """Return one line: the definition's line numbers, then `text` or, if it is empty, the definition's header."""
    last = f"-{definition.last}" if definition.last > definition.first else ""
    return f"{'  ' * definition.depth}{definition.first}{last} {text or definition.header}"


def _format_short(definition: Definition) -> str:
    return format_definition(definition, definition.name)


def enclosing_definitions(definitions: Sequence[Definition], line: int) -> str:
    """Return the line numbers of the innermost definition that contains `line`, and the names of all definitions that
    contain it, outermost first. Empty if no definition contains it."""
    enclosing = [definition for definition in definitions if definition.first <= line <= definition.last]
    names = " > ".join(definition.name for definition in enclosing)
    return f"{enclosing[-1].first}-{enclosing[-1].last} {names}" if enclosing else ""


def outline(folder: ReadableFolder, budget: OutputBudget, path: str = ".", glob: str | None = None) -> str:
    """Return the outline of a file or folder. Raises ToolError and the errors of `open_path`."""
    with folder.open_path(path) as opened:
        start, is_folder = opened.name, opened.is_folder
    with open_finder(folder.deadline) as finder:
        if not is_folder:
            content = read_text(folder, path)
            lines = _render_whole_file(build_outline(finder, start, content), path, budget)
            return "\n".join([lines, *encoding_notes(content)])
        rules, check = parse_glob(glob) if glob else None, folder.check_deadline
        found = folder.files(start)
        names = [name for name in found if rules is None or rules.matches(split_path(name), False, check)]
        if len(names) > MAX_PARSED_FILES:
            return _count_by_folder(names, len(split_path(start)), budget)
        return _outline_files(folder, budget, finder, sorted(names, key=rank_file))


def _render_whole_file(file: FileOutline, path: str, budget: OutputBudget) -> str:
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


def _outline_files(folder: ReadableFolder, budget: OutputBudget, finder: DefinitionFinder, names: Sequence[str]) -> str:
    files: list[FileOutline] = []
    remark = ""
    try:
        for name in names:
            content, reason = read_listed_text(folder, name)
            if content is not None:
                files.append(build_outline(finder, name, content))
            elif reason:
                files.append(FileOutline(name, 0, (), reason, has_failed=True))
    except TimeoutError:
        remark = f"(stopped after {SECONDS:g} seconds, {len(files)} of {len(names)} files; use a narrower path)"
    budget = budget.minus(SUMMARY_RESERVE)
    lines: list[str] = []
    detail = _DETAIL_LEVELS[-1]
    for detail in _DETAIL_LEVELS:
        lines = _render_files(files, detail)
        if budget.fits(lines):
            break
    omitted = sorted({file.category for file in files if file.definitions and detail[file.category] != ALL})
    if omitted:
        note = "; ".join(f"{_KINDS[kind]}: {_DETAIL_REMARKS[detail[kind]]}" for kind in omitted)
        note = f"({note}; Outline of a file or a narrower folder shows more)"
        remark = f"{note}\n{remark}" if remark else note
    return format_result(lines, budget, remark, "(no files)")


def _render_files(files: Sequence[FileOutline], detail: tuple[int, int, int]) -> list[str]:
    """Return the outlines of the files as lines. Files that show only a line count are grouped by folder."""

    def group_key(file: FileOutline) -> str | None:
        is_detailed = detail[file.category] != LINE_COUNTS and file.definitions
        return None if is_detailed or file.has_failed else one_line(file.name.rpartition("/")[0])

    lines: list[str] = []
    for place, group in groupby(files, key=group_key):
        some = list(group)
        if place is None:
            lines += [line for file in some for line in _render_file(file, detail[file.category])]
            continue
        entries = [f"{one_line(file.name.rpartition('/')[2])} {file.lines}" for file in some]
        parts = [", ".join(entries[at : at + FILES_PER_LINE]) for at in range(0, len(entries), FILES_PER_LINE)]
        lines += [f"{place or '.'}/: {part}" for part in parts]
    return lines


def _render_file(file: FileOutline, detail: int) -> list[str]:
    if file.has_failed:
        return [f"{file.title if file.lines else one_line(file.name)}: no outline, {file.reason}"]
    if detail in (MEMBERS, TOP_LEVEL_NAMES):
        return [f"{file.title}: {_format_names(file, MAX_MEMBER_DEPTH if detail == MEMBERS else 0)}"]
    definitions = file.definitions if detail == ALL else file.top_level
    return [file.title, *(f"  {format_definition(definition)}" for definition in definitions)]


def _count_by_folder(names: Sequence[str], depth: int, budget: OutputBudget) -> str:
    """Return the number of files in each folder, for as many levels of folders as fit."""
    many = f"{len(names):,}{' or more' if len(names) >= MAX_FILES else ''} files are too many to outline at once"
    lines: list[str] = []
    for deep in range(1, DEEPEST):
        counts = Counter(split_path(name)[:-1][: depth + deep] for name in names)
        deeper = [f"({many}; by folder:)"]
        deeper += [
            f"{one_line('/'.join(place) or '.')}/  {count_noun(count, 'file')}"
            for place, count in sorted(counts.items())
        ]
        if lines and not budget.fits(deeper):
            break
        lines = deeper
    return format_result(lines, budget, "", "")


def _format_names(file: FileOutline, deepest: int) -> str:
    """Return the names of definitions and the lines on which they start. Nested definitions are in parentheses."""
    text = ""
    depth = 0
    for definition in file.definitions:
        if definition.depth <= deepest:
            closing = ")" * (depth - definition.depth)
            between = " (" if definition.depth > depth else f"{closing}, " if text else ""
            text += f"{between}{definition.name} {definition.first}"
            depth = definition.depth
    return text + ")" * depth
