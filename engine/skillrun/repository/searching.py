"""The tool Grep. It returns the lines that match a pattern, most relevant files first, and a note about omitted hits.

If not all hits fit, each file shows only its first hits and the number of its other hits. The note names the files with
the most omitted hits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from skillrun.repository.definitions import open_finder
from skillrun.repository.matching import parse_glob
from skillrun.repository.outline import build_outline, enclosing_definitions
from skillrun.repository.readable_folder import MAX_FILES, SECONDS, ReadableFolder, one_line, split_path
from skillrun.repository.results import (
    CODE,
    OutputBudget,
    ToolError,
    count_noun,
    encoding_notes,
    rank_file,
    read_listed_text,
    split_lines,
    truncate_line,
)
from skillrun.scoring.patterns import find_lines, rejection_reason

MAX_HITS: Final = 100
LONGEST: Final = 200  # characters of a line
MAX_LOCATED_FILES: Final = 20  # code files whose hits are shown with the definitions that contain them
HITS_PER_FILE: Final = (  # rows: hits of a code, test, text and record file; the first row that fits is used
    (100, 100, 100, 100),
    (50, 25, 12, 6),
    (30, 8, 4, 2),
    (15, 4, 2, 1),
    (8, 2, 1, 1),
    (4, 1, 1, 1),
)
SEARCH_SECONDS: Final = SECONDS * 0.6  # time for searching; the remaining time is for finding files
MAX_LISTED: Final = 8
SUMMARY_RESERVE: Final = 700  # characters reserved for the note about omitted hits


@dataclass(frozen=True)
class FileHits:
    """The first hits in a file, each with its line, and the number of all hits in the file."""

    path: str
    lines: tuple[str, ...]
    count: int
    rank: int = CODE
    definitions: tuple[str, ...] = ()  # the definition that contains each line

    @property
    def name(self) -> str:
        return one_line(self.path)


def grep(folder: ReadableFolder, budget: OutputBudget, pattern: str, path: str = ".", glob: str | None = None) -> str:
    """Return the result of a search. Raises ToolError and the errors of `open_path`."""
    if reason := rejection_reason(pattern):
        raise ToolError(reason)
    hits: list[FileHits] = []
    remarks: list[str] = []
    name = path
    try:
        names = _files_to_search(folder, path, glob, remarks)
        for name in sorted(names, key=rank_file):
            content, reason = read_listed_text(folder, name)
            if content is None:
                remarks += [f"(not searched: {reason})"] if reason else []
                continue
            found: list[str] = []
            count = 0
            for number, line in find_lines(pattern, split_lines(content), folder.deadline - time.monotonic()):
                count += 1
                if count <= MAX_HITS:
                    found.append(f"{number}:{truncate_line(line.rstrip(), LONGEST)}")
            if count:
                remarks += encoding_notes(content, one_line(name))
                hits.append(FileHits(name, tuple(found), count, rank_file(name)))
    except TimeoutError:
        slow = f"stopped in {one_line(name)} after {SECONDS:g} seconds"
        remarks.append(f"({slow}; use a simpler pattern or a narrower path)")
    if not hits and not remarks:
        return "(no hits)"
    result = _select_lines(_locate_hits(folder, hits, remarks), budget) if hits else []
    more = len(remarks) - MAX_LISTED  # a search may have a remark for each file
    result += remarks if more <= 0 else [*remarks[:MAX_LISTED], f"(and {more:,} more remarks)"]
    return "\n".join(result)


def _files_to_search(folder: ReadableFolder, path: str, glob: str | None, remarks: list[str]) -> list[str]:
    """Return the file at `path`, or the files below the folder at `path`. Run folders are left out, because a search
    would find the run's own text there."""
    with folder.open_path(path) as opened:
        start, is_folder = opened.name, opened.is_folder
    rules = parse_glob(glob) if glob else None
    names: list[str] = []
    count = 0
    for name in folder.files(start) if is_folder else (start,):
        count += 1
        if rules is None or rules.matches(split_path(name), False, folder.check_deadline):
            names.append(name)
        if count >= MAX_FILES or time.monotonic() > folder.deadline - SEARCH_SECONDS:
            break
    else:
        return names
    if is_folder:
        remarks.append(f"(only the first {count:,} files were searched; use a narrower path)")
    return names


def _select_lines(hits: list[FileHits], budget: OutputBudget) -> list[str]:
    """Return the hits that fit, as lines. If possible, all files are shown, each with as many hits as fit. Otherwise
    only the most relevant files are shown, each with few hits."""
    for shares in HITS_PER_FILE:
        lines = [line for file in hits for line in _render_hits(file, shares)]
        if sum(len(_shown_hits(file, shares)) for file in hits) <= MAX_HITS and budget.fits(lines):
            return lines
    remaining = budget.minus(SUMMARY_RESERVE)
    lines, count = [], 0
    for place, file in enumerate(hits):
        group = _render_hits(file, HITS_PER_FILE[-1])
        count += len(_shown_hits(file, HITS_PER_FILE[-1]))
        if count > MAX_HITS or not remaining.fits([*lines, *group]):
            return [*lines, _summarize_rest(hits[place:])]
        lines += group
    return lines


def _render_hits(hits: FileHits, shares: tuple[int, ...]) -> list[str]:
    kept = _shown_hits(hits, shares)
    lines = [hits.name]
    for number, line in enumerate(kept):
        definition = hits.definitions[number] if hits.definitions else ""
        if definition and (number == 0 or hits.definitions[number - 1] != definition):
            lines.append(f"[{definition}]")
        lines.append(line)
    more = hits.count - len(kept)
    return [*lines, *([f"(and {more:,} more in this file)"] if more else [])]


def _shown_hits(hits: FileHits, shares: tuple[int, ...]) -> tuple[str, ...]:
    """Return the hits of a file to show. If only one more hit remains, it is shown rather than counted."""
    share = shares[hits.rank]
    return hits.lines[: share + (hits.count == share + 1)]


def _locate_hits(folder: ReadableFolder, hits: list[FileHits], remarks: list[str]) -> list[FileHits]:
    """Return the hits. Hits in code of a supported language include the definition that contains them."""
    located = list(hits)
    try:
        with open_finder(folder.deadline) as finder:
            for place, file in enumerate(hits[:MAX_LOCATED_FILES]):
                if file.rank == CODE and finder.supports(file.path, b""):
                    content, _ = read_listed_text(folder, file.path)
                    definitions = build_outline(finder, file.path, content).definitions if content is not None else ()
                    numbers = (int(line.partition(":")[0]) for line in file.lines)
                    enclosing = tuple(enclosing_definitions(definitions, number) for number in numbers)
                    located[place] = replace(file, definitions=enclosing)
    except TimeoutError:
        remarks.append("(out of time: some hits are shown without their definition)")
    return located


def _summarize_rest(hits: list[FileHits]) -> str:
    most = sorted(hits, key=lambda file: (-file.count, file.name))[:MAX_LISTED]
    named = OutputBudget(SUMMARY_RESERVE - 200).take_lines([f"{file.name} {file.count:,}" for file in most])
    others = [f"and {count_noun(len(hits) - len(named), 'other file')}"] if len(hits) > len(named) else []
    total = count_noun(sum(file.count for file in hits), "hit")
    return f"(not shown: {total} in {', '.join([*named, *others])}; use a narrower pattern, path or glob)"
