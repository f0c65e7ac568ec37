"""The judged material: the documents of an arm, their test and task sections, and the code base they plan for."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from skillrun.syntax.document import Fences

REQUEST = "request.md"  # a copy of the request is not part of the plan
LARGEST = 2_000_000  # bytes: names of larger files in the code base are not read
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
    """A plan: its documents by name."""

    name: str
    documents: dict[str, str]

    @cached_property
    def text(self) -> str:
        return "\n\n".join(self.documents.values())

    @cached_property
    def parts(self) -> dict[str, str]:
        """The text split into `tests`, `tasks` and `rest`; a missing part is empty."""
        lines: dict[str, list[str]] = {"rest": [], "tests": [], "tasks": []}
        for name, text in self.documents.items():
            for part, line in _split(name, text):
                lines[part].append(line)
        return {part: "\n".join(texts) for part, texts in lines.items()}


@dataclass(frozen=True)
class Code:
    """A code base: the number of lines of each file, by path, and every name in it."""

    lines: dict[str, int]
    names: frozenset[str]

    @classmethod
    def of(cls, folder: Path) -> "Code":
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder")
        lines: dict[str, int] = {}
        names: set[str] = set()
        for path in _files(folder):
            text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= LARGEST else ""
            lines[path.relative_to(folder).as_posix()] = len(text.splitlines())
            names.update(_NAME.findall(text))
        return cls(lines, frozenset(names))

    def has(self, path: str) -> bool:
        """Whether the file or folder exists. The path may be a pattern or lack its leading folders."""
        return bool(self.files(path)) or any(f"/{path.strip('./')}/" in f"/{file}" for file in self.lines)

    def files(self, path: str) -> list[str]:
        """The files a path refers to: the exact file, or else all that end with it or match it as a pattern."""
        path = path.removeprefix("./")
        if path in self.lines:
            return [path]
        return [
            file
            for file in self.lines
            if file.endswith(f"/{path}") or ("*" in path and fnmatchcase(f"/{file}", f"*/{path}"))
        ]


def read(argument: str) -> Arm:
    """The arm at `PATH` or `NAME=PATH`."""
    name, equals, location = argument.rpartition("=")
    path = Path(location)
    if path.is_file():
        return Arm(name if equals else path.stem, {path.name: path.read_text(encoding="utf-8")})
    files = sorted(file for file in path.rglob("*.md") if file.name != REQUEST)
    if not files:
        raise FileNotFoundError(f"{path}: there is no markdown document")
    documents = {file.relative_to(path).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return Arm(name if equals else path.resolve().name, documents)


def _files(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(files):
            if (Path(top) / name).is_file():
                yield Path(top) / name


def _split(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Each line with its part. A part extends from its heading to the next heading of the same or a higher level."""
    fences, default = Fences(text), _part_of(Path(name).stem.replace("-", " "))
    part, depth, offset = default, 0, 0
    for line in text.split("\n"):
        heading = None if fences.contains(offset) else _HEADING.match(line)
        offset += len(line) + 1
        if heading is not None and (part == default or len(heading[1]) <= depth):
            new = _part_of(heading[2])
            part, depth = (new, len(heading[1])) if new != "rest" else (default, 0)
        yield part, line


def _part_of(title: str) -> str:
    """The part a heading starts: `Implementation plan and tasks` starts tasks, `Unique tasks` does not."""
    if re.match(r"task[ -]?\d", title, re.IGNORECASE):
        return "tasks"
    words = set(re.findall(r"[^\W\d_]+", title.lower()))
    for part, (needed, allowed) in _WORDS.items():
        if words & needed and words <= needed | allowed | _JOINING:
            return part
    return "rest"
