"""The replies of a comparison are used only if this user recorded them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from skillrun.extensions.testing.sampling import SealedReplies
from skillrun.store.journal import JournalRow
from skillrun.store.memory import MemoryJournal

pytestmark = [pytest.mark.row("A3"), pytest.mark.finding("FD4")]

CALL = ("1/hello/letter/letter/host/1.1", "ab" * 32)
BODY = {"text": "Welcome.", "price": 0.1}


def test_a_reply_is_used_with_a_seal_of_the_user() -> None:
    journal = MemoryJournal()
    asyncio.run(SealedReplies(journal, b"mine").record("reply", *CALL, BODY))
    mine = SealedReplies(journal, b"mine")
    assert mine.find("reply", *CALL) == BODY
    assert not mine.unsealed


def test_a_reply_with_the_seal_of_someone_else_is_reported_and_not_used() -> None:
    journal = MemoryJournal()
    asyncio.run(SealedReplies(journal, b"theirs").record("reply", *CALL, BODY))
    mine = SealedReplies(journal, b"mine")
    assert mine.find("reply", *CALL) is None
    assert mine.unsealed == {CALL}


@pytest.mark.parametrize("changed", ["body", "address", "prompt"])
def test_a_seal_is_invalid_for_another_call_or_reply(changed: str) -> None:
    journal = MemoryJournal()
    mine = SealedReplies(journal, b"mine")
    asyncio.run(mine.record("reply", *CALL, BODY))
    (note,) = journal.entries("note")
    address = "2/hello/letter/letter/host/1.1" if changed == "address" else CALL[0]
    fingerprint = "cd" * 32 if changed == "prompt" else CALL[1]
    body = {**BODY, "text": "Planted."} if changed == "body" else BODY
    asyncio.run(journal.record("reply", address, fingerprint, body))
    asyncio.run(journal.record("note", address, note.fingerprint, {}))
    assert mine.find("reply", address, fingerprint) is None


def test_a_reply_and_its_seal_are_one_commit() -> None:
    commits: list[int] = []

    class CountingJournal(MemoryJournal):
        def _persist(self, rows: Sequence[JournalRow]) -> None:
            commits.append(len(rows))
            super()._persist(rows)

    asyncio.run(SealedReplies(CountingJournal(), b"mine").record("reply", *CALL, BODY))
    assert commits == [2]
