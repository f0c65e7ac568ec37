"""Starts, resumes, reevaluates, simulates and forecasts runs: opens folder and journal, holds the lock, pins models.

Called by the command line, by `dev` and by the tests. Prints nothing, and does not exit the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from skillrun.events import Answered, CallEnded, Event, EventStream, Listener, Notice, PhaseStarted, WentBack
from skillrun.library.lookups import referenced_models
from skillrun.library.settings import load_budget
from skillrun.models.messages import ModelError, Reply, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.prepared_answers import split_key
from skillrun.replay import fingerprint_text
from skillrun.runtime.inputs import path_inputs
from skillrun.runtime.interpreter import run_workflow
from skillrun.runtime.resumed_state import (
    apply_foreign_state,
    file_hashes,
    foreign_claims,
    is_own_state,
    is_shared,
    migrate_state,
    note_outdated_phases,
    raise_undecided_error,
)
from skillrun.runtime.run import Run, Session, Simulation, StateSaver
from skillrun.runtime.run_budget import RunBudget
from skillrun.store.artifacts import INBOX
from skillrun.store.event_lines import utc_timestamp
from skillrun.store.files import LeaseLost
from skillrun.store.journal import LOST_SUFFIX, REUSED_SUFFIX, Body, Journal, JournalUnwritable, Kind
from skillrun.store.local.signing_key import ensure_signing_key
from skillrun.store.memory import MemoryFiles, MemoryJournal
from skillrun.store.outcome import RESUME_RUN, Outcome
from skillrun.store.run_data import RunData
from skillrun.store.run_view import RunView
from skillrun.store.seal import restore_given_inputs
from skillrun.store.state import STATE, State
from skillrun.store.stored_run import Store, StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.fields import resolve_inputs

EMBEDDED: Final = (
    "This run uses the small embedded model: it shows how everything works, but its replies are useless. "
    "Set ANTHROPIC_API_KEY or another provider's key for real work."
)


async def start_run(session: Session, inputs: Mapping[str, object], runs: Store, name: str) -> Outcome:
    """Start a new run. Raises UsageError if a run with this name exists."""
    state = initial_state(session, inputs)
    run = runs.create_run(name, shared=state.share)
    _check_new(session, run)
    run.check()
    with run.lease.hold(), run.rollback_on_failure(), closing(run.open_journal(create=True)) as journal:
        _check_new(session, run)  # another process may have started and ended a run with this name meanwhile
        if not journal.is_empty:  # an empty one is left by a run that was killed at its start
            raise UsageError(
                f"{run.location} has a journal, but its {STATE} is missing",
                f"restore {STATE}, or choose another `--name`",
            )
        require_no_files(run)
        return await _evaluate(session, run, journal, state, StateSaver([]), resumed=False)


def _check_new(session: Session, run: StoredRun) -> None:
    """Raise UsageError if the run exists already."""
    if run.has_state:
        command = RESUME_RUN.render(run.command_argument(session.options.project), RunView(run).resume_flags)
        raise UsageError(f"the run `{run.name}` already exists", f"{command}, or choose another `--name`")


def require_no_files(run: StoredRun) -> None:
    """Raise UsageError if a run that has not started has files. The caller holds the run.

    A clone or another user may have put them there, and summaries, filled-in forms and answers among them would count
    as those of the run.
    """
    files = run.files()
    files.remove_leftovers()  # of a run that was killed at its start
    names = [name for name, _ in files.entries() if name != ".run"]
    if files.is_taken(INBOX) or names:
        hint = "remove them, or choose another `--name`"
        shown = ", ".join(f"`{name}`" for name in names[:5] or [INBOX])
        raise UsageError(f"{run.location} has no run, but it has files: {shown}", hint)


async def resume_run(
    session: Session, run: StoredRun, *, from_start: bool = False, lost_replies: Iterable[tuple[str, str]] = ()
) -> Outcome:
    """Resume a run. Raises SkillrunError if the run cannot be opened.

    With `from_start`, all phases are evaluated again, and files of the project are read again. Without it, phases that
    have ended are final, so a completed run does not change. `lost_replies` are the addresses and fingerprints of
    replies that no step will use, as the user has accepted; the journal records them.
    """
    run.check()
    claims = foreign_claims(session, run) if session.options.adopt is None else None
    if claims is not None and claims.lines:  # the user must first decide whether to keep the settings
        raise_undecided_error(session, run, claims)
    run.check_engine_files()
    with run.lease.hold(), closing(run.open_journal()) as journal:
        await asyncio.gather(*(journal.record("note", f"{one}{LOST_SUFFIX}", call, {}) for one, call in lost_replies))
        store = run.data(journal)
        written, _ = store.state.read()
        state, log, changes = await migrate_state(session.program, store, from_start=from_start)
        note_outdated_phases(session.program, store, state)
        session, state, restrictions = _restrict_state(session, run, written, state, from_start=from_start)
        state.share = state.share or is_shared(session)
        state.budget = {**state.budget, **session.options.budget}
        unanswered_calls = journal.pending_calls()
        for entry in journal.entries("answer"):
            key = entry.address.partition("/")[2]
            address, round_number = split_key(key)
            in_round = (round_number or "1").partition(".")[0] == str(state.round)
            is_open = in_round and address.partition("/")[0] in state.phase
            session.services.responder.prepared.mark_used(
                key, entry.body.get("answers") or [], is_final=not (is_open or from_start)
            )
        if "--script" in session.options.command_flags:  # phases that have ended do not replay their calls
            _count_scripted_calls(session, journal)
        saver, notices = StateSaver(log), [*changes, *restrictions]
        return await _evaluate(
            session, run, journal, state, saver, resumed=True, unanswered_calls=unanswered_calls, notices=notices
        )


def _count_scripted_calls(session: Session, journal: Journal) -> None:
    """Report all recorded calls to the script, so that it counts the calls of earlier processes."""
    readers: dict[Kind, Callable[[Body], Reply | ModelError]]
    readers = {"failed": ModelError.from_dict, "reply": Reply.from_dict}
    for kind, read in readers.items():
        for address, fingerprint, body in (entry[1:] for entry in journal.entries(kind)):
            sent = journal.find("sent", address, fingerprint)
            if sent is not None:
                session.services.on_replayed(address, Request.from_dict(sent), [read(body)])


def _restrict_state(
    session: Session, run: StoredRun, written: State, state: State, *, from_start: bool
) -> tuple[Session, State, list[str]]:
    """Return the session and the state with which a run resumes, and notices for the user.

    `state` is the migrated state, and `written` the one in the run folder. With `from_start`, the state is that of a
    restart at the first phase: inputs, models and budget stay as they are.
    """
    options, notices = session.options, list[str]()
    if is_own_state(session, written):
        options = replace(options, given_inputs=restore_given_inputs(written))
        if run.command_argument(options.project) == run.name or not Path(state.project).is_dir():
            state.project = str(options.project)
    else:
        notices = apply_foreign_state(session, state)
    session = replace(session, options=options)
    state.typed = _typed_paths(session, state.inputs)
    if from_start:
        session = replace(session, options=replace(options, rerun=replace(options.rerun, reads=True)))
        options = replace(options, model=state.override)
        fresh = initial_state(replace(session, options=options), state.inputs)
        kept = ("started_at", "environment", "models", "budget", "project", "share", "estimate")
        state = replace(fresh, **{name: getattr(state, name) for name in kept}, going={"again": "from the start"})
    return session, state, notices


async def reevaluate_run(session: Session, run: StoredRun, journal: Journal, inputs: Mapping[str, object]) -> Outcome:
    """Evaluate a run from its first phase over its journal, so that unchanged calls cost nothing.

    The caller holds the run's lock, and closes the journal. A run without a state is a new run.
    """
    state, log = _initial_state_and_log(session, run, inputs)
    return await _evaluate(session, run, journal, state, StateSaver(log, pending="first"), resumed=True)


def _initial_state_and_log(session: Session, run: StoredRun, inputs: Mapping[str, object]) -> tuple[State, list[str]]:
    """Return the initial state for evaluating a run from its first phase, and the end of the run's log."""
    fresh, services = initial_state(session, inputs), session.services
    log: list[str] = []
    if run.has_state:
        state, log = run.data().state.read()
        fresh.started_at, fresh.environment, fresh.estimate = state.started_at, state.environment, state.estimate
        if is_own_state(session, state):
            # Any other name means a new model after an edit, a flag or a new key.
            for name, model in state.models.items():
                with contextlib.suppress(SkillrunError):  # the name no longer means anything
                    if services.catalogue.can_resolve_to(name, model, services.environ, session.options.model):
                        fresh.models[name] = model
    fresh.going = {"again": "from the start"}
    return fresh, log[-100:]


async def simulate_reevaluation(session: Session, stored: StoredRun, inputs: Mapping[str, object]) -> Outcome:
    """Simulate `reevaluate_run` in memory, and return the outcome. Works while another process holds the run."""
    files, journal = MemoryFiles(original=stored.files()), stored.read_journal(while_held=True)
    stored.copy_files(files)
    state, log = _initial_state_and_log(session, stored, inputs)
    return await _simulate(session, RunData(files, journal), journal, state, log, resumed=True)


async def _simulate(
    session: Session, store: RunData, journal: Journal, state: State, log: list[str], *, resumed: bool
) -> Outcome:
    state.budget = {}
    options = replace(session.options, simulation=session.options.simulation or Simulation())
    run = _build_run(replace(session, options=options), store, journal, state, StateSaver(log))
    await _pin(run)
    return await run_workflow(run, resumed=resumed)


async def simulate_run(
    session: Session,
    inputs: Mapping[str, object],
    *,
    files: MemoryFiles | None = None,
    journal: MemoryJournal | None = None,
    state: State | None = None,
) -> Outcome:
    """Simulate a new run in memory, and return the outcome.

    The simulation writes to `files`, begins with `state`, if given, and journals its calls in `journal`.
    """
    journal, state = journal or MemoryJournal(), state or initial_state(session, inputs)
    return await _simulate(session, RunData(files or MemoryFiles(), journal), journal, state, [], resumed=False)


@dataclass(frozen=True)
class PredictedCall:
    """A call that would be sent, because the journal has no reply to it.

    `again`: the journal has a reply to another call of the same step and member. `certain`: the prompt depends on no
    generated reply or answer.
    """

    address: str
    phase: str
    model: str
    tokens: int
    price: float | None
    again: bool
    certain: bool


@dataclass(frozen=True)
class Forecast:
    """The calls that a run would make, and the number of replies that it would reuse from its journal.

    `edited` has the files of the project that steps have read and that were edited since, with the phases of the steps;
    it is known only if all phases are evaluated again.
    """

    calls: list[PredictedCall]
    reused: int
    edited: dict[str, list[str]] = field(default_factory=dict)


async def forecast_calls(
    session: Session, run: StoredRun, rules: Iterable[Rule] = (), *, from_start: bool = False
) -> Forecast:
    """Return the calls that a run would make if it resumed and its models replied as `rules` say.

    If no rule gives a reply, the reply is generated. The run itself is not changed. With `from_start`, all phases are
    evaluated again, including those that have ended. In each phase, the first step that calls a model is certain,
    unless an earlier step used a generated answer or reply. After a generated reply, `goto` steps are ignored.
    """
    calls: list[PredictedCall] = []
    reused: set[tuple[str, str]] = set()  # address and reply, so that a reply reused in a later round counts once
    known: set[str] = set()
    guessed: dict[str, str] = {}  # keyed by phase: the step with generated replies; "" for an answer
    sure: set[str] = set()  # the phases that began before anything was generated

    def listen(event: Event) -> None:
        if isinstance(event, WentBack):
            if not from_start:
                known.clear()
        elif isinstance(event, PhaseStarted) and not guessed:
            sure.add(event.phase)
        elif isinstance(event, Answered) and not event.replayed:
            guessed[event.phase] = ""
        elif isinstance(event, CallEnded) and event.replayed:
            reused.add((event.address, event.text))
        elif isinstance(event, CallEnded):
            simulation.ignore_jumps = True
            step, first = event.address.rsplit("/", 2)[0], event.address.endswith("/1.1")
            certain = event.phase in sure and guessed.setdefault(event.phase, step) == step and first
            tokens, again = event.usage.get("input", 0), event.address in known
            calls.append(PredictedCall(event.address, event.phase, event.model, tokens, event.price, again, certain))

    gateway = ScriptedGateway([replace(rule, delay=0) for rule in rules], price=session.services.catalogue.price)
    simulation = Simulation()
    simulated_session = replace(
        session,
        services=replace(session.services, gateway=gateway, listeners=[listen]),
        options=replace(session.options, simulation=simulation),
    )
    files = MemoryFiles(original=run.files())
    run.copy_files(files)
    with closing(run.read_journal()) as journal:
        known.update(entry.address for entry in journal.entries("reply", texts=False))
        reads = {entry[1:3]: entry.body for entry in journal.entries("tool")}
        store = RunData(files, journal)
        written, _ = store.state.read()
        state, log, _ = await migrate_state(session.program, store, from_start=from_start)
        simulated_session, state, _ = _restrict_state(simulated_session, run, written, state, from_start=from_start)
        await _simulate(simulated_session, store, journal, state, log, resumed=True)
        edited = dict[str, list[str]]()
        for entry in journal.entries("tool"):
            for name in _edited_files(reads.get(entry[1:3], entry.body), entry.body):
                is_artifact = "paths" not in entry.body and run.files().has(name)
                if is_artifact and entry.fingerprint != fingerprint_text(f"project\n{name}"):
                    continue  # a later phase may have written it again
                phase = entry.address.split("/")[1].partition("@")[0]
                edited[name] = [*dict.fromkeys([*edited.get(name, []), phase])]
    return Forecast(calls, len(reused), edited)


def _edited_files(before: Body, after: Body) -> set[str]:
    """Return the files whose content differs in two results of the same `read` or `find`."""

    def contents(body: Body) -> set[tuple[str, str]]:
        texts = zip(body.get("files", []), body.get("texts", []), strict=False)
        return {*texts, *body.get("excerpts", {}).items(), *body.get("paths", {}).items()}

    if before.get("data") != after.get("data"):
        return {*before.get("files", []), *after.get("files", [])}
    return {name for name, _ in contents(before) ^ contents(after)}


def initial_state(session: Session, inputs: Mapping[str, object]) -> State:
    program = session.program
    values, errors, _ = resolve_inputs(program.workflow.state, {}, {"config": program.config, "inputs": inputs})
    if errors:
        raise SkillrunError(f"the state of `{program.workflow.name}` cannot be set up: {'; '.join(errors)}")
    environ = session.services.environ
    if environ.get("CI", "").lower() not in ("", "0", "false"):
        environment = "ci"
    elif environ.get("TERM_PROGRAM") in ("vscode", "zed") or environ.get("INSIDE_EMACS"):
        environment = "editor"
    else:
        environment = "terminal"
    return State(
        workflow=program.workflow.name,
        started_at=utc_timestamp(),
        inputs=dict(inputs),
        state=values,
        environment=environment,
        files=file_hashes(program),
        budget={**load_budget(program.library), **session.options.budget},
        project=str(session.options.project),
        override=session.options.model,
        share=is_shared(session),
        typed=_typed_paths(session, inputs),
    )


def _typed_paths(session: Session, inputs: Mapping[str, object]) -> list[str]:
    """Return the names of the path inputs that the user gave. With a valid seal, they are given on resume too."""
    given = session.options.given_inputs.matching(inputs)
    return [field.name for field in path_inputs(session.program.workflow) if field.name in given]


async def _evaluate(
    session: Session,
    stored: StoredRun,
    journal: Journal,
    state: State,
    saver: StateSaver,
    *,
    resumed: bool,
    unanswered_calls: Iterable[tuple[str, str]] = (),
    notices: Iterable[str] = (),
) -> Outcome:
    """Evaluate the run, and write its transcript. The journal has no reply to `unanswered_calls`, which were sent."""
    prepared = session.services.responder.prepared
    if resumed and prepared.path is not None:
        phases = session.program.workflow.phases  # without questions of a phase that is renamed since
        shown = RunView(stored).history.shown
        prepared.restrict(question for question in shown if question.key.partition("/")[0] in phases)
    transcript = stored.open_transcript()
    data = stored.data(journal, shared=state.share)
    run = _build_run(session, data, journal, state, saver, transcript.write_event)
    try:
        try:
            saver.key = ensure_signing_key()
        except (OSError, SkillrunError) as problem:
            how = "the state of this run is not sealed, so `resume` will treat it as if it came from another source"
            run.emit(Notice(f"{how}: {problem}", "warn"))
        for text in filter(None, (journal.warning, *notices)):
            run.emit(Notice(text, "warn"))
        run.store.refusals.listen(lambda text: run.emit(Notice(f"not followed: {text}", "warn")))
        stored.apply_permissions(shared=state.share)
        run.store.files.remove_leftovers()
        for address, fingerprint in unanswered_calls:
            await _warn_of_unanswered_call(run, address, fingerprint)
        await _pin(run)
        with _cancel_on_signal(ending_signals() if session.services.handle_signals else []) as received:
            outcome = await run_workflow(run, resumed=resumed)
        return replace(outcome, is_hangup=outcome.status == "interrupted" and received[:1] == [signal.SIGHUP])
    finally:
        reused_prompts = [  # which then count as the current prompts of their calls, for example after an undone edit
            run.journal.record("note", f"{address}{REUSED_SUFFIX}", prompt, {})
            for address, prompt in run.evaluation.latest_prompts.items()
            if run.journal.latest_fingerprint(address) not in ("", prompt)
        ]
        with contextlib.suppress(JournalUnwritable, LeaseLost):
            await asyncio.gather(*reused_prompts)
        error = transcript.close()
        if error is not None:
            run.events.drop_listener(transcript.write_event, error)


async def _warn_of_unanswered_call(run: Run, address: str, fingerprint: str) -> None:
    """Warn that the reply to a call is unknown. Warn again only if the call was sent again since."""
    all_sent = run.journal.entries("sent", texts=False)
    sent = [entry for entry in all_sent if (entry.address, entry.fingerprint) == (address, fingerprint)]
    noted = run.journal.find("note", f"{address}/unknown", fingerprint)
    if noted is None or noted.get("sent") != len(sent):
        text = f"{address} was sent before the run stopped, and its reply is unknown; the call is sent again if needed"
        run.emit(Notice(text, "warn"))
        await run.journal.record("note", f"{address}/unknown", fingerprint, {"sent": len(sent)})


def _build_run(
    session: Session, store: RunData, journal: Journal, state: State, saver: StateSaver, *extra_listeners: Listener
) -> Run:
    state.files = file_hashes(session.program)
    return Run(
        session=session,
        store=store,
        journal=journal,
        events=EventStream(*session.services.listeners, *extra_listeners),
        state=state,
        budget=RunBudget(state.budget, journal),
        saver=saver,
    )


async def _pin(run: Run) -> None:
    """Pin the models that tiers and inputs name. Report where providers run, and warn of an embedded model."""
    session, state = run.session, run.state
    library, workflow = session.program.library, session.program.workflow
    # A tier whose model has a different provider is pinned only if a role uses it: unused providers are not contacted.
    wanted = {role.model_under(run.override) for role in library.loaded_roles()}
    elsewhere = set(map(str.casefold, session.services.catalogue.elsewhere)) - set(map(str.casefold, wanted))
    tiers = [tier for tier in session.services.catalogue.tiers if tier.casefold() not in elsewhere]
    await run.pin_models([*tiers, *referenced_models(library, workflow, state.inputs, run.override)])
    for provider, place in session.services.catalogue.provider_locations(state.models.values()).items():
        run.emit(Notice(f"{provider}: {place}"))
    given = session.options.given_inputs.matching(state.inputs)
    used = [*tiers, *referenced_models(library, workflow, given, run.override)]  # a default may be unused in this run
    if any(run.resolve_model(name).provider == "embedded" for name in used):
        run.emit(Notice(EMBEDDED, "warn"))
    called = sorted(wanted.union(referenced_models(library, workflow, given, run.override)))
    run.warn_of_unpriced_models([run.resolve_model(name).model for name in called])


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a run or a worker. A hangup is left out if the caller ignores it, as `nohup` does."""
    signals = [signal.SIGINT, signal.SIGTERM]
    return signals if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [*signals, signal.SIGHUP]


@contextlib.contextmanager
def _cancel_on_signal(signals: Iterable[signal.Signals]) -> Iterator[list[signal.Signals]]:
    """While the context is active, each of the signals cancels the task. The run then saves its state, and returns.

    Yields the list of received signals.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    caught, received = [], list[signal.Signals]()

    def end(number: signal.Signals) -> None:
        received.append(number)
        task.cancel()

    for number in signals:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, end, number)
            caught.append(number)
    try:
        yield received
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
