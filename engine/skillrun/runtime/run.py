"""The data of one evaluation: its services and options, the run, and each open phase."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from skillrun.checker.program import Program
from skillrun.definitions.definitions import Phase
from skillrun.events import Event, EventStream, Listener, Notice, Said
from skillrun.library.configuration import MODES, Feature, resolve_features
from skillrun.library.settings import ReplySize, chosen_price_limit
from skillrun.models.messages import Gateway, ModelError, Outcomes, Reply, Request, Usage
from skillrun.replay import CALLS, READS, Effect, Replay
from skillrun.runtime.phase_record import Attempts, Breakers, Omission, PhaseRecord, UsageTotals
from skillrun.runtime.run_budget import RunBudget, unpriced_warning
from skillrun.store.event_lines import utc_timestamp
from skillrun.store.journal import Journal
from skillrun.store.run_data import RunData
from skillrun.store.seal import NO_INPUTS, GivenInputs, compute_seal
from skillrun.store.state import State
from skillrun.store.summaries import Summary

if TYPE_CHECKING:
    from skillrun.models.catalogue import Catalogue
    from skillrun.models.entries import ResolvedModel
    from skillrun.questions.answers import Answer
    from skillrun.questions.prepared_answers import PreparedAnswers
    from skillrun.questions.responder import QuestionSet


@dataclass
class Rerun:
    """What is done again although the journal has its result. `places` are phases (`draft`) or steps (`draft/words`).

    An interrupted evaluation keeps it, so that the next one sends only the remaining calls.
    """

    places: Collection[str] = ()
    called_addresses: set[str] = field(default_factory=set)
    """The addresses of the calls that were sent since the rerun was requested."""
    reads: bool = False
    """Whether files of the project are read again."""

    def is_repeated(self, effect: Effect, address: str) -> bool:
        """Return whether a request is made again: a read of files, or a call that has not been sent since."""
        if effect != CALLS:
            return effect == READS and self.reads
        path = f"{address.partition('/')[2]}/"
        return address not in self.called_addresses and any(path.startswith(f"{place}/") for place in self.places)


class Responder(Protocol):
    """Asks the user the questions of a run."""

    attended: bool
    prepared: PreparedAnswers

    @property
    def resume_flags(self) -> Mapping[str, str]:
        """The command-line flags, with values, with which a resumed run gets an equal responder."""
        ...

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        """Return the answers; None makes the run wait. Unless `interactive`, only prepared answers and defaults are
        used."""
        ...


Estimate = Callable[[State, GivenInputs], Awaitable[dict[str, Any] | None]]
"""Computes `run.estimate` of a new run from its first state."""


@dataclass
class Services:
    """What a run uses of its surroundings."""

    catalogue: Catalogue
    gateway: Gateway
    responder: Responder
    listeners: Iterable[Listener] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    cache: Path | None = None  # has the lists of models of the providers; None: no list is requested
    estimate: Estimate | None = None  # computes `run.estimate`
    on_replayed: Callable[[str, Request, Outcomes], None] = lambda *_: None  # called for each replayed call
    handle_signals: bool = True  # SIGINT and SIGTERM end the run


@dataclass
class Simulation:
    """A run in memory, with generated replies. No command is executed."""

    sizes: Mapping[str, ReplySize] = field(default_factory=dict)  # keyed by step: the size of a generated reply
    ignore_jumps: bool = False  # generated replies do not show whether a real run goes back or fails


@dataclass
class RunOptions:
    """What the user has chosen for a run."""

    project: Path = field(default_factory=Path.cwd)
    model: str = ""  # used for every call, instead of the configured models
    budget: Mapping[str, float] = field(default_factory=dict)
    given_inputs: GivenInputs = NO_INPUTS
    fetched_paths: Collection[str] = ()  # path inputs whose folder this process has fetched itself
    only_phases: Collection[str] = ()  # the phases that may start; all of them if empty
    rerun: Rerun = field(default_factory=Rerun)
    share: bool = False  # other users may read the files of a new run
    adopt: bool | None = None  # whether a run folder from another source keeps its settings; None: undecided
    command_flags: Mapping[str, str] = field(default_factory=dict)  # flags for `resume` that select the same models
    simulation: Simulation | None = None


@dataclass
class Session:
    """A program, and what it is run with."""

    program: Program
    services: Services
    options: RunOptions = field(default_factory=RunOptions)


@dataclass
class StateSaver:
    """How `state.md` is written."""

    log: list[str]
    key: bytes | None = None  # seals the state; None: the state is not sealed
    pending: Literal["all", "first", "none"] = "all"
    """Which saves of a running workflow are made before a call is sent.

    Resuming from the first state evaluates all phases again, which costs nothing, since no call was sent.
    """


@dataclass
class EvaluationState:
    """What has happened in one evaluation, which includes its inline workflows."""

    resolved: dict[str, ResolvedModel] = field(default_factory=dict)  # keyed by the name of a model or tier
    latest_prompts: dict[str, str] = field(default_factory=dict)  # keyed by address: latest fingerprint
    counted_calls: set[tuple[str, str]] = field(default_factory=set)  # address, fingerprint
    refusals: dict[str, ModelError] = field(default_factory=dict)  # keyed by model: the latest refusal
    responsive_models: set[str] = field(default_factory=set)  # the models that have replied
    writers: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """The address and the label of the step that wrote a file last, keyed by round and `fold_path` of the file."""
    owners: dict[tuple[str, str, str], tuple[str, str, str]] = field(default_factory=dict)
    """As `writers`, with the member; keyed also by the step's address without passes and items."""
    readers: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The addresses of the steps that have read a file of the run, keyed by round and `fold_path` of the file."""
    reported: set[str] = field(default_factory=set)  # folders and texts already reported to the user
    estimate_lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class Run:
    """One evaluation of a program over a journal, or of an inline workflow in it."""

    session: Session
    store: RunData
    journal: Journal
    events: EventStream
    state: State
    budget: RunBudget
    saver: StateSaver
    evaluation: EvaluationState = field(default_factory=EvaluationState)
    lost_phases: set[str] = field(default_factory=set)  # ended phases without a usable summary
    inline_address: str = ""  # the address of the step that runs this workflow inside another run
    parent_phase: PhaseRun | None = None  # the phase that contains the step at `inline_address`

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def program(self) -> Program:
        return self.session.program

    @property
    def services(self) -> Services:
        return self.session.services

    @property
    def options(self) -> RunOptions:
        return self.session.options

    @cached_property
    def replay(self) -> Replay:
        """The replay that makes, or finds in the journal, every request of this evaluation to the outside."""
        return Replay(self.journal, self.options.rerun.is_repeated, self.options.simulation is not None)

    @property
    def override(self) -> str:
        """The model that the user has chosen for everything; empty if none."""
        return self.options.model or self.state.override

    def resolve_model(self, name: str) -> ResolvedModel:
        """Return the model that a name means in this run, and pin it.

        The meaning of a pinned name never changes. A new pin is saved before the first call to its model.
        """
        resolved = self.evaluation.resolved
        if name not in resolved:
            services, pinned = self.services, self.state.models.get(name, "")
            override = "" if pinned else self.override
            cache = None if pinned else services.cache
            resolved[name] = services.catalogue.resolve(pinned or name, services.environ, override, cache=cache)
            if not pinned:
                self.state.models[name] = resolved[name].model
                self.outermost.save()
        return resolved[name]

    async def pin_models(self, names: Iterable[str]) -> None:
        """Pin the names that are not pinned yet. Their models are looked up in the providers' model lists."""
        services, models = self.services, self.state.models
        for name in names:
            if name not in models and services.cache is not None:
                resolved = await services.catalogue.resolve_live(name, services.environ, services.cache, self.override)
                if name not in models:  # another branch of the run may have pinned it meanwhile
                    models[name] = resolved.model
                    self.outermost.save()
                    if resolved.why and name not in services.catalogue.tiers:
                        self.emit(Notice(f"{name}: {resolved.model} ({resolved.why})"))
            self.resolve_model(name)

    def warn_of_unpriced_models(self, models: Iterable[str]) -> None:
        """Warn once of each model whose price is unknown, if the user or the project has set a price limit."""
        reported = self.evaluation.reported
        new = [model for model in models if f"price of {model}" not in reported]
        reported.update(f"price of {model}" for model in new)
        limit = chosen_price_limit(self.program.library, self.budget.limits, self.options.budget) if new else None
        if limit is not None and (warning := unpriced_warning(new, self.services.catalogue, limit)):
            self.emit(Notice(warning, "warn"))

    @property
    def outermost(self) -> Run:
        """The run that has a state file: this run, or the outermost one that contains this inline workflow."""
        return self if self.parent_phase is None else self.parent_phase.run.outermost

    def emit(self, event: Event) -> None:
        """Emit an event. A phase of an inline workflow is named by its path `phase/step/inner phase`."""
        prefix = self.inline_address.partition("/")[2]
        self.events.emit(event.with_path_prefix(prefix) if prefix else event)

    def log(self, text: str) -> None:
        """Add a line to the log in `state.md`, unless this is an inline workflow."""
        if not self.inline_address:
            self.saver.log.append(f"{utc_timestamp()} {text}")

    def save(self) -> None:
        """Write `state.md`. Do nothing for an inline workflow."""
        saver, state = self.saver, self.state
        if not self.inline_address and not (saver.pending == "none" and state.status == "running"):
            saver.pending = "none" if saver.pending == "first" else saver.pending
            switches = self.features(state.state).values()
            state.features = {switch.name: "on" if switch.on else f"off, {switch.because}" for switch in switches}
            state.seal = compute_seal(self.program, state, saver.key) if saver.key is not None else ""
            self.store.state.write(state, saver.log)

    def begin_sending(self) -> None:
        """Note that a call is about to be sent. From the first call on, every save is made."""
        if self.saver.pending != "all":
            self.saver.pending = "all"
            self.save()

    async def load_estimate(self, names: Mapping[str, Any] | None = None) -> None:
        """Compute `run.estimate` if this has not been done and templates read it, and add it to `names`.

        The value is the same for the whole run, so it is saved before it is used.
        """
        run = self.outermost
        services, address = run.services, f"{run.program.workflow.name}/estimate"
        async with self.evaluation.estimate_lock:
            is_unknown = run.state.estimate is None and run.journal.find("note", address, "") is None
            if is_unknown and services.estimate is not None and run.program.reads_name("run.estimate"):
                run.state.estimate = await services.estimate(run.state, run.options.given_inputs)
                if run.state.estimate is None:
                    await run.journal.record("note", address, "", {"reason": "the run could not be estimated"})
                run.saver.pending = "all"
                run.save()
        if names is not None and run is self and run.state.estimate is not None:
            names["run"]["estimate"] = dict(run.state.estimate)

    def features(self, state: Mapping[str, Any]) -> dict[str, Feature]:
        """Return the feature switches, keyed by name, for the mode that the state sets."""
        config = self.program.config
        return resolve_features(config.get("features") or {}, self._mode(state), config.get(MODES) or {})

    def config(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the config for the mode that the state sets."""
        return self.program.config_in(self._mode(state))

    def _mode(self, state: Mapping[str, Any]) -> str | None:
        """Return the mode that the state sets, or else the mode in the inputs."""
        mode = state.get("mode") or self.state.inputs.get("mode")
        return mode if isinstance(mode, str) else None


@dataclass(frozen=True)
class PriorPhases:
    """What happened before a phase: the summaries of the phases that it follows, and the ids of the questions asked and
    the usage of all rounds."""

    summaries: Mapping[str, Summary]
    question_ids: frozenset[str]
    usage: UsageTotals


@dataclass
class PromptCache:
    """Parts of a phase's prompts that are rendered only once: the shared prefix, and the text of each member's role."""

    shared_prefix: Any = None
    role_texts: dict[str, str] = field(default_factory=dict)


@dataclass
class PhaseRun:
    """One phase during its evaluation."""

    run: Run
    name: str
    names: dict[str, Any]
    breakers: Breakers
    prior: PriorPhases
    record: PhaseRecord = field(default_factory=PhaseRecord)
    attempts: Attempts = field(default_factory=Attempts)
    prompt_cache: PromptCache = field(default_factory=PromptCache)
    each_progress: dict[str, Any] = field(default_factory=dict)  # keyed by the address of an `each`
    is_reentry: bool = False  # an earlier process ended here to wait for the user
    fallback_depth: int = 0  # how many fallbacks the phase and the active steps have

    @property
    def phase(self) -> Phase:
        return self.run.program.phases[self.name]

    @property
    def round(self) -> int:
        return self.run.state.round

    @property
    def state(self) -> dict[str, object]:
        """The state of the run, with the changes that the phase has made so far."""
        state: dict[str, object] = self.names["state"]
        return state

    def address(self) -> str:
        return f"{self.run.inline_address or self.run.program.workflow.name}/{self.name}"

    @property
    def round_path(self) -> str:
        """The round as text: `2`, or in an inline workflow `2.1`, which begins with the round of the outer phase."""
        outer = self.run.parent_phase
        return str(self.round) if outer is None else f"{outer.round_path}.{self.round}"

    @property
    def has_fallback(self) -> bool:
        """Whether a failure is handled by a fallback in this phase, or in the phase that contains its workflow."""
        return self.fallback_depth > 0 or (self.run.parent_phase is not None and self.run.parent_phase.has_fallback)

    @property
    def entry_type(self) -> str:
        return "re_entry_after_user_input" if self.is_reentry else "first_entry"

    @property
    def pause_address(self) -> str:
        """The journal address of the note which says that the process ended here to wait for the user."""
        return f"{self.address()}@{self.round_path}/pause"

    def overwritten_text_address(self, artifact: str) -> str:
        """Return the journal address of an artifact's text before this phase overwrote it."""
        return f"{self.address()}@{self.round_path}/{artifact}"

    def voided_attempts(self, key: str) -> int:
        """Return how many attempts of a request do not count, because the run failed after them and was resumed."""
        outer = int(self.round_path.partition(".")[0])
        voids = (entry.body for entry in self.run.journal.entries("void") if entry.body["round"] <= outer)
        return max((body["tries"].get(key, 0) for body in voids), default=0)

    def round_fields(self) -> dict[str, str]:
        """Return the field with the round for a journal record; empty in the first round."""
        return {"round": self.round_path} if max(_order(self.round_path)) > 1 else {}

    def count(self, usage: Usage, price: float | None, *, goes_on: bool) -> None:
        self.record.usage += UsageTotals(1, usage, price, kept=usage.cache_read if goes_on else 0)
        self.update_usage()

    def count_replay(self, address: str, request: Request, reply: Reply) -> None:
        """Count a call whose reply is in the journal. The call was paid for in this round or in an earlier one."""
        fingerprint = request.fingerprint()
        again = (address, fingerprint) in self.run.evaluation.counted_calls
        if not again and self.round_fields():
            sent = self.run.journal.find("sent", address, fingerprint) or {}
            again = _order(sent.get("round", "1")) < _order(self.round_path)
        self.run.evaluation.counted_calls.add((address, fingerprint))
        if again:
            self.record.usage += UsageTotals(replayed=1)
        else:
            self.count(reply.usage, reply.price, goes_on=request.continues_conversation)

    def update_usage(self) -> None:
        """Update `run.usage`, which templates read: the usage of this phase and of earlier phases in all rounds.

        `by_phase` covers only this round.
        """
        by_phase = {name: summary.usage for name, summary in self.prior.summaries.items()}
        total = self.prior.usage + self.record.usage
        self.names["run"]["usage"] = {
            **total.template_value(),
            "by_phase": {**by_phase, self.name: self.record.usage.to_dict()},
        }

    @property
    def title(self) -> str:
        """The name of the phase. In an inline workflow, the path `phase/step/inner phase`."""
        return self.address().partition("/")[2]

    def warn(self, text: str) -> None:
        """Record a warning for the summary, and show it to the user. An equal warning is ignored."""
        text = f"{self.record.branch_label}: {text}" if self.record.branch_label else text
        if text not in self.record.warnings:
            self.record.warnings.append(text)
            self.run.emit(Said(self.name, text, "warn"))

    def record_omission(self, step: str, title: str, tokens: int, text: str, notice: str, level: str) -> None:
        """Record what a prompt of a step omits, if no earlier prompt omitted more under the same title.

        The user gets the notice only once for each title in a step.
        """
        omissions = self.record.prompts.omissions
        if (step, title) not in omissions:
            self.run.emit(Said(self.name, f"the prompt of `{step}` {notice}", level))
        if tokens > omissions.get((step, title), Omission()).tokens:
            omissions[step, title] = Omission(tokens, text)

    def add_artifact(self, path: str) -> None:
        """Record an artifact for the summary of this phase, and of the phases that contain its inline workflow."""
        if path not in self.record.artifacts:
            self.record.artifacts.append(path)
        if self.run.parent_phase is not None:
            self.run.parent_phase.add_artifact(path)


def _order(rounds: Any) -> tuple[int, ...]:
    """Return a sort key for a round such as `2` or `2.1`."""
    return tuple(int(part) for part in str(rounds).split(".") if part.isdecimal())
