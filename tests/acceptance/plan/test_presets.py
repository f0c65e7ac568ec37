"""Teams: who is seated in which phase, and what stands in for a team or a member that is not there."""

from __future__ import annotations

import pytest

from tests.acceptance.plan.conftest import Plan, Plans

BALANCED = {
    "research/findings/first": ["researcher:code", "researcher:domain"],
    "architecture/proposals/first": [f"software-architect:{lens}" for lens in ("minimal", "clean", "pragmatic")],
    "expert-review/*/review/review": ["security-analyst", "simplicity-reviewer"],
    "test-strategy/proposals/first": ["qa-strategist", "qa-security", "qa-performance"],
    "validation/judged/scores": ["judge:feasibility", "judge:completeness", "judge:risk"],
    "coverage/judged/scores": ["judge:completeness", "judge:risk"],
}
PROTOTYPE = {
    "research/findings/first": ["researcher:code"],
    "architecture/proposals/first": ["software-architect:pragmatic"],
    "expert-review/*/review/review": ["security-analyst", "simplicity-reviewer"],
    "test-strategy/proposals/first": ["qa-strategist"],
    "validation/judged/scores": ["judge:feasibility"],
    "coverage/judged/scores": ["judge:completeness"],
}


def seated(run: Plan) -> dict[str, list[str]]:
    """Who was asked at each place, in order."""
    return {place: [address.split("/")[-2] for address in run.asked(f"plan/{place}/*")] for place in BALANCED}


@pytest.mark.row("P8")
def test_the_balanced_team_is_the_default(plan: Plans) -> None:
    run = plan("standard")
    assert run.story["state"]["preset"] == "balanced"
    assert seated(run) == BALANCED


@pytest.mark.row("P8")
def test_a_rapid_prototype_seats_one_member_a_phase_and_the_balanced_reviewers(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "rapid_prototype"])
    assert run.done.code == 0
    assert seated(run) == PROTOTYPE
    assert run.summary("setup")["quality_warnings"] == []


@pytest.mark.row("P8")
def test_an_unknown_team_is_the_balanced_one_with_a_warning(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "nobody"])
    assert run.done.code == 0
    assert "warning: `preset` is `nobody`; allowed: balanced, rapid_prototype; `balanced` is used" in run.done.err
    assert run.story["state"]["preset"] == "balanced"
    assert seated(run) == BALANCED


@pytest.mark.row("P8")
def test_where_a_team_has_nobody_the_balanced_one_stands_in_with_a_warning(plan: Plans) -> None:
    config = {"team_presets": {"solo": {"architecture": ["software-architect:clean"]}}}
    run = plan("standard", flags=["--preset", "solo"], config=config)
    assert run.done.code == 0
    assert seated(run) == BALANCED | {"architecture/proposals/first": ["software-architect:clean"]}
    (warning,) = [one["text"] for one in run.story["warnings"] if one["phase"] == "setup"]
    assert warning.startswith("The solo team has nobody for research, test_strategy, ")
    assert warning.endswith("the balanced team stands in.")


@pytest.mark.row("P8")
def test_a_team_with_a_role_that_does_not_exist_is_refused_before_anything_is_spent(plan: Plans) -> None:
    config = {"team_presets": {"ghosts": {"architecture": ["software-architekt"]}}}
    run = plan("standard", flags=["--preset", "ghosts"], config=config)
    assert run.done.code == 1
    assert "error[unknown-role]: there is no role `software-architekt`" in run.done.err
    assert not run.folder.exists()


@pytest.mark.row("P8")
def test_with_teams_switched_off_the_mode_chooses(plan: Plans) -> None:
    config = {"features": {"team_presets": {"enabled": False}}}
    run = plan("standard", flags=["--preset", "rapid_prototype"], config=config)
    assert seated(run) == BALANCED
