"""Hot reload: evaluates a run repeatedly with the same journal, one evaluation at a time, and reports the changes.

A new evaluation cancels the current evaluation, and takes over the calls in progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.cli.call_view import truncate_lines
from skillrun.cli.differences import FieldDifference, json_value, reply_lines, text_difference, value_differences
from skillrun.cli.formatting import NEEDS_INPUT, count_noun, format_event, status_line
from skillrun.events import (
    Asked,
    CallEnded,
    CallStarted,
    Event,
    Listener,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    Said,
    Tripped,
    WentBack,
    Wrote,
)
from skillrun.runtime.run import Session
from skillrun.runtime.session import reevaluate_run
from skillrun.store.journal import Journal
from skillrun.store.local.local_run import LocalRun
from skillrun.store.outcome import Outcome
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import indent_continuation
from skillrun.watch.in_flight_calls import InFlightCalls

SUMMARY: Final = "summary"
"""The last part of the address of a call that summarizes a phase. Other calls have a step's name there."""
REPEATED_EVENTS: Final = (Wrote, Said, Tripped, WentBack)
"""Events that each evaluation prints, not only the first."""
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
    """An evaluation. As a listener, it collects calls and rounds; at the end, it gets the outcome and the differences.

    `is_first` is set if there is no earlier evaluation to compare with.
    """

    is_first: bool = False
    outcome: Outcome = field(init=False)
    replies: dict[RoundAddress, str] = field(default_factory=dict)
    new_calls: list[str] = field(default_factory=list)
    reused: int = 0
    phase_rounds: dict[str, int] = field(default_factory=dict)
    """The current round of each phase."""
    artifact_rounds: dict[str, int] = field(default_factory=dict)
    """The round in which each artifact was written, keyed by artifact; the most recent artifact is last."""
    last_address: str = ""
    """The address of the last new call of a step; without new calls, of the last reused call."""
    differences: dict[str, list[str]] = field(default_factory=dict)
    """The lines of a unified diff, keyed by artifact."""
    changed_replies: list[ReplyDifference] = field(default_factory=list)

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
        self.evaluation = Evaluation()
        """The current evaluation or, if none is running, the last evaluation."""
        self.current_task: asyncio.Task[Evaluation] | None = None
        self._texts = artifact_texts(folder, journal)
        self._replies: dict[RoundAddress, str] = {}
        self._is_first = not self._texts

    async def begin(self, session: Session, inputs: dict[str, Any]) -> asyncio.Task[Evaluation]:
        """Start an evaluation, and return its task. The current evaluation is cancelled, but its calls continue."""
        await self.cancel()
        await self.calls.start_evaluation()
        self.evaluation = Evaluation(self._is_first)
        listeners: list[Listener] = [*session.services.listeners, self.evaluation]
        services = replace(session.services, gateway=self.calls, listeners=listeners, handle_signals=False)
        evaluating = self._evaluate(replace(session, services=services), inputs, self.evaluation)
        self.current_task = asyncio.create_task(evaluating)
        return self.current_task

    async def cancel(self) -> None:
        """Cancel the current evaluation, if any; the run's status becomes interrupted."""
        running, self.current_task = self.current_task, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    async def _evaluate(self, session: Session, inputs: dict[str, Any], evaluation: Evaluation) -> Evaluation:
        evaluation.outcome = await reevaluate_run(session, self.folder, self.journal, inputs)
        if evaluation.outcome.status == "interrupted":
            return evaluation
        await self.calls.finish_evaluation()
        texts = artifact_texts(self.folder, self.journal)
        evaluation.differences = {
            name: text_difference(self._texts.get(name, ""), texts.get(name, ""))
            for name in sorted(self._texts.keys() | texts.keys())
            if self._texts.get(name, "") != texts.get(name, "")
        }
        for place, text in evaluation.replies.items():
            earlier = self._replies.get(place, text)
            if earlier != text:
                old, new = json_value(earlier), json_value(text)
                fields = None if old is None or new is None else list(value_differences(old, new))
                evaluation.changed_replies.append(ReplyDifference(*place, text_difference(earlier, text), fields))
        self._texts, self._replies, self._is_first = texts, evaluation.replies, False
        return evaluation


def artifact_texts(run: StoredRun, journal: Journal) -> dict[str, str]:
    """Return the texts of the run's artifacts, keyed by name."""
    ledger = run.data(journal).artifacts
    return {name: ledger.text(name) or "" for name in ledger.list_names()}


# reports of evaluations


def event_line(event: Event, *, is_first: bool, round_number: int) -> str:
    """Return the line of an event; empty if it is not shown. `round_number` is the round of the event's phase."""
    if isinstance(event, CallStarted):
        return "" if is_first else f"calling {event.address}{_round_suffix(round_number)}"
    if isinstance(event, RunEnded) or not (is_first or isinstance(event, REPEATED_EVENTS)):
        return ""
    if isinstance(event, Asked) or (isinstance(event, PhaseEnded) and event.status == NEEDS_INPUT):
        return ""  # the summary lists each waiting question
    return format_event({**event.to_dict(), "resumed": False})


def change_lines(evaluation: Evaluation, *, full: bool) -> Iterator[str]:
    """Yield the differences of artifacts and replies. A reply is left out if an artifact has the same difference."""
    for name, lines in evaluation.differences.items():
        yield f"changed: {name}{_round_suffix(evaluation.artifact_rounds.get(name, 1))}"
        yield from truncate_lines(lines, full=full)
    for reply in evaluation.changed_replies:
        if reply.lines not in evaluation.differences.values():
            yield f"changed: the reply of {reply.address}{_round_suffix(reply.round)}"
            yield from truncate_lines(reply_lines(reply.fields, reply.lines, full=full), full=full)


def summary_lines(evaluation: Evaluation, seconds: float) -> Iterator[str]:
    """Yield the outcome, the counts, and the next step after a failure."""
    outcome = evaluation.outcome
    last_round = max(evaluation.phase_rounds.values(), default=1)
    round_note = f", in round {last_round}" if last_round > 1 else ""
    took = f"{seconds:.2f} s{round_note}"
    yield (
        f"{status_line(outcome.status, outcome.reason)} {f'({took})' if outcome.reason else f'in {took}'}; "
        f"calls: {evaluation.reused} reused, {len(evaluation.new_calls)} made; "
        f"{count_noun(len(evaluation.differences), 'artifact')} changed"
    )
    if outcome.status == "failed":
        yield f"next: {indent_continuation(str(outcome.next_step))}"


def evaluation_data(evaluation: Evaluation) -> dict[str, Any]:
    outcome = evaluation.outcome
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "reused": evaluation.reused,
        "asked": evaluation.new_calls,
        "changed": sorted(evaluation.differences),
        "changes": evaluation.differences,
        "replies": [
            {
                "address": reply.address,
                "round": reply.round,
                "difference": reply.lines,
                "fields": [field_._asdict() for field_ in reply.fields] if reply.fields is not None else None,
            }
            for reply in evaluation.changed_replies
        ],
    }


def _round_suffix(number: int) -> str:
    return f" (round {number})" if number > 1 else ""
