"""Prompts of refine in the modes that have to fit a small window, with more material than they can take."""

from dataclasses import replace
from typing import Any

import pytest

from skillrun.collaboration.compaction import estimate_tokens
from skillrun.models.catalogue import Catalogue, Resolved
from tests.acceptance.refine.conftest import IDEA, PRD, QUESTIONS, SECTIONS, Refinement, Rule, missing, scores

WINDOW = 8192
REPLY = 1500  # tokens that are left for the longest reply
LONG = "Somebody in the third row of the reading room says what nobody else has said before, at length. " * 300


def small_window(patch: pytest.MonkeyPatch) -> None:
    """Every model has the small window."""
    resolve = Catalogue.resolve

    def resolved(self: Catalogue, *names: Any, **more: Any) -> Resolved:
        return replace(resolve(self, *names, **more), window=WINDOW, max_output=REPLY)

    patch.setattr(Catalogue, "resolve", resolved)


@pytest.mark.row("X5")
@pytest.mark.finding("FR2")
@pytest.mark.parametrize("mode", ["rapid", "standard"])
def test_prompts_with_too_much_material_leave_room_for_the_reply(
    refine: Refinement, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [{**one, "text": f"{one['text']} {LONG[:600]}", "choices": [LONG[:150], LONG[7:150]]} for one in QUESTIONS]
    gaps = {**missing("loop_questions"), "insight": LONG[:400]}
    gaps["gaps"] = [{"id": f"GAP-1-{at}", "section": SECTIONS[at % 6], "gap": LONG[:300]} for at in range(12)]
    (refine.project / "old.md").write_text(LONG * 2)
    settled = [
        {"text": f"What is number {at} of {LONG[:200]}?", "answer": LONG[:300], "section": "Problem"}
        for at in range(40)
    ]
    rules: list[Rule] = [
        {"address": "refine/setup/decided/*", "data": {"decisions": settled}},
        {"address": "refine/research/*/user-researcher/*", "text": LONG},
        {"address": "refine/questions/proposals/*", "data": {"questions": long}},
        {"address": "refine/questions/merged/*", "data": {"questions": long}},
        {"address": "refine/answers/missing/*", "data": gaps},
        {"address": "refine/draft/prd/*", "text": PRD + LONG},
        {"address": "refine/draft/scores/*", "data": {**scores(1), "reasons": [LONG[:900], LONG[5:900]] * 3}},
    ]  # fmt: skip
    small_window(monkeypatch)
    flags = ("--prd", "old.md") if mode == "standard" else ()
    refine.begin(mode, rules, *flags, idea=f"{IDEA}. {LONG[:1500]}")
    if mode == "standard":
        refine.report(LONG)
        refine.resume(rules)
        assert "its end is not in the new document" in refine.warnings("setup")[0]
        assert "with this model 3000 of them are read" in refine.warnings("research")[0]
    refine.fill(1, LONG[:900])
    refine.resume(rules, next_mode=["draft now", mode])
    assert refine.state()["round"] == 2, refine.done.out
    for address, prompt in refine.calls:
        assert estimate_tokens(prompt) + REPLY <= WINDOW, address
    asked = refine.prompts("refine/answers/missing/*")[0]
    cut = "with this model 1500 are read" in " ".join(refine.warnings("answers", 1))
    assert ("This is cut at the end: about 1500 of " in asked) == cut
    first = refine.prompts("refine/draft/prd/*")[0]
    assert "earlier decisions are left out" in first
    assert "with this model 1500 of them are in the prompt" in " ".join(refine.warnings("draft", 1))
