"""Reads and writes `state.md`, which contains the status of a run. Invalid values are refused."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.frontmatter import RunFile, plain_data, render_problems, replace_surrogates, to_frontmatter
from skillrun.store.outcome import Status
from skillrun.syntax.diagnostics import Problems, SkillrunError, make_printable
from skillrun.syntax.reading import is_outside
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.records import Bounds, NonNegativeFloat, NonNegativeInt, is_whole, required_fields
from skillrun.types.schemas import quote_value

SCHEMA_VERSION: Final = 2
STATE: Final = "state.md"
MAX_ROUNDS: Final = 10_000
RESTORE_STATE_HINT: Final = "restore the file; the journal is unchanged"


@dataclass
class State:
    """The content of `state.md`: the status of the run. Everything else follows from the journal and the files."""

    workflow: str
    started_at: str
    inputs: dict[str, object]
    state: dict[str, object]
    status: Status = "running"
    phase: list[str] = field(default_factory=list)
    round: Annotated[int, Bounds(1, MAX_ROUNDS)] = 1
    reason: str = ""
    features: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    environment: str = "terminal"
    backs: dict[str, NonNegativeInt] = field(default_factory=dict)
    going: dict[str, str] = field(default_factory=dict)
    estimate: dict[str, object] | None = None
    files: dict[str, str] = field(default_factory=dict)
    outdated: dict[str, dict[str, str]] = field(default_factory=dict)
    """The files that were edited after a phase ended, with the hash that they had before, keyed by phase."""
    budget: dict[str, NonNegativeFloat] = field(default_factory=dict)
    project: str = ""
    override: str = ""
    typed: list[str] = field(default_factory=list)  # path inputs that the user gave
    share: bool = False
    seal: str = ""
    schema_version: NonNegativeInt = SCHEMA_VERSION


def format_state(state: State, log: Iterable[str]) -> str:
    record, needed = plain_data(vars(state)), required_fields(State)
    data = {key: value for key, value in record.items() if key in needed or value not in (None, "", {}, [], False)}
    ordered = {"schema_version": data.pop("schema_version"), **data}
    lines = (" ".join(make_printable(line).split()) for line in log)  # a reason may contain a model's text
    return to_frontmatter(ordered, "# Log\n\n" + "".join(f"- {line}\n" for line in lines))


def parse_state(path: Path, content: bytes) -> tuple[State, list[str]]:
    """Return the state and the lines of its log. Raises SkillrunError if it is invalid, or has another version."""
    problems = Problems()
    file = RunFile.read(path, content, problems)
    version = file.data.get("schema_version")
    if version == 1:
        command = f"skillrun resume {quote(str(path.parent))}"
        raise SkillrunError(f"{path} has schema version 1", f"`{command}` migrates the run")
    if version is None:
        raise SkillrunError(f"{path} has no frontmatter with a `schema_version`", RESTORE_STATE_HINT)
    if not is_whole(version) or version > SCHEMA_VERSION:
        version_text = version if is_whole(version) else quote_value(version)
        raise SkillrunError(
            f"{path} has schema version {version_text}; this skillrun supports version {SCHEMA_VERSION}",
            "use the skillrun version that wrote it",
        )
    file.check(State, problems)
    if problems.has_errors:
        raise SkillrunError(render_problems(problems), RESTORE_STATE_HINT)
    known: Any = {key: value for key, value in file.data.items() if key in State.__dataclass_fields__}
    log = [line.removeprefix("- ") for line in file.body.splitlines() if line.startswith("- ")]
    return State(**known), log


def belongs_to(state: State, project: Path) -> bool:
    """Whether the state says that its run is of the project."""
    if not state.project or "\0" in state.project:  # no path contains it
        return False
    return replace_surrogates(os.path.realpath(state.project)) == replace_surrogates(os.path.realpath(project))


def is_run_of(folder: ConfinedFolder, project: Path) -> bool:
    """Whether a folder is in the project, or contains a run of the project."""
    if not is_outside(folder.path, project):
        return True
    with suppress(FileNotFoundError, SkillrunError):
        return belongs_to(parse_state(folder.path / STATE, folder.read(STATE, MAX_BYTES))[0], project)
    return False
