"""Runs of generated workflows on the scripted model, and snapshots of them as killed processes leave them.

A kill is a copy of the run folder at a checkpoint, which is what the next process finds on disk.
`tests/acceptance/test_crash.py` kills real processes.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import NULL_LISTENER, AttemptListener, ModelError, Reply, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.answers import Answer
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.questions.responder import QuestionSet
from skillrun.runtime import session
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import Rerun, RunOptions, Services, Session
from skillrun.store import kill_points
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.journal import Journal
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.local_store import LocalStore
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import render_problem
from tests.property.workflows import Workflows

NAME = "run"
MOST_PROCESSES = 100
LOCAL = ("lock", "owner.json", "transcript.ndjson")  # files of `.run` that belong to one process

Call = tuple[str, str]  # address and fingerprint
Calls = Counter[Call]


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder, in memory if possible, because these runs need no durable files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


class Model:
    """The scripted model, which replies after some turns of the event loop, so that replies change order."""

    def __init__(self, rules: list[dict[str, Any]], pauses: int) -> None:
        self.scripted = ScriptedGateway(Rule(**rule) for rule in rules)
        self.pauses = pauses
        self.calls: list[Call] = []

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        fingerprint = request.fingerprint()
        self.calls.append((address, fingerprint))
        await attempts.on_sent(1)
        for _ in range(_number(fingerprint) % (self.pauses + 1)):
            await asyncio.sleep(0)
        try:
            return await self.scripted.send(request, address)
        except ModelError as error:
            await attempts.on_failed(1, error)
            raise

    async def close(self) -> None:
        await self.scripted.close()


@dataclass
class User:
    """Gives answers that depend only on the question. A user who is away answers some questions only after a resume."""

    attended: bool
    away: bool
    resume_flags: Mapping[str, str] = field(default_factory=dict)
    prepared: PreparedAnswers = field(default_factory=PreparedAnswers)

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        await asyncio.sleep(0)
        if self.away and (not interactive or _number(question_set.key) % 3 == 0):
            return None
        return [self._answer(question_set, question) for question in question_set.questions]

    def _answer(self, question_set: QuestionSet, question: Mapping[str, Any]) -> Answer:
        if str(question["id"]).startswith("keep-"):
            return {"answer": question["default"]}
        failed, is_retry, number = question_set.key.partition(".retry-")
        if is_retry:  # refuse after a number of retries, because a resumed run asks again
            return {"answer": question["choices"][int(number.partition("@")[0]) > _number(failed) % 3]}
        options = [*question.get("choices", ["blue", "green"]), question.get("default", "")]
        return {"answer": options[_number(f"{question_set.key} {question['id']}") % len(options)]}


def _number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:8], 16)


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint of a process: the files on disk, if kept, and the number of calls sent before."""

    name: str
    sent: int
    has_state: bool
    away: bool
    runs: Path | None


@dataclass
class RunHistory:
    """A run from its start, or from a snapshot, until no further process can change it."""

    runs: Path
    outcomes: list[Outcome] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    @property
    def completed(self) -> bool:
        return self.outcomes[-1].status == "completed"

    @property
    def files(self) -> dict[str, bytes]:
        """The artifacts and summaries of all rounds."""
        root = self.runs / NAME
        paths = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
        return {name: path.read_bytes() for name, path in paths.items() if name != "state.md" and name[:5] != ".run/"}

    @property
    def state(self) -> dict[str, Any]:
        """The state without the start time."""
        data, _ = from_frontmatter(self.runs / NAME / "state.md")
        return {key: value for key, value in data.items() if key != "started_at"}


class Project:
    """A project with a generated library, and runs of it."""

    def __init__(self, project: Path, case: Workflows) -> None:
        self.project, self.case = project, case
        case.write(project)
        self.program = check_project(project)
        models = self.program.library.config("models")
        assert models is not None
        self.catalogue = Catalogue.from_config(models.data)

    def start(self, runs: Path, keep: SnapshotPolicy | None = None) -> RunHistory:
        return self._run(RunHistory(runs), not self.case.patient, "start", keep)

    def resume(self, snapshot: Snapshot, keep: SnapshotPolicy | None = None) -> RunHistory:
        """Continue the run of a killed process; a run without a state starts again."""
        assert snapshot.runs is not None
        command = "resume" if snapshot.has_state else "start"
        return self._run(RunHistory(snapshot.runs), snapshot.away, command, keep)

    def reevaluate(self, runs: Path) -> RunHistory:
        """Evaluate everything from the first phase with the journal."""
        return self._run(RunHistory(runs), not self.case.patient, "reevaluate", None)

    def _run(self, history: RunHistory, away: bool, command: str, keep: SnapshotPolicy | None) -> RunHistory:
        while True:
            model = Model(self.case.rules, self.case.pauses)
            with _checkpoint_hook(self._hook(history, model, away, keep)):
                outcome = asyncio.run(self._process(command, history.runs, model, User(self.case.attended, away)))
            history.outcomes.append(outcome)
            history.calls += model.calls
            if outcome.status == "completed":
                return history
            assert len(history.outcomes) < MOST_PROCESSES, "the run never ends"
            if outcome.status == "waiting" and not away:
                return history
            if not model.calls and [last.status for last in history.outcomes[-2:]] == ["failed", "failed"]:
                return history
            away = away and outcome.status != "waiting"
            command = "resume"

    async def _process(self, command: str, runs: Path, model: Model, user: User) -> Outcome:
        options = RunOptions(self.project, "scripted:x", rerun=Rerun(reads=command == "reevaluate"))
        setting = Session(self.program, Services(self.catalogue, model, user), options)
        if command == "resume":
            return await session.resume_run(setting, LocalStore(runs).open_run(NAME))
        if command == "start":
            inputs, _ = validate_inputs(self.program, {"request": "Paint it blue."})
            return await session.start_run(setting, inputs, LocalStore(runs), NAME)
        folder = LocalRun(runs / NAME)
        with folder.lease.hold(), closing(folder.open_journal()) as journal:
            return await session.reevaluate_run(setting, folder, journal, folder.state().inputs)

    def _hook(
        self, history: RunHistory, model: Model, away: bool, keep: SnapshotPolicy | None
    ) -> Callable[[str], None]:
        def take_snapshot(name: str) -> None:
            copy = None
            if keep is not None and keep.is_kept(len(history.snapshots), name):
                copy = keep.store / str(len(history.snapshots))
                shutil.copytree(history.runs, copy, ignore=shutil.ignore_patterns(*LOCAL))
            has_state = (history.runs / NAME / "state.md").exists()
            sent = len(history.calls) + len(model.calls)
            history.snapshots.append(Snapshot(name, sent, has_state, away, copy))

        return take_snapshot


@dataclass(frozen=True)
class SnapshotPolicy:
    """Which snapshots of a run are copied, and where."""

    store: Path
    is_kept: Callable[[int, str], bool] = lambda _number, name: not name.endswith("before")


def check_project(project: Path) -> Program:
    library = Library(search_path(project))
    program = check_workflow(library, "w")
    errors = [render_problem(problem) for problem in library.problems if problem.severity == "error"]
    assert program is not None
    assert not errors, "\n".join(errors)
    return program


@contextmanager
def _checkpoint_hook(hook: Callable[[str], None]) -> Iterator[None]:
    before = kill_points.hook
    kill_points.hook = hook
    try:
        yield
    finally:
        kill_points.hook = before


@contextmanager
def journal_of(runs: Path) -> Iterator[Journal]:
    journal = SqliteJournal.open(runs / NAME)
    try:
        yield journal
    finally:
        journal.close()


def answered_calls(runs: Path) -> Calls:
    """The calls whose reply or failure is in the journal of a run."""
    if not (runs / NAME / ".run" / "journal.db").exists():
        return Counter()
    with journal_of(runs) as journal:
        entries = [*journal.entries("reply"), *journal.entries("failed")]
        return Counter((entry.address, entry.fingerprint) for entry in entries)
