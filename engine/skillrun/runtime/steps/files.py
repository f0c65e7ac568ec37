"""`read`, `find` and `write`: steps that use files.

`read` reads files of the run, of other runs and of the project. `find` looks up paths in the workflow's repository.
`write` writes artifacts of the run.
"""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from posixpath import normpath
from typing import Any, Final, Literal, cast

from skillrun.definitions.definitions import Step
from skillrun.events import Wrote
from skillrun.library.settings import step_address
from skillrun.questions.answers import Question
from skillrun.replay import READS, Body, attempt_address, fingerprint_text, round_address
from skillrun.repository.confined_folder import LONGEST, ConfinedFolder
from skillrun.repository.file_tools import LineRange, load_text, read_excerpts
from skillrun.repository.paths import PathRefused, require_slug
from skillrun.repository.readable_folder import SECONDS, PathWithheld, ReadableFolder, split_path
from skillrun.repository.results import split_lines
from skillrun.repository.wildcards import InvalidPattern, compile_wildcard
from skillrun.runtime.asking.asking import ask_questions
from skillrun.runtime.asking.forms import MOST_BYTES
from skillrun.runtime.calls.tools import (
    open_project,
    open_repository,
    project_folder,
    project_relative_path,
    resolve_user_path,
    user_paths,
    withheld_names,
)
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame, StepResult
from skillrun.runtime.run import Run
from skillrun.runtime.scope import frame_names
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.artifacts import WriteOutcome, normalize_artifact_name, variant_names
from skillrun.store.files import sha256_of
from skillrun.store.frontmatter import from_frontmatter, to_frontmatter
from skillrun.store.journal_bodies import ToolBody
from skillrun.store.state import is_run_of
from skillrun.syntax.diagnostics import SkillrunError, sanitize
from skillrun.syntax.reading import decode_text, encoding_warning, is_binary
from skillrun.templates.values import Absent
from skillrun.types.schemas import Shape, quote_value

INVALID_NAME_ERRNOS: Final = frozenset({errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR})
"""Error numbers for an invalid name: it is too long, is the name of a folder, or has a file as its parent."""

KEEP, TAKE = "keep mine", "take the new one"
WILDCARDS: Final = "*?["
MOST_PATHS: Final = 1_000  # paths that one `find` step may look for
SIMULATED_LINE: Final = "     1\tof the code base that nobody has read yet"

Verdict = Literal["found", "missing", "withheld"]
Look = Callable[[], Awaitable[ToolBody]]


async def read_once(step: Step, frame: Frame, question: str, look: Look) -> ToolBody:
    """Return the journaled result of `look`, or call and journal it. Raises StepFailed if `look` raises SkillrunError.

    `question` identifies what is looked for.
    """
    phase, where = frame.phase, round_address(frame.at(step), frame.phase.round_path)
    fingerprint = fingerprint_text(question)
    key = f"{where} {fingerprint}"

    async def read() -> Body:
        """Return the result of `look`, or its `error`. A resumed phase gets the error that the journal has."""
        try:
            return dict(sanitize(await look()))
        except SkillrunError as error:
            return {"error": str(error)}

    while key not in phase.attempts.results:
        attempt = phase.attempts.tries[key] = phase.attempts.tries.get(key, 0) + 1
        result, _ = await frame.run.replay.once(READS, attempt_address(where, attempt), fingerprint, read)
        if "error" not in result:
            phase.attempts.results[key] = result
        elif attempt > phase.voided_attempts(key):
            raise StepFailed(result["error"], frame.at(step))
    return cast(ToolBody, phase.attempts.results[key])


async def write_reply(frame: Frame, step: Step, path: str, text: str, data: Any, member: str = "") -> str:
    """Write a member's reply, and return the text. `member` is set if the step writes a file for each member.

    The fields of a structured reply become frontmatter, except `body`, which becomes the body.
    """
    if isinstance(data, dict):
        front = {key: value for key, value in data.items() if key != "body"}
        text = to_frontmatter(front, str(data.get("body", "")).strip() + "\n")
    return await write_artifact(frame, step, path, text if isinstance(data, dict) else text.strip() + "\n", member)


async def write_artifact(frame: Frame, step: Step, path: str, text: str, member: str = "") -> str:
    """Write an artifact, and return the text of the file: the new text, or an edited version that the user keeps.

    Raises StepFailed if the name is invalid; a name can come from a model.
    """
    phase, store, text = frame.phase, frame.run.store, sanitize(text)
    try:
        path = normalize_artifact_name(path)
    except PathRefused as error:
        raise _write_error(frame, step, path, error.message) from None
    other = frame.find_other_owner(frame.at(step), path, member)
    if other and store.artifacts.text(path) not in (None, text):
        label = step.id or step.verb
        phase.warn(f"{label}: {path} replaces the file of `{other}`; include the item's id in the file name")
    frame.claim_file(frame.at(step), path, member)
    earlier_texts = (data["artifacts"].get(path) for data in phase.names["phases"].values())
    before = next((text for text in earlier_texts if text is not None), None)  # when this phase was opened
    if before not in (None, text):
        address = phase.overwritten_text_address(path)
        await phase.run.journal.record("note", address, sha256_of(text), {"text": before})
    try:
        outcome = await store.artifacts.put(path, text)
        if outcome == "conflict":
            outcome = await _resolve_conflict(frame, step, path, text)
    except OSError as error:
        if error.errno not in INVALID_NAME_ERRNOS:
            raise
        raise _write_error(frame, step, path, error.strerror or "the file cannot be written") from None
    phase.add_artifact(path)
    frame.run.emit(Wrote(path, phase.name, outcome == "written"))
    if outcome == "kept":
        return store.artifacts.text(path) or ""
    return text


def _write_error(frame: Frame, step: Step, path: str, why: str) -> StepFailed:
    return StepFailed(f"`{step.id or step.verb}` cannot write {quote_value(path)}: {why}", frame.at(step))


async def _resolve_conflict(frame: Frame, step: Step, path: str, text: str) -> WriteOutcome:
    """Write the new text to a copy next to a file that the user has edited, and ask which version to keep."""
    store = frame.run.store
    copy_name = next(name for name in variant_names(path) if store.artifacts.text(name) in (None, text))
    store.artifacts.write_user_file(copy_name, text)
    question: Question = {
        "id": f"keep-{path}",
        "text": f"{path} was edited manually, and there is a new version in {copy_name}.",
        "choices": [KEEP, TAKE],
        "default": KEEP,
        "round": frame.phase.round,
        "version": sha256_of(text)[:16],  # so that an earlier answer about another version is not reused
    }
    answers = (await ask_questions(frame, f"{frame.at(step)}/{path}", [question]))["answers"]
    if answers[0].get("answer") == TAKE:
        store.artifacts.remove(copy_name)
        await store.artifacts.replace(path, text)
        return "written"
    await store.artifacts.keep_user_version(path)
    frame.phase.warn(f"{path} was edited manually and is kept; the new version is in {copy_name}")
    return "kept"


async def run_read(step: Step, frame: Frame) -> StepResult:
    """Return `text` of all files, `data` (frontmatter), `files`, `documents`. A resumed phase gets the same values."""
    pattern = frame.text(step)
    origin = frame.text(step, "from")
    shape = frame.shape(step)

    async def look() -> ToolBody:
        # A folder outside of the run may be slow to read, so it is read in a thread while other branches continue.
        files = await asyncio.to_thread(_files, frame, origin, pattern) if origin else _files(frame, origin, pattern)
        body = _read(files, shape)
        if origin not in ("", "project"):
            body["run"] = origin
        return body

    if not origin:
        frame.claim_read(frame.at(step), normpath(pattern))  # also if the file is missing
    body = await read_once(step, frame, f"{origin}\n{pattern}", look)
    for name in body.get("files", []) if not origin else ():
        frame.claim_read(frame.at(step), name)
    for name in body.get("binary", []):
        frame.phase.warn(f"{name} is left out: it is a binary file, and `read` takes only text")
    for warning in body.get("not_utf8", []):
        frame.phase.warn(warning)
    return StepResult(_value(body))


def _value(body: ToolBody) -> dict[str, Any]:
    """Return the result of the step from its journal body. In an older journal, the body has one text for all files."""
    names, texts = body.get("files", []), body.get("texts")
    if texts is None:
        names, texts = [", ".join(names)], [body.get("text", "")]
    documents = [{"path": name, "text": text} for name, text in zip(names, texts, strict=False)]
    rest = {name: value for name, value in body.items() if name not in ("texts", "run", "binary", "not_utf8")}
    return {**rest, "text": "\n\n".join(texts), "documents": documents}


def _files(frame: Frame, origin: str, pattern: str) -> list[tuple[str, bytes | None]]:
    """Return the names and contents of the files to read; None is the content of a binary file.

    Raises SkillrunError if no file matches.
    """
    store, where = frame.run.store, f"the run `{origin}`" if origin else "this run"
    try:
        if origin == "project":
            where = "the project"
            if (user_path := resolve_user_path(frame.run, pattern)) is not None:
                where = "the given folder"
                with ReadableFolder(ConfinedFolder(user_path[0], links=True), withheld_names(frame.run)) as folder:
                    names = [user_path[1]] if pattern in user_paths(frame.run) else _matching(folder, user_path[1])
                    return _contents(names, partial(_read_file, folder))
            with open_project(frame.run) as folder:
                names = _matching(folder, project_relative_path(frame.run, pattern))
                return _contents(names, partial(_read_file, folder))
        if origin:
            other = store.files.open_other_run(require_slug(origin))
            with ReadableFolder(other, use_gitignore=False) as folder:
                _check_project(frame.run, origin, other)
                return _contents(_matching(folder, pattern), partial(_read_file, folder))
        return _contents(store.matching(pattern), store.files.read)
    except (FileNotFoundError, NotADirectoryError):
        raise SkillrunError(f"no file matches {quote_value(pattern)} in {where}") from None
    except TimeoutError:
        raise SkillrunError(
            f"the search for {quote_value(pattern)} in {where} took more than {SECONDS:g} seconds"
        ) from None
    except OSError as error:
        raise SkillrunError(f"{quote_value(pattern)} in {where} cannot be read: {error.strerror}") from None


def _check_project(run: Run, name: str, other: ConfinedFolder) -> None:
    """Raise SkillrunError if the other run is of another project.

    Runs of several projects can share a folder or a store, and a project must not read those of the others.
    """
    if not any(is_run_of(other, project) for project in (run.program.library.project, project_folder(run))):
        raise SkillrunError(
            f"`{name}` is not a run of this project, and a step reads only runs of the same project; to read another "
            "one, give its folder as an input of type `path`, and use `from: project`"
        )


def _matching(folder: ReadableFolder, pattern: str) -> list[str]:
    """Return the names of the files that match a pattern. Wildcards do not match files that git ignores."""
    if not any(sign in pattern for sign in WILDCARDS):
        with folder.open_path(pattern, allow_ignored=True) as file:
            return [] if file.is_folder else ["/".join(split_path(pattern)) or file.name]
    if ".." in pattern.split("/") or pattern.startswith("/") or len(pattern) > LONGEST:
        raise PathRefused(f"{quote_value(pattern)} leads out of its folder, or is too long to be a path")
    plain = "/".join(part for part in pattern.split("/") if part not in ("", "."))
    try:
        return sorted(folder.files(pattern=compile_wildcard(plain.replace("\\", r"\\")), include_runs=True))
    except InvalidPattern:
        raise SkillrunError(f"{quote_value(pattern)} is not a valid pattern") from None


def _contents(names: list[str], read: Callable[[str, int], bytes]) -> list[tuple[str, bytes | None]]:
    """Return each name with the content that `read` returns, or None for a binary file.

    Raises SkillrunError if the files are too large.
    """
    files: list[tuple[str, bytes | None]] = []
    left = MOST_BYTES
    for name in names:
        content = read(name, left)
        if is_binary(content):
            files.append((name, None))
            continue
        if len(content) > left:
            raise SkillrunError(f"a step reads at most {MOST_BYTES:,} bytes; {quote_value(name)} exceeds that")
        files.append((name, content))
        left -= len(content)
    if not files:
        raise FileNotFoundError
    return files


def _read_file(folder: ReadableFolder, name: str, limit: int) -> bytes:
    """Return at most `limit` bytes of a file, or one byte more if the file is larger."""
    with folder.open_path(name, allow_ignored=True) as opened, open(opened.descriptor, "rb", closefd=False) as file:
        return file.read(limit + 1)


def _read(files: list[tuple[str, bytes | None]], shape: Shape | None) -> ToolBody:
    """Return the journal body with the texts of the files and their frontmatter. Raises SkillrunError.

    A binary file among text files is left out, and named in `binary`.
    """
    texts, records, not_utf8 = [], [], []
    binary = [name for name, content in files if content is None]
    readable = [(name, content) for name, content in files if content is not None]
    if not readable:
        raise SkillrunError(
            f"{', '.join(binary[:5])} {'is a binary file' if len(binary) == 1 else 'are binary files'}; "
            "`read` takes text in UTF-8, or in UTF-16 or UTF-32 with a byte order mark: "
            "convert the file, or name only text files"
        )
    for name, content in readable:
        text, undecoded = decode_text(content)
        if shape is None:
            texts.append(text)
            not_utf8 += [encoding_warning(name, undecoded)] if undecoded else []
            continue
        data, body = from_frontmatter(Path(name), content if undecoded else text.encode())
        errors = shape.check(data)
        if errors:
            raise SkillrunError(f"{name} does not match the schema: {'; '.join(map(str, errors[:5]))}")
        records.append(data)
        texts.append(body)
    result: ToolBody = {"texts": texts, "files": [name for name, _ in readable]}
    if binary:
        result["binary"] = binary
    if not_utf8:
        result["not_utf8"] = not_utf8
    if records:
        result["data"] = records[0] if len(records) == 1 else records
    return result


async def run_write(step: Step, frame: Frame) -> StepResult:
    path = frame.text(step)
    names = frame_names(frame)
    name = frame.text(step, "template")
    if name:
        template = frame.run.program.library.text(name)
        if template is None:
            raise StepFailed(f"the template `{name}` does not exist", frame.at(step))
        text = template.template.render_text(names)
    else:
        prompt = frame.prompts.get(step.id or "")
        text = prompt.template.render_text(names) if prompt is not None else ""
    body = text.strip() + "\n" if text.strip() else ""
    frontmatter = step.values.get("frontmatter")
    if frontmatter is not None:
        data, shape = frontmatter.evaluate(names), frame.shape(step)
        if wrong := shape.check(data)[:5] if shape is not None else ():
            why = "; ".join(map(str, wrong))
            raise StepFailed(f"the frontmatter of `{path}` does not match the schema: {why}", frame.at(step))
        body = to_frontmatter(data, body)
    return StepResult({"path": path, "text": await write_artifact(frame, step, path, body)})


async def run_find(step: Step, frame: Frame) -> StepResult:
    """Return the items, grouped as `found`, `missing` and `withheld`. A resumed phase gets the same result.

    If items name lines, also return those whose file ends before them as `past_end`, with its `length` in lines. With
    `show`, also return lines of the files as `texts`, and the places that are not shown as `left_out`.
    """
    value = frame.main(step)
    items = [] if isinstance(value, Absent) else list(value) if isinstance(value, list | tuple) else [value]
    paths: list[str] = []
    for item in items:
        path = item.get("path") if isinstance(item, Mapping) else item
        if not isinstance(path, str):
            reason = f"`find` takes paths, or records with a `path`; got {quote_value(str(item))}"
            raise StepFailed(reason, frame.at(step))
        paths.append(path)
    wanted = list(dict.fromkeys(paths))
    most = max(0, frame.whole(step, "show", 0)) if "show" in step.values else None
    places = _places(items, paths)
    if len(wanted) > MOST_PATHS:
        raise StepFailed(f"`find` takes at most {MOST_PATHS:,} paths; this step has {len(wanted):,}", frame.at(step))
    folder = str(frame.phase.names["repository"])

    async def look() -> ToolBody:
        return await asyncio.to_thread(_find_paths, frame.run, folder, wanted, places, most)

    question: list[object] = ["find", folder, wanted]
    if most is not None or any(places.values()):
        question += [list(places.items()), most]
    seen = await read_once(step, frame, json.dumps(question), look)
    result: dict[str, list[Any]] = {"found": [], "missing": [], "withheld": []}
    for item, path in zip(items, paths, strict=True):
        result[seen.get("paths", {}).get(path, "missing")].append(item)
    if any(places.values()):
        lengths = seen.get("lengths", {})
        result["past_end"] = [
            {**item, "length": lengths[path]}
            for item, path in zip(items, map(normpath, paths), strict=True)
            if path in lengths and lengths[path] < max((end for _, end in places[path]), default=0)
        ]
    if most is not None:
        texts = seen.get("excerpts", {})
        simulation = frame.run.options.simulation
        size = simulation.sizes.get(step_address(f"{frame.at(step)}/-/-")) if simulation is not None else None
        if not texts and size is not None:  # a simulation shows as much text as excerpts of earlier runs had
            texts = {"…": "\n".join([SIMULATED_LINE] * (size.reply // estimate_tokens(SIMULATED_LINE)))}
        for warning in seen.get("not_utf8", []):
            frame.phase.warn(warning)
        result["texts"] = [{"path": path, "text": text} for path, text in texts.items()]
        result["left_out"] = list(seen.get("left_out", []))
    return StepResult(result)


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
    """Return the status of each path, the lengths of files, and at most `most` lines of the files.

    A name without a folder is found in any folder. Lengths, in lines, are those of the files in which `places` names
    lines. Raises SkillrunError if the workflow has no repository, or if the search takes too long.
    """
    if not folder:
        raise SkillrunError("the workflow names no repository to search; set `repository:`")
    verdicts: dict[str, Verdict] = {}
    files, lengths = set(), {}
    try:
        with open_repository(run, folder) as repository:
            for path in paths:
                verdicts[path], is_file = _look_up(repository, path)
                if is_file:
                    files.add(normpath(path))
            bare = {path for path, verdict in verdicts.items() if verdict == "missing" and "/" not in path}
            names = {name.rpartition("/")[2] for name in repository.files()} if bare else set()
            verdicts |= dict.fromkeys(bare & names, "found")
            for path in [path for path, named in places.items() if named and path in files]:
                if (content := load_text(repository, path)) is not None:
                    lengths[path] = len(split_lines(content))
            result: ToolBody = {"paths": verdicts, **({"lengths": lengths} if lengths else {})}
            if most is not None:
                shown = {path: lines for path, lines in places.items() if path in files}
                result["excerpts"], result["left_out"], not_utf8 = read_excerpts(repository, shown, most)
                result |= {"not_utf8": not_utf8} if not_utf8 else {}
            return result
    except TimeoutError:
        message = f"the search for paths took more than {SECONDS:g} seconds"
        raise SkillrunError(message, "search for fewer paths, or for names without wildcards") from None


def _look_up(repository: ReadableFolder, path: str) -> tuple[Verdict, bool]:
    """Return the status of a path, and whether it names one file that models may read, rather than a folder or pattern.

    A path that models may not see is reported as `withheld`, whether or not it exists. A path that leads out of the
    folder is reported as `missing`. So is an empty path, which remains of a text without valid characters.
    """
    name = normpath(path)  # removes `..` without following links, as the author means it
    if not path or len(path) > LONGEST or "\0" in path or name.startswith(("/", "../")) or name == "..":
        return "missing", False
    try:
        with repository.open_path(name) as entry:
            return "found" if entry.is_folder or not path.endswith("/") else "missing", not entry.is_folder
    except PathWithheld:
        return "withheld", False
    except PathRefused:
        return "missing", False
    except TimeoutError:
        raise
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return "withheld", False
    if not any(sign in name for sign in WILDCARDS):
        return "missing", False
    try:
        pattern = compile_wildcard(name.replace("\\", r"\\"))
    except InvalidPattern:
        return "missing", False
    return "missing" if next(iter(repository.files(pattern=pattern)), None) is None else "found", False
