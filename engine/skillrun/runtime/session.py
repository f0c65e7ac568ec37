"""A run from outside: begin one, go on with one, evaluate one again; with its folder, lock, journal and models.

What the command line, `dev` and the tests call. Prints nothing and never exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillrun.language.check import Program
from skillrun.language.diagnostics import SkillrunError, UsageError
from skillrun.language.templates.functions import slug
from skillrun.models.messages import Gateway
from skillrun.runtime.events import Events, Listener, Notice
from skillrun.runtime.files import digest
from skillrun.runtime.folder import RunFolder, State, Transcript
from skillrun.runtime.given import given_values
from skillrun.runtime.interpreter import Outcome, now, run_workflow
from skillrun.runtime.journal import Journal
from skillrun.runtime.ledger import Ledger
from skillrun.runtime.limits import Limits
from skillrun.runtime.lock import hold
from skillrun.runtime.memory import MemoryJournal, Recording
from skillrun.runtime.run import Person, Run
from skillrun.tools.paths import checked_slug, confined

if TYPE_CHECKING:
    from skillrun.models.catalogue import Catalogue, Resolved
    from skillrun.tools.repository import Repository

EMBEDDED: Final = (
    "This runs on the small embedded model: it shows how everything works, and what it writes is of no use. "
    "Set ANTHROPIC_API_KEY or another provider's key for real work."
)


@dataclass
class Session:
    """What a run needs from outside of it."""

    program: Program
    catalogue: Catalogue
    gateway: Gateway
    person: Person
    listeners: Iterable[Listener] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    project: Path = field(default_factory=Path.cwd)
    override: str = ""
    budget: Mapping[str, float] = field(default_factory=dict)
    cache: Path | None = None
    keeps_reads: bool = True
    estimate: Mapping[str, Any] | None = None


def checked_inputs(
    program: Program, given: Mapping[str, Any], project: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """The workflow's inputs with their defaults, and warnings. Raises UsageError with everything that is wrong."""
    values, errors, warnings = given_values(program.workflow.inputs, given, {"config": program.config})
    known = {one.name for one in program.workflow.inputs}
    errors += [f"there is no input `{name}`" for name in given if name not in known]
    for one in program.workflow.inputs:
        if one.type == "path" and one.name in values and not one.array:
            path = (project or Path.cwd()) / values[one.name]
            if not path.exists():
                errors.append(f"`{one.name}` is `{values[one.name]}`, and there is nothing at {path}")
    if errors:
        raise UsageError("; ".join(errors), f"`skillrun {program.workflow.name} --help` shows the inputs")
    return values, warnings


def new_slug(runs: Path, words: str) -> str:
    """A slug that no run has yet, made from the request."""
    base = (slug(words)[:40].strip("-") or "run") if re.search(r"[A-Za-z0-9]", words) else "run"
    name, number = base, 1
    while (runs / name).exists():
        number += 1
        name = f"{base}-{number}"
    return name


async def begin(session: Session, inputs: dict[str, Any], runs: Path, name: str) -> Outcome:
    """A new run in `runs/<name>`. Raises UsageError when there is one already."""
    path = _run_path(runs, name)
    if (path / "state.md").exists():
        raise UsageError(
            f"there is a run `{name}` already", f"go on with `skillrun resume {name}`, or choose another `--name`"
        )
    state = initial_state(session, inputs)
    path.mkdir(parents=True, exist_ok=True)
    with hold(path):
        async with _opened(session, path, _new_journal(path), state, []) as run:
            run.folder.clean()
            await _pin(session, run)
            return await _interruptible(run_workflow(run))


def _new_journal(path: Path) -> Journal:
    """An empty journal; that of a run that was killed before its first line is one."""
    if not any((path / ".run" / name).exists() for name in ("journal.db", "witness")):
        return Journal.create(path)
    journal = Journal.open(path)
    if journal.empty:
        return journal
    journal.close()
    raise UsageError(f"{path} has a journal and no state.md", "put state.md back, or choose another `--name`")


async def resume(session: Session, runs: Path, name: str) -> Outcome:
    """Go on with a run; a completed one is left as it is. Raises SkillrunError when it cannot be opened."""
    path = existing(runs, name)
    with hold(path):
        journal = Journal.open(path)
        state, log = read_state(path, journal)
        if session.budget:
            state.budget = {**(state.budget or {}), **session.budget}
        async with _opened(session, path, journal, state, log) as run:
            run.folder.clean()
            for address, _ in journal.unanswered():
                run.emit(
                    Notice(
                        f"{address} was sent before the run stopped and its answer is unknown; it is asked again",
                        "warn",
                    )
                )
            await _pin(session, run)
            return await _interruptible(run_workflow(run, resumed=True))


async def again(session: Session, path: Path, journal: Journal, inputs: dict[str, Any]) -> Outcome:
    """Evaluate a run from its first phase over its journal: what has not changed costs nothing.

    The caller holds the lock and keeps the journal; a folder without a state is a new run.
    """
    fresh = initial_state(session, inputs)
    log: list[str] = []
    if (path / "state.md").is_file():
        state, log = read_state(path, journal)
        fresh.started_at, fresh.environment, fresh.models = state.started_at, state.environment, state.models
        fresh.estimate = state.estimate
    fresh.going = {"again": "from the start"}
    async with _opened(session, path, journal, fresh, log[-100:], close=False) as run:
        await _pin(session, run)
        return await _interruptible(run_workflow(run, resumed=True))


async def rehearse(session: Session, inputs: dict[str, Any], *, base: Path | None = None) -> Outcome:
    """Walk a run through in a temporary folder, recording nothing: over the journal of `base`, or from nothing."""
    with tempfile.TemporaryDirectory(prefix="skillrun-") as folder:
        path = Path(folder) / "run"
        known: Recording | None = None
        state = initial_state(session, inputs)
        log: list[str] = []
        if base is not None:
            import shutil

            shutil.copytree(base, path, ignore=shutil.ignore_patterns(".run"))
            known = Journal.open(base)
            state, log = read_state(path, known)
        else:
            path.mkdir()
        state.budget = {}
        try:
            async with _opened(session, path, MemoryJournal(known), state, log, transcript=False) as run:
                await _pin(session, run)
                return await run_workflow(run, resumed=base is not None)
        finally:
            if known is not None:
                known.close()


def initial_state(session: Session, inputs: dict[str, Any]) -> State:
    program = session.program
    values, errors, _ = given_values(program.workflow.state, {}, {"config": program.config, "inputs": inputs})
    if errors:
        raise SkillrunError(f"the state of `{program.workflow.name}` cannot be set up: {'; '.join(errors)}")
    return State(
        workflow=program.workflow.name,
        started_at=now(),
        inputs=inputs,
        state=values,
        environment=environment(session.environ),
        files=files_of(program),
        budget={**(program.engine.get("budgets") or {}), **session.budget},
        project=str(session.project),
        override=session.override,
        estimate=dict(session.estimate) if session.estimate is not None else None,
    )


def environment(environ: Mapping[str, str]) -> str:
    """Where the run is entered: `ci`, `editor` or `terminal`."""
    if environ.get("CI", "").lower() not in ("", "0", "false"):
        return "ci"
    return "editor" if environ.get("TERM_PROGRAM") in ("vscode", "zed") or environ.get("INSIDE_EMACS") else "terminal"


def files_of(program: Program) -> dict[str, str]:
    """Every file that the program was read from, with the beginning of its hash."""
    return {source.shown: digest(source.text)[:16] for source in program.library.files.values()}


def changed_files(program: Program, state: State) -> list[str]:
    """The files that are other than when the run was last evaluated."""
    before, after = state.files or {}, files_of(program)
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name) and name in after
    )


def existing(runs: Path, name: str) -> Path:
    path = _run_path(runs, name)
    if not (path / "state.md").is_file():
        known = sorted(p.name for p in runs.iterdir() if (p / "state.md").is_file()) if runs.is_dir() else []
        from skillrun.language.diagnostics import did_you_mean

        raise UsageError(
            f"there is no run `{name}` in {runs}", did_you_mean(name, known) or "`skillrun runs` lists them"
        )
    return path


def read_state(path: Path, journal: Recording) -> tuple[State, list[str]]:
    return RunFolder(path, Ledger(journal)).read_state()


def _run_path(runs: Path, name: str) -> Path:
    return confined(runs, checked_slug(name))


@contextlib.asynccontextmanager
async def _opened(
    session: Session,
    path: Path,
    journal: Recording,
    state: State,
    log: list[str],
    *,
    transcript: bool = True,
    close: bool = True,
) -> AsyncIterator[Run]:
    """A run with everything open; closed again whatever happens."""
    record = Transcript(path / ".run" / "transcript.ndjson") if transcript else None
    listeners = list(session.listeners)
    if record is not None:
        listeners.append(
            lambda event: record.write({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **event.to_dict()})
        )

    def save() -> None:
        run.save()

    run = Run(
        name=path.name,
        program=session.program,
        folder=RunFolder(path, Ledger(journal)),
        journal=journal,
        gateway=session.gateway,
        person=session.person,
        events=Events(*listeners),
        state=state,
        log=log,
        limits=Limits(state.budget or {}, _spent(journal)),
        resolve=_resolver(session, state, save),
        repository=lambda folder: _repository(session.project / folder),
        uses_tools=lambda name: run.resolve(name).tools,
        keeps_reads=session.keeps_reads,
        forgiven=_forgiven(journal),
        tiers=tuple(session.catalogue.tiers),
    )
    state.files = files_of(session.program)
    try:
        yield run
    finally:
        if record is not None:
            record.close()
        if close:
            journal.close()


def _spent(journal: Recording) -> dict[str, float]:
    spent = {"calls": 0.0, "tokens": 0.0, "price": 0.0}
    for entry in journal.entries("reply"):
        usage = entry.body.get("usage") or {}
        spent["calls"] += 1
        spent["tokens"] += usage.get("input", 0) + usage.get("output", 0)
        spent["price"] += entry.body.get("price") or 0.0
    return spent


def _forgiven(journal: Recording) -> dict[str, dict[int, int]]:
    """How many attempts do not count any more, by what was asked and by the round in which the run failed on it."""
    found: dict[str, dict[int, int]] = {}
    for entry in journal.entries("void"):
        number = entry.body["round"]
        for key, count in entry.body["tries"].items():
            found.setdefault(key, {})[number] = max(count, found.get(key, {}).get(number, 0))
    return found


def _resolver(session: Session, state: State, save: Callable[[], None]) -> Callable[[str], Resolved]:
    """Names to models; what the run has pinned stays what it was, and is saved before the first call."""
    known: dict[str, Resolved] = {}
    override = session.override or state.override

    def resolve(name: str) -> Resolved:
        if name not in known:
            pinned = (state.models or {}).get(name)
            if pinned is not None:
                known[name] = session.catalogue.resolve(pinned, session.environ)
            else:
                known[name] = session.catalogue.resolve(name, session.environ, override)
                state.models = {**(state.models or {}), name: known[name].model}
                save()
        return known[name]

    return resolve


async def _pin(session: Session, run: Run) -> None:
    """Settle what each tier means before the first call; say what an embedded model is."""
    override = session.override or run.state.override
    for tier in session.catalogue.tiers:
        if tier in (run.state.models or {}):
            run.resolve(tier)
            continue
        if session.cache is not None:
            resolved = await session.catalogue.resolve_live(tier, session.environ, session.cache, override)
            run.state.models = {**(run.state.models or {}), tier: resolved.model}
        run.resolve(tier)
    if any(model.startswith("embedded:") for model in (run.state.models or {}).values()):
        run.emit(Notice(EMBEDDED, "warn"))


def _repository(folder: Path) -> Repository:
    from skillrun.tools.repository import Repository

    return Repository(folder)


async def _interruptible(work: Any) -> Outcome:
    """Ctrl-C and a polite kill end the run with its state written; the second one ends the process."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    caught = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, task.cancel)
            caught.append(number)
    try:
        found: Outcome = await task
        return found
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
