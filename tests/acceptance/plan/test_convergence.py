"""How far a panel agrees: the measure, what the synthesis makes of it, and what a person is asked."""

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
DRAWN: Rule = {"address": SYNTHESIS, "data": POINTS}


def saying(texts: tuple[str, ...]) -> list[Rule]:
    said = [{"address": f"{FIRST}/*:{lens}/*", "text": text} for lens, text in zip(LENSES, texts, strict=True)]
    return [*said, DRAWN]


def measured(run: Plan) -> Mapping[str, Any]:
    found: Mapping[str, Any] = run.summary("architecture")["outputs"]["convergence"]
    return found


def section(run: Plan) -> str:
    return run.artifact("positions.md").partition("\n## Convergence\n")[2].strip()


@pytest.mark.slow
@pytest.mark.row("P4")
def test_the_score_weighs_agreement_against_word_overlap(plan: Plans) -> None:
    found = measured(plan("standard", saying(MEDIUM), until="architecture"))
    assert (found["agree"], found["disagree"]) == (2, 1)
    assert found["ratio"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["stability"] == pytest.approx((2 / 4 + 1 / 5 + 1 / 5) / 3)
    assert found["score"] == pytest.approx(0.6 * 2 / 3 + 0.4 * 0.3)
    assert found["level"] == "medium"


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
    found = measured(plan("standard", saying(MEDIUM), until="architecture", config={"convergence": settings}))
    assert {key: found[key] for key in expected} == expected


@pytest.mark.slow
@pytest.mark.row("P4")
def test_the_synthesis_is_short_a_weighing_or_a_comparison(plan: Plans) -> None:
    high, medium, low = (
        plan("standard", saying(texts), until="architecture").prompt(SYNTHESIS) for texts in (HIGH, MEDIUM, LOW)
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
def test_the_artifact_says_score_ratio_stability_and_both_lists(
    plan: Plans, texts: tuple[str, ...], score: str
) -> None:
    run = plan("standard", saying(texts), until="architecture")
    found = measured(run)
    assert section(run).splitlines()[:3] == [
        f"- Score: {score}",
        f"- Agreement ratio: {found['ratio']:.2g}",
        f"- Stability: {found['stability']:.2g}",
    ]
    agreed, _, disputed = section(run).partition("### Disagreement")
    assert "### Agreement\n\n- The switch is in the menu." in agreed
    assert disputed.split("\n")[2:4] == ["- One stores it, two do not.", "- The name."]
    assert not run.story["phases"][3]["flags"]


@pytest.mark.slow
@pytest.mark.row("P4")
def test_members_who_look_at_different_sides_are_not_measured_against_each_other(plan: Plans) -> None:
    run = plan("standard")
    assert "Convergence" not in run.artifact("test-plan.md") + run.artifact("research.md")
    assert "convergence" not in run.summary("test-strategy")["outputs"]
    assert "convergence" in run.summary("architecture")["outputs"]
    assert [one for one in run.asked("*/synthesis/*") if "architecture" not in one] == []


@pytest.mark.slow
@pytest.mark.row("P4")
def test_disagreement_is_a_table_in_the_artifact_and_a_question_to_the_person(plan: Plans) -> None:
    run = plan("standard", saying(LOW), unattended=False)
    assert run.done.code == 75
    waiting = run.story["phases"][-1]
    assert (waiting["phase"], waiting["status"]) == ("architecture", "needs-user-input")
    assert "The proposals do not agree" in waiting["reason"]
    assert "Disputed: One stores it, two do not.; The name." in waiting["reason"]
    assert "Agreed: The switch is in the menu." in waiting["reason"]
    assert not (run.folder / "design.md").exists()

    answered = plan(
        "standard",
        saying(LOW),
        until="architecture",
        unattended=False,
        answers={"architecture/divergence": "Store it."},
    )
    assert "Store it." in answered.prompt("plan/architecture/draft/*")
    assert section(answered).split("\n\n")[1:] == [
        TABLE,
        "Decided by the person: Store it.",
    ]
    assert "undecided" not in answered.summary("architecture")["flags"]


@pytest.mark.row("P4")
def test_an_unattended_run_leaves_the_dispute_to_the_coordinator_and_flags_it(plan: Plans) -> None:
    run = plan("standard", saying(LOW), until="architecture")
    assert run.story["phases"][3]["status"] == "completed"
    assert "The name." in run.prompt("plan/architecture/draft/*")
    assert run.summary("architecture")["flags"] == {"undecided": True}


@pytest.mark.slow
@pytest.mark.row("P4")
def test_where_the_chair_names_no_dispute_nobody_is_asked_about_one(plan: Plans) -> None:
    calm = {"address": SYNTHESIS, "data": {**POINTS, "disagreements": []}}
    run = plan("standard", [calm, *saying(LOW)], until="architecture", unattended=False)
    assert measured(run)["level"] == "low"
    assert run.summary("architecture")["flags"] == {}
    assert [event for event in run.events if event["event"] == "Asked" and event["phase"] == "architecture"] == []


@pytest.mark.slow
@pytest.mark.row("P4")
def test_without_words_of_agreement_the_ratio_is_not_available_and_the_overlap_counts_alone(plan: Plans) -> None:
    run = plan("standard", saying(SILENT), until="architecture")
    found = measured(run)
    assert (found["ratio"], found["score"], found["stability"]) == ("N/A", 0.3333, 0.3333)
    assert "- Agreement ratio: N/A" in section(run)


@pytest.mark.slow
@pytest.mark.row("P4", "P16")
def test_one_reply_has_no_convergence_and_stands_alone(plan: Plans) -> None:
    fails: list[Rule] = [{"address": f"{FIRST}/*:{lens}/*", "fail": "overloaded"} for lens in ("minimal", "pragmatic")]
    run = plan("standard", [*fails, {"address": f"{FIRST}/*", "text": "The clean way."}])
    assert run.done.code == 0
    summary = run.summary("architecture")
    assert "convergence" not in summary["outputs"]
    assert summary["flags"]["degraded"] is True
    assert not run.asked(SYNTHESIS)
    assert "The clean way." in run.prompt("plan/architecture/draft/*")
    assert "The clean way." in run.artifact("positions.md")
    assert section(run) == "Undefined: one member answered."


@pytest.mark.slow
@pytest.mark.row("P4")
def test_a_panel_of_one_has_no_convergence_and_is_not_degraded(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "rapid_prototype"])
    summary = run.summary("architecture")
    assert "convergence" not in summary["outputs"]
    assert summary["flags"] == {}
    drafted, tried = run.asked("plan/architecture/*")
    assert (drafted, tried.split("/")[2]) == ("plan/architecture/draft/software-architect:pragmatic/1.1", "tried")
    assert not (run.folder / "positions.md").exists()


@pytest.mark.slow
@pytest.mark.row("P4", "P16")
@pytest.mark.parametrize("mode", ["standard", "advanced"])
def test_no_reply_is_skipped_degraded_and_the_coordinator_goes_on_alone(plan: Plans, mode: str) -> None:
    run = plan(mode, [{"address": f"{FIRST}/*", "fail": "overloaded"}])
    assert run.done.code == 0
    assert len(run.asked(f"{FIRST}/*")) == 6
    summary = run.summary("architecture")
    assert "convergence" not in summary["outputs"]
    assert summary["flags"]["degraded"] is True
    draft = run.prompt("plan/architecture/draft/*")
    assert "The positions are evidence" not in draft
    assert run.artifact("spec.md").strip() in draft
    assert section(run) == "Undefined: nobody answered."


@pytest.mark.slow
@pytest.mark.row("P4")
@pytest.mark.parametrize("stop", ["length", "refusal"])
def test_a_reply_that_was_cut_off_or_refused_is_none(plan: Plans, stop: str) -> None:
    cut = {"address": f"{FIRST}/*:clean/*", "text": "I disagree, I disagree, I dis", "stop": stop}
    found = measured(plan("standard", [cut, *saying(MEDIUM)], until="architecture"))
    assert (found["agree"], found["disagree"]) == (1, 1)


@pytest.mark.row("P4")
def test_show_tells_at_a_glance_how_far_they_agreed(plan: Plans) -> None:
    run = plan("standard", saying(MEDIUM), until="architecture")
    told = skillrun("show", str(run.folder)).out
    (line,) = [line for line in told.splitlines() if line.startswith("  architecture: ")]
    assert "strategy = quick" in line
    assert "convergence = {score: 0.52, ratio: 0.6667, stability: 0.3, level: medium" in line
