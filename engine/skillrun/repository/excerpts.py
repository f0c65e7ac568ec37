"""Reads excerpts of files: the requested ranges of lines, with line numbers, up to a total limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from skillrun.repository.readable_folder import ReadableFolder
from skillrun.repository.results import ToolError, number_lines, read_text, split_lines
from skillrun.syntax.diagnostics import SkillrunError

MAX_CHARACTERS: Final = 400_000  # characters of all excerpts
MERGE_DISTANCE: Final = 3  # lines; ranges at most this far apart are merged
END: Final = 1 << 40

LineRange = tuple[int, int]  # the first line and the last


def read_excerpts(
    folder: ReadableFolder, wanted: Mapping[str, Iterable[LineRange]], max_lines: int
) -> tuple[dict[str, str], list[str]]:
    """Return the excerpts of each file, and the places that were left out. A file without ranges is read whole.

    Binary files and files that cannot be read are left out. Raises TimeoutError.
    """
    texts: dict[str, str] = {}
    left_out: list[str] = []
    room = MAX_CHARACTERS
    for path, ranges in wanted.items():
        if max_lines <= 0 or room <= 0:
            left_out.append(path)
            continue
        try:
            lines = split_lines(read_text(folder, path))
        except TimeoutError:
            raise
        except (ToolError, OSError, SkillrunError):
            left_out.append(path)
            continue
        parts = []
        for first, last in _clip_ranges(_merge_ranges(ranges), len(lines)):
            ends = min(last, first + max_lines - 1)
            kept = _take_lines(number_lines(lines[first - 1 : ends], first), room)
            max_lines -= len(kept)
            room -= sum(len(line) + 1 for line in kept)
            if kept:
                parts.append("\n".join(kept))
            if first + len(kept) <= last:
                left_out.append(f"{path}:{first + len(kept)}-{last}")
        if parts:
            texts[path] = "\n   […]\n".join(parts)
    return texts, left_out


def _merge_ranges(ranges: Iterable[LineRange]) -> Iterator[LineRange]:
    """Yield the ranges in order. Ranges that overlap or are close are merged. Without ranges, yield the whole file."""
    pending: LineRange | None = None
    for first, last in sorted(ranges) or [(1, END)]:
        if pending is not None and first <= pending[1] + MERGE_DISTANCE + 1:
            pending = (pending[0], max(pending[1], last))
            continue
        if pending is not None:
            yield pending
        pending = (first, last)
    if pending is not None:
        yield pending


def _clip_ranges(ranges: Iterable[LineRange], count: int) -> Iterator[LineRange]:
    """Yield the ranges, limited to the lines that the file has."""
    for first, last in ranges:
        if first <= count:
            yield first, min(last, count)


def _take_lines(lines: list[str], room: int) -> list[str]:
    for place, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return lines[:place]
    return lines
