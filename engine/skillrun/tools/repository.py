"""Read, Grep, Glob and List on one folder: bounded, in a fixed order, and unable to leave it or to change it.

What goes wrong comes back as text that starts with `error:`, for the model to act on.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from skillrun.collaboration.patterns import MAX_PATTERN, lines_with, refused
from skillrun.language.diagnostics import SkillrunError
from skillrun.language.schemas import Shape, shown
from skillrun.tools.ignored import Rules
from skillrun.tools.readable import SECONDS, Readable, one_line, parts_of
from skillrun.tools.tree import LONGEST
from skillrun.tools.wildcards import NoPattern

MAX_RESULT: Final = 12_000  # characters
MAX_LINE: Final = 400  # characters
MAX_FILE: Final = 5_000_000  # bytes
MAX_HITS: Final = 100
MAX_ARGUMENTS: Final = 20
MAX_NUMBER: Final = 1_000_000_000


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
    """The tools for one folder; `opened` opens it, for one use of a tool."""

    def __init__(self, opened: Callable[[], Readable]) -> None:
        self._opened = opened

    async def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What the tool answers to a model; at most about MAX_RESULT characters, and never an exception."""
        answer = await asyncio.to_thread(self._answer, name, arguments)
        return answer.encode("utf-8", "replace").decode("utf-8")

    def _answer(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name not in _TOOLS:
            return f"error: there is no tool {shown(name)}; there are {', '.join(TOOLS)}"
        given = {key: value for key, value in arguments.items() if value is not None}
        if wrong := _unusable(given) or "; ".join(each.message for each in Shape(TOOLS[name]).check(given)):
            return f"error: {wrong}"
        try:
            with self._opened() as folder:
                return _TOOLS[name](folder, **given)
        except _Failed as error:
            return f"error: {error}"
        except SkillrunError as error:
            return f"error: {error.message}. {error.next_step}".rstrip(". ") + "."
        except TimeoutError:
            return f"error: stopped after {SECONDS:g} seconds; use a narrower path"
        except (FileNotFoundError, NotADirectoryError):
            return f"error: there is no {shown(given.get('path', '.'))}"
        except OSError as error:
            return f"error: {error.strerror or 'it cannot be read'}"


def specs(descriptions: Mapping[str, str]) -> list[dict[str, Any]]:
    """Name, description and parameters of each tool named. A line "- `path`: …" describes that parameter."""
    return [_spec(name, text) for name, text in descriptions.items()]


# the four tools


def _read(folder: Readable, path: str, offset: int = 1, limit: int | None = None) -> str:
    lines = _text(folder, path).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise _Failed(f"{shown(path)} has {len(lines)} lines")
    wanted = lines[offset - 1 : None if limit is None else offset - 1 + limit]
    numbered = [f"{number:>6}\t{_short(line)}" for number, line in enumerate(wanted, offset)]
    kept = _bounded(numbered)
    last = offset + len(kept) - 1
    if last < len(lines):
        kept = [*kept, f"(lines {offset} to {last} of {len(lines)}; the next is offset {last + 1})"]
    return "\n".join(kept)


def _grep(folder: Readable, pattern: str, path: str = ".", glob: str | None = None) -> str:
    if reason := refused(pattern):
        raise _Failed(reason)
    wanted = _glob_rules(glob) if glob else None
    hits: list[str] = []
    ended, name = "", path
    try:
        for name in _searched(folder, path):
            if wanted is not None and not wanted.covers(parts_of(name), False, folder.check):
                continue
            try:
                text = _text(folder, name, judged=True)
            except TimeoutError:
                raise
            except (_Failed, SkillrunError, OSError):
                continue
            hits += islice(_hits(pattern, text, one_line(name), folder.until), MAX_HITS + 1)
            if len(hits) > MAX_HITS:
                ended = f"(more than {MAX_HITS} hits; use a narrower pattern, path or glob)"
                break
    except TimeoutError:
        slow = f"stopped in {one_line(name)} after {SECONDS:g} seconds"
        ended = f"({slow}; use a simpler pattern or a narrower path)"
    return _joined(hits[:MAX_HITS], ended, "(no hits)")


def _glob(folder: Readable, pattern: str) -> str:
    wanted = _glob_rules(pattern)
    found: list[str] = []
    ended = ""
    try:
        found += (one_line(one) for one in folder.files() if wanted.covers(parts_of(one), False, folder.check))
    except TimeoutError:
        ended = f"(stopped after {SECONDS:g} seconds; there may be more)"
    return _joined(found, ended, "(no files)")


def _list(folder: Readable, path: str = ".") -> str:
    with folder.opened(path) as found:
        if not found.is_folder:
            raise _Failed(f"{shown(path)} is a file; use Read")
    names = (f"{one_line(name)}{'/' if is_folder else ''}" for name, is_folder in folder.names(found.name))
    return _joined(list(names), "", "(the folder is empty)")


_TOOLS: Final[Mapping[str, Callable[..., str]]] = {"Read": _read, "Grep": _grep, "Glob": _glob, "List": _list}


# files and arguments


def _text(folder: Readable, name: str, *, judged: bool = False) -> str:
    with folder.opened(name, judged=judged) as found:
        if found.is_folder:
            raise _Failed(f"{shown(name)} is a folder; use List")
        with open(found.descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise _Failed(f"{shown(name)} is larger than {MAX_FILE:,} bytes")
    if b"\0" in content[:8192]:
        raise _Failed(f"{shown(name)} is a binary file")
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def _searched(folder: Readable, path: str) -> Iterator[str]:
    """The files to search: one, or those below a folder. Not those of runs: a search would find the run's own words."""
    with folder.opened(path) as found:
        start, is_folder = found.name, found.is_folder
    yield from folder.files(start) if is_folder else (start,)


def _unusable(arguments: Mapping[str, Any]) -> str:
    """What is wrong with arguments before anything is done with them, however large they are."""
    if len(arguments) > MAX_ARGUMENTS:
        return f"{len(arguments)} arguments are too many"
    for name, value in arguments.items():
        if isinstance(value, (dict, list)):
            return f"{shown(name)} is no text and no number"
        if isinstance(value, (int, float)) and not abs(value) <= MAX_NUMBER:
            return f"{shown(name)} is a number that is too large"
        if len(name) > MAX_PATTERN or (isinstance(value, str) and len(value) > LONGEST):
            return f"{shown(name)} is longer than {LONGEST:,} characters"
    return ""


def _spec(name: str, text: str) -> dict[str, Any]:
    described = dict(_PARAMETER.findall(text))
    properties = {
        parameter: {**kind, **({"description": described[parameter]} if parameter in described else {})}
        for parameter, kind in TOOLS[name]["properties"].items()
    }
    sentences = "\n".join(line for line in text.splitlines() if not _PARAMETER.fullmatch(line)).strip()
    return {"name": name, "description": sentences, "parameters": {**TOOLS[name], "properties": properties}}


def _glob_rules(pattern: str) -> Rules:
    """Patterns as in `.gitignore`, and `{a,b}` for either."""
    if len(pattern) > MAX_PATTERN:
        raise _Failed(f"the pattern is longer than {MAX_PATTERN} characters")
    patterns = [pattern.removeprefix("./")]
    while match := re.search(r"\{([^{}]*)\}", patterns[0]):
        choices = match[1].split(",")
        if len(patterns) * len(choices) > MAX_HITS:
            raise _Failed(f"{shown(pattern)} stands for more than {MAX_HITS} patterns")
        patterns = [each.replace(match[0], choice, 1) for each in patterns for choice in choices]
    try:
        return Rules(patterns, strict=True)
    except NoPattern:
        raise _Failed(f"{shown(pattern)} is no pattern") from None


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
