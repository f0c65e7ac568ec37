"""Judges: thresholds, rework after RED, the debate of complete mode, and missing judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.acceptance.plan.conftest import Plan, Plans

DISAGREEMENT = "The judges did not agree."
NO_QUESTION = {"convergence": {"low": 0.0}}  # prevents the question about the proposals


def score(points: int, *reasons: str, at: str = "validation/judged/*", **more: Any) -> dict[str, Any]:
    return {"address": f"plan/{at}", "data": {"score": points, "reasons": list(reasons)}, **more}


def debate(*rounds: Sequence[int]) -> list[dict[str, Any]]:
    """The scores of the three judges in each round of the debate."""
    judges = ("feasibility", "completeness", "risk")
    return [
        score(points, f"From {judge} in {number}.", at=f"validation/judged/debate#{number}/scores/judge:{judge}/*")
        for number, points_of_round in enumerate(rounds, 1)
        for judge, points in zip(judges, points_of_round, strict=True)
    ]


def level(run: Plan, phase: str = "validation", round: int | None = None) -> Any:  # noqa: A002 (domain term)
    return run.summary(phase, round)["outputs"].get("level")


@pytest.fixture
def fixed(plan: Plans) -> Plan:
    """RED at first, GREEN after the redesign."""
    return plan("standard", [score(5, "NO way back is planned.", times=3), score(17)])


@pytest.fixture
def always_red(plan: Plans) -> Plan:
    return plan("standard", [score(5, "NO way back is planned.")])


@pytest.fixture
def converging(plan: Plans) -> Plan:
    """The judges disagree in the first round of the debate and agree in the second."""
    return plan("complete", debate((20, 10, 18), (17, 16, 17)))


@pytest.fixture
def unreachable(plan: Plans) -> Plan:
    return plan("standard", [{"address": "plan/validation/judged/*", "fail": "timeout"}])


@pytest.mark.slow
@pytest.mark.row("P13")
@pytest.mark.parametrize(("points", "colour"), [(16, "GREEN"), (15, "YELLOW"), (12, "YELLOW")])
def test_thresholds_turn_the_mean_score_into_green_or_yellow(plan: Plans, points: int, colour: str) -> None:
    low = score(points - 2, "Thin.", at="validation/judged/scores/judge:risk/*")
    high = score(points + 2, at="validation/judged/scores/judge:completeness/*")
    run = plan("standard", [low, high, score(points)])
    assert level(run) == colour
    assert f"**{colour}**, {points} of 20" in run.artifact("validation.md")
    assert "- Thin." in run.artifact("validation.md")
    assert run.overview["round"] == 1


@pytest.mark.slow
@pytest.mark.row("P13")
def test_thresholds_come_from_the_config(plan: Plans) -> None:
    run = plan("standard", [score(12)], config={"consensus": {"green": 12, "yellow": 3}})
    assert level(run) == "GREEN"


@pytest.mark.slow
@pytest.mark.row("P13")
@pytest.mark.finding("FL24")
def test_red_returns_to_architecture_with_the_reasons_and_the_design(fixed: Plan) -> None:
    assert fixed.overview["round"] == 2
    assert [level(fixed, round=1), level(fixed)] == ["RED", "GREEN"]
    first, second = fixed.prompts("plan/architecture/proposals/first/software-architect:clean/*")
    assert "NO way back is planned." not in first
    assert "NO way back is planned." in second
    assert fixed.artifact("round-1/design.md").splitlines()[4] in second
    assert (
        "NO way back is planned." in fixed.prompts("plan/architecture/draft/*")[-1].rpartition("# Points to answer")[2]
    )
    phases = [one["phase"] for one in fixed.overview["phases"] if one["round"] == 2]
    assert phases[:3] == ["architecture", "think-deep", "validation"]
    assert "**RED**" in fixed.artifact("round-1/validation.md")


@pytest.mark.slow
@pytest.mark.row("P13", "P14")
def test_red_returns_once_and_then_continues_with_a_warning(always_red: Plan) -> None:
    assert always_red.done.code == 0
    assert always_red.overview["round"] == 2
    assert level(always_red) == "RED"
    assert "The design is still RED after its redesign; went on with it." in str(always_red.overview["warnings"])


@pytest.mark.slow
@pytest.mark.row("P13", "P14")
def test_the_breaker_limit_sets_how_often_red_returns(plan: Plans) -> None:
    run = plan("standard", [score(5, "No.")], config={"breakers": {"validation": {"limit": 2}}})
    assert run.overview["round"] == 3
    assert run.done.code == 0


@pytest.mark.slow
@pytest.mark.row("P14")
def test_an_ask_breaker_offers_the_user_another_redesign(plan: Plans) -> None:
    config = {"breakers": {"validation": {"limit": 1, "then": "ask"}}, **NO_QUESTION}
    run = plan("standard", [score(5, "No.")], config=config, unattended=False)
    assert run.done.code == 75
    assert "gone back to architecture 1 times" in run.overview["reason"]
    rules = [score(5, "No.", times=3), score(5, "Never.", times=3), score(18)]
    retried = plan("standard", rules, config=config, answers={"retry": ["retry"]}, unattended=False)
    assert retried.overview["round"] == 3
    assert level(retried) == "GREEN"


@pytest.mark.slow
@pytest.mark.row("P13")
def test_a_complete_plan_debates_until_the_judges_agree(converging: Plan) -> None:
    addresses = converging.addresses("plan/validation/judged/debate#*")
    assert len([one for one in addresses if "#1/" in one]) == len([one for one in addresses if "#2/" in one]) == 3
    assert not [one for one in addresses if "#3/" in one]
    assert level(converging) == "GREEN"
    assert "Rounds of debate: 2. The judges agreed." in converging.artifact("validation.md")


@pytest.mark.slow
@pytest.mark.row("P13")
@pytest.mark.parametrize(("points", "rounds"), [((18, 16, 15), 1), ((18, 16, 14), 2)], ids=["3 apart", "4 apart"])
def test_judges_agree_up_to_a_spread_of_three(plan: Plans, points: tuple[int, ...], rounds: int) -> None:
    run = plan("complete", debate(points, (17, 16, 17)), until="validation")
    assert len(run.addresses("plan/validation/judged/debate#*/scores/*")) == 3 * rounds
    assert f"Rounds of debate: {rounds}. The judges agreed." in run.artifact("validation.md")


@pytest.mark.slow
@pytest.mark.row("P13")
def test_judges_see_each_others_reasons_before_they_score_again(converging: Plan) -> None:
    assert "From risk in 1." not in converging.prompt("plan/validation/judged/debate#1/scores/judge:feasibility/*")
    second = converging.prompt("plan/validation/judged/debate#2/scores/judge:feasibility/*")
    assert "From risk in 1." in second
    assert "From completeness in 1." in second


@pytest.mark.slow
@pytest.mark.row("P13")
def test_the_debate_ends_after_three_rounds_without_agreement(plan: Plans) -> None:
    run = plan("complete", debate((20, 10, 18), (20, 10, 18), (20, 10, 18)))
    assert len(run.addresses("plan/validation/judged/debate#*/scores/*")) == 9
    assert f"Rounds of debate: 3. {DISAGREEMENT}" in run.artifact("validation.md")
    assert level(run) == "GREEN"


@pytest.mark.slow
@pytest.mark.row("P13")
def test_validation_is_skipped_after_the_judges_fail_twice(unreachable: Plan) -> None:
    assert unreachable.done.code == 0
    assert unreachable.summary("validation")["flags"]["consensus_skipped"] is True
    assert level(unreachable) is None
    assert "No judge gave a score" in unreachable.artifact("validation.md")
    assert unreachable.overview["round"] == 1
    assert "consensus_skipped" in str(unreachable.overview["phases"])


@pytest.mark.slow
@pytest.mark.row("P13", "P14")
def test_judges_that_fail_once_are_retried(plan: Plans) -> None:
    run = plan("standard", [{"address": "plan/validation/judged/*", "fail": "timeout", "times": 6}, score(17)])
    assert level(run) == "GREEN"
    assert "consensus_skipped" not in run.summary("validation")["flags"]


@pytest.mark.slow
@pytest.mark.row("P13")
def test_red_coverage_returns_to_the_test_strategy_with_the_reasons(plan: Plans) -> None:
    spec = {"address": "plan/clarify/spec/*", "text": "# Specification\n\n- AC-1: It is dark.\n- AC-2: It is quiet."}
    tests = {"address": "plan/test-strategy/draft/*", "text": "T-1 shows AC-1."}
    red = score(3, "NOTHING shows the noise.", at="coverage/judged/*")
    run = plan("standard", [spec, tests, red])
    assert run.overview["round"] == 2
    assert {one["phase"] for one in run.overview["phases"] if one["round"] == 2} == {
        "test-strategy",
        "coverage",
        "assets",
        "completion",
    }
    first, second = run.prompts("plan/test-strategy/proposals/first/qa-strategist/*")
    assert "NOTHING shows the noise." not in first
    assert "NOTHING shows the noise." in second
    assert "AC-2: no case names it" in run.artifact("coverage.md")
    assert "AC-2" in run.prompts("plan/completion/tasks/*")[-1].rpartition("# Current task")[2]
    assert "still RED" in str(run.summary("coverage")["quality_warnings"])


@pytest.mark.slow
@pytest.mark.row("P13")
@pytest.mark.parametrize(
    ("points", "colour"), [((20, 16, 12), "GREEN"), ((18, 16, 11), "YELLOW"), ((18, 12, 3), "RED")]
)
def test_the_mean_score_of_several_judges_decides_about_the_coverage(
    plan: Plans, points: tuple[int, int, int], colour: str
) -> None:
    scores = [
        score(number, f"From {judge}.", at=f"coverage/judged/*/judge:{judge}/*")
        for judge, number in zip(("feasibility", "completeness", "risk"), points, strict=True)
    ]
    run = plan("standard", scores, until="coverage")
    assert level(run, "coverage") == colour
    report = run.artifact("coverage.md")
    assert all(f"- From {judge}." in report for judge in ("feasibility", "completeness", "risk"))


@pytest.mark.slow
@pytest.mark.row("P13")
def test_a_missing_judge_of_the_coverage_prevents_green_and_is_named(plan: Plans) -> None:
    lost = {"address": "plan/coverage/judged/*/judge:risk/*", "fail": "timeout"}
    run = plan("standard", [lost, score(20, at="coverage/judged/*")])
    assert level(run, "coverage") == "YELLOW"
    assert "No reply from: judge:risk." in run.artifact("coverage.md")


@pytest.mark.slow
@pytest.mark.row("P13")
def test_coverage_without_judges_is_skipped_and_flagged(plan: Plans) -> None:
    run = plan("standard", [{"address": "plan/coverage/judged/*", "fail": "timeout"}])
    assert run.summary("coverage")["flags"]["consensus_skipped"] is True
    assert run.done.code == 0
    rapid = plan("rapid")
    assert "consensus_skipped" not in rapid.summary("coverage")["flags"]


@pytest.mark.slow
@pytest.mark.finding("FZ7")
@pytest.mark.row("P13", "Z4")
@pytest.mark.parametrize("stop", ["other", "refusal", "length"])
def test_a_missing_judge_prevents_green(plan: Plans, stop: str) -> None:
    cut = {"text": '{"score": 2, "reasons": ["uns', "stop": stop}
    lost = {"address": "plan/validation/judged/scores/judge:risk/*", **cut}
    run = plan("standard", [lost, score(20)])
    assert level(run) == "YELLOW"
    assert "No reply from: judge:risk." in run.artifact("validation.md")


@pytest.mark.slow
@pytest.mark.row("P13", "Z4")
def test_a_whole_score_counts_though_its_reply_ended_for_an_unknown_reason(plan: Plans) -> None:
    whole = score(2, "unsafe", at="validation/judged/scores/judge:risk/*", stop="other")
    run = plan("standard", [whole, score(20)], until="validation")
    assert "**YELLOW**, 14 of 20." in run.artifact("validation.md")
    assert "- unsafe" in run.artifact("validation.md")


@pytest.mark.slow
@pytest.mark.finding("FZ7")
@pytest.mark.row("P13", "Z4")
def test_one_judge_does_not_count_as_agreement(plan: Plans) -> None:
    cut = {"text": '{"score": 2, "reasons": ["uns', "stop": "other"}
    lost = [{"address": f"plan/validation/judged/*/judge:{judge}/*", **cut} for judge in ("risk", "completeness")]
    run = plan("complete", [*lost, score(20)])
    assert level(run) == "YELLOW"
    assert "The judges cannot agree while scores are missing." in run.artifact("validation.md")


@pytest.mark.slow
@pytest.mark.row("P13")
@pytest.mark.finding("FR63")
@pytest.mark.parametrize(("points", "rounds"), [((18, 18), 1), ((18, 12), 3)], ids=["same", "apart"])
def test_judges_debate_only_while_those_who_scored_are_apart(plan: Plans, points: tuple[int, int], rounds: int) -> None:
    lost = {"address": "plan/validation/judged/*/judge:risk/*", "fail": "timeout"}
    one, other = (
        score(number, at=f"validation/judged/*/judge:{judge}/*")
        for number, judge in zip(points, ("feasibility", "completeness"), strict=True)
    )
    run = plan("complete", [lost, one, other], until="validation")
    assert len(run.addresses("plan/validation/judged/debate#*/judge:feasibility/*")) == rounds
    report = run.artifact("validation.md")
    assert f"Rounds of debate: {rounds}. The judges cannot agree while scores are missing." in report
