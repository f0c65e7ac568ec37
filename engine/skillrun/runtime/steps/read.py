"""`read`: files below the run folder, in the project, or of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skillrun.language.border import clean
from skillrun.language.definitions import Step
from skillrun.language.diagnostics import SkillrunError
from skillrun.language.schemas import Shape
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.files import digest
from skillrun.runtime.records_yaml import from_frontmatter
from skillrun.runtime.run import Frame
from skillrun.tools.paths import checked_slug, matching


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


def _files(frame: Frame, origin: str, pattern: str) -> tuple[Path, list[Path]]:
    """The files to read, and the folder that they are named from. Raises SkillrunError when there is none."""
    folder = frame.run.folder
    if not origin:
        root, where = folder.path, "this run"
        paths = [root.resolve() / name for name in folder.matching(pattern)]
    else:
        in_project = origin == "project"
        root = Path(frame.run.state.project or ".") if in_project else folder.path.parent / checked_slug(origin)
        where = "the project" if in_project else f"the run `{origin}`"
        paths = matching(root, pattern)
    if not paths:
        raise SkillrunError(f"there is no file `{pattern}` in {where}")
    return root, paths


def _read(root: Path, paths: list[Path], shape: Shape | None) -> dict[str, Any]:
    texts, records = [], []
    for path in paths:
        if shape is not None:
            data, body = from_frontmatter(path)
            errors = shape.check(data)
            if errors:
                wrong = "; ".join(f"{error.path}: {error.message}" for error in errors[:5])
                raise SkillrunError(f"{path} has not the shape asked for: {wrong}")
            records.append(data)
            texts.append(body)
        else:
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
    result: dict[str, Any] = {
        "text": "\n\n".join(texts),
        "files": [path.relative_to(root.resolve()).as_posix() for path in paths],
    }
    if records:
        result["data"] = records[0] if len(records) == 1 else records
    return result
