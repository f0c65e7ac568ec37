"""Convergence of a panel: the measure, its effect on the synthesis, and the question to the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.acceptance.plan.conftest import Plan, Plans, Rule, skillrun

FIRST = "plan/architecture/proposals/first"
SYNTHESIS = "plan/architecture/proposals/synthesis/*"
LENSES = ("minimal", "clean", "pragmatic")
HIGH = ("I agree: one switch.",) * 3
MEDIUM = ("agree alpha beta", "agree alpha gamma", "however alpha delta")
LOW = ("however one two", "instead three four", "agree five six")
SILENT = ("alpha beta", "alpha gamma", "alpha delta")
POINTS = {
    "options": [],
    "agreements": ["The switch is in the menu."],
    "disagreements": ["One stores it, two do not.", "The name."],
    "recommendation": "Do it so.",
    "gaps": [],
}
TABLE = """\
| Agreement | Disagreement |
| --- | --- |
| The switch is in the menu. | One stores it, two do not. |
|  | The name. |"""
SYNTHESIS_RULE: Rule = {"address": SYNTHESIS, "data": POINTS}


def replies(texts: tuple[str, ...]) -> list[Rule]:
    positions = [{"address": f"{FIRST}/*:{lens}/*", "text": text} for lens, text in zip(LENSES, texts, strict=True)]
    return [*positions, SYNTHESIS_RULE]


def convergence(run: Plan) -> Mapping[str, Any]:
    result: Mapping[str, Any] = run.summary("architecture")["outputs"]["convergence"]
    return result


def convergence_section(run: Plan) -> str:
    return run.artifact("positions.md").partition("\n## Convergence\n")[2].strip()


@pytest.mark.slow
@pytest.mark.row("P4")
def test_the_score_combines_agreement_and_word_overlap(plan: Plans) -> None:
    result = convergence(plan("standard", replies(MEDIUM), until="architecture"))
    assert (result["agree"], result["disagree"]) == (2, 1)
    assert result["ratio"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["stability"] == pytest.approx((2 / 4 + 1 / 5 + 1 / 5) / 3)
    assert result["score"] == pytest.approx(0.6 * 2 / 3 + 0.4 * 0.3)
    assert result["level"] == "medium"


@pytest.mark.slow
@pytest.mark.row("P4")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"high": 0.5}, {"level": "high", "score": 0.52}),
        ({"low": 0.6}, {"level": "low", "score": 0.52}),
        ({"agreement_weight": 0.2, "overlap_weight": 0.8}, {"level": "low", "score": 0.3733}),
        ({"agree": ["beta", "gamma", "delta"], "disagree": []}, {"level": "high", "agree": 3, "disagree": 0}),
    ],
    ids=["high", "low", "weights", "words"],
)
def test_weights_thresholds_and_words_come_from_config(
    plan: Plans, settings: dict[str, object], expected: dict[str, object]
) -> None:
    result = convergence(plan("standard", replies(MEDIUM), until="architecture", config={"convergence": settings}))
    assert {key: result[key] for key in expected} == expected


@pytest.mark.slow
@pytest.mark.row("P4")
def test_the_synthesis_prompt_depends_on_the_level(plan: Plans) -> None:
    high, medium, low = (
        plan("standard", replies(texts), until="architecture").prompt(SYNTHESIS) for texts in (HIGH, MEDIUM, LOW)
    )
    assert "Where they agree, be short" in high
    assert "Weigh each point by its evidence" in medium
    assert "Set agreement and dispute side by side" in low
    assert "Weigh each point" not in high + low
    assert "be short" not in medium + low
    for prompt, level in ((high, "high"), (medium, "medium"), (low, "low")):
        assert f"Counted by their words, their agreement is {level}. Words mislead" in prompt


@pytest.mark.row("P4")
@pytest.mark.parametrize(("texts", "score"), [(HIGH, "1 (high)"), (MEDIUM, "0.52 (medium)")], ids=["high", "medium"])
def test_the_artifact_has_score_ratio_stability_and_both_lists(plan: Plans, texts: tuple[str, ...], score: str) -> None:
    run = plan("standard", replies(texts), until="architecture")
    result = convergence(run)
    assert convergence_section(run).splitlines()[:3] == [
        f"- Score: {score}",
        f"- Agreement ratio: {result['ratio']:.2g}",
        f"- Stability: {result['stability']:.2g}",
    ]
    agreed, _, disputed = convergence_section(run).partition("### Disagreement")
    assert "### Agreement\n\n- The switch is in the menu." in agreed
    assert disputed.split("\n")[2:4] == ["- One stores it, two do not.", "- The name."]
    assert not run.overview["phases"][3]["flags"]


@pytest.mark.slow
@pytest.mark.row("P4")
def test_panels_whose_members_cover_different_aspects_are_not_measured(plan: Plans) -> None:
    run = plan("standard")
    assert "Convergence" not in run.artifact("test-plan.md") + run.artifact("research.md")
    assert "convergence" not in run.summary("test-strategy")["outputs"]
    assert "convergence" in run.summary("architecture")["outputs"]
    assert [one for one in run.addresses("*/synthesis/*") if "architecture" not in one] == []


@pytest.mark.slow
@pytest.mark.row("P4")
def test_disagreement_is_a_table_in_the_artifact_and_a_question_to_the_user(plan: Plans) -> None:
    run = plan("standard", replies(LOW), unattended=False)
    assert run.done.code == 75
    waiting = run.overview["phases"][-1]
    assert (waiting["phase"], waiting["status"]) == ("architecture", "needs-user-input")
    assert "The proposals do not agree" in waiting["reason"]
    assert "Disputed: One stores it, two do not.; The name." in waiting["reason"]
    assert "Agreed: The switch is in the menu." in waiting["reason"]
    assert not (run.folder / "design.md").exists()

    decided = plan(
        "standard",
        replies(LOW),
        until="architecture",
        unattended=False,
        answers={"architecture/divergence": "Store it."},
    )
    assert "Store it." in decided.prompt("plan/architecture/draft/*")
    assert convergence_section(decided).split("\n\n")[1:] == [
        TABLE,
        "Decided by a prepared answer: Store it.",
    ]
    assert "undecided" not in decided.summary("architecture")["flags"]


@pytest.mark.row("P4")
def test_an_unattended_run_leaves_the_dispute_to_the_coordinator_and_flags_it(plan: Plans) -> None:
    run = plan("standard", replies(LOW), until="architecture")
    assert run.overview["phases"][3]["status"] == "completed"
    assert "The name." in run.prompt("plan/architecture/draft/*")
    assert run.summary("architecture")["flags"] == {"undecided": True}


@pytest.mark.slow
@pytest.mark.row("P4")
def test_without_a_dispute_listed_by_the_chair_there_is_no_question(plan: Plans) -> None:
    calm = {"address": SYNTHESIS, "data": {**POINTS, "disagreements": []}}
    run = plan("standard", [calm, *replies(LOW)], until="architecture", unattended=False)
    assert convergence(run)["level"] == "low"
    assert run.summary("architecture")["flags"] == {}
    assert [event for event in run.events if event["event"] == "Asked" and event["phase"] == "architecture"] == []


@pytest.mark.slow
@pytest.mark.row("P4")
def test_without_words_of_agreement_only_the_overlap_counts(plan: Plans) -> None:
    run = plan("standard", replies(SILENT), until="architecture")
    result = convergence(run)
    assert (result["ratio"], result["score"], result["stability"]) == ("N/A", 0.3333, 0.3333)
    assert "- Agreement ratio: N/A" in convergence_section(run)


@pytest.mark.slow
@pytest.mark.row("P4", "P16")
def test_a_single_reply_has_no_convergence_and_is_used_unchanged(plan: Plans) -> None:
    lost: list[Rule] = [{"address": f"{FIRST}/*:{lens}/*", "fail": "overloaded"} for lens in ("minimal", "pragmatic")]
    run = plan("standard", [*lost, {"address": f"{FIRST}/*", "text": "The clean way."}])
    assert run.done.code == 0
    summary = run.summary("architecture")
    assert "convergence" not in summary["outputs"]
    assert summary["flags"]["degraded"] is True
    assert not run.addresses(SYNTHESIS)
    assert "The clean way." in run.prompt("plan/architecture/draft/*")
    assert "The clean way." in run.artifact("positions.md")
    assert convergence_section(run) == "Undefined: one member answered."


@pytest.mark.slow
@pytest.mark.row("P4")
def test_a_panel_of_one_has_no_convergence_and_is_not_degraded(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "rapid_prototype"])
    summary = run.summary("architecture")
    assert "convergence" not in summary["outputs"]
    assert summary["flags"] == {}
    drafted, tried = run.addresses("plan/architecture/*")
    assert (drafted, tried.split("/")[2]) == ("plan/architecture/draft/software-architect:pragmatic/1.1", "tried")
    assert not (run.folder / "positions.md").exists()


@pytest.mark.slow
@pytest.mark.row("P4", "P16")
@pytest.mark.parametrize("mode", ["standard", "advanced"])
def test_without_replies_the_phase_is_degraded_and_the_coordinator_continues_alone(plan: Plans, mode: str) -> None:
    run = plan(mode, [{"address": f"{FIRST}/*", "fail": "overloaded"}])
    assert run.done.code == 0
    assert len(run.addresses(f"{FIRST}/*")) == 6
    summary = run.summary("architecture")
    assert "convergence" not in summary["outputs"]
    assert summary["flags"]["degraded"] is True
    draft = run.prompt("plan/architecture/draft/*")
    assert "The positions are evidence" not in draft
    assert run.artifact("spec.md").strip() in draft
    assert convergence_section(run) == "Undefined: nobody answered."


@pytest.mark.slow
@pytest.mark.row("P4")
@pytest.mark.parametrize("stop", ["length", "refusal"])
def test_a_truncated_or_refused_reply_does_not_count(plan: Plans, stop: str) -> None:
    cut = {"address": f"{FIRST}/*:clean/*", "text": "I disagree, I disagree, I dis", "stop": stop}
    result = convergence(plan("standard", [cut, *replies(MEDIUM)], until="architecture"))
    assert (result["agree"], result["disagree"]) == (1, 1)


@pytest.mark.row("P4")
def test_show_prints_the_convergence_on_one_line(plan: Plans) -> None:
    run = plan("standard", replies(MEDIUM), until="architecture")
    output = skillrun("show", str(run.folder)).out
    (line,) = [line for line in output.splitlines() if line.startswith("  architecture: ")]
    assert "strategy = quick" in line
    assert "convergence = {score: 0.52, ratio: 0.6667, stability: 0.3, level: medium" in line
