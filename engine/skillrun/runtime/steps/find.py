"""`find`: checks which paths exist in the repository that models may read, and returns lines of the files."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Iterable, Mapping
from posixpath import normpath
from typing import Any, Final, Literal

from skillrun.definitions.definitions import Step
from skillrun.library.settings import step_address
from skillrun.repository.confined_folder import LONGEST
from skillrun.repository.excerpts import LineRange, read_excerpts
from skillrun.repository.paths import PathRefused
from skillrun.repository.readable_folder import SECONDS, PathWithheld, ReadableFolder
from skillrun.repository.wildcards import InvalidPattern, compile_wildcard
from skillrun.runtime.calls.tools import open_repository
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.run import Run
from skillrun.runtime.steps.files import read_once
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.journal_bodies import ToolBody
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.absent import Absent
from skillrun.types.schemas import quote_value

MOST: Final = 1_000  # paths that one step may look for
LINE: Final = "     1\tof the code base that nobody has read yet"
_CLOSED: Final = (errno.EACCES, errno.EPERM)

Verdict = Literal["found", "missing", "withheld"]


async def run_find(step: Step, frame: Frame) -> dict[str, list[Any]]:
    """Return the items, grouped as `found`, `missing` and `withheld`. A resumed phase gets the same result.

    With `show`, also return lines of the files as `texts`, and as `left_out` the places that are not shown.
    """
    items = _items(frame.main(step))
    paths = [_path(step, frame, item) for item in items]
    wanted = list(dict.fromkeys(paths))
    most = max(0, frame.whole(step, "show", 0)) if "show" in step.values else None
    places = _places(items, paths) if most is not None else {}
    if len(wanted) > MOST:
        raise StepFailed(f"`find` takes at most {MOST:,} paths; this step has {len(wanted):,}", frame.at(step))
    folder = str(frame.phase.names["repository"])

    async def look() -> ToolBody:
        return await asyncio.to_thread(_find_paths, frame.run, folder, wanted, places, most)

    question = ["find", folder, wanted] if most is None else ["find", folder, wanted, list(places.items()), most]
    seen = await read_once(step, frame, json.dumps(question), look)
    result: dict[str, list[Any]] = {"found": [], "missing": [], "withheld": []}
    for item, path in zip(items, paths, strict=True):
        result[seen.get("paths", {}).get(path, "missing")].append(item)
    if most is not None:
        texts = seen.get("excerpts", {}) or _simulated_excerpts(frame.run, step_address(f"{frame.at(step)}/-/-"))
        result["texts"] = [{"path": path, "text": text} for path, text in texts.items()]
        result["left_out"] = list(seen.get("left_out", []))
    return result


def _items(value: Any) -> list[Any]:
    if isinstance(value, Absent):
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _path(step: Step, frame: Frame, item: Any) -> str:
    path = item.get("path") if isinstance(item, Mapping) else item
    if not isinstance(path, str) or not path:
        raise StepFailed(f"`find` takes paths, or records with a `path`; got {quote_value(str(item))}", frame.at(step))
    return path


def _simulated_excerpts(run: Run, step: str) -> dict[str, str]:
    """Return an excerpt for a simulation, as long as excerpts in earlier runs; empty if their size is unknown."""
    size = run.session.sizes.get(step)
    return {} if size is None else {"…": "\n".join([LINE] * (size.reply // estimate_tokens(LINE)))}


def _places(items: Iterable[Any], paths: Iterable[str]) -> dict[str, list[LineRange]]:
    """Return the line ranges that the items name for each path. An empty list means all lines."""
    places: dict[str, list[LineRange]] = {}
    whole = set()
    for item, path in zip(items, map(normpath, paths), strict=True):
        lines = [_range(written) for written in item.get("lines") or ()] if isinstance(item, Mapping) else []
        places.setdefault(path, []).extend(line_range for line_range in lines if line_range)
        if not any(lines):
            whole.add(path)
    return {path: [] if path in whole else lines for path, lines in places.items()}


def _range(value: Any) -> LineRange | None:
    ends = (value.get("first"), value.get("last")) if isinstance(value, Mapping) else (value, value)
    first, last = (end if isinstance(end, int) and not isinstance(end, bool) else 0 for end in ends)
    return (first, last) if 1 <= first <= last else None


def _find_paths(
    run: Run, folder: str, paths: Iterable[str], places: Mapping[str, list[LineRange]], most: int | None
) -> ToolBody:
    """Return the status of each path, and at most `most` lines of the files.

    Raises SkillrunError if the workflow has no repository, or if the search takes too long.
    """
    if not folder:
        raise SkillrunError("the workflow names no repository to search; set `repository:`")
    try:
        with open_repository(run, folder) as repository:
            verdicts = {path: _verdict(repository, path) for path in paths}
            if most is None:
                return {"paths": verdicts}
            files = {path: lines for path, lines in places.items() if _is_file(repository, path)}
            texts, left_out = read_excerpts(repository, files, most)
            return {"paths": verdicts, "excerpts": texts, "left_out": left_out}
    except TimeoutError:
        message = f"the search for paths took more than {SECONDS:g} seconds"
        raise SkillrunError(message, "search for fewer paths, or for names without wildcards") from None


def _verdict(repository: ReadableFolder, path: str) -> Verdict:
    """Return the status of a path. A path that models may not see is reported as `withheld`, whether or not it exists.
    A path that leads out of the folder is reported as `missing`."""
    name = normpath(path)  # removes `..` without following links, as the author means it
    if len(path) > LONGEST or "\0" in path or name.startswith(("/", "../")) or name == "..":
        return "missing"
    try:
        with repository.open_path(name) as entry:
            return "found" if entry.is_folder or not path.endswith("/") else "missing"
    except PathWithheld:
        return "withheld"
    except PathRefused:
        return "missing"
    except TimeoutError:
        raise
    except OSError as error:
        if error.errno in _CLOSED:
            return "withheld"
    return "found" if any(sign in name for sign in "*?[") and _matches(repository, name) else "missing"


def _is_file(repository: ReadableFolder, path: str) -> bool:
    """Return whether a path names one file that models may read, rather than a folder or a pattern."""
    try:
        with repository.open_path(path) as entry:
            return not entry.is_folder
    except TimeoutError:
        raise
    except (OSError, ValueError, SkillrunError):
        return False


def _matches(repository: ReadableFolder, pattern: str) -> bool:
    try:
        wanted = compile_wildcard(pattern.replace("\\", r"\\"))
    except InvalidPattern:
        return False
    return next(iter(repository.files(pattern=wanted)), None) is not None
