"""A project, a run of it that nothing disturbs, and what has to hold of one that something does.

A run has two legs: from its beginning to a form that a person fills in, and from there to its end.
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
from tests.faults.processes import Done, Forks

PROJECT: Final = Path(__file__).with_name("project")
NAME: Final = "run"
BEGIN: Final = ("small", "A trip", "--name", NAME)
RESUME: Final = ("resume", NAME)
LEGS: Final = ("begin", "resume")
FORM: Final = "QUESTIONS.md"
STATUS: Final = {0: "completed", 1: "failed", 75: "waiting", 130: "interrupted"}
MOST: Final = 4  # commands until a run has ended once nothing fails any more

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Call:
    """A call as it was sent; `failed` is the file that the disk had failed for by then."""

    address: str
    fingerprint: str
    failed: str = "-"

    @property
    def key(self) -> tuple[str, str]:
        return self.address, self.fingerprint


@dataclass
class Leg:
    """What an undisturbed process does: the operations on its disk, its checkpoints, its seconds."""

    operations: list[str]
    points: list[str]
    seconds: float


@dataclass
class World:
    """One project at one place, and the commands that are typed in it."""

    place: Path
    forks: Forks
    model: str = "scripted:x"
    more: Mapping[str, Any] = field(default_factory=dict)  # of every job
    written: Sequence[tuple[str, str]] = ()  # files of the project, by name
    legs: dict[str, Leg] = field(default_factory=dict)
    whole: Files = field(init=False)
    asked: Counter[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.project, self.calls = self.place / "project", self.place / "calls"
        self.runs, self.bases = self.project / "runs", self.place / "bases"
        self.folder = self.runs / NAME
        shutil.copytree(PROJECT, self.project)
        for name, text in self.written:
            (self.project / name).write_text(text)
        for leg, words, code in (("begin", BEGIN, 75), ("resume", RESUME, 0)):
            points, operations = self.place / f"{leg}.points", self.place / f"{leg}.operations"
            fault = {
                "environment": {"SKILLRUN_KILL_LOG": str(points)},
                "disk": {"below": str(self.runs), "log": str(operations)},
            }
            started = perf_counter()
            done = self.typed(*words, **fault)
            assert done.code == code, done
            log = operations.read_text().splitlines() if operations.exists() else []
            reached = [point for point in points.read_text().splitlines() if ".new: " not in point]  # the user's key
            self.legs[leg] = Leg(log, reached, perf_counter() - started)
            if leg == "begin":
                self.fill_in()
                shutil.copytree(self.runs, self.bases / "resume")
        self.whole = files(self.folder)
        self.asked = Counter(call.key for call in self.sent())

    def start(self, base: str) -> None:
        """Everything as it is before a leg (`begin`: nothing; `resume`: a run that waits, with its form filled in), or
        as a killed process has left it (`killed`)."""
        shutil.rmtree(self.runs, ignore_errors=True)
        if base != "begin":
            shutil.copytree(self.base(base), self.runs)
        self.calls.unlink(missing_ok=True)

    def base(self, name: str) -> Path:
        """The runs as they are at such a start."""
        folder = self.bases / name
        if not folder.exists():
            self.start("begin")
            middle = len(self.legs["begin"].points) * 3 // 4
            done = self.typed(*BEGIN, environment={"SKILLRUN_KILL_AT": str(middle)})
            assert done.code == -signal.SIGKILL, done
            self.runs.rename(folder)
        return folder

    def typed(self, *words: str, **fault: Any) -> Done:
        """A command line, and what became of it under a fault; with nothing else running."""
        return self.at_once([words], **fault)[0]

    def at_once(self, commands: Sequence[Sequence[str]], **fault: Any) -> list[Done]:
        """Command lines that are typed at the same time."""
        environment = {"SKILLRUN_MODEL": self.model, **self.more.get("environment", {}), **fault.pop("environment", {})}
        return self.forks.run(self.project, self.calls, commands, {**self.more, **fault, "environment": environment})

    def fill_in(self) -> None:
        form = self.folder / FORM
        text = form.read_text().replace("[ ] A. The lake", "[x] A. The lake")
        form.write_text(re.sub(r"(Q2.*Answer:)$", r"\1 It is warm.", text.rstrip("\n"), flags=re.DOTALL) + "\n")

    def sent(self) -> list[Call]:
        """The calls that have reached a model, oldest first."""
        return [Call(*line.split()) for line in self.calls.read_text().splitlines()] if self.calls.exists() else []

    def failed(self) -> str:
        """The first file that the disk has failed for in the last command."""
        place = self.calls.with_name(f"{self.calls.name}.failed")
        return place.read_text() if place.exists() else ""

    def answered(self, most: float = math.inf) -> set[tuple[str, str]]:
        """The calls whose answer the journal has, among its first records."""
        if not (self.folder / ".run" / "journal.db").exists():
            return set()
        with closing(read_journal(self.folder)) as journal:
            found = [*journal.entries("reply"), *journal.entries("failed")]
            return {(entry.address, entry.fingerprint) for entry in found if entry.seq <= most}

    def acknowledged(self) -> set[tuple[str, str]]:
        """The calls whose answer the journal has for good: the process went on only after it was witnessed. What was
        committed as the process died is in the log alone, where a wrong bit is the end of it, as after a power cut."""
        return self.answered(int((self.folder / ".run" / "witness").read_bytes().split()[0]))


def files(folder: Path) -> dict[str, bytes]:
    """Every artifact and summary, of all rounds."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if name != "state.md" and name[:5] != ".run/"}


def kept(folder: Path) -> dict[str, bytes]:
    """Every file of a run with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def no_bug(done: Done) -> None:
    """However a command ends, it is no traceback, and no bug."""
    assert done.code != 3, done
    assert "Traceback" not in done.said, done
    assert "this is a bug" not in done.said, done
    assert done.code in (*STATUS, 2, -signal.SIGKILL), done


def shown(world: World) -> str:
    """The status that `show` tells, or "" where it knows no such run; it changes nothing."""
    before = kept(world.folder)
    done = world.typed("show", NAME, "--json")
    no_bug(done)
    assert kept(world.folder) == before, "`show` has changed the run"
    if done.code:
        assert done.code in (1, 2), done
        assert done.err.startswith("error: "), done
        return ""
    return str(json.loads(done.out)["status"])


def told_true(world: World, done: Done, before: str = "", *, torn: bool = False, same: bool = True) -> None:
    """What is shown of a run is what the last command ended with, or what was shown before where it began nothing.

    `torn`: its state could not be written any more.
    """
    status = shown(world)
    begun = "starting run in" in done.out or "resuming run in" in done.out
    if status == "completed" or done.code == 0:
        assert status == "completed", f"{status}: {done}"
        assert not same or files(world.folder) == world.whole, f"completed, and it is not: {done}"
    elif done.code < 0:
        assert status in ("interrupted", "waiting", ""), f"{status}: {done}"
    elif torn:
        assert status in ("interrupted", "failed", "waiting", ""), f"{status}: {done}"
    elif not begun:
        assert status == before, f"{status}: {done}"
    elif (world.folder / "state.md").exists():
        assert status == STATUS[done.code], f"{status}: {done}"


def goes_on(world: World, answered: set[tuple[str, str]], *words: str, same: bool = True) -> None:
    """Once nothing fails any more, the run comes to its end, with the `same` files as if nothing had been; nothing that
    was answered is asked again. `words` are more of the command."""
    before = len(world.sent())
    done: list[Done] = []
    budget: list[str] = []
    while not done or (done[-1].code != 0 and len(done) < MOST):
        done.append(world.typed(*(RESUME if (world.folder / "state.md").exists() else BEGIN), *words, *budget))
        no_bug(done[-1])
        raised = re.search(r"--budget [^ `]+", done[-1].said)  # a provider that counts too much has spent it
        budget = raised[0].split() if raised is not None else []
        if done[-1].code == 75 and (world.folder / FORM).exists():
            world.fill_in()
    assert done[-1].code == 0, "\n".join(map(str, done))
    again = [call for call in world.sent()[before:] if call.key in answered]
    assert not again, f"answered before, and asked again: {again}"
    if same:
        assert differences(files(world.folder), world.whole) == [], "\n".join(map(str, done))
    status = shown(world)
    assert status == "completed", status


def differences(found: Files, expected: Files) -> list[str]:
    return [
        f"{name}: {found.get(name)!r}, not {expected.get(name)!r}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]


def sent_once(world: World) -> None:
    """All that was ever sent is what an undisturbed run sends, and nothing but what got lost more than once."""
    extra = {call.key for call in world.sent()} - set(world.asked)
    assert not extra, f"asked, and an undisturbed run does not: {extra}"


def readable(world: World) -> set[tuple[str, str]]:
    """The calls whose answer the journal has; a journal is never left so that it cannot be read."""
    try:
        return world.answered()
    except SkillrunError as error:
        raise AssertionError(f"the journal cannot be read: {error}; {error.next_step}") from error


def some(items: Iterable[str], most: int) -> list[str]:
    """Some of many, evenly."""
    found = list(items)
    return found if len(found) <= most else [found[at * len(found) // most] for at in range(most)]
