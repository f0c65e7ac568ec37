"""The tool Outline. It outlines a file, or the files in a folder, in as much detail as fits. Code gets the most
detail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from skillrun.repository.definitions import DefinitionFinder, open_finder
from skillrun.repository.file_ranking import TEXTS, rank_file
from skillrun.repository.matching import filter_names
from skillrun.repository.outline import FileOutline, build_outline, format_definition, render_file_outline
from skillrun.repository.readable_folder import MAX_FILES, SECONDS, ReadableFolder, one_line, split_path
from skillrun.repository.results import BinaryFileError, OutputBudget, ToolError, count_noun, format_result, read_text
from skillrun.syntax.diagnostics import SkillrunError

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


def outline(folder: ReadableFolder, budget: OutputBudget, path: str = ".", glob: str | None = None) -> str:
    """Return the outline of a file or folder. Raises ToolError and the errors of `open_path`."""
    with folder.open_path(path) as opened:
        start, is_folder = opened.name, opened.is_folder
    with open_finder(folder.deadline) as finder:
        if not is_folder:
            return render_file_outline(folder, budget, finder, path, start)
        names = list(filter_names(folder, folder.files(start), glob))
        if len(names) > MAX_PARSED_FILES:
            return _count_by_folder(names, len(split_path(start)), budget)
        return _outline_files(folder, budget, finder, sorted(names, key=rank_file))


def _outline_files(folder: ReadableFolder, budget: OutputBudget, finder: DefinitionFinder, names: Sequence[str]) -> str:
    files: list[FileOutline] = []
    remark = ""
    try:
        files.extend(file for name in names if (file := _outline_file(folder, finder, name)) is not None)
    except TimeoutError:
        remark = f"(stopped after {SECONDS:g} seconds, {len(files)} of {len(names)} files; use a narrower path)"
    budget = budget.minus(SUMMARY_RESERVE)
    lines: list[str] = []
    detail = _DETAIL_LEVELS[-1]
    for detail in _DETAIL_LEVELS:
        lines = _render_files(files, detail)
        if budget.fits(lines):
            break
    return format_result(
        lines, budget, "\n".join(filter(None, (_render_omissions(files, detail), remark))), "(no files)"
    )


def _outline_file(folder: ReadableFolder, finder: DefinitionFinder, name: str) -> FileOutline | None:
    """Return the outline of a file, or None if the file is binary or cannot be read. Raises TimeoutError."""
    try:
        return build_outline(finder, name, read_text(folder, name, is_checked=True))
    except TimeoutError:
        raise
    except ToolError as error:
        return None if isinstance(error, BinaryFileError) else FileOutline(name, 0, (), str(error), has_failed=True)
    except (SkillrunError, OSError):
        return None


def _render_files(files: Sequence[FileOutline], detail: tuple[int, int, int]) -> list[str]:
    """Return the outlines of the files as lines. Files that show only a line count are grouped by folder."""

    def group_key(file: FileOutline) -> str | None:
        if detail[_file_category(file)] != LINE_COUNTS and file.definitions:
            return None
        return None if file.has_failed else one_line(file.name.rpartition("/")[0])

    lines: list[str] = []
    for place, group in groupby(files, key=group_key):
        some = list(group)
        if place is None:
            lines += [line for file in some for line in _render_file(file, detail[_file_category(file)])]
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


def _render_omissions(files: Sequence[FileOutline], detail: tuple[int, int, int]) -> str:
    """Return the note about omitted details, which names each kind of file."""
    kinds = sorted({_file_category(file) for file in files if file.definitions and detail[_file_category(file)] != ALL})
    remarks = "; ".join(f"{_KINDS[kind]}: {_DETAIL_REMARKS[detail[kind]]}" for kind in kinds)
    return f"({remarks}; Outline of a file or a narrower folder shows more)" if remarks else ""


def _file_category(file: FileOutline) -> int:
    return min(rank_file(file.name), TEXTS)


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
