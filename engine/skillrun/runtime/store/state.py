"""`state.md`: where a run stands, as a file and as values. What does not fit is refused before anything reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, Final

from skillrun.language.text.diagnostics import SkillrunError, printable
from skillrun.language.types.schemas import shown
from skillrun.runtime.store.bodies import is_number, is_whole
from skillrun.runtime.store.records_yaml import from_frontmatter, line_of, plain_data, to_frontmatter

SCHEMA_VERSION: Final = 2
STATE: Final = "state.md"
MOST_ROUNDS: Final = 10_000
REQUIRED: Final = ("workflow", "started_at", "inputs", "state")
RESTORE: Final = "restore the file; the journal beside it is untouched"
NUMBERS: Final = ("backs", "budget")  # mappings to numbers
STATUSES: Final = ("running", "waiting", "completed", "failed", "interrupted")
TEXTS: Final = ("features", "models", "going", "files")  # mappings to texts


@dataclass
class State:
    """What `state.md` holds: where the run stands. Everything else follows from the journal and the files."""

    workflow: str
    started_at: str
    inputs: dict[str, Any]
    state: dict[str, Any]
    status: str = "running"
    phase: list[str] = field(default_factory=list)
    round: int = 1
    reason: str = ""
    features: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    environment: str = "terminal"
    backs: dict[str, int] = field(default_factory=dict)
    going: dict[str, str] = field(default_factory=dict)
    estimate: dict[str, Any] | None = None
    files: dict[str, str] = field(default_factory=dict)
    budget: dict[str, float] = field(default_factory=dict)
    project: str = ""
    override: str = ""
    typed: list[str] = field(default_factory=list)  # inputs that the user typed and that are paths
    share: bool = False
    seal: str = ""
    schema_version: int = SCHEMA_VERSION


def to_text(state: State, log: Iterable[str]) -> str:
    told = plain_data(vars(state))
    data = {key: value for key, value in told.items() if key in REQUIRED or value not in (None, "", {}, [], False)}
    ordered = {"schema_version": data.pop("schema_version"), **data}
    lines = (" ".join(printable(line).split()) for line in log)  # a reason may be a model's words
    return to_frontmatter(ordered, "# Log\n\n" + "".join(f"- {line}\n" for line in lines))


def from_text(path: Path, content: bytes) -> tuple[State, list[str]]:
    """The state, and the lines of its log. Raises SkillrunError when it is no state, or one of another version."""
    data, body = from_frontmatter(path, content)
    version = data.get("schema_version")
    if version == 1:
        typed = f"skillrun resume {quote(str(path.parent))}"
        raise SkillrunError(f"{path} is of schema version 1", f"`{typed}` brings the run forward")
    if version is None:
        raise SkillrunError(f"{path} has no frontmatter with a `schema_version`", RESTORE)
    if not is_whole(version) or version > SCHEMA_VERSION:
        found = version if is_whole(version) else shown(version)
        raise SkillrunError(
            f"{path} has the schema version {found}; this skillrun knows {SCHEMA_VERSION}",
            "use the skillrun that wrote it",
        )
    known = {key: value for key, value in data.items() if key in State.__dataclass_fields__}
    missing = [key for key in REQUIRED if key not in known]
    if missing:
        raise SkillrunError(f"{path} lacks {', '.join(missing)}", RESTORE)
    for key, value in known.items():
        if not _fits(key, value):
            place = f"{path}:{line_of(path, content, key)}"
            raise SkillrunError(f"{place}: `{key}` is {shown(value)}; it is {_allowed(key)}", RESTORE)
    log = [line.removeprefix("- ") for line in body.splitlines() if line.startswith("- ")]
    return State(**known), log


def _fits(key: str, value: Any) -> bool:
    """Whether a run can have written this value."""
    usual = USUAL[key]
    if key == "round":
        return is_whole(value) and 1 <= value <= MOST_ROUNDS
    if not isinstance(value, type(usual)) or (isinstance(value, bool) and not isinstance(usual, bool)):
        return False
    if key == "status":
        return value in STATUSES
    if key in ("phase", "typed"):
        return all(isinstance(name, str) for name in value)
    if key in TEXTS:
        return all(isinstance(one, str) for one in value.values())
    if key in NUMBERS:
        return all(map(is_number, value.values()))
    return True


def _allowed(key: str) -> str:
    """What a run writes there, in words."""
    if key == "round":
        return f"a whole number from 1 to {MOST_ROUNDS:,}"
    if key == "status":
        return f"one of {', '.join(STATUSES)}"
    of = "texts" if key in TEXTS else "numbers from 0" if key in NUMBERS else "values"
    usual = USUAL[key]
    words = {str: "a text", bool: "true or false", list: "a list of texts", dict: f"a mapping of names to {of}"}
    return words.get(type(usual), "a whole number")


USUAL: Final[Mapping[str, Any]] = vars(State("", "", {}, {}, estimate={}))
