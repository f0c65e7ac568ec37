"""What one evaluation carries along: the run, and the phase that is open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skillrun.checker.program import Program
from skillrun.definitions.definitions import Phase
from skillrun.events import Event, Events, Listener, Notice, Said
from skillrun.library.configuration import Feature, resolve_features
from skillrun.library.modes import MODES
from skillrun.library.reply_sizes import Size
from skillrun.models.messages import Gateway, ModelError, Outcomes, Reply, Request, Usage
from skillrun.runtime.breakers import Breakers
from skillrun.runtime.phase_record import Account, Attempts, Omission
from skillrun.runtime.rerun import Rerun
from skillrun.runtime.run_budget import Limits
from skillrun.runtime.usage_totals import Spent
from skillrun.store.journal import Journal
from skillrun.store.run_data import RunStore
from skillrun.store.seal import seal_of
from skillrun.store.state import State
from skillrun.store.summary import Summary

if TYPE_CHECKING:
    from skillrun.models.catalogue import Catalogue
    from skillrun.models.entries import Resolved
    from skillrun.questions.answers import Answer, Question, QuestionRecord
    from skillrun.questions.prepared_answers import Read
    from skillrun.questions.responder import Questions


class Respondent(Protocol):
    """How questions reach a human. None means that nobody answers now, and the run waits."""

    attended: bool

    @property
    def typed(self) -> Mapping[str, str]:
        """The flags that bring the same person again, with what stands behind each."""
        ...

    async def ask(self, asking: Questions, *, now: bool = True) -> list[Answer] | None:
        """The answers; with `now` false only prepared ones and defaults, nobody is asked."""
        ...

    def prepares(self, asking: Questions) -> bool:
        """Whether each of these questions has an answer that was prepared."""
        ...

    def earlier(self, asking: Questions) -> None:
        """These questions were answered before: prepared lists of answers go on behind them."""
        ...

    def asked_before(self, address: str, questions: Sequence[Question]) -> None:
        """An earlier process asked these: what is prepared for them is not told as unused."""
        ...

    def came_late(self, asking: Questions, records: Sequence[QuestionRecord], read: Read) -> None:
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
    person: Respondent
    listeners: Iterable[Listener] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    project: Path = field(default_factory=Path.cwd)
    runs: Path | None = None  # where other runs are, for a rehearsal, whose folder lies elsewhere
    override: str = ""
    budget: Mapping[str, float] = field(default_factory=dict)
    cache: Path | None = None
    keeps_reads: bool = True
    estimate: Mapping[str, Any] | None = None
    sizes: Mapping[str, Size] = field(default_factory=dict)  # of what a rehearsal only makes up, by step
    straight: bool = False  # nothing goes back: a rehearsal's replies say nothing about whether a real run would
    typed: Collection[str] = ()  # inputs that the user gave, other than by default
    rerun: Rerun = field(default_factory=Rerun)  # what the journal does not answer
    only: Collection[str] = ()  # the phases that may begin; all of them where none is named
    share: bool = False  # what a new run writes may be read by others
    minds_signals: bool = True  # Ctrl-C and a polite kill end the run
    saves_late: bool = False  # until something is sent, the state stays as it was when the evaluation began
    flags: Mapping[str, str] = field(default_factory=dict)  # that bring the same models again, as a person's do
    replayed: Callable[[str, Request, Outcomes], None] = _nothing  # is told of each call that the journal answers
    adopt: bool | None = None  # whether a run folder from elsewhere keeps what it decides; None: not said


@dataclass
class Run:
    """One evaluation of a program over a journal."""

    name: str
    session: Session
    program: Program
    store: RunStore
    journal: Journal
    events: Events
    state: State
    log: list[str]
    limits: Limits
    forgiven: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # by key, then by round
    resolved: dict[str, Resolved] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)  # phases that have ended and left no usable summary
    inline: str = ""  # the address of the step that runs this workflow inside another run
    within: PhaseRun | None = None  # the phase of that step
    told_folders: set[str] = field(default_factory=set)  # the folders that models may read, which the user was told
    used: dict[str, str] = field(default_factory=dict)  # by address: the last prompt that this evaluation had there
    counted: set[tuple[str, str]] = field(default_factory=set)  # calls that the journal has answered
    refused: dict[str, ModelError] = field(default_factory=dict)  # by model: what was said last of a wrong key or name
    heard: set[str] = field(default_factory=set)  # the models that have answered this evaluation
    key: bytes | None = None  # of the seal of the state; none where nothing is kept
    has_sent: bool = False  # whether this evaluation has sent anything
    has_saved: bool = False

    def resolve(self, name: str) -> Resolved:
        """What a model's name means; what the run has pinned stays what it was, and is saved before the first call."""
        if name not in self.resolved:
            session, pinned = self.session, self.state.models.get(name, "")
            override = "" if pinned else session.override or self.state.override
            if pinned or session.cache is None:
                self.resolved[name] = session.catalogue.resolve(pinned or name, session.environ, override)
            else:
                self.resolved[name] = session.catalogue.resolve_kept(name, session.environ, session.cache, override)
            if not pinned:
                self.state.models[name] = self.resolved[name].model
                self.outermost.save()
        return self.resolved[name]

    async def settle(self, names: Iterable[str]) -> None:
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
            self.resolve(name)

    @property
    def outermost(self) -> Run:
        """The run that has a state file: this one, or that around an inline workflow."""
        return self if self.within is None else self.within.run.outermost

    def emit(self, event: Event) -> None:
        """Tell it; phases of an inline workflow go by the path to them: `phase/step/its phase`."""
        self.events.emit(event.within(self.inline.partition("/")[2]) if self.inline else event)

    def save(self) -> None:
        """Write `state.md`; an inline workflow has no state of its own there.

        One that is saved late says until the first call that everything is evaluated again, which costs nothing.
        """
        late = self.session.saves_late and self.has_saved and not self.has_sent and self.state.status == "running"
        if not self.inline and not late:
            self.has_saved = True
            switches = self.features(self.state.state).values()
            self.state.features = {switch.name: "on" if switch.on else f"off, {switch.because}" for switch in switches}
            self.state.seal = seal_of(self.program, self.state, self.key) if self.key is not None else ""
            self.store.state.write(self.state, self.log)

    def sends(self) -> None:
        """Something is sent now, for the first time or again: from here on the state says where the run stands."""
        if not self.has_sent:
            self.has_sent = True
            if self.session.saves_late:
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
class Before:
    """What has ended before a phase: the summaries of the phases that it follows, and in all rounds what was asked and
    spent."""

    summaries: Mapping[str, Summary]
    asked: frozenset[str]
    spent: Spent


@dataclass
class Made:
    """Parts of a phase's prompts that are made once: what they begin with, and what is said of each member's role."""

    opening: Any = None
    speakers: dict[str, str] = field(default_factory=dict)


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
    before: Before
    account: Account = field(default_factory=Account)
    attempts: Attempts = field(default_factory=Attempts)
    made: Made = field(default_factory=Made)
    items: dict[str, Any] = field(default_factory=dict)  # by the address of an `each`: what succeeded before a retry
    marked: str = ""  # the item of an `each` that this is a branch for, in words
    checkpoint: str = ""  # the step that was begun last
    returned: bool = False  # the process has ended here before, for the person to do something
    carriers: int = 0  # how many of the steps that are being evaluated, and the phase, have something that stands in

    def address(self) -> str:
        return f"{self.run.inline}/{self.name}" if self.run.inline else f"{self.run.program.workflow.name}/{self.name}"

    @property
    def number(self) -> int:
        """The phase's place in the workflow, counted from 1."""
        return list(self.run.program.workflow.phases).index(self.name) + 1

    @property
    def rounds(self) -> str:
        """The round; in an inline workflow behind that of the phase around it: `2`, or `2.1`."""
        return f"{self.run.within.rounds}.{self.round}" if self.run.within is not None else str(self.round)

    @property
    def carried(self) -> bool:
        """Whether something stands in for what fails here, in this phase or around the inline workflow."""
        return self.carriers > 0 or (self.run.within is not None and self.run.within.carried)

    @property
    def entry_type(self) -> str:
        return "re_entry_after_user_input" if self.returned else "first_entry"

    @property
    def pause_address(self) -> str:
        """Where the journal notes that this phase has ended the process, for a person to do something."""
        return f"{self.address()}@{self.rounds}/pause"

    def forgiven(self, key: str) -> int:
        """How many attempts do not count, because the run has failed on them and was resumed."""
        counts = self.run.forgiven.get(key, {})
        outer = int(self.rounds.partition(".")[0])
        return max((count for number, count in counts.items() if number <= outer), default=0)

    def later(self) -> dict[str, str]:
        """What a record says of a round that is not the first."""
        if self.round == 1 and self.run.within is None:
            return {}
        return {"round": self.rounds} if max(_order(self.rounds)) > 1 else {}

    def count(self, usage: Usage, price: float | None, *, goes_on: bool) -> None:
        self.account.spent += Spent(1, usage, price, kept=usage.cache_read if goes_on else 0)
        self.tell_usage()

    def count_again(self, address: str, request: Request, reply: Reply) -> None:
        """Count a call that the journal answers: as paid for in this round, or as replayed from an earlier one."""
        fingerprint = request.fingerprint()
        again = (address, fingerprint) in self.run.counted
        if not again and self.later():
            sent = self.run.journal.find("sent", address, fingerprint) or {}
            again = _order(sent.get("round", "1")) < _order(self.rounds)
        self.run.counted.add((address, fingerprint))
        if again:
            self.account.spent += Spent(replayed=1)
        else:
            self.count(reply.usage, reply.price, goes_on=request.goes_on)

    def tell_usage(self) -> None:
        """`run.usage` for templates: all that has ended before, in earlier rounds too, and what this phase has used.

        By phase it is what this round has used.
        """
        by_phase = {name: summary.usage for name, summary in self.before.summaries.items()}
        total = self.before.spent + self.account.spent
        self.names["run"]["usage"] = {
            **total.template_value(),
            "by_phase": {**by_phase, self.name: self.account.spent.to_dict()},
        }

    @property
    def title(self) -> str:
        """The name of the phase; of one of an inline workflow with the path to it."""
        return self.address().partition("/")[2]

    def warn(self, text: str) -> None:
        """Put a warning on record, once: the person is told, and the summary has it."""
        text = f"{self.marked}: {text}" if self.marked else text
        if text not in self.account.warnings:
            self.account.warnings.append(text)
            self.run.emit(Said(self.name, text, "warn"))

    def leave_out(self, step: str, title: str, tokens: int, text: str) -> None:
        """Put on record what a prompt of a step had no room for; the person is told of each title once."""
        prompts = self.account.prompts
        if (step, title) not in prompts.left_out:
            self.run.emit(Said(self.name, f"the window of `{step}` has no room for all of {text}", "info"))
        prompts.leave_out(step, title, Omission(tokens, text))

    def wrote(self, path: str) -> None:
        """Note an artifact, for the summary; also for that of the phase around an inline workflow."""
        if path not in self.account.artifacts:
            self.account.artifacts.append(path)
        if self.run.within is not None:
            self.run.within.wrote(path)


def _order(rounds: Any) -> tuple[int, ...]:
    """A round, `2` or `2.1`, so that an earlier one is less."""
    return tuple(int(part) for part in str(rounds).split(".") if part.isdecimal())
