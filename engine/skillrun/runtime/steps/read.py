"""`read`: reads files of the run folder, of the project, or of another run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skillrun.definitions.definitions import Step
from skillrun.repository.confined_folder import LONGEST, ConfinedFolder
from skillrun.repository.paths import PathRefused, require_slug
from skillrun.repository.readable_folder import SECONDS, ReadableFolder, split_path
from skillrun.repository.wildcards import InvalidPattern, compile_wildcard
from skillrun.runtime.calls.tools import (
    open_project,
    project_relative_path,
    resolve_user_path,
    user_paths,
    withheld_names,
)
from skillrun.runtime.frame import Frame
from skillrun.runtime.steps.observation import read_once
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.journal_bodies import ToolBody
from skillrun.store.run_data import RunData
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import Shape, quote_value

MOST: Final = 5_000_000  # bytes that one step reads


async def execute(step: Step, frame: Frame) -> Mapping[str, object]:
    """Return `text` of all files, `data` (frontmatter), `files`, `documents`; a resumed phase reads the same."""
    pattern = frame.text(step)
    origin = frame.text(step, "from")
    shape = frame.shape(step)

    async def look() -> ToolBody:
        # Other folders may be slow to read; other branches of the run continue meanwhile.
        files = await asyncio.to_thread(_files, frame, origin, pattern) if origin else _files(frame, origin, pattern)
        body = _read(files, shape)
        if origin not in ("", "project"):
            body["run"] = origin
        return body

    return _value(await read_once(step, frame, f"{origin}\n{pattern}", look))


def _files(frame: Frame, origin: str, pattern: str) -> list[tuple[str, bytes]]:
    """Return the names and contents of the files to read. Raises SkillrunError if no file matches."""
    store, where = frame.run.store, f"the run `{origin}`" if origin else "this run"
    try:
        if origin == "project":
            where = "the project"
            if (user_path := resolve_user_path(frame.run, pattern)) is not None:
                where = "the given folder"
                with ReadableFolder(ConfinedFolder(user_path[0], links=True), withheld_names(frame.run)) as folder:
                    names = [user_path[1]] if pattern in user_paths(frame.run) else _matching(folder, user_path[1])
                    return _contents(folder, names)
            with open_project(frame.run) as folder:
                names = _matching(folder, project_relative_path(frame.run, pattern))
                return _contents(folder, names)
        if origin:
            with ReadableFolder(store.files.open_other_run(require_slug(origin)), use_gitignore=False) as folder:
                return _contents(folder, _matching(folder, pattern))
        return _read_run_files(store, store.matching(pattern))
    except (FileNotFoundError, NotADirectoryError):
        raise SkillrunError(f"no file matches {quote_value(pattern)} in {where}") from None
    except TimeoutError:
        raise SkillrunError(
            f"the search for {quote_value(pattern)} in {where} took more than {SECONDS:g} seconds"
        ) from None
    except OSError as error:
        raise SkillrunError(f"{quote_value(pattern)} in {where} cannot be read: {error.strerror}") from None


def _read_run_files(store: RunData, names: list[str]) -> list[tuple[str, bytes]]:
    """Return the names and contents of files of this run."""
    read, left = [], MOST
    for name in names:
        read.append((name, store.files.read(name, left)))
        left = _remaining_bytes(name, read[-1][1], left)
    if not read:
        raise FileNotFoundError
    return read


def _matching(folder: ReadableFolder, pattern: str) -> list[str]:
    """Return the names of the files that match a pattern. Without wildcards, it may name a file that git ignores."""
    if not any(sign in pattern for sign in "*?["):
        with folder.open_path(pattern, allow_ignored=True) as file:
            return [] if file.is_folder else ["/".join(split_path(pattern)) or file.name]
    if ".." in pattern.split("/") or pattern.startswith("/") or len(pattern) > LONGEST:
        raise PathRefused(f"{quote_value(pattern)} leads out of its folder, or is too long to be a path")
    plain = "/".join(part for part in pattern.split("/") if part not in ("", "."))
    try:
        return sorted(folder.files(pattern=compile_wildcard(plain.replace("\\", r"\\")), include_runs=True))
    except InvalidPattern:
        raise SkillrunError(f"{quote_value(pattern)} is not a valid pattern") from None


def _contents(folder: ReadableFolder, names: list[str]) -> list[tuple[str, bytes]]:
    read, left = [], MOST
    for name in names:
        with folder.open_path(name, allow_ignored=True) as opened, open(opened.descriptor, "rb", closefd=False) as file:
            read.append((name, file.read(left + 1)))
        left = _remaining_bytes(name, read[-1][1], left)
    if not read:
        raise FileNotFoundError
    return read


def _remaining_bytes(name: str, content: bytes, left: int) -> int:
    """Return how many more bytes a step may read. Raises SkillrunError beyond the limit."""
    if len(content) > left:
        raise SkillrunError(f"a step reads at most {MOST:,} bytes; {quote_value(name)} exceeds that")
    return left - len(content)


def _value(body: ToolBody) -> Mapping[str, object]:
    """Return the value of the step's id. Older journals hold one text for all files."""
    names, texts = body.get("files", []), body.get("texts")
    if texts is None:
        names, texts = [", ".join(names)], [body.get("text", "")]
    documents = [{"path": name, "text": text} for name, text in zip(names, texts, strict=False)]
    rest = {name: value for name, value in body.items() if name not in ("texts", "run")}
    return {**rest, "text": "\n\n".join(texts), "documents": documents}


def _read(files: list[tuple[str, bytes]], shape: Shape | None) -> ToolBody:
    """Return the journal body of the files."""
    texts, records = [], []
    for name, content in files:
        if shape is None:
            texts.append(content.decode("utf-8", "replace"))
            continue
        data, body = from_frontmatter(Path(name), content)
        errors = shape.check(data)
        if errors:
            wrong = "; ".join(f"{error.path}: {error.message}" for error in errors[:5])
            raise SkillrunError(f"{name} does not match the schema: {wrong}")
        records.append(data)
        texts.append(body)
    result: ToolBody = {"texts": texts, "files": [name for name, _ in files]}
    if records:
        result["data"] = records[0] if len(records) == 1 else records
    return result
