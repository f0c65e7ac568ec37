"""`plan` on long documents, in windows from 4,096 tokens to a million: prompts fit, essential parts are complete, and
omissions are reported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import ResolvedModel
from skillrun.models.messages import Block, Message
from skillrun.runtime.prompts.context import MIN_REPLY_TOKENS, estimate_request_tokens
from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.plan.conftest import REQUEST, Plan, Plans, skillrun

LONG = "\n\n".join(
    f"## Part {part} of it\n\n" + " ".join(f"Sentence {part}.{at} says what was found and why." for at in range(60))
    for part in range(6)
)
MODES = ("rapid", "standard", "advanced", "complete")
ALL = "SKILLRUN_EXAMPLES" in os.environ
WINDOWS = (4_096, 8_192, 128_000, 1_000_000)
WRITTEN = (
    "research/findings/first/*", "research/findings/second/*", "clarify/spec/*", "architecture/proposals/first/*",
    "architecture/draft/*", "architecture/plan/*", "think-deep/thoughts/*", "test-strategy/proposals/first/*",
    "test-strategy/proposals/proposal/*", "test-strategy/draft/*", "assets/assets/*", "completion/tasks/*",
)  # fmt: skip
RULES = [{"address": f"plan/{place}", "text": LONG} for place in WRITTEN]


def set_window(patch: pytest.MonkeyPatch, window: int) -> None:
    resolve = Catalogue.resolve

    def resolve_with_window(self: Catalogue, *names: Any, **more: Any) -> ResolvedModel:
        return replace(resolve(self, *names, **more), window=window, max_output=4_000)

    patch.setattr(Catalogue, "resolve", resolve_with_window)


def requests(run: Plan) -> dict[str, dict[str, Any]]:
    with closing(SqliteJournal.open(run.folder)) as journal:
        return {entry.address: dict(entry.body) for entry in journal.entries("sent")}


def blocks(data: list[dict[str, Any]]) -> tuple[Block, ...]:
    return tuple(Block(one["text"], part=one.get("part", "")) for one in data)


def cases() -> Iterator[Any]:
    """Every mode in the smallest window, every window in rapid mode; with SKILLRUN_EXAMPLES every pair."""
    for mode, window in product(MODES, WINDOWS):
        if ALL or window == WINDOWS[0] or mode == "rapid":
            yield pytest.param(mode, window, marks=[] if mode == "rapid" else [pytest.mark.slow])


@pytest.mark.slow
@pytest.mark.row("Q1", "X5")
@pytest.mark.parametrize(("mode", "window"), list(cases()))
def test_prompts_fit_the_window_and_omissions_are_reported(
    plan: Plans, monkeypatch: pytest.MonkeyPatch, mode: str, window: int
) -> None:
    set_window(monkeypatch, window)
    run = plan(mode, RULES, request=f"{REQUEST}. {window}")
    assert run.done.code == 0, run.done
    shortened = 0
    for address, sent in requests(run).items():
        system = blocks(sent["system"])
        messages = tuple(Message(one["role"], blocks(one["blocks"])) for one in sent["messages"])
        assert estimate_request_tokens(system, messages, sent["schema"]) <= window - MIN_REPLY_TOKENS, address
        parts = {block.part: block.text for block in messages[0].blocks}
        assert f"{REQUEST}. {window}" in parts["request"]
        assert "The work is done when all of these hold" in parts["criteria"], address
        assert "[…]" not in parts["task"], address
        for title, text in parts.items():
            assert ("left out here for length" in text) or ("[…]" not in text), (address, title)
            shortened += "left out here for length" in text
            opened, closed = (len(re.findall(rf"<{end}untrusted-[0-9a-f]{{8}}>", text)) for end in ("", "/"))
            assert opened == closed
    reported = [one["text"] for one in run.overview["left_out"]]
    assert bool(reported) == ("left out of prompts, for lack of space:" in skillrun("show", str(run.folder)).out)
    assert bool(reported) == bool(shortened) == (window < 100_000)
    if window < 100_000:
        assert any("The research: about" in line or "The specification: about" in line for line in reported)
