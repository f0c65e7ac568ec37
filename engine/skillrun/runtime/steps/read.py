"""`read`: files below the run folder, in the project, or of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skillrun.language.border import clean
from skillrun.language.definitions import Step
from skillrun.language.diagnostics import SkillrunError
from skillrun.language.schemas import Shape
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.files import LARGEST, digest
from skillrun.runtime.records_yaml import from_frontmatter
from skillrun.runtime.run import Frame
from skillrun.tools.matching import matching
from skillrun.tools.paths import checked_slug
from skillrun.tools.tree import Tree


async def act(step: Step, frame: Frame) -> dict[str, Any]:
    """`.text` of all files, `.data` (frontmatter), `.files`; journaled: a resumed phase reads the same again."""
    pattern = str(frame.main(step))
    origin = str(frame.value(step, "from", ""))
    phase, where = frame.open, f"{frame.at(step)}@{frame.open.rounds}"
    fingerprint = digest(f"{origin}\n{pattern}")
    key = f"{where} {fingerprint}"
    while key not in phase.answers:
        attempt = phase.tries[key] = phase.tries.get(key, 0) + 1
        found = await _attempt(step, frame, origin, pattern, f"{where}.{attempt}", fingerprint)
        if "error" not in found:
            phase.answers[key] = found
        elif attempt > phase.forgiven(key):
            raise StepFailed(found["error"], frame.at(step))
    known: dict[str, Any] = phase.answers[key]
    return known


async def _attempt(
    step: Step, frame: Frame, origin: str, pattern: str, address: str, fingerprint: str
) -> dict[str, Any]:
    """What was read, or an `error`: a file that was not there is missing again when the phase is resumed."""
    journal = frame.run.journal
    known = journal.find("tool", address, fingerprint)
    if known is not None and frame.run.session.keeps_reads:
        return known
    try:
        found = clean(_read(*_files(frame, origin, pattern), frame.shape(step)))
    except SkillrunError as error:
        found = {"error": str(error)}
    if known != found:
        await journal.record("tool", address, fingerprint, found)
    return found


def _files(frame: Frame, origin: str, pattern: str) -> tuple[Tree, list[str]]:
    """The files to read, and the folder that they are named from. Raises SkillrunError when there is none."""
    folder = frame.run.folder
    if not origin:
        tree, names, where = folder.tree, folder.matching(pattern), "this run"
    else:
        in_project = origin == "project"
        where = "the project" if in_project else f"the run `{origin}`"
        tree = (
            Tree(Path(frame.run.state.project or "."), links=True) if in_project else _run(folder.path.parent, origin)
        )
        names = matching(tree, pattern)
    if not names:
        raise SkillrunError(f"there is no file `{pattern}` in {where}")
    return tree, names


def _run(runs: Path, name: str) -> Tree:
    """The folder of another run. Raises SkillrunError where there is none, or its name is a link."""
    try:
        return Tree(runs / checked_slug(name))
    except (FileNotFoundError, NotADirectoryError):
        raise SkillrunError(f"there is no run `{name}` in {runs}") from None


def _read(tree: Tree, names: list[str], shape: Shape | None) -> dict[str, Any]:
    texts, records = [], []
    for name in names:
        content = tree.read(name, LARGEST)
        if len(content) > LARGEST:
            raise SkillrunError(f"{name} is larger than {LARGEST:,} bytes")
        if shape is not None:
            data, body = from_frontmatter(tree.path / name, content)
            errors = shape.check(data)
            if errors:
                wrong = "; ".join(f"{error.path}: {error.message}" for error in errors[:5])
                raise SkillrunError(f"{tree.path / name} has not the shape asked for: {wrong}")
            records.append(data)
            texts.append(body)
        else:
            texts.append(_lines(content.decode("utf-8", "replace")))
    result: dict[str, Any] = {"text": "\n\n".join(texts), "files": names}
    if records:
        result["data"] = records[0] if len(records) == 1 else records
    return result


def _lines(text: str) -> str:
    """The text with the line ends of this system's editors."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
