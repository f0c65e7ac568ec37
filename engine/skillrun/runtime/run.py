"""What one evaluation carries along: the run, and the phase that is open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skillrun.checker.program import Program
from skillrun.definitions.definitions import Phase
from skillrun.events import Event, EventStream, Listener, Notice, Said
from skillrun.library.configuration import Feature, resolve_features
from skillrun.library.modes import MODES
from skillrun.library.reply_sizes import ReplySize
from skillrun.models.messages import Gateway, ModelError, Outcomes, Reply, Request, Usage
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.phase_record import Attempts, Omission, PhaseRecord
from skillrun.runtime.rerun import Rerun
from skillrun.runtime.run_budget import RunBudget
from skillrun.runtime.usage_totals import UsageTotals
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


class Responder(Protocol):
    """How questions reach a human. None means that nobody answers now, and the run waits."""

    attended: bool

    @property
    def resume_flags(self) -> Mapping[str, str]:
        """The flags that bring the same person again, with what stands behind each."""
        ...

    async def ask(self, question_set: QuestionSet, *, interactive: bool = True) -> list[Answer] | None:
        """The answers; with `now` false only prepared ones and defaults, nobody is asked."""
        ...

    def has_prepared_answers(self, question_set: QuestionSet) -> bool:
        """Whether each of these questions has an answer that was prepared."""
        ...

    def skip_prepared_answers(self, question_set: QuestionSet) -> None:
        """These questions were answered before: prepared lists of answers go on behind them."""
        ...

    def mark_answers_used(self, address: str, questions: Sequence[Question]) -> None:
        """An earlier process asked these: what is prepared for them is not told as unused."""
        ...

    def note_late_answers(
        self, question_set: QuestionSet, records: Sequence[QuestionRecord], build_record: RecordBuilder
    ) -> None:
        """They stay answered as `records` say, also where something else is prepared: that is to be told."""
        ...


def _nothing(_address: str, _request: Request, _outcomes: Outcomes) -> None:
    """Nobody is told."""


@dataclass
class Session:
    """What a run needs from outside of it."""

    program: Program
    catalogue: Catalogue
    gateway: Gateway
    responder: Responder
    listeners: Iterable[Listener] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    project: Path = field(default_factory=Path.cwd)
    runs: Path | None = None  # where other runs are, for a rehearsal, whose folder lies elsewhere
    override: str = ""
    budget: Mapping[str, float] = field(default_factory=dict)
    cache: Path | None = None
    reuse_reads: bool = True
    estimate: Mapping[str, Any] | None = None
    sizes: Mapping[str, ReplySize] = field(default_factory=dict)  # of what a rehearsal only makes up, by step
    ignore_gotos: bool = False  # nothing goes back: a rehearsal's replies say nothing about whether a real run would
    explicit_inputs: Collection[str] = ()  # inputs that the user gave, other than by default
    rerun: Rerun = field(default_factory=Rerun)  # what the journal does not answer
    only_phases: Collection[str] = ()  # the phases that may begin; all of them where none is named
    share: bool = False  # what a new run writes may be read by others
    handle_signals: bool = True  # Ctrl-C and a polite kill end the run
    defer_saves: bool = False  # until something is sent, the state stays as it was when the evaluation began
    command_flags: Mapping[str, str] = field(default_factory=dict)  # that bring the same models again, as a person's do
    on_replayed: Callable[[str, Request, Outcomes], None] = _nothing  # is told of each call that the journal answers
    adopt: bool | None = None  # whether a run folder from elsewhere keeps what it decides; None: not said


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
    lost_phases: set[str] = field(default_factory=set)  # phases that have ended and left no usable summary
    inline_address: str = ""  # the address of the step that runs this workflow inside another run
    parent_phase: PhaseRun | None = None  # the phase of that step
    reported_folders: set[str] = field(default_factory=set)  # the folders that models may read, which the user was told
    latest_prompts: dict[str, str] = field(
        default_factory=dict
    )  # by address: the last prompt that this evaluation had there
    counted_calls: set[tuple[str, str]] = field(default_factory=set)  # calls that the journal has answered
    refusals: dict[str, ModelError] = field(default_factory=dict)  # by model: what was said last of a wrong key or name
    responsive_models: set[str] = field(default_factory=set)  # the models that have answered this evaluation
    key: bytes | None = None  # of the seal of the state; none where nothing is kept
    has_sent: bool = False  # whether this evaluation has sent anything
    has_saved: bool = False

    def resolve_model(self, name: str) -> ResolvedModel:
        """What a model's name means; what the run has pinned stays what it was, and is saved before the first call."""
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
        """Settle what names mean that the run has not pinned yet, by the providers' own lists."""
        session, models = self.session, self.state.models
        for name in names:
            if name not in models and session.cache is not None:
                override = session.override or self.state.override
                resolved = await session.catalogue.resolve_live(name, session.environ, session.cache, override)
                if name not in models:  # another branch of the run may have been quicker
                    models[name] = resolved.model
                    self.outermost.save()
                    if resolved.why and name not in session.catalogue.tiers:
                        self.emit(Notice(f"{name}: {resolved.model} ({resolved.why})"))
            self.resolve_model(name)

    @property
    def outermost(self) -> Run:
        """The run that has a state file: this one, or that around an inline workflow."""
        return self if self.parent_phase is None else self.parent_phase.run.outermost

    def emit(self, event: Event) -> None:
        """Tell it; phases of an inline workflow go by the path to them: `phase/step/its phase`."""
        self.events.emit(
            event.with_path_prefix(self.inline_address.partition("/")[2]) if self.inline_address else event
        )

    def save(self) -> None:
        """Write `state.md`; an inline workflow has no state of its own there.

        One that is saved late says until the first call that everything is evaluated again, which costs nothing.
        """
        late = self.session.defer_saves and self.has_saved and not self.has_sent and self.state.status == "running"
        if not self.inline_address and not late:
            self.has_saved = True
            switches = self.features(self.state.state).values()
            self.state.features = {switch.name: "on" if switch.on else f"off, {switch.because}" for switch in switches}
            self.state.seal = compute_seal(self.program, self.state, self.key) if self.key is not None else ""
            self.store.state.write(self.state, self.log)

    def begin_sending(self) -> None:
        """Something is sent now, for the first time or again: from here on the state says where the run stands."""
        if not self.has_sent:
            self.has_sent = True
            if self.session.defer_saves:
                self.save()

    def features(self, state: Mapping[str, Any]) -> dict[str, Feature]:
        """The feature switches by name, as they stand in the mode."""
        config = self.program.config
        return resolve_features(config.get("features") or {}, self._mode(state), config.get(MODES) or {})

    def config(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The config as it is in the mode."""
        return self.program.config_in(self._mode(state))

    def _mode(self, state: Mapping[str, Any]) -> str | None:
        """The mode of the state, or else of the inputs."""
        mode = state.get("mode") or self.state.inputs.get("mode")
        return mode if isinstance(mode, str) else None


@dataclass(frozen=True)
class PriorPhases:
    """What has ended before a phase: the summaries of the phases that it follows, and in all rounds what was asked and
    spent."""

    summaries: Mapping[str, Summary]
    question_ids: frozenset[str]
    usage: UsageTotals


@dataclass
class PromptCache:
    """Parts of a phase's prompts that are made once: what they begin with, and what is said of each member's role."""

    shared_prefix: Any = None
    role_texts: dict[str, str] = field(default_factory=dict)


@dataclass
class PhaseRun:
    """One phase while it is evaluated."""

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
    each_progress: dict[str, Any] = field(
        default_factory=dict
    )  # by the address of an `each`: what succeeded before a retry
    branch_label: str = ""  # the item of an `each` that this is a branch for, in words
    checkpoint: str = ""  # the step that was begun last
    is_reentry: bool = False  # the process has ended here before, for the person to do something
    fallback_depth: int = (
        0  # how many of the steps that are being evaluated, and the phase, have something that stands in
    )

    def address(self) -> str:
        return (
            f"{self.run.inline_address}/{self.name}"
            if self.run.inline_address
            else f"{self.run.program.workflow.name}/{self.name}"
        )

    @property
    def number(self) -> int:
        """The phase's place in the workflow, counted from 1."""
        return list(self.run.program.workflow.phases).index(self.name) + 1

    @property
    def round_path(self) -> str:
        """The round; in an inline workflow behind that of the phase around it: `2`, or `2.1`."""
        return (
            f"{self.run.parent_phase.round_path}.{self.round}" if self.run.parent_phase is not None else str(self.round)
        )

    @property
    def has_fallback(self) -> bool:
        """Whether something stands in for what fails here, in this phase or around the inline workflow."""
        return self.fallback_depth > 0 or (self.run.parent_phase is not None and self.run.parent_phase.has_fallback)

    @property
    def entry_type(self) -> str:
        return "re_entry_after_user_input" if self.is_reentry else "first_entry"

    @property
    def pause_address(self) -> str:
        """Where the journal notes that this phase has ended the process, for a person to do something."""
        return f"{self.address()}@{self.round_path}/pause"

    def voided_attempts(self, key: str) -> int:
        """How many attempts do not count, because the run has failed on them and was resumed."""
        counts = self.run.voided_attempts.get(key, {})
        outer = int(self.round_path.partition(".")[0])
        return max((count for number, count in counts.items() if number <= outer), default=0)

    def round_fields(self) -> dict[str, str]:
        """What a record says of a round that is not the first."""
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
        """`run.usage` for templates: all that has ended before, in earlier rounds too, and what this phase has used.

        By phase it is what this round has used.
        """
        by_phase = {name: summary.usage for name, summary in self.prior.summaries.items()}
        total = self.prior.usage + self.record.usage
        self.names["run"]["usage"] = {
            **total.template_value(),
            "by_phase": {**by_phase, self.name: self.record.usage.to_dict()},
        }

    @property
    def title(self) -> str:
        """The name of the phase; of one of an inline workflow with the path to it."""
        return self.address().partition("/")[2]

    def warn(self, text: str) -> None:
        """Put a warning on record, once: the person is told, and the summary has it."""
        text = f"{self.branch_label}: {text}" if self.branch_label else text
        if text not in self.record.warnings:
            self.record.warnings.append(text)
            self.run.emit(Said(self.name, text, "warn"))

    def record_omission(self, step: str, title: str, tokens: int, text: str) -> None:
        """Put on record what a prompt of a step had no room for; the person is told of each title once."""
        prompts = self.record.prompts
        if (step, title) not in prompts.omissions:
            self.run.emit(Said(self.name, f"the window of `{step}` has no room for all of {text}", "info"))
        prompts.add_omission(step, title, Omission(tokens, text))

    def add_artifact(self, path: str) -> None:
        """Note an artifact, for the summary; also for that of the phase around an inline workflow."""
        if path not in self.record.artifacts:
            self.record.artifacts.append(path)
        if self.run.parent_phase is not None:
            self.run.parent_phase.add_artifact(path)


def _order(rounds: Any) -> tuple[int, ...]:
    """A round, `2` or `2.1`, so that an earlier one is less."""
    return tuple(int(part) for part in str(rounds).split(".") if part.isdecimal())
