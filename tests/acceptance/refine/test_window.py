"""Every mode of refine with long material, in windows that fit all of it and in windows that do not."""

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import ResolvedModel
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.frontmatter import from_frontmatter
from tests.acceptance.refine.conftest import IDEA, PRD, QUESTIONS, SECTIONS, Refinement, Rule, analysis, scores

ALL = "SKILLRUN_EXAMPLES" in os.environ
REPLY = 1500  # tokens of the longest reply
LEAST = 256  # tokens that are always reserved for a reply
LONG = "A reader in the third row of the reading room says what no one else has said before, at length. " * 100
IDEAS = f"{IDEA}. {LONG[:1500]}"
LEFT_OUT = "left out here for length"


def set_window(patch: pytest.MonkeyPatch, tokens: int) -> None:
    """Give every model this window."""
    resolve = Catalogue.resolve

    def resolve_with_window(self: Catalogue, *names: Any, **more: Any) -> ResolvedModel:
        return replace(resolve(self, *names, **more), window=tokens, max_output=REPLY)

    patch.setattr(Catalogue, "resolve", resolve_with_window)


def rules() -> list[Rule]:
    long = [{**one, "text": f"{one['text']} {LONG[:600]}", "choices": [LONG[:150], LONG[7:150]]} for one in QUESTIONS]
    gaps = {**analysis("loop_questions"), "insight": LONG[:400]}
    gaps["gaps"] = [{"id": f"GAP-1-{at}", "section": SECTIONS[at % 6], "gap": LONG[:300]} for at in range(12)]
    reasons = [{"place": "Workflows", "wrong": text, "settled_by": "Say it."} for text in (LONG[:900], LONG[5:900])]
    settled = [
        {"text": f"What is number {at} of {LONG[:200]}?", "answer": LONG[:300], "section": "Problem"}
        for at in range(40)
    ]
    return [
        {"address": "refine/setup/decided/*", "data": {"decisions": settled}},
        {"address": "refine/research/*/user-researcher/*", "text": LONG},
        {"address": "refine/questions/deep/*", "text": LONG},
        {"address": "refine/questions/proposals/*", "data": {"questions": long}},
        {"address": "refine/questions/merged/*", "data": {"questions": long}},
        {"address": "refine/answers/missing/*", "data": gaps},
        {"address": "refine/draft/prd/*", "text": PRD + LONG},
        {"address": "refine/draft/scores/*", "data": {**scores(1), "reasons": reasons}},
    ]  # fmt: skip


def two_rounds(project: Path, mode: str) -> Refinement:
    """Complete a run of two rounds with long reports, long answers and an older document."""
    refine = Refinement(project)
    (project / "old.md").write_text(f"# Quiet\n\n## Problem\n\n{LONG}\n\n## People\n\n{LONG}\n")
    refine.begin(mode, rules(), "--prd", "old.md", idea=IDEAS)
    if mode != "rapid":
        refine.report(LONG)
        refine.resume(rules())
    refine.fill(1, LONG[:190])
    refine.resume(rules(), next_mode=["draft now", mode, "keep this draft"])
    assert (refine.done.code, refine.state()["round"]) == (0, 2), refine.done.out
    return refine


def left_out(refine: Refinement) -> set[str]:
    """The omissions listed in the summaries of both rounds: phase, step and title."""
    found = set()
    for path in refine.folder.glob("**/summaries/*.md"):
        for line in from_frontmatter(path)[0].get("left_out", []):
            step, title, _ = line.split(": ", 2)
            found.add(f"{path.stem}/{step}: {title}")
    return found


def parts(prompt: str) -> tuple[str, str]:
    """The criteria, and the task with the role, without the material between them."""
    criteria = prompt[prompt.rindex("\n# Acceptance criteria\n") :]
    return criteria.split("\n# ", 2)[1], prompt[prompt.rindex("\n# Current task\n") :]


@pytest.mark.slow
@pytest.mark.row("X5", "Q1")
@pytest.mark.finding("FR2")
@pytest.mark.parametrize("mode", ["rapid", "standard", "advanced", "complete"] if ALL else ["standard", "complete"])
def test_prompts_are_complete_or_report_what_they_omit(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_parts: dict[tuple[str, int], tuple[str, str]] = {}
    for window in (1_000_000, 128_000, 8_192, 4_096) if ALL or mode == "standard" else (128_000, 4_096):
        project = tmp_path / str(window)
        project.mkdir()
        monkeypatch.chdir(project)
        set_window(monkeypatch, window)
        refine = two_rounds(project, mode)
        omitted = left_out(refine)
        assert bool(omitted) == (window < 128_000)
        assert ("No room in the prompt of prd: " in refine.text("summary.md")) == (window < 128_000)
        times: Counter[str] = Counter()
        for address, prompt in refine.calls:
            times[address] += 1
            _, phase, *_, step, _, _ = address.split("/")
            assert estimate_tokens(prompt) + LEAST <= window, address
            assert IDEAS.strip() in prompt
            assert first_parts.setdefault((address, times[address]), parts(prompt)) == parts(prompt), window
            for title in re.findall(rf"^# (.*)\n\nAbout \d+ of its \d+ tokens are {LEFT_OUT}", prompt, re.MULTILINE):
                assert f"{phase}/{step}: {title}" in omitted
