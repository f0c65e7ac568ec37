"""The circuit breaker of each context: its failure limit, its action, and what resets the count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.acceptance.plan.conftest import Plan, Plans, Rule, skillrun

LENSES = ("minimal", "clean", "pragmatic")


def timeout(address: str, **more: Any) -> dict[str, Any]:
    """Every call at this address times out."""
    return {"address": f"plan/{address}", "fail": "timeout", **more}


def tripped_breakers(run: Plan) -> dict[str, str]:
    """The breakers that reached their limit, and their actions."""
    return {one["breaker"]: one["action"] for one in run.events if one["event"] == "Tripped"}


def attempts(run: Plan, pattern: str) -> int:
    return len(run.addresses(f"plan/{pattern}"))


FULL = {"deliberation": {"variant": "full"}}
PARALLEL = {"features": {"parallel_dispatch": {"enabled": True, "modes": []}}}
CONTEXTS: Mapping[str, tuple[str, Rule, Mapping[str, Any], str]] = {
    "deliberation": ("advanced", timeout("architecture/proposals/second/*"), FULL, "fall back"),
    "multi_strategy": ("complete", timeout("test-strategy/proposals/proposal/*"), {}, "fall back"),
    "parallel_dispatch": ("standard", timeout("assets/assets/*", times=2), PARALLEL, "sequential"),
    "expert_review": ("standard", timeout("expert-review/*"), {}, "ask"),
    "consensus": ("standard", timeout("validation/judged/*"), {}, "skip"),
    "think_deep": ("advanced", timeout("think-deep/thoughts/*"), {}, "skip"),
}
"""By breaker: a mode, what fails, the config, and the action at the limit. Other files test the limits of loops."""


@pytest.fixture
def broken(plan: Plans, request: pytest.FixtureRequest) -> Plan:
    mode, rule, config, _ = CONTEXTS[request.param]
    return plan(mode, [rule], config=config or None)


@pytest.mark.slow
@pytest.mark.row("P14")
@pytest.mark.parametrize(("broken", "name"), [(name, name) for name in CONTEXTS], indirect=["broken"])
def test_the_breaker_of_each_context_trips_and_the_plan_completes(broken: Plan, name: str) -> None:
    assert broken.done.code == 0
    assert tripped_breakers(broken) == {name: CONTEXTS[name][3]}
    assert (broken.folder / "tasks.md").exists()


@pytest.mark.slow
@pytest.mark.row("P2", "P14")
@pytest.mark.finding("FP11")
def test_a_failed_second_round_keeps_the_first(plan: Plans) -> None:
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
def test_a_strategy_that_fails_twice_falls_back_to_quick(plan: Plans) -> None:
    mode, rule, _, _ = CONTEXTS["multi_strategy"]
    run = plan(mode, [rule])
    assert attempts(run, "test-strategy/proposals/proposal/*") == 4
    assert attempts(run, "test-strategy/proposals.otherwise/*/first/*") == 3
    assert run.summary("test-strategy")["flags"]["degraded"] is True
    assert "qa-strategist" in run.summary("test-strategy")["flags"]["degraded_because"]
    secret = {"address": "plan/research/findings/first/*:code/*", "text": "It touches encryption and payments."}
    other = plan("advanced", [timeout("architecture/proposals/proposal/*"), secret], until="architecture")
    assert other.summary("architecture")["outputs"]["strategy"] == "quick"
    assert "strategy_override" not in other.summary("architecture")["flags"]


@pytest.mark.slow
@pytest.mark.row("P14")
def test_a_phase_that_fails_in_parallel_is_retried_sequentially(plan: Plans) -> None:
    mode, rule, config, _ = CONTEXTS["parallel_dispatch"]
    run = plan(mode, [rule], config=config)
    assert attempts(run, "assets/assets/*") == 3
    assert attempts(run, "coverage/judged/*") == 3
    assert run.overview["state"]["parallel_pairs"] == ["coverage + assets"]


@pytest.mark.slow
@pytest.mark.row("P14")
def test_after_two_failed_reviews_the_plan_continues_unreviewed_with_a_warning(plan: Plans) -> None:
    mode, rule, _, _ = CONTEXTS["expert_review"]
    run = plan(mode, [rule])
    assert "review_outcome" not in run.overview["state"]
    assert "the design was not reviewed" in str(run.summary("expert-review")["quality_warnings"])
    assert "Outcome: **not reviewed**" in run.artifact("review.md")


@pytest.mark.slow
@pytest.mark.row("P14")
def test_an_ask_breaker_waits_for_the_user_and_retries_on_request(plan: Plans) -> None:
    config = {"convergence": {"low": 0.0}}
    rule = timeout("expert-review/*", times=8)
    waiting = plan("standard", [rule], config=config, unattended=False)
    assert waiting.done.code == 75
    assert "expert-review has a question" in waiting.overview["reason"]
    retried = plan("standard", [rule], config=config, unattended=False, answers={"retry": ["retry"]})
    assert retried.overview["state"]["review_outcome"] == "pass"


@pytest.mark.slow
@pytest.mark.row("P14")
def test_thinkers_that_do_not_reply_are_skipped(plan: Plans) -> None:
    mode, rule, _, _ = CONTEXTS["think_deep"]
    run = plan(mode, [rule])
    assert attempts(run, "think-deep/thoughts/*") == 4
    assert run.summary("think-deep")["flags"]["think_deep_skipped"] is True
    assert not list(run.folder.glob("think-deep*"))


@pytest.mark.slow
@pytest.mark.row("P14")
@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_comes_from_the_config(plan: Plans, limit: int) -> None:
    config = {"breakers": {"think_deep": {"limit": limit}}}
    run = plan("advanced", [timeout("think-deep/thoughts/*")], config=config)
    assert attempts(run, "think-deep/thoughts/*") == 2 * limit


@pytest.mark.slow
@pytest.mark.row("P14")
def test_the_action_at_the_limit_comes_from_the_config(plan: Plans) -> None:
    config = {"breakers": {"think_deep": {"then": "ask"}}, "convergence": {"low": 0.0}}
    run = plan("advanced", [timeout("think-deep/thoughts/*")], config=config, unattended=False)
    assert run.done.code == 75
    assert tripped_breakers(run) == {"think_deep": "ask"}


@pytest.mark.slow
@pytest.mark.row("P14")
def test_a_success_resets_the_count_and_consecutive_failures_count_across_phases(plan: Plans) -> None:
    once = [timeout("validation/judged/*", times=6), timeout("coverage/judged/*", times=6)]
    run = plan("standard", once)  # each fails once and then replies: never twice in a row
    assert tripped_breakers(run) == {}
    assert run.summary("coverage")["outputs"]["level"] == "GREEN"
    down = plan("standard", [timeout("*/judged/*")])  # the first phase trips it, so the second has one attempt
    assert attempts(down, "validation/judged/*") == 12
    assert attempts(down, "coverage/judged/*") == 6
    assert down.summary("coverage")["flags"]["consensus_skipped"] is True
    shown = skillrun("show", str(down.folder)).out
    assert shown.count("`consensus` has reached its limit of 2: skip") == 2


@pytest.mark.slow
@pytest.mark.row("P14", "P16")
@pytest.mark.finding("FP8")
def test_a_step_that_fails_after_a_panel_keeps_every_proposal(plan: Plans) -> None:
    steps = ("architecture/draft", "test-strategy/draft", "expert-review/revision", "coverage/revision")
    failures = [timeout(f"{step}/*") for step in (*steps, "architecture/proposals/contradictions", "clarify/gate*")]
    positions = {"address": "plan/architecture/proposals/first/*", "text": "My own design."}
    run = plan("advanced", [*failures, positions])
    assert run.done.code == 0
    assert attempts(run, "architecture/proposals*/first/*") == len(LENSES)
    assert run.artifact("design.md").count("My own design.") == len(LENSES)
    assert "## Position of software-architect:clean" in run.artifact("design.md")
    assert "## Found by qa-security" in run.artifact("test-plan.md")
    assert "The design could not be written" in str(run.summary("architecture")["quality_warnings"])
    assert "list of contradictions failed" in str(run.summary("architecture")["quality_warnings"])
    assert "could not be scored" in str(run.summary("clarify")["quality_warnings"])
    assert "specify_score" not in run.summary("clarify")["outputs"]
    assert "specify_score" not in run.overview["state"]
    for phase in ("clarify", "architecture", "test-strategy"):
        assert run.summary(phase)["flags"]["degraded"] is True
    no_replies = [timeout("architecture/proposals*"), timeout("architecture/draft/*")]
    assert plan("standard", no_replies, until="architecture").done.code == 1
