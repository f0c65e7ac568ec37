"""The turns of hot reload: a run is evaluated again over its journal, one turn at a time; what came of it.

Owns a turn's life: that it begins, is broken off, and leaves its calls to the next one. Decides and prints nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.cli.differences import FieldDifference, json_value, text_difference, value_differences
from skillrun.events import CallEnded, Event, Listener, PhaseStarted, Wrote
from skillrun.runtime.run import Session
from skillrun.runtime.session import reevaluate_run
from skillrun.store.journal import Journal
from skillrun.store.local.local_run import LocalRun
from skillrun.store.outcome import Outcome
from skillrun.store.stored_run import StoredRun
from skillrun.watch.in_flight_calls import InFlightCalls

SUMMARY: Final = "summary"
"""What stands for the step in the address of the call that sums a phase up."""
RoundAddress = tuple[str, int]
"""The address of a call, and the round in which it was made."""


@dataclass(frozen=True)
class ReplyDifference:
    """What differs between two replies at one place: field by field where both are structured, or else line by line."""

    address: str
    round: int
    lines: list[str]
    fields: list[FieldDifference] | None


@dataclass
class Evaluation:
    """The outcome of a turn, the calls that the journal answered, those that were asked, and the differences."""

    outcome: Outcome
    reused: int = 0
    new_calls: list[str] = field(default_factory=list)
    differences: dict[str, list[str]] = field(default_factory=dict)
    """By artifact, the lines of a unified diff."""
    replies: list[ReplyDifference] = field(default_factory=list)
    artifact_rounds: Mapping[str, int] = field(default_factory=dict)
    """By artifact, the round in which it was written."""
    round: int = 1
    """In which it ended."""
    is_first: bool = False
    """Whether there was nothing before it to compare with."""

    @property
    def has_changed(self) -> bool:
        return bool(self.differences or self.replies)


class EvaluationRecorder:
    """What a turn's events have told: its replies by their places, and which of them were asked for."""

    def __init__(self) -> None:
        self.replies: dict[RoundAddress, str] = {}
        self.new_calls: list[str] = []
        self.reused = 0
        self.phase_rounds: dict[str, int] = {}
        """By phase, the one that it is in."""
        self.artifact_rounds: dict[str, int] = {}
        """By artifact, the round in which it was written; the last one stands last."""
        self.last_address = ""
        """The address of the call of a step that was asked last; where none was, of the last that the journal has
        answered."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, PhaseStarted):
            self.phase_rounds[event.phase] = event.round
        elif isinstance(event, Wrote):
            self.artifact_rounds.pop(event.path, None)
            self.artifact_rounds[event.path] = self.phase_rounds.get(event.phase, 1)
        elif isinstance(event, CallEnded):
            if event.replayed:
                self.reused += 1
            else:
                self.new_calls.append(event.address)
            if not event.error:
                self.replies[event.address, self.phase_rounds.get(event.phase, 1)] = event.text
            if not (event.replayed and self.new_calls) and event.address.split("/")[-3] != SUMMARY:
                self.last_address = event.address


class WatchLoop:
    """The turns of one run. Its caller holds the lock and keeps the journal open."""

    def __init__(self, folder: LocalRun, journal: Journal, calls: InFlightCalls) -> None:
        self.folder, self.journal, self.calls = folder, journal, calls
        self.recorder = EvaluationRecorder()
        """Of the turn that goes on, or else of the last one."""
        self.current_task: asyncio.Task[Evaluation] | None = None
        self._texts = artifact_texts(folder, journal)
        self._replies: dict[RoundAddress, str] = {}
        self._is_first = not self._texts

    async def begin(self, session: Session, inputs: dict[str, Any]) -> asyncio.Task[Evaluation]:
        """Begin a turn; one that goes on is broken off, and its calls go on."""
        await self.cancel()
        await self.calls.start_evaluation()
        self.recorder = EvaluationRecorder()
        listeners: list[Listener] = [*session.listeners, self.recorder]
        session = replace(session, gateway=self.calls, listeners=listeners, handle_signals=False, defer_saves=True)
        self.current_task = asyncio.create_task(self._evaluate(session, inputs, self.recorder))
        return self.current_task

    async def cancel(self) -> None:
        """End the turn that goes on, if one does; the run's folder says that it was interrupted."""
        running, self.current_task = self.current_task, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    async def _evaluate(self, session: Session, inputs: dict[str, Any], recorder: EvaluationRecorder) -> Evaluation:
        outcome = await reevaluate_run(session, self.folder, self.journal, inputs)
        evaluation = Evaluation(outcome, recorder.reused, recorder.new_calls, is_first=self._is_first)
        if outcome.status == "interrupted":
            return evaluation
        await self.calls.finish_evaluation()
        texts = artifact_texts(self.folder, self.journal)
        evaluation.differences = artifact_differences(self._texts, texts)
        evaluation.replies = reply_differences(self._replies, recorder.replies)
        evaluation.artifact_rounds, evaluation.round = (
            recorder.artifact_rounds,
            max(recorder.phase_rounds.values(), default=1),
        )
        self._texts, self._replies, self._is_first = texts, recorder.replies, False
        return evaluation


async def evaluate_once(session: Session, folder: LocalRun, journal: Journal, inputs: dict[str, Any]) -> Evaluation:
    """One turn that nothing breaks off, and that asks at once."""
    calls = InFlightCalls(session.gateway, journal)
    loop = WatchLoop(folder, journal, calls)
    running = await loop.begin(session, inputs)
    calls.gate.open()
    return await running


def artifact_texts(run: StoredRun, journal: Journal) -> dict[str, str]:
    """The texts of all that the run has written."""
    ledger = run.data(journal).artifacts
    return {name: ledger.text(name) or "" for name in ledger.list_names()}


def artifact_differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str]]:
    """The lines of a unified diff for each artifact that is other than before."""
    return {
        name: text_difference(before.get(name, ""), after.get(name, ""))
        for name in sorted(before.keys() | after.keys())
        if before.get(name, "") != after.get(name, "")
    }


def reply_differences(before: Mapping[RoundAddress, str], after: Mapping[RoundAddress, str]) -> list[ReplyDifference]:
    """What is other than before of the replies that both have, in the order of the calls."""
    return [
        _reply_difference(place, before[place], text)
        for place, text in after.items()
        if before.get(place, text) != text
    ]


def _reply_difference(place: RoundAddress, before: str, after: str) -> ReplyDifference:
    old, new = json_value(before), json_value(after)
    fields = None if old is None or new is None else list(value_differences(old, new))
    return ReplyDifference(*place, text_difference(before, after), fields)
