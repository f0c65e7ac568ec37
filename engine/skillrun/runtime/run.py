"""The state of one evaluation: the run and the open phase."""

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
from skillrun.library.reply_sizes import ReplySize
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
    """`places` are phases (`draft`) or steps (`draft/words`). Kept when an evaluation is interrupted."""

    places: Collection[str] = ()
    called_addresses: set[str] = field(default_factory=set)
    """The addresses of the calls that were sent since the rerun was requested."""

    def is_pending(self, address: str) -> bool:
        """Return whether the call at this address must still be sent again."""
        path = address.partition("/")[2]
        return address not in self.called_addresses and any(f"{path}/".startswith(f"{place}/") for place in self.places)


class Responder(Protocol):
    """Asks the user the questions of a run. None instead of answers makes the run wait."""

    attended: bool

    @property
    def resume_flags(self) -> Mapping[str, str]:
        """The flags, with their values, that give a resumed run the same responder."""
        ...

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        """Return the answers; without `interactive`, only prepared ones and defaults."""
        ...

    def has_prepared_answers(self, question_set: QuestionSet) -> bool:
        """Return whether each of these questions has a prepared answer."""
        ...

    def skip_prepared_answers(self, question_set: QuestionSet) -> None:
        """Advance prepared lists of answers past these questions, which were answered before."""
        ...

    def mark_answers_used(self, address: str, questions: Sequence[Question]) -> None:
        """Do not report prepared answers to these questions as unused: an earlier process asked them."""
        ...

    def note_late_answers(
        self, question_set: QuestionSet, records: Sequence[QuestionRecord], build_record: RecordBuilder
    ) -> None:
        """Report prepared answers that differ from `records`, which stay in effect."""
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
    runs: Path | None = None  # the folder of other runs, for a simulation in memory
    override: str = ""
    budget: Mapping[str, float] = field(default_factory=dict)
    cache: Path | None = None
    reuse_reads: bool = True
    is_dry_run: bool = False  # nothing outside is executed
    estimate: Mapping[str, Any] | None = None
    sizes: Mapping[str, ReplySize] = field(default_factory=dict)  # sizes of generated replies, by step
    ignore_gotos: bool = False  # skip `goto`: generated replies do not show whether a real run goes back
    explicit_inputs: Collection[str] = ()  # inputs that the user gave explicitly
    rerun: Rerun = field(default_factory=Rerun)  # calls to send again despite a journaled reply
    only_phases: Collection[str] = ()  # the phases that may start; all of them if empty
    share: bool = False  # other users may read the files of a new run
    handle_signals: bool = True  # SIGINT and SIGTERM end the run
    defer_saves: bool = False  # after the first save, do not save the state until a call is sent
    command_flags: Mapping[str, str] = field(default_factory=dict)  # flags that give a resumed run the same models
    on_replayed: Callable[[str, Request, Outcomes], None] = _nothing  # called for each call that the journal answers
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
    voided_attempts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # by key, then by round
    resolved: dict[str, ResolvedModel] = field(default_factory=dict)
    lost_phases: set[str] = field(default_factory=set)  # ended phases without a usable summary
    inline_address: str = ""  # the address of the step that runs this workflow inside another run
    parent_phase: PhaseRun | None = None  # the phase of that step
    reported_folders: set[str] = field(default_factory=set)  # readable folders already reported to the user
    latest_prompts: dict[str, str] = field(default_factory=dict)  # by address: the fingerprint of the latest prompt
    counted_calls: set[tuple[str, str]] = field(default_factory=set)  # replayed calls that were counted
    refusals: dict[str, ModelError] = field(default_factory=dict)  # by model: the latest error of its key or name
    responsive_models: set[str] = field(default_factory=set)  # the models that have replied in this evaluation
    key: bytes | None = None  # seals the state; None: the state is not sealed
    has_sent: bool = False  # whether this evaluation has sent anything
    has_saved: bool = False

    @cached_property
    def replay(self) -> Replay:
        """Makes every request of this evaluation to the outside."""
        return Replay(self.journal, self._is_repeated, self.session.is_dry_run)

    def _is_repeated(self, effect: Effect, address: str) -> bool:
        if effect == CALLS:
            return self.session.rerun.is_pending(address)
        return effect == READS and not self.session.reuse_reads

    def resolve_model(self, name: str) -> ResolvedModel:
        """Return the model that a name means. Pinned names never change; new pins are saved before the first call."""
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
        """Pin the names that are not pinned yet, with the help of the providers' model lists."""
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
        """The run that has a state file: this one, or the one that contains the inline workflow."""
        return self if self.parent_phase is None else self.parent_phase.run.outermost

    def emit(self, event: Event) -> None:
        """Emit an event; phases of an inline workflow get the path `phase/step/inner phase`."""
        self.events.emit(
            event.with_path_prefix(self.inline_address.partition("/")[2]) if self.inline_address else event
        )

    def save(self) -> None:
        """Write `state.md`; do nothing for an inline workflow.

        With deferred saves, the file says until the first call that all phases are evaluated again: that costs nothing.
        """
        late = self.session.defer_saves and self.has_saved and not self.has_sent and self.state.status == "running"
        if not self.inline_address and not late:
            self.has_saved = True
            switches = self.features(self.state.state).values()
            self.state.features = {switch.name: "on" if switch.on else f"off, {switch.because}" for switch in switches}
            self.state.seal = compute_seal(self.program, self.state, self.key) if self.key is not None else ""
            self.store.state.write(self.state, self.log)

    def begin_sending(self) -> None:
        """Note that a call is sent; from the first one on, saves are no longer deferred."""
        if not self.has_sent:
            self.has_sent = True
            if self.session.defer_saves:
                self.save()

    def features(self, state: Mapping[str, Any]) -> dict[str, Feature]:
        """Return the feature switches by name, for the mode of the state."""
        config = self.program.config
        return resolve_features(config.get("features") or {}, self._mode(state), config.get(MODES) or {})

    def config(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the config for the mode of the state."""
        return self.program.config_in(self._mode(state))

    def _mode(self, state: Mapping[str, Any]) -> str | None:
        """Return the mode of the state, or else of the inputs."""
        mode = state.get("mode") or self.state.inputs.get("mode")
        return mode if isinstance(mode, str) else None


@dataclass(frozen=True)
class PriorPhases:
    """The history of a phase: summaries of the phases that it follows, and questions and usage of all rounds."""

    summaries: Mapping[str, Summary]
    question_ids: frozenset[str]
    usage: UsageTotals


@dataclass
class PromptCache:
    """Parts of a phase's prompts that are rendered once: the shared prefix, and the role text of each member."""

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
    each_progress: dict[str, Any] = field(default_factory=dict)  # by `each` address: what succeeded before a retry
    branch_label: str = ""  # the label of the `each` item, in a branch
    checkpoint: str = ""  # the step that started last
    is_reentry: bool = False  # an earlier process ended here to wait for the user
    fallback_depth: int = 0  # how many of the active steps, and the phase, have a fallback

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
        """The round, prefixed by that of the outer phase in an inline workflow: `2`, or `2.1`."""
        return (
            f"{self.run.parent_phase.round_path}.{self.round}" if self.run.parent_phase is not None else str(self.round)
        )

    @property
    def has_fallback(self) -> bool:
        """Whether a failure has a fallback, in this phase or in the phase that contains the inline workflow."""
        return self.fallback_depth > 0 or (self.run.parent_phase is not None and self.run.parent_phase.has_fallback)

    @property
    def entry_type(self) -> str:
        return "re_entry_after_user_input" if self.is_reentry else "first_entry"

    @property
    def pause_address(self) -> str:
        """The journal address of the note that this phase ended the process to wait for the user."""
        return f"{self.address()}@{self.round_path}/pause"

    def voided_attempts(self, key: str) -> int:
        """Return how many attempts do not count, because the run failed on them and was resumed."""
        counts = self.run.voided_attempts.get(key, {})
        outer = int(self.round_path.partition(".")[0])
        return max((count for number, count in counts.items() if number <= outer), default=0)

    def round_fields(self) -> dict[str, str]:
        """Return the round for a journal record; empty in the first round."""
        if self.round == 1 and self.run.parent_phase is None:
            return {}
        return {"round": self.round_path} if max(_order(self.round_path)) > 1 else {}

    def count(self, usage: Usage, price: float | None, *, goes_on: bool) -> None:
        self.record.usage += UsageTotals(1, usage, price, kept=usage.cache_read if goes_on else 0)
        self.update_usage()

    def count_replay(self, address: str, request: Request, reply: Reply) -> None:
        """Count a call that the journal answers: as paid for in this round, or as replayed from an earlier one."""
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
        """Update `run.usage` for templates: the usage of all ended phases, in all rounds, and of this phase.

        `by_phase` covers this round only.
        """
        by_phase = {name: summary.usage for name, summary in self.prior.summaries.items()}
        total = self.prior.usage + self.record.usage
        self.names["run"]["usage"] = {
            **total.template_value(),
            "by_phase": {**by_phase, self.name: self.record.usage.to_dict()},
        }

    @property
    def title(self) -> str:
        """The name of the phase; in an inline workflow, the path to it."""
        return self.address().partition("/")[2]

    def warn(self, text: str) -> None:
        """Record a warning once, in the summary, and show it to the user."""
        text = f"{self.branch_label}: {text}" if self.branch_label else text
        if text not in self.record.warnings:
            self.record.warnings.append(text)
            self.run.emit(Said(self.name, text, "warn"))

    def record_omission(self, step: str, title: str, tokens: int, text: str) -> None:
        """Record what a prompt of a step omits; the user is notified once per title."""
        prompts = self.record.prompts
        if (step, title) not in prompts.omissions:
            self.run.emit(Said(self.name, f"the prompt of `{step}` exceeds the window; omitted: {text}", "info"))
        prompts.add_omission(step, title, Omission(tokens, text))

    def add_artifact(self, path: str) -> None:
        """Record an artifact for the summary, and for that of the phase that contains the inline workflow."""
        if path not in self.record.artifacts:
            self.record.artifacts.append(path)
        if self.run.parent_phase is not None:
            self.run.parent_phase.add_artifact(path)


def _order(rounds: Any) -> tuple[int, ...]:
    """Return a sort key for a round such as `2` or `2.1`."""
    return tuple(int(part) for part in str(rounds).split(".") if part.isdecimal())
