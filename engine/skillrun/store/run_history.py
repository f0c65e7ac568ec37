"""Reads the history of a run from the events of its transcript, for all commands that show runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from skillrun.questions.answers import QuestionRecord
from skillrun.questions.prepared_answers import ShownQuestion
from skillrun.store.artifacts import is_artifact_name
from skillrun.store.event_lines import EVENT_TYPES, Record, event_timestamp
from skillrun.store.inbox import PendingQuestions
from skillrun.types.slugs import ASCII_SLUG

_HAPPENED: Final = frozenset({"Said", "Pruned", "Answered", "Tripped", "WentBack", "Expected"})


class Stopwatch:
    """Measures the time during which at least one activity runs. Parallel activities count once."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since = 0.0
        self._running: set[str] = set()

    def start(self, name: str, at: float) -> None:
        if not self._running:
            self._since = at
        self._running.add(name)

    def stop(self, name: str, at: float) -> None:
        if name in self._running:
            self._running.remove(name)
            if not self._running:
                self._seconds += max(0.0, at - self._since)

    def stop_all(self, at: float) -> None:
        for name in [*self._running]:
            self.stop(name, at)

    def seconds(self, now: float) -> float:
        """Return the measured seconds up to `now`."""
        return self._seconds + (max(0.0, now - self._since) if self._running else 0.0)


class RunTimes:
    """The time that a run spends on model calls and on waiting for answers. The two times can overlap."""

    def __init__(self) -> None:
        self.models = Stopwatch()
        self.answers = Stopwatch()
        self.first: float | None = None
        self.last = 0.0
        self._phases: defaultdict[str, Stopwatch] = defaultdict(Stopwatch)

    def add(self, event: Record, at: float) -> None:
        """Add an event of the run. `at` is its time in seconds."""
        kind, address = event["event"], str(event.get("address", ""))
        phase = str(event.get("phase", ""))
        own_phase = phase.partition("/")[0]  # without the phase of an inline workflow
        before = self.last if self.first is not None else at
        self.first = at if self.first is None else self.first
        match kind:
            case "RunStarted":  # open calls of a killed process ended with its last event
                self.models.stop_all(before)
                self.answers.stop_all(at)
            case "RunEnded":
                self.models.stop_all(at)
                if event["status"] == "waiting":
                    self.answers.start("", at)
                else:
                    self.answers.stop_all(at)
            case "PhaseStarted":
                self._phases.pop(phase, None)
            case "CallStarted":
                self.models.start(address, at)
            case "CallEnded":
                self.models.stop(address, at)
            case "Asked":
                self.answers.start(address, at)
                self._phases[own_phase].start(address, at)
            case "Answered":
                self.answers.stop(address, at)
                self._phases[own_phase].stop(address, at)
        self.last = max(before, at)

    def waiting_seconds(self, phase: str, now: float) -> float:
        """Return the seconds that a phase has waited for answers since its last start."""
        return self._phases[phase].seconds(now) if phase in self._phases else 0.0

    def to_dict(self) -> dict[str, float]:
        """Return the seconds up to the last event, keyed `models`, `answers` and `total`."""
        total = self.last - self.first if self.first is not None else 0.0
        parts = {"models": self.models.seconds(self.last), "answers": self.answers.seconds(self.last), "total": total}
        return {name: round(seconds, 3) for name, seconds in parts.items()}


@dataclass(frozen=True)
class CallSpan:
    """A call that was sent, with its start and end in seconds since 1970.

    `number` counts the calls at this address, from 1. A call without a reply has no `end`.
    """

    address: str
    phase: str
    round: int
    member: str
    model: str
    start: float
    number: int
    end: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Exchange:
    """A question to the user, and its answer. A waiting question has no answer."""

    phase: str
    question: Mapping[str, Any]
    answer: Mapping[str, Any] | None = None
    computed: bool = False


@dataclass
class PhaseHistory:
    """The events of a phase in one round. If the phase restarts in the round, its earlier events are dropped."""

    seconds: float = 0.0
    waited: float = 0.0
    """The seconds that the phase waited for answers."""
    ended: Record = field(default_factory=dict)
    """The event that ended the phase; empty if the phase has not ended."""
    so_far: Record | None = None
    """The warnings and artifacts of an open phase, under the keys that a summary uses."""
    happened: list[Record] = field(default_factory=list)
    """The events to report: messages, answers, circuit breakers, and events with a reason."""


@dataclass
class RunHistory:
    """The history of a run, according to its events."""

    phases: list[str] = field(default_factory=list)
    """The phases of the workflow at the last start."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The flags of the last process."""
    rounds: defaultdict[tuple[str, int], PhaseHistory] = field(default_factory=lambda: defaultdict(PhaseHistory))
    """The history of each phase in each round."""
    notices: dict[str, None] = field(default_factory=dict)
    """Warnings about the run as a whole."""
    times: RunTimes = field(default_factory=RunTimes)
    spans: list[CallSpan] = field(default_factory=list)
    """The calls that were not replayed, in the order of their start."""
    exchanges: list[Exchange] = field(default_factory=list)
    """The questions in the order of their answers; waiting questions come last."""
    waiting: list[PendingQuestions] = field(default_factory=list)
    """The unanswered questions of the last evaluation."""
    shown: list[ShownQuestion] = field(default_factory=list)
    """The questions for which a process has waited."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Messages about omitted items of replies. The key is the member's address without the round."""


def read_history(events: Iterable[Record]) -> RunHistory:
    """Return the history that the events of a run describe. Events of newer skillrun versions are left out."""
    history, calls, questions = RunHistory(), _CallTimeline(), _QuestionTimeline()
    rounds: dict[str, int] = {}
    for event in events:
        kind = event["event"]
        if kind not in EVENT_TYPES:
            continue
        at = event_timestamp(event.get("at"))
        if at is not None:
            history.times.add(event, at)
        phase, _, inner = str(event.get("phase") or event.get("source") or "").partition("/")
        is_phase_event = kind.startswith("Phase") and not inner  # `inner` is a phase of a workflow that the phase runs
        rounds[phase] = event.get("round", 1) if is_phase_event else rounds.get(phase, 1)
        in_round = history.rounds[phase, rounds[phase]]
        match kind:
            case "RunStarted":
                history.phases = [name for name in event["phases"] if ASCII_SLUG.fullmatch(name)]
                history.flags = event.get("flags", {})  # an older skillrun recorded none
            case "Notice" if event.get("level") == "warn":
                history.notices[str(event["text"])] = None
            case "PhaseStarted" if is_phase_event:
                in_round.happened, in_round.ended = [], {}
                in_round.so_far = {"quality_warnings": [], "artifacts": {}}
            case "PhaseEnded" if is_phase_event and not event["final"]:
                in_round.seconds += event["seconds"]
                in_round.waited += history.times.waiting_seconds(phase, history.times.last)
                in_round.ended, in_round.so_far = event, None
            case "Said" if in_round.so_far is not None and event["level"] == "warn":
                in_round.so_far["quality_warnings"].append(event["text"])
            case "Wrote" if in_round.so_far is not None and is_artifact_name(event["path"]):
                in_round.so_far["artifacts"][event["path"]] = None
            case "Pruned":
                history.dropped[event["address"]] = event["text"]
        if kind in _HAPPENED or event.get("reason"):
            in_round.happened.append(event)
        questions.add(event)
        if at is not None:
            calls.add(event, at, rounds[phase])
    for phase_history in history.rounds.values():
        so_far = phase_history.so_far
        phase_history.so_far = so_far and {**so_far, "artifacts": list(so_far["artifacts"])}
    history.spans, history.exchanges = calls.finish(), questions.finish()
    history.waiting = list(questions.waiting.values())
    history.shown = list(questions.shown.values())
    return history


class _CallTimeline:
    """Collects the spans of calls from their events, without replayed calls."""

    def __init__(self) -> None:
        self._open: dict[str, CallSpan] = {}
        self._spans: list[CallSpan] = []

    def add(self, event: Record, at: float, in_round: int) -> None:
        if event["event"] == "CallStarted":
            address, phase = event["address"], event["phase"].partition("/")[0]
            self._open[address] = CallSpan(address, phase, in_round, event["member"], event["model"], at, 0)
        elif event["event"] == "CallEnded":
            span = self._open.pop(event["address"], None)
            if span is not None and not event["replayed"]:
                self._spans.append(replace(span, start=min(span.start, at), end=at, error=str(event["error"])))

    def finish(self) -> list[CallSpan]:
        """Return all spans, sorted by start. A call without an end has the highest number at its address."""
        numbers: Counter[str] = Counter()
        spans = []
        for span in (*self._spans, *self._open.values()):
            numbers[span.address] += 1
            spans.append(replace(span, number=numbers[span.address]))
        return sorted(spans, key=lambda span: span.start)


class _QuestionTimeline:
    """Collects the questions and answers from their events, without replayed answers."""

    def __init__(self) -> None:
        self.waiting: dict[str, PendingQuestions] = {}
        self.shown: dict[tuple[str, str], ShownQuestion] = {}
        self._count = 0
        self._unshown: dict[str, None] = {}  # addresses of waiting questions that no process has waited for
        self._open: dict[str, dict[str, Exchange]] = {}
        self._exchanges: list[Exchange] = []

    def add(self, event: Record) -> None:
        self._count += 1
        if event["event"] == "RunEnded" and event["status"] in ("waiting", "interrupted"):
            for waiting in filter(None, map(self.waiting.get, self._unshown)):
                for each in waiting.questions:
                    shown = ShownQuestion(waiting.key, each, self._count)
                    self.shown.setdefault((waiting.address, _question_key(each)), shown)
            self._unshown.clear()
        match event["event"]:
            case "RunStarted":
                self.waiting.clear()
            case "RunEnded" if event["status"] == "completed":
                self.waiting.clear()
            case "Asked":
                address, phase, computed = event["address"], event["phase"], bool(event["computed"])
                questions = event["questions"]
                self._open[address] = {
                    _question_key(question): Exchange(phase, question, None, computed)
                    for question in questions
                    if isinstance(question, dict)
                }
                if fingerprint := event.get("fingerprint"):
                    may_skip, enough = event["may_skip"], event["enough"]
                    self._unshown[address] = None
                    self.waiting[address] = PendingQuestions(
                        address, fingerprint, phase, tuple(questions), computed, may_skip, enough
                    )
            case "Answered":
                self.waiting.pop(event["address"], None)
                asked_questions = self._open.pop(event["address"], {})
                for answer in event["answers"] if not event["replayed"] else ():
                    if isinstance(answer, dict):
                        asked = asked_questions.get(_question_key(answer), Exchange(event["phase"], {}))
                        question = {**asked.question, **answer}
                        self._exchanges.append(Exchange(event["phase"], question, answer, asked.computed))
                        place = event["address"], _question_key(answer)
                        if place in self.shown:
                            record = cast(QuestionRecord, answer)
                            self.shown[place] = self.shown[place]._replace(record=record, answered_at=self._count)

    def finish(self) -> list[Exchange]:
        """Return all questions in the order of their answers; waiting questions come last."""
        return [*self._exchanges, *(exchange for waiting in self._open.values() for exchange in waiting.values())]


def _question_key(question: Mapping[str, Any]) -> str:
    return str(question.get("id") or question.get("text") or "")
