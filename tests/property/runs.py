"""Runs of generated workflows on the scripted model, and what a killed process leaves of them.

A kill is a copy of the run folder: what is on the disk at a checkpoint is what the next process finds. Nothing of it is
simulated but the moment; `tests/acceptance/test_crash.py` kills real processes.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from skillrun.questions.answers import Answer, QuestionRecord
from skillrun.questions.prepared_answers import RecordBuilder
from skillrun.questions.responder import QuestionSet
from skillrun.runtime import session
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import Session
from skillrun.store import checkpoints
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
LOCAL = ("lock", "owner.json", "transcript.ndjson")  # files of `.run` that belong to a process

Call = tuple[str, str]  # address and fingerprint
Calls = Counter[Call]


@contextmanager
def folder() -> Iterator[Path]:
    """A folder in memory where the system has one: these runs outlive no power cut."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


class Model:
    """The scripted model, taking a few turns of the event loop for a reply, so that calls overtake each other."""

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
class Human:
    """Answers by the question alone. One who is away lets some questions wait until the run is resumed."""

    attended: bool
    away: bool
    resume_flags: Mapping[str, str] = field(default_factory=dict)

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        await asyncio.sleep(0)
        if self.away and (not interactive or _number(question_set.key) % 3 == 0):
            return None
        return [self._answer(question_set, question) for question in question_set.questions]

    def has_prepared_answers(self, question_set: QuestionSet) -> bool:
        return False

    def skip_prepared_answers(self, question_set: QuestionSet) -> None:
        """What was answered in an earlier process is no business of this one."""

    def mark_answers_used(self, address: str, questions: Sequence[Mapping[str, Any]]) -> None:
        """Nothing is prepared here."""

    def note_late_answers(
        self, question_set: QuestionSet, records: Sequence[QuestionRecord], build_record: RecordBuilder
    ) -> None:
        """Nothing is prepared here."""

    def _answer(self, question_set: QuestionSet, question: Mapping[str, Any]) -> Answer:
        if str(question["id"]).startswith("keep-"):
            return {"answer": question["default"]}
        failed, again, number = question_set.key.partition(".retry-")
        if again:  # up to so often, in whichever process: a failed run that is resumed puts the question anew
            return {"answer": question["choices"][int(number) > _number(failed) % 3]}
        options = [*question.get("choices", ["blue", "green"]), question.get("default", "")]
        return {"answer": options[_number(f"{question_set.key} {question['id']}") % len(options)]}


def _number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:8], 16)


@dataclass(frozen=True)
class Moment:
    """A checkpoint of a process: what was on the disk there, and how many calls had been sent by then."""

    name: str
    sent: int
    begun: bool
    away: bool
    runs: Path | None


@dataclass
class Story:
    """A run from its beginning, or from where a killed process left it, to where it leads nowhere any more."""

    runs: Path
    outcomes: list[Outcome] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    @property
    def completed(self) -> bool:
        return self.outcomes[-1].status == "completed"

    @property
    def files(self) -> dict[str, bytes]:
        """Every artifact and summary, of all rounds."""
        root = self.runs / NAME
        found = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if name != "state.md" and name[:5] != ".run/"}

    @property
    def state(self) -> dict[str, Any]:
        """The state without the time when it began."""
        data, _ = from_frontmatter(self.runs / NAME / "state.md")
        return {key: value for key, value in data.items() if key != "started_at"}


class Bench:
    """A project with a generated library, and runs of it."""

    def __init__(self, project: Path, case: Workflows) -> None:
        self.project, self.case = project, case
        case.write(project)
        self.program = checked(project)
        models = self.program.library.config("models")
        assert models is not None
        self.catalogue = Catalogue.from_config(models.data)

    def begin(self, runs: Path, keep: Keep | None = None) -> Story:
        return self._told(Story(runs), not self.case.patient, "begin", keep)

    def go_on(self, moment: Moment, keep: Keep | None = None) -> Story:
        """What a new process makes of what a dead one left: a run that has no state yet is begun again."""
        assert moment.runs is not None
        return self._told(Story(moment.runs), moment.away, "resume" if moment.begun else "begin", keep)

    def again(self, runs: Path, keep: Keep | None = None) -> Story:
        """Everything evaluated from the first phase over the journal."""
        return self._told(Story(runs), not self.case.patient, "again", keep)

    def _told(self, story: Story, away: bool, how: str, keep: Keep | None) -> Story:
        while True:
            model = Model(self.case.rules, self.case.pauses)
            with _hooked(self._hook(story, model, away, keep)):
                outcome = asyncio.run(self._process(how, story.runs, model, Human(self.case.attended, away)))
            story.outcomes.append(outcome)
            story.calls += model.calls
            if outcome.status == "completed":
                return story
            assert len(story.outcomes) < MOST_PROCESSES, "the run goes on for ever"
            if outcome.status == "waiting" and not away:
                return story
            if not model.calls and [one.status for one in story.outcomes[-2:]] == ["failed", "failed"]:
                return story
            away = away and outcome.status != "waiting"
            how = "resume"

    async def _process(self, how: str, runs: Path, model: Model, human: Human) -> Outcome:
        setting = Session(self.program, self.catalogue, model, human, project=self.project, override="scripted:x")
        setting.reuse_reads = how != "again"
        if how == "resume":
            return await session.resume_run(setting, LocalStore(runs).open_run(NAME))
        if how == "begin":
            inputs, _ = validate_inputs(self.program, {"request": "Paint it blue."})
            return await session.start_run(setting, inputs, LocalStore(runs), NAME)
        folder = LocalRun(runs / NAME)
        with folder.lease.hold(), closing(folder.open_journal()) as journal:
            return await session.reevaluate_run(setting, folder, journal, folder.state().inputs)

    def _hook(self, story: Story, model: Model, away: bool, keep: Keep | None) -> Callable[[str], None]:
        def reached(name: str) -> None:
            there = None
            if keep is not None and keep.wanted(len(story.moments), name):
                there = keep.store / str(len(story.moments))
                shutil.copytree(story.runs, there, ignore=shutil.ignore_patterns(*LOCAL))
            begun = (story.runs / NAME / "state.md").exists()
            story.moments.append(Moment(name, len(story.calls) + len(model.calls), begun, away, there))

        return reached


@dataclass(frozen=True)
class Keep:
    """Which moments of a story are kept, and where."""

    store: Path
    wanted: Callable[[int, str], bool] = lambda _number, name: not name.endswith("before")


def checked(project: Path) -> Program:
    library = Library(search_path(project))
    program = check_workflow(library, "w")
    errors = [render_problem(problem) for problem in library.problems if problem.severity == "error"]
    assert program is not None
    assert not errors, "\n".join(errors)
    return program


@contextmanager
def _hooked(hook: Callable[[str], None]) -> Iterator[None]:
    before = checkpoints.hook
    checkpoints.hook = hook
    try:
        yield
    finally:
        checkpoints.hook = before


@contextmanager
def journal_of(runs: Path) -> Iterator[Journal]:
    journal = SqliteJournal.open(runs / NAME)
    try:
        yield journal
    finally:
        journal.close()


def answered(runs: Path) -> Calls:
    """The calls whose reply or failure the journal of a run holds."""
    if not (runs / NAME / ".run" / "journal.db").exists():
        return Counter()
    with journal_of(runs) as journal:
        entries = [*journal.entries("reply"), *journal.entries("failed")]
        return Counter((entry.address, entry.fingerprint) for entry in entries)
