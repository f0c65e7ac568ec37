"""Read, Grep, Glob and List on one folder: bounded, in a fixed order, and unable to leave it or to change it.

What goes wrong comes back as text that starts with `error:`, for the model to act on.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillrun.collaboration.patterns import MAX_PATTERN, lines_with, refused
from skillrun.language.schemas import Shape
from skillrun.tools.paths import PathRefused, confined

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED: Final = frozenset({".git", ".run", ".venv", "__pycache__", "node_modules"})
MAX_RESULT: Final = 12_000  # characters
MAX_LINE: Final = 400  # characters
MAX_FILE: Final = 5_000_000  # bytes
MAX_FILES: Final = 20_000
MAX_HITS: Final = 100
SEARCH_SECONDS: Final = 5.0


def _parameters(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 1}
TOOLS: Final[Mapping[str, dict[str, Any]]] = {
    "Read": _parameters("path", path=_TEXT, offset=_COUNT, limit=_COUNT),
    "Grep": _parameters("pattern", pattern=_TEXT, path=_TEXT, glob=_TEXT),
    "Glob": _parameters("pattern", pattern=_TEXT),
    "List": _parameters(path=_TEXT),
}
"""The tools and their parameters, as JSON Schema."""

_PARAMETER: Final = re.compile(r"- `(\w+)`: (.*)")


class _Failed(Exception):
    """What a tool answers after `error:`."""


class Repository:
    """The tools for one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def specs(self, descriptions: Mapping[str, str]) -> list[dict[str, Any]]:
        """Name, description and parameters of each tool named. A line "- `path`: …" describes that parameter."""
        return [_spec(name, text) for name, text in descriptions.items()]

    async def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What the tool answers to a model; at most about MAX_RESULT characters, and never an exception."""
        answer = await asyncio.to_thread(self._answer, name, arguments)
        return answer.encode("utf-8", "replace").decode("utf-8")

    def _answer(self, name: str, arguments: Mapping[str, Any]) -> str:
        tools: dict[str, Callable[..., str]]
        tools = {"Read": self._read, "Grep": self._grep, "Glob": self._glob, "List": self._list}
        if name not in tools:
            return f"error: there is no tool `{name}`; there are {', '.join(TOOLS)}"
        given = {key: value for key, value in arguments.items() if value is not None}
        if wrong := Shape(TOOLS[name]).check(given):
            return f"error: {'; '.join(each.message for each in wrong)}"
        try:
            return tools[name](**given)
        except _Failed as error:
            return f"error: {error}"
        except PathRefused as error:
            return f"error: {error.message}. {error.next_step}".rstrip(". ") + "."
        except OSError as error:
            return f"error: {error.strerror or 'it cannot be read'}"

    # the four tools

    def _read(self, path: str, offset: int = 1, limit: int | None = None) -> str:
        lines = self._text(self._existing(path), path).split("\n")
        if lines[-1] == "":
            lines.pop()
        if not lines:
            return "(the file is empty)"
        if offset > len(lines):
            raise _Failed(f"`{path}` has {len(lines)} lines")
        wanted = lines[offset - 1 : None if limit is None else offset - 1 + limit]
        numbered = [f"{number:>6}\t{_short(line)}" for number, line in enumerate(wanted, offset)]
        kept = _bounded(numbered)
        last = offset + len(kept) - 1
        if last < len(lines):
            kept = [*kept, f"(lines {offset} to {last} of {len(lines)}; the next is offset {last + 1})"]
        return "\n".join(kept)

    def _grep(self, pattern: str, path: str = ".", glob: str | None = None) -> str:
        if reason := refused(pattern):
            raise _Failed(reason)
        until = time.monotonic() + SEARCH_SECONDS
        wanted = _glob_spec(glob) if glob else None
        hits: list[str] = []
        ended = ""
        for place, shown in self._files(self._existing(path)):
            if wanted is not None and not wanted.match_file(shown):
                continue
            try:
                hits += islice(_hits(pattern, self._text(place, shown), shown, until), MAX_HITS + 1)
            except TimeoutError:
                slow = f"stopped in {shown} after {SEARCH_SECONDS:g} seconds"
                ended = f"({slow}; use a simpler pattern or a narrower path)"
                break
            except (_Failed, OSError):
                continue
            if len(hits) > MAX_HITS:
                ended = f"(more than {MAX_HITS} hits; use a narrower pattern, path or glob)"
                break
        return _joined(hits[:MAX_HITS], ended, "(no hits)")

    def _glob(self, pattern: str) -> str:
        wanted = _glob_spec(pattern)
        return _joined([shown for _, shown in self._files(self.root) if wanted.match_file(shown)], "", "(no files)")

    def _list(self, path: str = ".") -> str:
        folder = self._existing(path)
        if not folder.is_dir():
            raise _Failed(f"`{path}` is a file; use Read")
        places = sorted(place for place in folder.iterdir() if self._inside(place))
        names = [f"{_printable(place.name)}{'/' if place.is_dir() else ''}" for place in places]
        return _joined(names, "", "(the folder is empty)")

    # files

    def _existing(self, path: str) -> Path:
        place = confined(self.root, path)
        if self._is_skipped(place) or not place.exists():
            raise _Failed(f"there is no `{path}`")
        return place

    def _text(self, place: Path, path: str) -> str:
        if place.is_dir():
            raise _Failed(f"`{path}` is a folder; use List")
        if not stat.S_ISREG(place.stat().st_mode):
            raise _Failed(f"`{path}` is no file")
        with place.open("rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise _Failed(f"`{path}` is larger than {MAX_FILE:,} bytes")
        if b"\0" in content[:8192]:
            raise _Failed(f"`{path}` is a binary file")
        return content.decode("utf-8", "replace").replace("\r\n", "\n")

    def _files(self, start: Path) -> Iterator[tuple[Path, str]]:
        """Every file below a place and its path from the root on, a folder's own files first, by name.

        Not those of runs below it: a search would find the run's own words.
        """
        if not start.is_dir():
            yield start, self._shown(start)
            return
        left = MAX_FILES
        for folder, folders, names in os.walk(start):
            here = Path(folder)
            folders[:] = sorted(name for name in folders if self._is_searched(here / name))
            for name in sorted(names):
                place = here / name
                if self._inside(place):
                    yield place, self._shown(place)
                    left -= 1
                    if not left:
                        return

    def _is_searched(self, folder: Path) -> bool:
        return not folder.is_symlink() and not (folder / ".run").is_dir() and self._inside(folder)

    def _inside(self, place: Path) -> bool:
        """Whether a place, and what it links to, is in the folder and not skipped."""
        if self._is_skipped(place):
            return False
        try:
            return not place.is_symlink() or not self._is_skipped(confined(self.root, place))
        except PathRefused:
            return False

    def _is_skipped(self, place: Path) -> bool:
        parts = place.relative_to(self.root).parts
        if any(part.casefold() in SKIPPED for part in parts):
            return True
        return bool(parts) and self._ignored.match_file("/".join(parts) + ("/" if place.is_dir() else ""))

    def _shown(self, place: Path) -> str:
        return _printable(place.relative_to(self.root).as_posix())

    @cached_property
    def _ignored(self) -> GitIgnoreSpec:
        """What the folder's own `.gitignore` names."""
        from pathspec import GitIgnoreSpec

        try:
            return GitIgnoreSpec.from_lines(self._text(self.root / ".gitignore", ".gitignore").splitlines())
        except (_Failed, OSError, ValueError):
            return GitIgnoreSpec.from_lines([])


def _spec(name: str, text: str) -> dict[str, Any]:
    described = dict(_PARAMETER.findall(text))
    properties = {
        parameter: {**kind, **({"description": described[parameter]} if parameter in described else {})}
        for parameter, kind in TOOLS[name]["properties"].items()
    }
    sentences = "\n".join(line for line in text.splitlines() if not _PARAMETER.fullmatch(line)).strip()
    return {"name": name, "description": sentences, "parameters": {**TOOLS[name], "properties": properties}}


def _glob_spec(pattern: str) -> GitIgnoreSpec:
    """Patterns as in `.gitignore`, and `{a,b}` for either."""
    from pathspec import GitIgnoreSpec

    patterns = [pattern[:MAX_PATTERN].removeprefix("./")]
    while len(patterns) < MAX_HITS and (match := re.search(r"\{([^{}]*)\}", patterns[0])):
        patterns = [each.replace(match[0], choice, 1) for each in patterns for choice in match[1].split(",")]
    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise _Failed(f"`{pattern}` is no pattern: {error}") from None


def _hits(pattern: str, text: str, shown: str, until: float) -> Iterator[str]:
    """The lines in which the pattern is found. Raises TimeoutError."""
    for number, line in lines_with(pattern, text.split("\n"), until - time.monotonic()):
        yield f"{shown}:{number}: {_short(line.strip())}"


def _joined(lines: list[str], ended: str, nothing: str) -> str:
    kept = _bounded(lines)
    rest = f"(and {len(lines) - len(kept)} more)" if len(kept) < len(lines) else ""
    return "\n".join(each for each in (*kept, rest, ended) if each) or nothing


def _bounded(lines: list[str]) -> list[str]:
    """As many of the lines as fit into a result."""
    room = MAX_RESULT
    for place, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return lines[:place]
    return lines


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} […{len(line) - MAX_LINE} more characters]"


def _printable(name: str) -> str:
    """A file's name as one line of text that can be sent."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)
