"""Excerpts: the lines of files that somebody has named, with their numbers, up to so many of all together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from skillrun.repository.readable_folder import Readable
from skillrun.repository.results import Failed, lines_of, numbered, text_content
from skillrun.syntax.diagnostics import SkillrunError

MOST: Final = 400_000  # characters of all excerpts
NEAR: Final = 3  # lines between two ranges that are shown along
END: Final = 1 << 40

Range = tuple[int, int]  # the first line and the last


def excerpts(folder: Readable, wanted: Mapping[str, Iterable[Range]], most: int) -> tuple[dict[str, str], list[str]]:
    """The text of each file that can be read, and the places that are left out. No range of a file means all of it.

    What is no text, or cannot be read, is left out. Raises TimeoutError.
    """
    texts: dict[str, str] = {}
    left_out: list[str] = []
    room = MOST
    for path, ranges in wanted.items():
        if most <= 0 or room <= 0:
            left_out.append(path)
            continue
        try:
            lines = lines_of(text_content(folder, path))
        except TimeoutError:
            raise
        except (Failed, OSError, SkillrunError):
            left_out.append(path)
            continue
        parts = []
        for first, last in _within(_joined(ranges), len(lines)):
            ends = min(last, first + most - 1)
            kept = _fitting(numbered(lines[first - 1 : ends], first), room)
            most -= len(kept)
            room -= sum(len(line) + 1 for line in kept)
            if kept:
                parts.append("\n".join(kept))
            if first + len(kept) <= last:
                left_out.append(f"{path}:{first + len(kept)}-{last}")
        if parts:
            texts[path] = "\n   […]\n".join(parts)
    return texts, left_out


def _joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """From the top, those that overlap or nearly touch as one; the whole file where none is named."""
    pending: Range | None = None
    for first, last in sorted(ranges) or [(1, END)]:
        if pending is not None and first <= pending[1] + NEAR + 1:
            pending = (pending[0], max(pending[1], last))
            continue
        if pending is not None:
            yield pending
        pending = (first, last)
    if pending is not None:
        yield pending


def _within(ranges: Iterable[Range], count: int) -> Iterator[Range]:
    """As far as the file goes."""
    for first, last in ranges:
        if first <= count:
            yield first, min(last, count)


def _fitting(lines: list[str], room: int) -> list[str]:
    for place, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return lines[:place]
    return lines
