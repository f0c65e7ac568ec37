"""A project, an undisturbed run of it, and the checks for a disturbed run.

A run has two legs: from its start to a form for the user, and from there to the last phase.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from skillrun.store.local.journal import read_journal
from skillrun.syntax.diagnostics import SkillrunError
from tests.faults.processes import CommandResult, Forks

PROJECT: Final = Path(__file__).with_name("project")
NAME: Final = "run"
BEGIN: Final = ("small", "A trip", "--name", NAME)
RESUME: Final = ("resume", NAME)
LEGS: Final = ("begin", "resume")
FORM: Final = "QUESTIONS.md"
STATUS: Final = {0: "completed", 1: "failed", 75: "waiting", 130: "interrupted"}
MOST: Final = 4  # commands needed to finish a run without further faults

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Call:
    """A sent call; `failed` is the file for which the disk had failed by then."""

    address: str
    fingerprint: str
    failed: str = "-"

    @property
    def key(self) -> tuple[str, str]:
        return self.address, self.fingerprint


@dataclass
class Leg:
    """The disk operations, checkpoints and seconds of an undisturbed process."""

    operations: list[str]
    points: list[str]
    seconds: float


@dataclass
class World:
    """A project in a folder, and the commands run in it."""

    place: Path
    forks: Forks
    model: str = "scripted:x"
    options: Mapping[str, Any] = field(default_factory=dict)  # of every job
    extra_files: Sequence[tuple[str, str]] = ()  # names and texts of project files
    legs: dict[str, Leg] = field(default_factory=dict)
    expected_files: Files = field(init=False)
    expected_calls: Counter[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.project, self.calls = self.place / "project", self.place / "calls"
        self.runs, self.bases = self.project / "runs", self.place / "bases"
        self.folder = self.runs / NAME
        shutil.copytree(PROJECT, self.project)
        for name, text in self.extra_files:
            (self.project / name).write_text(text)
        for leg, words, code in (("begin", BEGIN, 75), ("resume", RESUME, 0)):
            points, operations = self.place / f"{leg}.points", self.place / f"{leg}.operations"
            fault = {
                "environment": {"SKILLRUN_KILL_LOG": str(points)},
                "disk": {"below": str(self.runs), "log": str(operations)},
            }
            started = perf_counter()
            result = self.skillrun(*words, **fault)
            assert result.code == code, result
            log = operations.read_text().splitlines() if operations.exists() else []
            reached = [point for point in points.read_text().splitlines() if ".new: " not in point]  # the user's key
            self.legs[leg] = Leg(log, reached, perf_counter() - started)
            if leg == "begin":
                self.fill_in()
                shutil.copytree(self.runs, self.bases / "resume")
        self.expected_files = files(self.folder)
        self.expected_calls = Counter(call.key for call in self.sent())

    def start(self, base: str) -> None:
        """Restore the state before a leg, or after a killed process.

        `begin` is empty, `resume` is a waiting run with a filled-in form, `killed` is a run of a killed process.
        """
        shutil.rmtree(self.runs, ignore_errors=True)
        if base != "begin":
            shutil.copytree(self.base(base), self.runs)
        self.calls.unlink(missing_ok=True)

    def base(self, name: str) -> Path:
        """The folder with the runs of a base."""
        folder = self.bases / name
        if not folder.exists():
            self.start("begin")
            middle = len(self.legs["begin"].points) * 3 // 4
            result = self.skillrun(*BEGIN, environment={"SKILLRUN_KILL_AT": str(middle)})
            assert result.code == -signal.SIGKILL, result
            self.runs.rename(folder)
        return folder

    def skillrun(self, *words: str, **fault: Any) -> CommandResult:
        """Run a command line with a fault."""
        return self.run_concurrently([words], **fault)[0]

    def run_concurrently(self, commands: Sequence[Sequence[str]], **fault: Any) -> list[CommandResult]:
        """Run command lines concurrently with a fault."""
        environment = self.options.get("environment", {}) | fault.pop("environment", {})
        job = {**self.options, **fault, "environment": {"SKILLRUN_MODEL": self.model, **environment}}
        return self.forks.run(self.project, self.calls, commands, job)

    def fill_in(self) -> None:
        form = self.folder / FORM
        text = form.read_text().replace("[ ] A. The lake", "[x] A. The lake")
        form.write_text(re.sub(r"(Q2.*Answer:)$", r"\1 It is warm.", text.rstrip("\n"), flags=re.DOTALL) + "\n")

    def sent(self) -> list[Call]:
        """The calls that reached a model, oldest first."""
        return [Call(*line.split()) for line in self.calls.read_text().splitlines()] if self.calls.exists() else []

    def failed(self) -> str:
        """The first file for which the disk failed in the last command."""
        place = self.calls.with_name(f"{self.calls.name}.failed")
        return place.read_text() if place.exists() else ""

    def answered(self, most: float = math.inf) -> set[tuple[str, str]]:
        """The calls whose reply or failure is among the first records of the journal."""
        if not (self.folder / ".run" / "journal.db").exists():
            return set()
        with closing(read_journal(self.folder)) as journal:
            found = [*journal.entries("reply"), *journal.entries("failed")]
            return {(entry.address, entry.fingerprint) for entry in found if entry.seq <= most}

    def acknowledged(self) -> set[tuple[str, str]]:
        """The calls with a witnessed reply, which the process waited for.

        Records committed when the process died are only in the log, where a flipped bit destroys them like a power cut.
        """
        return self.answered(int((self.folder / ".run" / "witness").read_bytes().split()[0]))


def files(folder: Path) -> dict[str, bytes]:
    """The artifacts and summaries of all rounds."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if name != "state.md" and name[:5] != ".run/"}


def read_files(folder: Path) -> dict[str, bytes]:
    """All files of a run."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_no_crash(result: CommandResult) -> None:
    """Check that a command did not crash."""
    assert result.code != 3, result
    assert "Traceback" not in result.output, result
    assert "this is a bug" not in result.output, result
    assert result.code in (*STATUS, 2, -signal.SIGKILL), result


def shown_status(world: World) -> str:
    """The status in the output of `show`, which changes no file; "" if the run does not exist."""
    before = read_files(world.folder)
    result = world.skillrun("show", NAME, "--json")
    assert_no_crash(result)
    assert read_files(world.folder) == before, "`show` changed the run"
    if result.code:
        assert result.code in (1, 2), result
        assert result.err.startswith("error: "), result
        return ""
    return str(json.loads(result.out)["status"])


def assert_status_is_true(
    world: World, result: CommandResult, before: str = "", *, torn: bool = False, same: bool = True
) -> None:
    """Check that the shown status matches the last command, or is `before` if the command did not start the run.

    `torn`: the state could not be written.
    """
    status = shown_status(world)
    has_started = "starting run in" in result.out or "resuming run in" in result.out
    if status == "completed" or result.code == 0:
        assert status == "completed", f"{status}: {result}"
        assert not same or files(world.folder) == world.expected_files, f"not completed as reported: {result}"
    elif result.code < 0:
        assert status in ("interrupted", "waiting", ""), f"{status}: {result}"
    elif torn:
        assert status in ("interrupted", "failed", "waiting", ""), f"{status}: {result}"
    elif not has_started:
        assert status == before, f"{status}: {result}"
    elif (world.folder / "state.md").exists():
        assert status == STATUS[result.code], f"{status}: {result}"


def assert_run_finishes(world: World, answered: set[tuple[str, str]], *words: str, same: bool = True) -> None:
    """Check that the run finishes without further faults and repeats no answered call.

    With `same`, its files equal those of an undisturbed run. `words` are additional arguments.
    """
    before = len(world.sent())
    results: list[CommandResult] = []
    budget: list[str] = []
    while not results or (results[-1].code != 0 and len(results) < MOST):
        results.append(world.skillrun(*(RESUME if (world.folder / "state.md").exists() else BEGIN), *words, *budget))
        assert_no_crash(results[-1])
        raised = re.search(r"--budget [^ `]+", results[-1].output)  # the provider may have reported too many tokens
        budget = raised[0].split() if raised is not None else []
        if results[-1].code == 75 and (world.folder / FORM).exists():
            world.fill_in()
    assert results[-1].code == 0, "\n".join(map(str, results))
    repeated = [call for call in world.sent()[before:] if call.key in answered]
    assert not repeated, f"answered calls repeated: {repeated}"
    if same:
        assert differences(files(world.folder), world.expected_files) == [], "\n".join(map(str, results))
    status = shown_status(world)
    assert status == "completed", status


def differences(found: Files, expected: Files) -> list[str]:
    return [
        f"{name}: {found.get(name)!r}, not {expected.get(name)!r}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]


def assert_no_extra_calls(world: World) -> None:
    """Check that every call is also a call of the undisturbed run."""
    extra = {call.key for call in world.sent()} - set(world.expected_calls)
    assert not extra, f"calls that an undisturbed run does not make: {extra}"


def recorded_calls(world: World) -> set[tuple[str, str]]:
    """The calls whose reply or failure is in the journal, which must be readable."""
    try:
        return world.answered()
    except SkillrunError as error:
        raise AssertionError(f"the journal cannot be read: {error}; {error.next_step}") from error


def pick(items: Iterable[str], most: int) -> list[str]:
    """At most `most` items, evenly spaced."""
    pool = list(items)
    return pool if len(pool) <= most else [pool[at * len(pool) // most] for at in range(most)]
