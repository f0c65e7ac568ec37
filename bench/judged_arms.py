"""What is judged: an arm's documents, the parts of them that are tests and tasks, and the code base planned for."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from skillrun.syntax.fences import Fences

REQUEST = "request.md"  # a copy of the request is no part of what was made of it
LARGEST = 2_000_000  # bytes of a file of the code base whose names are read
SKIPPED = {".git", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache"}

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_JOINING = {"the", "and", "of", "in", "for", "list", "plan", "order"}
_WORDS = {
    "tasks": ({"task", "tasks"}, {"implementation", "work", "breakdown", "steps", "delivery"}),
    "tests": ({"test", "tests", "testing", "cases"}, {"strategy", "matrix", "levels", "acceptance", "case"}),
}


@dataclass(frozen=True)
class Arm:
    """A plan, its documents by their names."""

    name: str
    documents: dict[str, str]

    @cached_property
    def text(self) -> str:
        return "\n\n".join(self.documents.values())

    @cached_property
    def parts(self) -> dict[str, str]:
        """The text in three: `tests`, `tasks` and the `rest`; empty where there is no such part."""
        lines: dict[str, list[str]] = {"rest": [], "tests": [], "tasks": []}
        for name, text in self.documents.items():
            for part, line in _parted(name, text):
                lines[part].append(line)
        return {part: "\n".join(several) for part, several in lines.items()}


@dataclass(frozen=True)
class Code:
    """A code base: its files by path, with how many lines each has, and every name that occurs in it."""

    lines: dict[str, int]
    names: frozenset[str]

    @classmethod
    def of(cls, folder: Path) -> "Code":
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is no folder")
        lines: dict[str, int] = {}
        names: set[str] = set()
        for path in _files(folder):
            text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= LARGEST else ""
            lines[path.relative_to(folder).as_posix()] = len(text.splitlines())
            names.update(_NAME.findall(text))
        return cls(lines, frozenset(names))

    def has(self, path: str) -> bool:
        """Whether a file or a folder is there, also one that is written without its first folders, or as a pattern."""
        return bool(self.files(path)) or any(f"/{path.strip('./')}/" in f"/{one}" for one in self.lines)

    def files(self, path: str) -> list[str]:
        """The files that a path means: the one of that name, or else those that end like it or fit it as a pattern."""
        path = path.removeprefix("./")
        if path in self.lines:
            return [path]
        return [
            one
            for one in self.lines
            if one.endswith(f"/{path}") or ("*" in path and fnmatchcase(f"/{one}", f"*/{path}"))
        ]


def read(given: str) -> Arm:
    """The arm at a path, or at `NAME=PATH`."""
    name, mark, where = given.rpartition("=")
    path = Path(where)
    if path.is_file():
        return Arm(name if mark else path.stem, {path.name: path.read_text(encoding="utf-8")})
    files = sorted(one for one in path.rglob("*.md") if one.name != REQUEST)
    if not files:
        raise FileNotFoundError(f"{path}: there is no markdown document")
    found = {one.relative_to(path).as_posix(): one.read_text(encoding="utf-8") for one in files}
    return Arm(name if mark else path.resolve().name, found)


def _files(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if one not in SKIPPED)
        for name in sorted(files):
            if (Path(top) / name).is_file():
                yield Path(top) / name


def _parted(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Each line with the part that it belongs to: what a heading opens holds up to the next one that is as high."""
    fences, own = Fences(text), _part_of(Path(name).stem.replace("-", " "))
    part, depth, place = own, 0, 0
    for line in text.split("\n"):
        heading = None if fences.contains(place) else _HEADING.match(line)
        place += len(line) + 1
        if heading is not None and (part == own or len(heading[1]) <= depth):
            said = _part_of(heading[2])
            part, depth = (said, len(heading[1])) if said != "rest" else (own, 0)
        yield part, line


def _part_of(title: str) -> str:
    """What a heading announces. `Unique tasks` is about something else, `Implementation plan and tasks` is not."""
    if re.match(r"task[ -]?\d", title, re.IGNORECASE):
        return "tasks"
    words = set(re.findall(r"[^\W\d_]+", title.lower()))
    for part, (needed, allowed) in _WORDS.items():
        if words & needed and words <= needed | allowed | _JOINING:
            return part
    return "rest"
