"""`find`: which of some paths are in the workflow's repository, as far as models may look there."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Iterable, Mapping
from posixpath import normpath
from typing import Any, Final, Literal

from skillrun.language.absent import Absent
from skillrun.language.definitions import Step
from skillrun.language.diagnostics import SkillrunError
from skillrun.language.schemas import shown
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.looked import looked
from skillrun.runtime.run import Frame, Run
from skillrun.runtime.tools import opened_repository
from skillrun.tools.paths import PathRefused
from skillrun.tools.readable import SECONDS, Readable, Withheld
from skillrun.tools.tree import LONGEST
from skillrun.tools.wildcards import NoPattern, wildcard

MOST: Final = 1_000  # paths that one step looks for
_CLOSED: Final = (errno.EACCES, errno.EPERM)

Verdict = Literal["found", "missing", "withheld"]


async def act(step: Step, frame: Frame) -> dict[str, list[Any]]:
    """`.found`, `.missing` and `.withheld`: the items as they were; a resumed phase finds the same."""
    items = _items(frame.main(step))
    paths = [_path(step, frame, one) for one in items]
    wanted = list(dict.fromkeys(paths))
    if len(wanted) > MOST:
        raise StepFailed(f"`find` looks for at most {MOST:,} paths, and here are {len(wanted):,}", frame.at(step))
    folder = str(frame.open.names["repository"])

    async def look() -> dict[str, Any]:
        return {"paths": await asyncio.to_thread(_verdicts, frame.run, folder, wanted)}

    verdicts = (await looked(step, frame, json.dumps(["find", folder, wanted]), look)).get("paths", {})
    result: dict[str, list[Any]] = {"found": [], "missing": [], "withheld": []}
    for item, path in zip(items, paths, strict=True):
        result[verdicts.get(path, "missing")].append(item)
    return result


def _items(value: Any) -> list[Any]:
    if isinstance(value, Absent):
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _path(step: Step, frame: Frame, item: Any) -> str:
    path = item.get("path") if isinstance(item, Mapping) else item
    if not isinstance(path, str) or not path:
        raise StepFailed(f"`find` takes paths, or records with a `path`; here is {shown(str(item))}", frame.at(step))
    return path


def _verdicts(run: Run, folder: str, paths: Iterable[str]) -> dict[str, Verdict]:
    """What is to be said of each path. Raises SkillrunError without a repository, and where it takes too long."""
    if not folder:
        raise SkillrunError("there is no repository to find anything in; the workflow's `repository:` names it")
    try:
        with opened_repository(run, folder) as repository:
            return {path: _verdict(repository, path) for path in paths}
    except TimeoutError:
        message = f"the search for paths took more than {SECONDS:g} seconds"
        raise SkillrunError(message, "look for fewer, or for names without wildcards") from None


def _verdict(repository: Readable, path: str) -> Verdict:
    """Withheld is what models may not see, whether it is there or not. What leads out of the folder is not in it."""
    name = normpath(path)  # by the letters: what a link would make of `..` is no matter of the text's author
    if len(path) > LONGEST or "\0" in path or name.startswith(("/", "../")) or name == "..":
        return "missing"
    try:
        with repository.opened(name) as found:
            return "found" if found.is_folder or not path.endswith("/") else "missing"
    except Withheld:
        return "withheld"
    except PathRefused:
        return "missing"
    except OSError as error:
        if error.errno in _CLOSED:
            return "withheld"
    return "found" if any(each in name for each in "*?[") and _matches(repository, name) else "missing"


def _matches(repository: Readable, pattern: str) -> bool:
    try:
        wanted = wildcard(pattern.replace("\\", r"\\"))
    except NoPattern:
        return False
    return next(iter(repository.files(wanted=wanted)), None) is not None
