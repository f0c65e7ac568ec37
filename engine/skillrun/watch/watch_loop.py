"""Hot reload: evaluates a run repeatedly with the same journal, one evaluation at a time, and collects the changes.

A new evaluation cancels the current evaluation, and takes over the calls in progress.
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
"""Replaces the step in the address of a call that summarises a phase."""
RoundAddress = tuple[str, int]
"""The address and round of a call."""


@dataclass(frozen=True)
class ReplyDifference:
    """The difference between two replies at one address: by field if both are structured, otherwise by line."""

    address: str
    round: int
    lines: list[str]
    fields: list[FieldDifference] | None


@dataclass
class Evaluation:
    """The outcome of an evaluation, with the reused calls, the new calls, and the differences."""

    outcome: Outcome
    reused: int = 0
    new_calls: list[str] = field(default_factory=list)
    differences: dict[str, list[str]] = field(default_factory=dict)
    """The lines of a unified diff, keyed by artifact."""
    replies: list[ReplyDifference] = field(default_factory=list)
    artifact_rounds: Mapping[str, int] = field(default_factory=dict)
    """The round in which each artifact was written, keyed by artifact."""
    round: int = 1
    """The round in which the evaluation ended."""
    is_first: bool = False
    """Whether there is no earlier evaluation to compare with."""

    @property
    def has_changed(self) -> bool:
        return bool(self.differences or self.replies)


class EvaluationRecorder:
    """Collects the replies, new calls and rounds of an evaluation from its events."""

    def __init__(self) -> None:
        self.replies: dict[RoundAddress, str] = {}
        self.new_calls: list[str] = []
        self.reused = 0
        self.phase_rounds: dict[str, int] = {}
        """The current round of each phase."""
        self.artifact_rounds: dict[str, int] = {}
        """The round in which each artifact was written, keyed by artifact; the most recent artifact is last."""
        self.last_address = ""
        """The address of the last new call of a step; without new calls, of the last reused call."""

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
    """The evaluations of one run. The caller holds the lease and keeps the journal open."""

    def __init__(self, folder: LocalRun, journal: Journal, calls: InFlightCalls) -> None:
        self.folder, self.journal, self.calls = folder, journal, calls
        self.recorder = EvaluationRecorder()
        """Belongs to the current evaluation or, if none is running, to the last one."""
        self.current_task: asyncio.Task[Evaluation] | None = None
        self._texts = artifact_texts(folder, journal)
        self._replies: dict[RoundAddress, str] = {}
        self._is_first = not self._texts

    async def begin(self, session: Session, inputs: dict[str, Any]) -> asyncio.Task[Evaluation]:
        """Start an evaluation, and return its task. The current evaluation is cancelled, but its calls continue."""
        await self.cancel()
        await self.calls.start_evaluation()
        self.recorder = EvaluationRecorder()
        listeners: list[Listener] = [*session.listeners, self.recorder]
        session = replace(session, gateway=self.calls, listeners=listeners, handle_signals=False, defer_saves=True)
        self.current_task = asyncio.create_task(self._evaluate(session, inputs, self.recorder))
        return self.current_task

    async def cancel(self) -> None:
        """Cancel the current evaluation, if any; the run's status becomes interrupted."""
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
    """Evaluate a run once, without waiting for confirmation of its calls."""
    calls = InFlightCalls(session.gateway, journal)
    loop = WatchLoop(folder, journal, calls)
    running = await loop.begin(session, inputs)
    calls.gate.open()
    return await running


def artifact_texts(run: StoredRun, journal: Journal) -> dict[str, str]:
    """Return the texts of the run's artifacts, keyed by name."""
    ledger = run.data(journal).artifacts
    return {name: ledger.text(name) or "" for name in ledger.list_names()}


def artifact_differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the lines of a unified diff for each changed artifact."""
    return {
        name: text_difference(before.get(name, ""), after.get(name, ""))
        for name in sorted(before.keys() | after.keys())
        if before.get(name, "") != after.get(name, "")
    }


def reply_differences(before: Mapping[RoundAddress, str], after: Mapping[RoundAddress, str]) -> list[ReplyDifference]:
    """Return the differences between replies at the same address and round, in call order."""
    return [
        _reply_difference(place, before[place], text)
        for place, text in after.items()
        if before.get(place, text) != text
    ]


def _reply_difference(place: RoundAddress, before: str, after: str) -> ReplyDifference:
    old, new = json_value(before), json_value(after)
    fields = None if old is None or new is None else list(value_differences(old, new))
    return ReplyDifference(*place, text_difference(before, after), fields)
