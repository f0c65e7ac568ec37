"""The circuit breaker of each named context: how many failures it takes, what happens then, and what sets it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.acceptance.plan.conftest import Plan, Plans, Rule, skillrun

LENSES = ("minimal", "clean", "pragmatic")


def lost(address: str, **more: Any) -> dict[str, Any]:
    """Nobody answers there."""
    return {"address": f"plan/{address}", "fail": "timeout", **more}


def tripped(run: Plan) -> dict[str, str]:
    """The breakers that have reached their limit, and what they did then."""
    return {one["breaker"]: one["action"] for one in run.events if one["event"] == "Tripped"}


def attempts(run: Plan, pattern: str) -> int:
    return len(run.asked(f"plan/{pattern}"))


FULL = {"deliberation": {"variant": "full"}}
SIDE_BY_SIDE = {"features": {"parallel_dispatch": {"enabled": True, "modes": []}}}
CONTEXTS: Mapping[str, tuple[str, Rule, Mapping[str, Any], str]] = {
    "deliberation": ("advanced", lost("architecture/proposals/second/*"), FULL, "fall back"),
    "multi_strategy": ("complete", lost("test-strategy/proposals/proposal/*"), {}, "fall back"),
    "parallel_dispatch": ("standard", lost("assets/assets/*", times=2), SIDE_BY_SIDE, "sequential"),
    "expert_review": ("standard", lost("expert-review/*"), {}, "ask"),
    "consensus": ("standard", lost("validation/judged/*"), {}, "skip"),
    "think_deep": ("advanced", lost("think-deep/thoughts/*"), {}, "skip"),
}
"""By breaker: a mode, what fails, the config, and what happens at the limit. The caps of loops are tried elsewhere."""


@pytest.fixture
def broken(plan: Plans, request: pytest.FixtureRequest) -> Plan:
    mode, rule, config, _ = CONTEXTS[request.param]
    return plan(mode, [rule], config=config or None)


@pytest.mark.slow
@pytest.mark.row("P14")
@pytest.mark.parametrize(("broken", "name"), [(name, name) for name in CONTEXTS], indirect=["broken"])
def test_the_breaker_of_each_context_trips_and_the_plan_ends_well(broken: Plan, name: str) -> None:
    assert broken.done.code == 0
    assert tripped(broken) == {name: CONTEXTS[name][3]}
    assert (broken.folder / "tasks.md").exists()


@pytest.mark.slow
@pytest.mark.row("P2", "P14")
@pytest.mark.finding("FP11")
def test_a_second_round_that_fails_leaves_the_first_one(plan: Plans) -> None:
    mode, rule, config, _ = CONTEXTS["deliberation"]
    run = plan(mode, [rule], config=config)
    assert attempts(run, "architecture/proposals/second/*") == 2 * len(LENSES)
    assert run.summary("architecture")["flags"]["degraded"] is True
    assert "The second round failed" in str(run.summary("architecture")["quality_warnings"])
    assert run.summary("architecture")["outputs"]["deliberation"] == "none"
    assert run.summary("test-strategy")["outputs"]["deliberation"] == "light"
    assert attempts(run, "test-strategy/proposals/second/*") == 0


@pytest.mark.slow
@pytest.mark.row("P14")
@pytest.mark.finding("FP11")
def test_a_strategy_that_fails_twice_gives_way_to_quick(plan: Plans) -> None:
    mode, rule, _, _ = CONTEXTS["multi_strategy"]
    run = plan(mode, [rule])
    assert attempts(run, "test-strategy/proposals/proposal/*") == 4
    assert attempts(run, "test-strategy/proposals.otherwise/*/first/*") == 3
    assert run.summary("test-strategy")["flags"]["degraded"] is True
    assert "qa-strategist" in run.summary("test-strategy")["flags"]["degraded_because"]
    secret = {"address": "plan/research/findings/first/*:code/*", "text": "It touches encryption and payments."}
    other = plan("advanced", [lost("architecture/proposals/proposal/*"), secret], until="architecture")
    assert other.summary("architecture")["outputs"]["strategy"] == "quick"
    assert "strategy_override" not in other.summary("architecture")["flags"]


@pytest.mark.slow
@pytest.mark.row("P14")
def test_a_phase_that_fails_beside_another_is_tried_again_in_turn(plan: Plans) -> None:
    mode, rule, config, _ = CONTEXTS["parallel_dispatch"]
    run = plan(mode, [rule], config=config)
    assert attempts(run, "assets/assets/*") == 3
    assert attempts(run, "coverage/judged/*") == 1
    assert run.story["state"]["parallel_pairs"] == ["coverage + assets"]


@pytest.mark.slow
@pytest.mark.row("P14")
def test_no_reviewer_twice_is_said_and_the_plan_goes_on_unreviewed(plan: Plans) -> None:
    mode, rule, _, _ = CONTEXTS["expert_review"]
    run = plan(mode, [rule])
    assert "review_outcome" not in run.story["state"]
    assert "the design was not reviewed" in str(run.summary("expert-review")["quality_warnings"])
    assert "Outcome: **not reviewed**" in run.artifact("review.md")


@pytest.mark.slow
@pytest.mark.row("P14")
def test_a_breaker_that_asks_waits_for_the_person_and_tries_again_on_request(plan: Plans) -> None:
    config = {"convergence": {"low": 0.0}}
    rule = lost("expert-review/*", times=8)
    waits = plan("standard", [rule], config=config, unattended=False)
    assert waits.done.code == 75
    assert "expert-review has a question" in waits.story["reason"]
    goes_on = plan("standard", [rule], config=config, unattended=False, answers={"retry": ["retry"]})
    assert goes_on.story["state"]["review_outcome"] == "pass"


@pytest.mark.slow
@pytest.mark.row("P14")
def test_thinkers_that_do_not_answer_are_skipped(plan: Plans) -> None:
    mode, rule, _, _ = CONTEXTS["think_deep"]
    run = plan(mode, [rule])
    assert attempts(run, "think-deep/thoughts/*") == 4
    assert run.summary("think-deep")["flags"]["think_deep_skipped"] is True
    assert not list(run.folder.glob("think-deep*"))


@pytest.mark.slow
@pytest.mark.row("P14")
@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_is_that_of_the_config(plan: Plans, limit: int) -> None:
    config = {"breakers": {"think_deep": {"limit": limit}}}
    run = plan("advanced", [lost("think-deep/thoughts/*")], config=config)
    assert attempts(run, "think-deep/thoughts/*") == 2 * limit


@pytest.mark.slow
@pytest.mark.row("P14")
def test_what_happens_at_the_limit_is_that_of_the_config(plan: Plans) -> None:
    config = {"breakers": {"think_deep": {"then": "ask"}}, "convergence": {"low": 0.0}}
    run = plan("advanced", [lost("think-deep/thoughts/*")], config=config, unattended=False)
    assert run.done.code == 75
    assert tripped(run) == {"think_deep": "ask"}


@pytest.mark.slow
@pytest.mark.row("P14")
def test_a_success_sets_the_count_back_and_failures_in_a_row_are_counted_across_phases(plan: Plans) -> None:
    once = [lost(f"{phase}/judged/*", times=6 if phase == "validation" else 2) for phase in ("validation", "coverage")]
    run = plan("standard", once)  # each fails once and then answers: never twice in a row
    assert tripped(run) == {}
    assert run.summary("coverage")["outputs"]["level"] == "GREEN"
    down = plan("standard", [lost("*/judged/*")])  # the first phase trips it, and the second has one attempt left
    assert attempts(down, "validation/judged/*") == 12
    assert attempts(down, "coverage/judged/*") == 2
    assert down.summary("coverage")["flags"]["consensus_skipped"] is True
    shown = skillrun("show", str(down.folder)).out
    assert shown.count("`consensus` has reached its limit of 2: skip") == 2


@pytest.mark.slow
@pytest.mark.row("P14", "P16")
@pytest.mark.finding("FP8")
def test_a_step_that_fails_behind_a_panel_throws_no_proposal_away(plan: Plans) -> None:
    steps = ("architecture/draft", "test-strategy/draft", "expert-review/mended", "coverage/mended")
    drafts = [lost(f"{step}/*") for step in steps]
    said = {"address": "plan/architecture/proposals/first/*", "text": "My own design."}
    run = plan("advanced", [*drafts, lost("architecture/proposals/contradictions/*"), lost("clarify/gate*"), said])
    assert run.done.code == 0
    assert attempts(run, "architecture/proposals*/first/*") == len(LENSES)
    assert run.artifact("design.md").count("My own design.") == len(LENSES)
    assert "## Position of software-architect:clean" in run.artifact("design.md")
    assert "## Found by qa-security" in run.artifact("test-plan.md")
    assert "The design could not be written" in str(run.summary("architecture")["quality_warnings"])
    assert "list of contradictions failed" in str(run.summary("architecture")["quality_warnings"])
    assert "could not be scored" in str(run.summary("clarify")["quality_warnings"])
    assert "specify_score" not in run.summary("clarify")["outputs"]
    assert "specify_score" not in run.story["state"]
    for phase in ("clarify", "architecture", "test-strategy"):
        assert run.summary(phase)["flags"]["degraded"] is True
    nothing = [lost("architecture/proposals*"), lost("architecture/draft/*")]
    assert plan("standard", nothing, until="architecture").done.code == 1
