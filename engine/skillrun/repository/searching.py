"""Grep: the lines of files in which a pattern occurs, those that are worth most first, and what was left out.

Every file has a share: where there are more hits than an answer has room for, each file shows its first ones and says
how many more there are, and the files with most of what is not shown are named.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from skillrun.repository.definitions import DefinitionFinder, open_finder
from skillrun.repository.file_ranking import CODE, worth
from skillrun.repository.globs import glob_rules
from skillrun.repository.outline import outlined, place_of
from skillrun.repository.readable_folder import MOST_FILES, SECONDS, Readable, one_line, parts_of
from skillrun.repository.results import Binary, Failed, Room, counted, lines_of, short, text_content
from skillrun.scoring.patterns import lines_with, refused
from skillrun.syntax.diagnostics import SkillrunError

MAX_HITS: Final = 100
LONGEST: Final = 200  # characters of a line
MOST_PLACED: Final = 20  # files of code of whose hits it is said in what definition they stand
SHARES: Final = (  # hits that a file of code, of tests, of texts, of records shows; the first with which all files fit
    (100, 100, 100, 100),
    (50, 25, 12, 6),
    (30, 8, 4, 2),
    (15, 4, 2, 1),
    (8, 2, 1, 1),
    (4, 1, 1, 1),
)
SEARCHING: Final = SECONDS * 0.6  # of the time that there is; the rest is for finding files
MOST_NAMED: Final = 8
TAIL: Final = 700  # characters of the room that are for what is said of the rest


@dataclass(frozen=True)
class FileHits:
    """The first hits in a file, a line each, and how many there are."""

    path: str
    lines: tuple[str, ...]
    count: int
    worth: int = CODE
    places: tuple[str, ...] = ()  # the definition in which each line stands

    @property
    def name(self) -> str:
        return one_line(self.path)


def grep(folder: Readable, room: Room, pattern: str, path: str = ".", glob: str | None = None) -> str:
    """The answer to a search. Raises Failed, and what opening `path` raises."""
    if reason := refused(pattern):
        raise Failed(reason)
    hits: list[FileHits] = []
    remarks: list[str] = []
    name = path
    try:
        names = _names(folder, path, glob, remarks)
        for name in sorted(names, key=worth):
            try:
                content = text_content(folder, name, judged=True)
            except TimeoutError:
                raise
            except Binary:
                continue
            except Failed as error:
                remarks.append(f"(not searched: {error})")
                continue
            except (SkillrunError, OSError):
                continue
            if (in_file := _hits(pattern, lines_of(content), name, folder.until)) is not None:
                hits.append(in_file)
    except TimeoutError:
        slow = f"stopped in {one_line(name)} after {SECONDS:g} seconds"
        remarks.append(f"({slow}; use a simpler pattern or a narrower path)")
    if not hits:
        return "\n".join(["(no hits)"] * (not remarks) + _few(remarks))
    return "\n".join([*_fitting_lines(_placed(folder, hits, remarks), room), *_few(remarks)])


def _names(folder: Readable, path: str, glob: str | None, remarks: list[str]) -> list[str]:
    """The files to search: one, or those below a folder. Not those of runs: a search would find the run's own words."""
    with folder.opened(path) as opened:
        start, is_folder = opened.name, opened.is_folder
    rules = glob_rules(glob) if glob else None
    names: list[str] = []
    count = 0
    for name in folder.files(start) if is_folder else (start,):
        count += 1
        if rules is None or rules.covers(parts_of(name), False, folder.check):
            names.append(name)
        if count >= MOST_FILES or time.monotonic() > folder.until - SEARCHING:
            break
    else:
        return names
    if is_folder:
        remarks.append(f"(only the first {count:,} files were looked at; use a narrower path)")
    return names


def _hits(pattern: str, lines: list[str], name: str, until: float) -> FileHits | None:
    """What is found in a file; None where nothing is. Raises TimeoutError."""
    kept: list[str] = []
    count = 0
    for number, line in lines_with(pattern, lines, until - time.monotonic()):
        count += 1
        if count <= MAX_HITS:
            kept.append(f"{number}:{short(line.rstrip(), LONGEST)}")
    return FileHits(name, tuple(kept), count, worth(name)) if count else None


def _fitting_lines(hits: list[FileHits], room: Room) -> list[str]:
    """As much as fits: all files with the largest shares that let them in, or with the smallest those of most worth."""
    for shares in SHARES:
        lines = [line for file in hits for line in _group(file, shares)]
        if sum(len(_kept(file, shares)) for file in hits) <= MAX_HITS and room.holds(lines):
            return lines
    left = room.less(TAIL)
    lines, count = [], 0
    for place, file in enumerate(hits):
        group = _group(file, SHARES[-1])
        count += len(_kept(file, SHARES[-1]))
        if count > MAX_HITS or not left.holds([*lines, *group]):
            return [*lines, _rest(hits[place:])]
        lines += group
    return lines


def _group(hits: FileHits, shares: tuple[int, ...]) -> list[str]:
    """A file's name, its first hits with the definitions they stand in, and how many more there are."""
    kept = _kept(hits, shares)
    lines = [hits.name]
    for number, line in enumerate(kept):
        place = hits.places[number] if hits.places else ""
        if place and (number == 0 or hits.places[number - 1] != place):
            lines.append(f"[{place}]")
        lines.append(line)
    more = hits.count - len(kept)
    return [*lines, *([f"(and {more:,} more in this file)"] if more else [])]


def _kept(hits: FileHits, shares: tuple[int, ...]) -> tuple[str, ...]:
    """The hits of a file that are shown; where only one is left, it is shown and not told of."""
    share = shares[hits.worth]
    return hits.lines[: share + (hits.count == share + 1)]


def _placed(folder: Readable, hits: list[FileHits], remarks: list[str]) -> list[FileHits]:
    """The hits, those in code with the definitions in which they stand, as far as its language is known."""
    placed = list(hits)
    try:
        with open_finder(folder.until) as finder:
            for number, file in enumerate(hits[:MOST_PLACED]):
                if file.worth == CODE and finder.supports(file.path, b""):
                    placed[number] = replace(file, places=_places(folder, finder, file))
    except TimeoutError:
        remarks.append("(there was no time to say in which definitions all hits stand)")
    return placed


def _places(folder: Readable, finder: DefinitionFinder, hits: FileHits) -> tuple[str, ...]:
    """The definition in which each hit of a file stands. Raises TimeoutError."""
    try:
        file = outlined(finder, hits.path, text_content(folder, hits.path, judged=True))
    except TimeoutError:
        raise
    except (Failed, SkillrunError, OSError):
        return ()  # it has gone meanwhile
    return tuple(place_of(file.definitions, int(line.partition(":")[0])) for line in hits.lines)


def _rest(hits: list[FileHits]) -> str:
    """What is not shown: how much there is, and where most of it is."""
    most = sorted(hits, key=lambda file: (-file.count, file.name))[:MOST_NAMED]
    named = Room(TAIL - 200).fitting([f"{file.name} {file.count:,}" for file in most])
    others = [f"and {counted(len(hits) - len(named), 'other file')}"] if len(hits) > len(named) else []
    total = counted(sum(file.count for file in hits), "hit")
    return f"(not shown: {total} in {', '.join([*named, *others])}; use a narrower pattern, path or glob)"


def _few(remarks: Iterable[str]) -> list[str]:
    """The remarks, of which there may be one for each of very many files."""
    lines = list(remarks)
    more = len(lines) - MOST_NAMED
    return lines if more <= 0 else [*lines[:MOST_NAMED], f"(and {more:,} such remarks more)"]
