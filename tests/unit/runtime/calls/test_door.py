"""A call that is stopped just before it is sent is journaled as not sent."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from skillrun.models.messages import Block, Message, ModelError, Request
from skillrun.runtime.calls.conversation import AttemptRecorder
from skillrun.runtime.run import EvaluationState
from skillrun.runtime.run_budget import Reservation, RunBudget
from skillrun.store import kill_points
from skillrun.store.journal import Journal, JournalUnwritable
from skillrun.store.memory import MemoryJournal

pytestmark = pytest.mark.finding("FM6")

REQUEST = Request("here:m", (), (Message("user", (Block("Hello."),)),), 100)


@pytest.fixture
def journal() -> Iterator[Journal]:
    with closing(MemoryJournal()) as journal:
        yield journal


def attempts(journal: Journal, refused: dict[str, ModelError] | None = None, **budget: float) -> AttemptRecorder:
    limits = RunBudget(budget, journal)
    known = EvaluationState(refusals=refused or {})
    run = SimpleNamespace(journal=journal, budget=limits, evaluation=known, emit=lambda _event: None)
    run.outermost = SimpleNamespace(begin_sending=lambda: None)
    phase: Any = SimpleNamespace(run=run, name="phase", round_fields=dict)
    return AttemptRecorder(phase, "w/phase/a", "a", REQUEST, Reservation(), None)


def kinds(journal: Journal) -> list[str]:
    found = [(entry.seq, kind) for kind in ("sent", "tried") for entry in journal.entries(kind)]
    return [kind for _, kind in sorted(found)]


def test_an_interrupt_while_it_is_put_on_record_leaves_nothing_unknown(journal: Journal) -> None:
    async def interrupted() -> None:
        sending = asyncio.create_task(attempts(journal).on_sent(1))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    asyncio.run(interrupted())
    assert kinds(journal) == ["sent", "tried"]
    assert journal.pending_calls() == []


@pytest.mark.finding("FM2")
def test_a_record_that_is_written_late_is_not_that_of_a_call_that_went_out(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(name: str) -> None:
        if name == "commit: before":
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(kill_points, "hook", full)
    with pytest.raises(JournalUnwritable):
        asyncio.run(attempts(journal).on_sent(1))
    monkeypatch.setattr(kill_points, "hook", None)
    assert journal.write_error() is not None
    assert kinds(journal) == ["sent", "tried"]
    assert journal.pending_calls() == []
    with pytest.raises(JournalUnwritable):
        asyncio.run(attempts(journal).on_sent(1))
    assert kinds(journal) == ["sent", "tried"]


def test_a_call_to_a_model_that_has_refused_its_key_is_neither_sent_nor_on_record(journal: Journal) -> None:
    refused = ModelError("auth", "wrong key", next_step="Check it.")
    with pytest.raises(ModelError, match="wrong key; this call was not sent") as caught:
        asyncio.run(attempts(journal, {"here:m": refused}).on_sent(1))
    assert (caught.value.kind, caught.value.next_step) == ("auth", "Check it.")
    assert kinds(journal) == []


def test_each_retry_is_on_record_with_its_number(journal: Journal) -> None:
    async def three() -> None:
        made = attempts(journal)
        for number in (1, 2, 3):
            await made.on_sent(number)
            await made.on_failed(number, ModelError("overloaded", "no such luck"))

    asyncio.run(three())
    assert kinds(journal) == ["sent", "tried"] * 3
    assert [entry.body.get("attempt") for entry in journal.entries("sent")] == [None, 2, 3]
    assert [entry.body["attempt"] for entry in journal.entries("tried")] == [1, 2, 3]
    assert journal.call_count == 1
