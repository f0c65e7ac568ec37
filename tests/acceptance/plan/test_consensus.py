"""Judges: thresholds, what RED goes back to and how often, the debate of complete mode, and judges that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.acceptance.plan.conftest import Plan, Plans

STILL = {"convergence": {"low": 0.0}}  # nobody is asked about the proposals


def score(points: int, *reasons: str, at: str = "validation/judged/*", **more: Any) -> dict[str, Any]:
    return {"address": f"plan/{at}", "data": {"score": points, "reasons": list(reasons)}, **more}


def debate(*rounds: Sequence[int]) -> list[dict[str, Any]]:
    """What the three judges score in each round of the debate; the last also for those that follow."""
    judges = ("feasibility", "completeness", "risk")
    return [
        score(points, f"From {judge} in {number}.", at=f"validation/judged/debate#{number}/scores/judge:{judge}/*")
        for number, given in enumerate(rounds, 1)
        for judge, points in zip(judges, given, strict=True)
    ]


def level(run: Plan, phase: str = "validation", round: int | None = None) -> Any:  # noqa: A002 (the word of the design)
    return run.summary(phase, round)["outputs"].get("level")


@pytest.fixture
def mended(plan: Plans) -> Plan:
    """RED at first, GREEN after the redesign."""
    return plan("standard", [score(5, "NO way back is planned.", times=3), score(17)])


@pytest.fixture
def always_red(plan: Plans) -> Plan:
    return plan("standard", [score(5, "NO way back is planned.")])


@pytest.fixture
def agreeing(plan: Plans) -> Plan:
    """Apart in the first round of the debate, close in the second."""
    return plan("complete", debate((20, 10, 18), (17, 16, 17)))


@pytest.fixture
def unreachable(plan: Plans) -> Plan:
    return plan("standard", [{"address": "plan/validation/judged/*", "fail": "timeout"}])


@pytest.mark.slow
@pytest.mark.row("P13")
@pytest.mark.parametrize(("points", "colour"), [(16, "GREEN"), (15, "YELLOW"), (12, "YELLOW")])
def test_the_mean_of_the_judges_is_green_or_yellow_by_the_thresholds(plan: Plans, points: int, colour: str) -> None:
    low = score(points - 2, "Thin.", at="validation/judged/scores/judge:risk/*")
    high = score(points + 2, at="validation/judged/scores/judge:completeness/*")
    run = plan("standard", [low, high, score(points)])
    assert level(run) == colour
    assert f"**{colour}**, {points} of 20" in run.artifact("validation.md")
    assert "- Thin." in run.artifact("validation.md")
    assert run.story["round"] == 1


@pytest.mark.slow
@pytest.mark.row("P13")
def test_thresholds_are_those_of_the_config(plan: Plans) -> None:
    run = plan("standard", [score(12)], config={"consensus": {"green": 12, "yellow": 3}})
    assert level(run) == "GREEN"


@pytest.mark.slow
@pytest.mark.row("P13")
@pytest.mark.finding("FL24")
def test_red_goes_back_to_architecture_with_the_reasons_and_the_design(mended: Plan) -> None:
    assert mended.story["round"] == 2
    assert [level(mended, round=1), level(mended)] == ["RED", "GREEN"]
    first, second = mended.prompts("plan/architecture/proposals/first/software-architect:clean/*")
    assert "NO way back is planned." not in first
    assert "NO way back is planned." in second
    assert mended.artifact("round-1/design.md").splitlines()[4] in second
    assert (
        "NO way back is planned." in mended.prompts("plan/architecture/draft/*")[-1].rpartition("# Points to answer")[2]
    )
    again = [one["phase"] for one in mended.story["phases"] if one["round"] == 2]
    assert again[:3] == ["architecture", "think-deep", "validation"]
    assert "**RED**" in mended.artifact("round-1/validation.md")


@pytest.mark.slow
@pytest.mark.row("P13", "P14")
def test_red_goes_back_once_and_then_goes_on_with_a_warning(always_red: Plan) -> None:
    assert always_red.done.code == 0
    assert always_red.story["round"] == 2
    assert level(always_red) == "RED"
    assert "The design is still RED after its redesign; went on with it." in str(always_red.story["warnings"])


@pytest.mark.slow
@pytest.mark.row("P13", "P14")
def test_how_often_red_goes_back_is_the_breakers_limit(plan: Plans) -> None:
    run = plan("standard", [score(5, "No.")], config={"breakers": {"validation": {"limit": 2}}})
    assert run.story["round"] == 3
    assert run.done.code == 0


@pytest.mark.slow
@pytest.mark.row("P14")
def test_a_breaker_that_says_ask_puts_another_redesign_to_the_person(plan: Plans) -> None:
    config = {"breakers": {"validation": {"limit": 1, "then": "ask"}}, **STILL}
    run = plan("standard", [score(5, "No.")], config=config, unattended=False)
    assert run.done.code == 75
    assert "gone back to architecture 1 times" in run.story["reason"]
    rules = [score(5, "No.", times=3), score(5, "Never.", times=3), score(18)]
    more = plan("standard", rules, config=config, answers={"retry": ["retry"]}, unattended=False)
    assert more.story["round"] == 3
    assert level(more) == "GREEN"


@pytest.mark.slow
@pytest.mark.row("P13")
def test_a_complete_plan_debates_until_the_judges_agree(agreeing: Plan) -> None:
    scored = agreeing.asked("plan/validation/judged/debate#*")
    assert len([one for one in scored if "#1/" in one]) == len([one for one in scored if "#2/" in one]) == 3
    assert not [one for one in scored if "#3/" in one]
    assert level(agreeing) == "GREEN"
    assert "Rounds of debate: 2. The judges agreed." in agreeing.artifact("validation.md")


@pytest.mark.slow
@pytest.mark.row("P13")
def test_judges_hear_each_other_before_they_score_again(agreeing: Plan) -> None:
    assert "From risk in 1." not in agreeing.prompt("plan/validation/judged/debate#1/scores/judge:feasibility/*")
    second = agreeing.prompt("plan/validation/judged/debate#2/scores/judge:feasibility/*")
    assert "From risk in 1." in second
    assert "From completeness in 1." in second


@pytest.mark.slow
@pytest.mark.row("P13")
def test_the_debate_ends_after_three_rounds_without_agreement(plan: Plans) -> None:
    run = plan("complete", debate((20, 10, 18), (20, 10, 18), (20, 10, 18)))
    assert len(run.asked("plan/validation/judged/debate#*/scores/*")) == 9
    assert "Rounds of debate: 3. The judges did not come to agree." in run.artifact("validation.md")
    assert level(run) == "GREEN"


@pytest.mark.slow
@pytest.mark.row("P13")
def test_judges_unavailable_twice_skip_the_validation(unreachable: Plan) -> None:
    assert unreachable.done.code == 0
    assert unreachable.summary("validation")["flags"]["consensus_skipped"] is True
    assert level(unreachable) is None
    assert "No judge gave a score" in unreachable.artifact("validation.md")
    assert unreachable.story["round"] == 1
    assert "consensus_skipped" in str(unreachable.story["phases"])


@pytest.mark.slow
@pytest.mark.row("P13", "P14")
def test_judges_unavailable_once_are_asked_again(plan: Plans) -> None:
    run = plan("standard", [{"address": "plan/validation/judged/*", "fail": "timeout", "times": 6}, score(17)])
    assert level(run) == "GREEN"
    assert "consensus_skipped" not in run.summary("validation")["flags"]


@pytest.mark.slow
@pytest.mark.row("P13")
def test_a_red_coverage_goes_back_to_the_test_strategy_with_the_reasons(plan: Plans) -> None:
    spec = {"address": "plan/clarify/spec/*", "text": "# Specification\n\n- AC-1: It is dark.\n- AC-2: It is quiet."}
    tests = {"address": "plan/test-strategy/draft/*", "text": "T-1 shows AC-1."}
    red = score(3, "NOTHING shows the noise.", at="coverage/judged/*")
    run = plan("standard", [spec, tests, red])
    assert run.story["round"] == 2
    assert {one["phase"] for one in run.story["phases"] if one["round"] == 2} == {
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
def test_coverage_without_judges_is_skipped_with_the_flag(plan: Plans) -> None:
    run = plan("standard", [{"address": "plan/coverage/judged/*", "fail": "timeout"}])
    assert run.summary("coverage")["flags"]["consensus_skipped"] is True
    assert run.done.code == 0
    rapid = plan("rapid")
    assert "consensus_skipped" not in rapid.summary("coverage")["flags"]


@pytest.mark.slow
@pytest.mark.finding("FZ7")
@pytest.mark.row("P13", "Z4")
@pytest.mark.parametrize("stop", ["other", "refusal", "length"])
def test_nothing_is_green_while_a_judge_was_not_heard(plan: Plans, stop: str) -> None:
    lost = score(2, "unsafe", at="validation/judged/scores/judge:risk/*", stop=stop)
    run = plan("standard", [lost, score(20)])
    assert level(run) == "YELLOW"
    assert "Not heard: judge:risk." in run.artifact("validation.md")


@pytest.mark.slow
@pytest.mark.finding("FZ7")
@pytest.mark.row("P13", "Z4")
def test_one_judge_alone_is_no_agreement(plan: Plans) -> None:
    lost = [score(2, at=f"validation/judged/*/judge:{judge}/*", stop="other") for judge in ("risk", "completeness")]
    run = plan("complete", [*lost, score(20)])
    assert level(run) == "YELLOW"
    assert "The judges did not come to agree." in run.artifact("validation.md")
