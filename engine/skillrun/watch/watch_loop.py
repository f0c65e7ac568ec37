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
from skillrun.runtime.session import run_again
from skillrun.store.journal import Journal
from skillrun.store.local.local_run import RunFolder
from skillrun.store.outcome import Outcome
from skillrun.store.stored_run import StoredRun
from skillrun.watch.in_flight_calls import KeptCalls

SUMMARY: Final = "summary"
"""What stands for the step in the address of the call that sums a phase up."""
Place = tuple[str, int]
"""The address of a call, and the round in which it was made."""


@dataclass(frozen=True)
class ReplyDifference:
    """What differs between two replies at one place: field by field where both are structured, or else line by line."""

    address: str
    round: int
    lines: list[str]
    fields: list[FieldDifference] | None


@dataclass
class Turn:
    """The outcome of a turn, the calls that the journal answered, those that were asked, and the differences."""

    outcome: Outcome
    reused: int = 0
    asked: list[str] = field(default_factory=list)
    differences: dict[str, list[str]] = field(default_factory=dict)
    """By artifact, the lines of a unified diff."""
    replies: list[ReplyDifference] = field(default_factory=list)
    rounds: Mapping[str, int] = field(default_factory=dict)
    """By artifact, the round in which it was written."""
    round: int = 1
    """In which it ended."""
    is_first: bool = False
    """Whether there was nothing before it to compare with."""

    @property
    def has_changed(self) -> bool:
        return bool(self.differences or self.replies)


class Heard:
    """What a turn's events have told: its replies by their places, and which of them were asked for."""

    def __init__(self) -> None:
        self.replies: dict[Place, str] = {}
        self.asked: list[str] = []
        self.reused = 0
        self.rounds: dict[str, int] = {}
        """By phase, the one that it is in."""
        self.wrote: dict[str, int] = {}
        """By artifact, the round in which it was written; the last one stands last."""
        self.last = ""
        """The address of the call of a step that was asked last; where none was, of the last that the journal has
        answered."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, PhaseStarted):
            self.rounds[event.phase] = event.round
        elif isinstance(event, Wrote):
            self.wrote.pop(event.path, None)
            self.wrote[event.path] = self.rounds.get(event.phase, 1)
        elif isinstance(event, CallEnded):
            if event.replayed:
                self.reused += 1
            else:
                self.asked.append(event.address)
            if not event.error:
                self.replies[event.address, self.rounds.get(event.phase, 1)] = event.text
            if not (event.replayed and self.asked) and event.address.split("/")[-3] != SUMMARY:
                self.last = event.address


class Cycle:
    """The turns of one run. Its caller holds the lock and keeps the journal open."""

    def __init__(self, folder: RunFolder, journal: Journal, calls: KeptCalls) -> None:
        self.folder, self.journal, self.calls = folder, journal, calls
        self.heard = Heard()
        """Of the turn that goes on, or else of the last one."""
        self.running: asyncio.Task[Turn] | None = None
        self._texts = artifact_texts(folder, journal)
        self._replies: dict[Place, str] = {}
        self._is_first = not self._texts

    async def begin(self, session: Session, inputs: dict[str, Any]) -> asyncio.Task[Turn]:
        """Begin a turn; one that goes on is broken off, and its calls go on."""
        await self.break_off()
        await self.calls.turn_begins()
        self.heard = Heard()
        listeners: list[Listener] = [*session.listeners, self.heard]
        session = replace(session, gateway=self.calls, listeners=listeners, minds_signals=False, saves_late=True)
        self.running = asyncio.create_task(self._turn(session, inputs, self.heard))
        return self.running

    async def break_off(self) -> None:
        """End the turn that goes on, if one does; the run's folder says that it was interrupted."""
        running, self.running = self.running, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    async def _turn(self, session: Session, inputs: dict[str, Any], heard: Heard) -> Turn:
        outcome = await run_again(session, self.folder, self.journal, inputs)
        done = Turn(outcome, heard.reused, heard.asked, is_first=self._is_first)
        if outcome.status == "interrupted":
            return done
        await self.calls.turn_ended()
        texts = artifact_texts(self.folder, self.journal)
        done.differences = differences(self._texts, texts)
        done.replies = reply_differences(self._replies, heard.replies)
        done.rounds, done.round = heard.wrote, max(heard.rounds.values(), default=1)
        self._texts, self._replies, self._is_first = texts, heard.replies, False
        return done


async def turn(session: Session, folder: RunFolder, journal: Journal, inputs: dict[str, Any]) -> Turn:
    """One turn that nothing breaks off, and that asks at once."""
    calls = KeptCalls(session.gateway, journal)
    cycle = Cycle(folder, journal, calls)
    running = await cycle.begin(session, inputs)
    calls.gate.open()
    return await running


def artifact_texts(run: StoredRun, journal: Journal) -> dict[str, str]:
    """The texts of all that the run has written."""
    ledger = run.store(journal).ledger
    return {name: ledger.text(name) or "" for name in ledger.artifacts()}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str]]:
    """The lines of a unified diff for each artifact that is other than before."""
    return {
        name: text_difference(before.get(name, ""), after.get(name, ""))
        for name in sorted(before.keys() | after.keys())
        if before.get(name, "") != after.get(name, "")
    }


def reply_differences(before: Mapping[Place, str], after: Mapping[Place, str]) -> list[ReplyDifference]:
    """What is other than before of the replies that both have, in the order of the calls."""
    return [_difference(place, before[place], text) for place, text in after.items() if before.get(place, text) != text]


def _difference(place: Place, before: str, after: str) -> ReplyDifference:
    old, new = json_value(before), json_value(after)
    fields = None if old is None or new is None else list(value_differences(old, new))
    return ReplyDifference(*place, text_difference(before, after), fields)
