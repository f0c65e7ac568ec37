"""One turn of hot reload: evaluate a run again over its journal; what was reused, what was asked, what differs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.runtime.events import CallEnded, Event
from skillrun.runtime.outcome import Outcome
from skillrun.runtime.run import Session
from skillrun.runtime.session import run_again
from skillrun.runtime.store.journal import Journal
from skillrun.runtime.store.stored_run import StoredRun


@dataclass
class Turn:
    """The outcome of a turn, the calls that the journal answered, those that were asked, and the differences."""

    outcome: Outcome
    reused: int = 0
    asked: list[str] = field(default_factory=list)
    differences: dict[str, list[str]] = field(default_factory=dict)


async def turn(session: Session, run: StoredRun, journal: Journal, inputs: dict[str, Any]) -> Turn:
    """Evaluate the run from its first phase. The caller holds the lock and keeps the journal open."""
    before = artifact_texts(run, journal)
    reused: list[str] = []
    asked: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, CallEnded):
            (reused if event.replayed else asked).append(event.address)

    session.listeners = [*session.listeners, listen]
    outcome = await run_again(session, run, journal, inputs)
    return Turn(outcome, len(reused), asked, differences(before, artifact_texts(run, journal)))


def artifact_texts(run: StoredRun, journal: Journal) -> dict[str, str]:
    """The texts of all that the run has written."""
    ledger = run.store(journal).ledger
    return {name: ledger.text(name) or "" for name in ledger.artifacts()}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str]]:
    """A unified diff for each artifact that is other than before."""
    diffs = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), f"{name} before", f"{name} now", "", "", 1, ""
            )
            diffs[name] = list(lines)
    return diffs
