"""The data of one evaluation: the session, the run, and each open phase."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skillrun.checker.program import Program
from skillrun.definitions.definitions import Phase
from skillrun.events import Event, EventStream, Listener, Notice, Said
from skillrun.library.configuration import MODES, Feature, resolve_features
from skillrun.library.settings import ReplySize
from skillrun.models.messages import Gateway, ModelError, Outcomes, Reply, Request, Usage
from skillrun.replay import CALLS, READS, Effect, Replay
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.phase_record import Attempts, Omission, PhaseRecord, UsageTotals
from skillrun.runtime.run_budget import RunBudget
from skillrun.store.journal import Journal
from skillrun.store.run_data import RunData
from skillrun.store.seal import compute_seal
from skillrun.store.state import State
from skillrun.store.summary import Summary

if TYPE_CHECKING:
    from skillrun.models.catalogue import Catalogue
    from skillrun.models.entries import ResolvedModel
    from skillrun.questions.answers import Answer, Question, QuestionRecord
    from skillrun.questions.prepared_answers import RecordBuilder
    from skillrun.questions.responder import QuestionSet


@dataclass
class Rerun:
    """A request to send calls again. `places` are phases (`draft`) or steps (`draft/words`).

    An interrupted evaluation keeps it, so that the next one sends only the remaining calls.
    """

    places: Collection[str] = ()
    called_addresses: set[str] = field(default_factory=set)
    """The addresses of the calls that were sent since the rerun was requested."""

    def is_pending(self, address: str) -> bool:
        """Return whether the call at this address is to be sent again, and has not been."""
        path = address.partition("/")[2]
        return address not in self.called_addresses and any(f"{path}/".startswith(f"{place}/") for place in self.places)


class Responder(Protocol):
    """Asks the user the questions of a run."""

    attended: bool

    @property
    def resume_flags(self) -> Mapping[str, str]:
        """The command-line flags, with values, with which a resumed run gets an equal responder."""
        ...

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        """Return the answers; None makes the run wait. Unless `interactive`, only prepared answers and defaults are
        used."""
        ...

    def has_prepared_answers(self, question_set: QuestionSet) -> bool:
        """Return whether each of these questions has a prepared answer."""
        ...

    def skip_prepared_answers(self, question_set: QuestionSet) -> None:
        """Treat the prepared answers to these questions as used, because the questions were already answered."""
        ...

    def mark_answers_used(self, address: str, questions: Sequence[Question]) -> None:
        """Do not report prepared answers to these questions as unused. An earlier process asked the questions."""
        ...

    def note_late_answers(
        self, question_set: QuestionSet, records: Sequence[QuestionRecord], build_record: RecordBuilder
    ) -> None:
        """Report prepared answers that come too late: they differ from `records`, which stay in effect."""
        ...


def _nothing(_address: str, _request: Request, _outcomes: Outcomes) -> None:
    """Do nothing."""


@dataclass
class Session:
    """The environment and the options of a run."""

    program: Program
    catalogue: Catalogue
    gateway: Gateway
    responder: Responder
    listeners: Iterable[Listener] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    project: Path = field(default_factory=Path.cwd)
    runs: Path | None = None  # the folder from which a simulation in memory reads other runs
    override: str = ""
    budget: Mapping[str, float] = field(default_factory=dict)
    cache: Path | None = None
    reuse_reads: bool = True
    is_dry_run: bool = False  # no command is executed
    estimate: Mapping[str, Any] | None = None
    sizes: Mapping[str, ReplySize] = field(default_factory=dict)  # keyed by step: the size of a generated reply
    ignore_gotos: bool = False  # skip `goto` steps, because generated replies do not show whether a real run goes back
    explicit_inputs: Collection[str] = ()  # inputs that the user gave explicitly
    rerun: Rerun = field(default_factory=Rerun)  # calls to send again, although the journal has a reply
    only_phases: Collection[str] = ()  # the phases that may start; all of them if empty
    share: bool = False  # other users may read the files of a new run
    handle_signals: bool = True  # SIGINT and SIGTERM end the run
    defer_saves: bool = False  # after the first save, do not save the state until a call is sent
    command_flags: Mapping[str, str] = field(default_factory=dict)  # flags for `resume` that select the same models
    on_replayed: Callable[[str, Request, Outcomes], None] = _nothing  # called for each replayed call
    adopt: bool | None = None  # whether a run folder from another source keeps its settings; None: undecided


@dataclass
class Run:
    """One evaluation of a program over a journal."""

    name: str
    session: Session
    program: Program
    store: RunData
    journal: Journal
    events: EventStream
    state: State
    log: list[str]
    budget: RunBudget
    voided_attempts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # keyed by request, then round
    resolved: dict[str, ResolvedModel] = field(default_factory=dict)  # keyed by the name of a model or tier
    lost_phases: set[str] = field(default_factory=set)  # ended phases without a usable summary
    inline_address: str = ""  # the address of the step that runs this workflow inside another run
    parent_phase: PhaseRun | None = None  # the phase that contains the step at `inline_address`
    reported_folders: set[str] = field(default_factory=set)  # readable folders already reported to the user
    latest_prompts: dict[str, str] = field(default_factory=dict)  # keyed by address: latest fingerprint
    counted_calls: set[tuple[str, str]] = field(default_factory=set)  # address, fingerprint
    refusals: dict[str, ModelError] = field(default_factory=dict)  # keyed by model: the latest refusal
    responsive_models: set[str] = field(default_factory=set)  # the models that have replied in this evaluation
    key: bytes | None = None  # the key that seals the state; None: the state is not sealed
    has_sent: bool = False  # whether this evaluation has sent a call
    has_saved: bool = False

    @cached_property
    def replay(self) -> Replay:
        """The replay that makes, or finds in the journal, every request of this evaluation to the outside."""
        return Replay(self.journal, self._is_repeated, self.session.is_dry_run)

    def _is_repeated(self, effect: Effect, address: str) -> bool:
        if effect == CALLS:
            return self.session.rerun.is_pending(address)
        return effect == READS and not self.session.reuse_reads

    def resolve_model(self, name: str) -> ResolvedModel:
        """Return the model that a name means in this run, and pin it.

        The meaning of a pinned name never changes. A new pin is saved before the first call to its model.
        """
        if name not in self.resolved:
            session, pinned = self.session, self.state.models.get(name, "")
            override = "" if pinned else session.override or self.state.override
            if pinned or session.cache is None:
                self.resolved[name] = session.catalogue.resolve(pinned or name, session.environ, override)
            else:
                self.resolved[name] = session.catalogue.resolve_from_cache(
                    name, session.environ, session.cache, override
                )
            if not pinned:
                self.state.models[name] = self.resolved[name].model
                self.outermost.save()
        return self.resolved[name]

    async def pin_models(self, names: Iterable[str]) -> None:
        """Pin the names that are not pinned yet. Their models are looked up in the providers' model lists."""
        session, models = self.session, self.state.models
        for name in names:
            if name not in models and session.cache is not None:
                override = session.override or self.state.override
                resolved = await session.catalogue.resolve_live(name, session.environ, session.cache, override)
                if name not in models:  # another branch of the run may have pinned it meanwhile
                    models[name] = resolved.model
                    self.outermost.save()
                    if resolved.why and name not in session.catalogue.tiers:
                        self.emit(Notice(f"{name}: {resolved.model} ({resolved.why})"))
            self.resolve_model(name)

    @property
    def outermost(self) -> Run:
        """The run that has a state file: this run, or the outermost one that contains this inline workflow."""
        return self if self.parent_phase is None else self.parent_phase.run.outermost

    def emit(self, event: Event) -> None:
        """Emit an event. A phase of an inline workflow is named by its path `phase/step/inner phase`."""
        self.events.emit(
            event.with_path_prefix(self.inline_address.partition("/")[2]) if self.inline_address else event
        )

    def save(self) -> None:
        """Write `state.md`. Do nothing for an inline workflow.

        With deferred saves, the first state stays in the file until a call is sent. Resuming from this state evaluates
        all phases again, which costs nothing, since no call was sent.
        """
        late = self.session.defer_saves and self.has_saved and not self.has_sent and self.state.status == "running"
        if not self.inline_address and not late:
            self.has_saved = True
            switches = self.features(self.state.state).values()
            self.state.features = {switch.name: "on" if switch.on else f"off, {switch.because}" for switch in switches}
            self.state.seal = compute_seal(self.program, self.state, self.key) if self.key is not None else ""
            self.store.state.write(self.state, self.log)

    def begin_sending(self) -> None:
        """Note that a call is about to be sent. From the first call on, saves are not deferred."""
        if not self.has_sent:
            self.has_sent = True
            if self.session.defer_saves:
                self.save()

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
    phase: Phase
    round: int
    state: dict[str, object]
    names: dict[str, Any]
    breakers: Breakers
    prior: PriorPhases
    record: PhaseRecord = field(default_factory=PhaseRecord)
    attempts: Attempts = field(default_factory=Attempts)
    prompt_cache: PromptCache = field(default_factory=PromptCache)
    each_progress: dict[str, Any] = field(default_factory=dict)  # keyed by the address of an `each`
    branch_label: str = ""  # in a branch: the label of its `each` item
    checkpoint: str = ""  # the step that started last
    is_reentry: bool = False  # an earlier process ended here to wait for the user
    fallback_depth: int = 0  # how many fallbacks the phase and the active steps have

    def address(self) -> str:
        return (
            f"{self.run.inline_address}/{self.name}"
            if self.run.inline_address
            else f"{self.run.program.workflow.name}/{self.name}"
        )

    @property
    def number(self) -> int:
        """The phase's position in the workflow, starting at 1."""
        return list(self.run.program.workflow.phases).index(self.name) + 1

    @property
    def round_path(self) -> str:
        """The round as text: `2`, or in an inline workflow `2.1`, which begins with the round of the outer phase."""
        return (
            f"{self.run.parent_phase.round_path}.{self.round}" if self.run.parent_phase is not None else str(self.round)
        )

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

    def voided_attempts(self, key: str) -> int:
        """Return how many attempts of a request do not count, because the run failed after them and was resumed."""
        counts = self.run.voided_attempts.get(key, {})
        outer = int(self.round_path.partition(".")[0])
        return max((count for number, count in counts.items() if number <= outer), default=0)

    def round_fields(self) -> dict[str, str]:
        """Return the field with the round for a journal record; empty in the first round."""
        if self.round == 1 and self.run.parent_phase is None:
            return {}
        return {"round": self.round_path} if max(_order(self.round_path)) > 1 else {}

    def count(self, usage: Usage, price: float | None, *, goes_on: bool) -> None:
        self.record.usage += UsageTotals(1, usage, price, kept=usage.cache_read if goes_on else 0)
        self.update_usage()

    def count_replay(self, address: str, request: Request, reply: Reply) -> None:
        """Count a call whose reply is in the journal. The call was paid for in this round or in an earlier one."""
        fingerprint = request.fingerprint()
        again = (address, fingerprint) in self.run.counted_calls
        if not again and self.round_fields():
            sent = self.run.journal.find("sent", address, fingerprint) or {}
            again = _order(sent.get("round", "1")) < _order(self.round_path)
        self.run.counted_calls.add((address, fingerprint))
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
        text = f"{self.branch_label}: {text}" if self.branch_label else text
        if text not in self.record.warnings:
            self.record.warnings.append(text)
            self.run.emit(Said(self.name, text, "warn"))

    def record_omission(self, step: str, title: str, tokens: int, text: str) -> None:
        """Record what a prompt of a step omits. The user is notified only once for each title in a step."""
        prompts = self.record.prompts
        if (step, title) not in prompts.omissions:
            self.run.emit(Said(self.name, f"the prompt of `{step}` exceeds the window; omitted: {text}", "info"))
        prompts.add_omission(step, title, Omission(tokens, text))

    def add_artifact(self, path: str) -> None:
        """Record an artifact for the summary of this phase, and of the phases that contain its inline workflow."""
        if path not in self.record.artifacts:
            self.record.artifacts.append(path)
        if self.run.parent_phase is not None:
            self.run.parent_phase.add_artifact(path)


def _order(rounds: Any) -> tuple[int, ...]:
    """Return a sort key for a round such as `2` or `2.1`."""
    return tuple(int(part) for part in str(rounds).split(".") if part.isdecimal())
