"""The text of one call."""

from __future__ import annotations

import asyncio

import pytest

from skillrun.cli.call_view import conversation_lines
from skillrun.models.messages import Block, Message, Reply, Request, Usage
from skillrun.store.memory import MemoryJournal
from skillrun.store.run_view import Conversation, ConversationTurn


@pytest.mark.row("A2")
@pytest.mark.parametrize(("counted", "is_shown"), [(7_000, True), (0, False)])
def test_the_counted_tokens_of_a_prompt_are_shown_if_the_provider_reports_usage(counted: int, is_shown: bool) -> None:
    """Without reported usage, no count is shown."""
    request = Request("x:m", (Block("You look."),), (Message("user", (Block("Look."),)),), max_tokens=100)
    journal, address = MemoryJournal(), "w/look/seen/clerk/1.1"
    asyncio.run(journal.record("sent", address, "f", request.to_dict()))
    asyncio.run(journal.record("reply", address, "f", Reply("Seen.", usage=Usage(counted, 5)).to_dict()))
    turn = ConversationTurn(journal, address, 1, "f", 1, request.model, "1", times=1)
    lines = [*conversation_lines(Conversation("w/look/seen/clerk", 1, (turn,)), full=False, is_held=False)]
    assert ("the provider counted" in "\n".join(lines)) is is_shown
