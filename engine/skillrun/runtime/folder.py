"""The folder of a run: artifacts, summaries, rounds and state, each written whole or not at all.

Knows which files are its own work and which a person has changed since. The journal is beside it in `.run/`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from skillrun.language.diagnostics import SkillrunError
from skillrun.language.schemas import shown
from skillrun.runtime.checkpoints import reached
from skillrun.runtime.files import digest, sweep, sync_folder, write_atomic
from skillrun.runtime.journal import Journal
from skillrun.runtime.records_yaml import from_frontmatter, plain_data, to_frontmatter
from skillrun.tools.paths import confined, matching

SCHEMA_VERSION: Final = 2
STATE: Final = "state.md"
SUMMARIES: Final = "summaries"
REQUIRED: Final = ("workflow", "started_at", "inputs", "state")
Written = Literal["written", "same", "kept", "conflict"]


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
    schema_version: int = SCHEMA_VERSION


class RunFolder:
    """The files of one run below `path`. All names given to it are checked against escaping from there.

    The `wrote` records of the journal say which texts the run itself has written to which artifact; without a journal
    the files can be looked at.
    """

    def __init__(self, path: Path, journal: Journal | None = None) -> None:
        self.path = path
        self._journal = journal
        self._written: dict[str, list[str]] = {}  # hashes by artifact, the latest last
        self._put: set[str] = set()
        self._state = ""  # as it was last written
        self._summaries = path / SUMMARIES
        self._read: dict[Path, dict[str, Any]] = {}  # the summaries that have been read, by path
        for entry in journal.entries("wrote") if journal is not None else ():
            self._written.setdefault(entry.address, []).append(entry.fingerprint)

    # artifacts

    def resolve(self, name: str) -> Path:
        """The path of an artifact. Raises SkillrunError when it would lie outside, or in a file of the engine's."""
        if not name.isprintable():
            raise SkillrunError(f"{shown(name)} is not a name for an artifact: it has a character that is not seen")
        path = confined(self.path, name)
        top = "".join(path.relative_to(self.path.resolve()).parts[:1]).casefold()  # some file systems know no case
        if top in ("", ".run", SUMMARIES, STATE) or top.startswith("round-"):
            raise SkillrunError(f"`{name}` is not a name for an artifact: it belongs to the run itself")
        return path

    def text(self, name: str) -> str | None:
        path = self.resolve(name)
        return path.read_bytes().decode("utf-8", "replace") if path.is_file() else None

    async def put(self, name: str, text: str) -> Written:
        """Write an artifact, unless a person has changed the file that is there.

        `kept`: the run has written this text before, the person has changed what became of it, and theirs stays.
        `conflict`: the text is new, and nothing was written. The hash is in the ledger before the file is.
        """
        path = self.resolve(name)
        self._put.add(name)
        new = digest(text)
        current = digest(path.read_bytes()) if path.is_file() else None
        before = self._written.get(name, [])
        if current == new:
            if new not in before:
                await self._note(name, new)
            return "same"
        if current is not None and current not in before:
            return "kept" if new in before else "conflict"
        if before[-1:] != [new]:
            await self._note(name, new)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
        return "written"

    async def replace(self, name: str, text: str) -> None:
        """Write an artifact over whatever is there; noted when it is, or a kill between would let the old one stand."""
        self.put_beside(name, text)
        await self._note(name, digest(text))

    async def _note(self, name: str, sha: str) -> None:
        assert self._journal is not None
        self._written.setdefault(name, []).append(sha)
        await self._journal.record("wrote", name, sha, {})

    def put_beside(self, name: str, text: str) -> None:
        """Write a file that belongs to the person from then on."""
        path = self.resolve(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)

    def artifacts(self) -> dict[str, Path]:
        """The files that the run has written and that are there, by name."""
        return {name: self.path / name for name in self._written if (self.path / name).is_file()}

    def changed_by_hand(self) -> list[str]:
        """The artifacts whose present text the run has never written."""
        return [name for name, path in self.artifacts().items() if not self._own(name, path)]

    def matching(self, pattern: str) -> list[str]:
        """The names of the files that match a pattern, sorted: those of this evaluation and those of other people.

        Not the engine's own, and nothing that an earlier evaluation wrote and this one may or may not write again.
        """
        root = self.path.resolve()
        names = {path.relative_to(root).as_posix(): path for path in matching(root, pattern)}
        current = self._current()
        return [
            name
            for name, path in names.items()
            if name != STATE and not name.startswith(".run/") and (name in current or not self._own(name, path))
        ]

    def _own(self, name: str, path: Path) -> bool:
        return name in self._written and digest(path.read_bytes()) in self._written[name]

    def _current(self) -> set[str]:
        """The artifacts that this evaluation has written: so far, and in the phases that are over."""
        summaries = map(self._record, (self.path / SUMMARIES).rglob("*.md"))
        return self._put.union(*(summary.get("artifacts") or () for summary in summaries))

    # summaries

    def summary(self, phase: str) -> dict[str, Any] | None:
        """The record of a phase that is over."""
        summary = self.any_summary(phase)
        return None if summary is None or summary.get("status") == "needs-user-input" else summary

    def any_summary(self, phase: str) -> dict[str, Any] | None:
        """Also that of a phase which waits. Raises SkillrunError where the file cannot be read."""
        path = self._summaries / f"{phase}.md"
        return self._record(path) if path.is_file() else None

    def summaries(self, phases: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The summaries of this round, of those phases that are over."""
        return {name: summary for name in phases if (summary := self.summary(name)) is not None}

    def set_aside(self, phase: str) -> None:
        """Keep a summary that cannot be used under a name that nothing reads."""
        path = self._summaries / f"{phase}.md"
        path.replace(path.with_suffix(".md.invalid"))
        self._read.pop(path, None)

    def write_summary(self, phase: str, data: Mapping[str, Any]) -> None:
        path = self._summaries / f"{phase}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = to_frontmatter(data, f"# {phase}\n\n{data.get('summary') or ''}".rstrip() + "\n")
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_atomic(path, text)
            self._read.pop(path, None)

    def history(self, rounds: int) -> list[dict[str, Any]]:
        """The summaries of the rounds that are over, oldest first."""
        past = []
        for number in range(1, rounds):
            paths = sorted((self.path / f"round-{number}" / SUMMARIES).glob("*.md"))
            past.append({"round": number, "phases": {path.stem: self._record(path) for path in paths}})
        return past

    def ended(self, rounds: int, phases: Iterable[str]) -> list[dict[str, Any]]:
        """Every summary: those of the rounds that are over, and of this one those of `phases`."""
        past = [summary for one in self.history(rounds) for summary in one["phases"].values()]
        return [*past, *self.summaries(phases).values()]

    def move_to_round(self, number: int, phases: Iterable[str], staying: Iterable[str]) -> None:
        """Move the summaries and artifacts of `phases` to `round-<number>/`; doing it again does nothing more.

        An artifact that one of the phases `staying` has written too is copied: they are not evaluated again.
        """
        target = self.path / f"round-{number}"
        kept = {name for summary in self.summaries(staying).values() for name in summary.get("artifacts") or []}
        for phase, summary in self.summaries(phases).items():
            for name in summary.get("artifacts") or []:
                self.resolve(name)  # the summary may have come from elsewhere, with the whole folder
                self._move(name, target / name, stays=name in kept)
            self._move(f"{SUMMARIES}/{phase}.md", target / SUMMARIES / f"{phase}.md")

    def _record(self, path: Path) -> dict[str, Any]:
        if path not in self._read:
            self._read[path] = from_frontmatter(path)[0]
        return self._read[path]

    def _forget(self, path: Path) -> None:
        path.unlink()
        self._read.pop(path, None)

    def _move(self, name: str, target: Path, *, stays: bool = False) -> None:
        path = self.path / name
        if not path.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if stays:
            write_atomic(target, path.read_bytes())
            return
        reached(f"rename {name}: before")
        path.replace(target)
        self._read.pop(path, None)
        reached(f"rename {name}: after")
        sync_folder(target.parent)
        sync_folder(path.parent)

    # state

    def write_state(self, state: State, log: Iterable[str]) -> None:
        told = plain_data(vars(state))
        data = {key: value for key, value in told.items() if key in REQUIRED or value not in (None, "", {}, [])}
        ordered = {"schema_version": data.pop("schema_version"), **data}
        text = to_frontmatter(ordered, "# Log\n\n" + "".join(f"- {line}\n" for line in log))
        if text != self._state:
            write_atomic(self.path / STATE, text)
            self._state = text

    def read_state(self) -> tuple[State, list[str]]:
        """Raises SkillrunError when there is no state, or one of another version."""
        path = self.path / STATE
        if not path.is_file():
            raise SkillrunError(f"{self.path} is no run: it has no {STATE}", "`skillrun runs` lists the runs")
        data, body = from_frontmatter(path)
        version = data.get("schema_version")
        if version == 1:
            raise SkillrunError(f"{path} is of schema version 1", "`skillrun resume` brings the run forward")
        if version is None:
            raise SkillrunError(
                f"{path} has no frontmatter with a `schema_version`",
                "restore the file; the journal beside it is untouched",
            )
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise SkillrunError(
                f"{path} has the schema version {version}; this skillrun knows {SCHEMA_VERSION}",
                "use the skillrun that wrote it",
            )
        known = {key: value for key, value in data.items() if key in State.__dataclass_fields__}
        missing = [key for key in REQUIRED if key not in known]
        if missing:
            raise SkillrunError(
                f"{path} lacks {', '.join(missing)}", "restore the file; the journal beside it is untouched"
            )
        usual = vars(State("", "", {}, {}, estimate={}))
        wrong = [key for key, value in known.items() if not isinstance(value, type(usual[key]))]
        if wrong:
            raise SkillrunError(
                f"{path}: `{wrong[0]}` is {shown(known[wrong[0]])}, and that is not what a run writes there",
                "restore the file; the journal beside it is untouched",
            )
        log = [line.removeprefix("- ") for line in body.splitlines() if line.startswith("- ")]
        return State(**known), log

    def rename_phases(self, now: Mapping[str, str]) -> None:
        """Give the summaries of phases, of all rounds, the names that their phases have now."""
        for folder in (self._summaries, *self.path.glob(f"round-*/{SUMMARIES}")):
            for old, new in now.items():
                path, renamed = folder / f"{old}.md", folder / f"{new}.md"
                if path.is_file() and not renamed.exists():
                    data, body = from_frontmatter(path)
                    write_atomic(renamed, to_frontmatter({**data, "phase": new}, body))
                    self._forget(path)

    def prune(self) -> None:
        """Remove the artifacts that an earlier evaluation wrote and this one did not, unless a person changed them."""
        current = self._current()
        for name, path in self.artifacts().items():
            if name not in current and self._own(name, path):
                path.unlink()

    def clean(self) -> None:
        """Remove what killed writes left behind."""
        for folder in {self.path, self.path / SUMMARIES, *(p.parent for p in self.path.rglob("*.tmp"))}:
            if folder.is_dir():
                sweep(folder)

    def begin_again(self) -> None:
        """Forget summaries and rounds, so that everything is evaluated from the start; artifacts stay."""
        for path in [self.path / SUMMARIES, *self.path.glob("round-*")]:
            if path.is_dir():
                shutil.rmtree(path)
        self._read.clear()


class InlineFolder(RunFolder):
    """The same folder for a workflow that runs inside a phase: its summaries are its own, and none is written yet.

    Those of its earlier rounds are only remembered, and its artifacts stay to be written again.
    """

    def __init__(self, outer: RunFolder, address: str) -> None:
        vars(self).update(vars(outer))
        self._summaries = self.path / SUMMARIES / address.replace("/", ".")
        self._over: list[dict[str, Any]] = []
        for path in self._summaries.glob("*.md"):
            self._forget(path)

    def history(self, rounds: int) -> list[dict[str, Any]]:  # noqa: ARG002 (all that are over)
        return self._over

    def move_to_round(self, number: int, phases: Iterable[str], staying: Iterable[str]) -> None:  # noqa: ARG002
        moving = self.summaries(phases)
        self._over.append({"round": number, "phases": moving})
        for phase in moving:
            self._forget(self._summaries / f"{phase}.md")
