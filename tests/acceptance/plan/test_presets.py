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
    "coverage/judged/scores": ["judge:completeness"],
}
PROTOTYPE = {
    "research/findings/first": ["researcher:code"],
    "architecture/proposals/first": [],  # who sits alone writes the document
    "expert-review/*/review/review": ["security-analyst", "simplicity-reviewer"],
    "test-strategy/proposals/first": [],
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


@pytest.mark.slow
@pytest.mark.row("P8")
def test_a_rapid_prototype_seats_one_member_a_phase_and_the_balanced_reviewers(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "rapid_prototype"])
    assert run.done.code == 0
    assert seated(run) == PROTOTYPE
    assert run.asked("plan/architecture/draft/software-architect:pragmatic/*")
    assert run.asked("plan/test-strategy/draft/qa-strategist/*")
    assert run.summary("setup")["quality_warnings"] == []


@pytest.mark.slow
@pytest.mark.row("P8")
def test_an_unknown_team_is_the_balanced_one_with_a_warning(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "nobody"])
    assert run.done.code == 0
    assert "warning: `preset` is `nobody`; allowed: balanced, rapid_prototype; `balanced` is used" in run.done.err
    assert run.story["state"]["preset"] == "balanced"
    assert seated(run) == BALANCED


@pytest.mark.slow
@pytest.mark.row("P8")
def test_where_a_team_has_nobody_the_balanced_one_stands_in_with_a_warning(plan: Plans) -> None:
    config = {"team_presets": {"solo": {"architecture": ["software-architect:clean"]}}}
    run = plan("standard", flags=["--preset", "solo"], config=config)
    assert run.done.code == 0
    assert seated(run) == BALANCED | {"architecture/proposals/first": []}
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


@pytest.mark.slow
@pytest.mark.row("P8")
@pytest.mark.finding("FP6", "FP9")
def test_a_config_with_which_a_plan_could_not_work_is_refused_at_its_lines_before_anything_is_spent(
    plan: Plans,
) -> None:
    config = {
        "team_presets": {"twins": {"architecture": ["software-architect:clean", "software-architect:clean"]}},
        "consensus": {"green": 30},
        "convergence": {"low": 0.9},
        "expert_review": {"rounds": 5, "confidence_threshold": 200},
        "specify_gate": {"threshold": 11},
    }
    run = plan("standard", config=config)
    assert run.done.code == 1
    assert not run.folder.exists()
    told = [line for line in run.done.err.splitlines() if line.startswith("config/planning.yaml:1:")]
    assert [line.partition(" ")[2] for line in told] == [
        "error[duplicate-member]: `software-architect:clean` is listed twice",
        "error[type]: `green` is `30`; expected a whole number from 0 to 20",
        "error[check]: `low` is 0.9, above `high`, 0.7: nothing could be medium",
        "error[check]: 5 reviews offer 4 redesigns, and the breaker `redesign` allows 2",
        "error[type]: `threshold` is `200`; expected a whole number from 0 to 100",
        "error[check]: five dimensions give at most 10; a request could never be clear enough",
    ]


@pytest.mark.slow
@pytest.mark.row("P8")
@pytest.mark.finding("FP10")
def test_a_team_that_the_mode_does_not_seat_and_one_that_is_gone_are_said(plan: Plans) -> None:
    run = plan("rapid", flags=["--preset", "balanced"], until="setup")
    (said,) = run.summary("setup")["quality_warnings"]
    assert said.startswith("The balanced team was asked for; rapid mode has the rapid_prototype team, as the feature")
    assert plan("rapid", until="setup").summary("setup")["quality_warnings"] == []
    own = {"team_presets": {"solo": {name: [who] for name, who in SOLO.items()}}}
    gone = plan("standard", flags=["--preset", "solo"], config=own, until="research", alone=True)
    assert gone.story["state"]["preset"] == "solo"
    (gone.project / "config" / "planning.yaml").unlink()
    on = gone.resumed([{"address": "plan/clarify/*", "fail": "auth"}])
    told = [event["text"] for event in on.events if event["event"] == "Notice"]
    assert "`preset` is `solo`; allowed: balanced, rapid_prototype; `balanced` is used" in told
    assert on.story["state"]["preset"] == "balanced"


SOLO = {
    "research": "researcher:code",
    "architecture": "software-architect:clean",
    "test_strategy": "qa-strategist",
    "expert_review": "security-analyst",
    "validation": "judge:risk",
    "coverage": "judge:risk",
}


@pytest.mark.slow
@pytest.mark.row("P8")
def test_with_teams_switched_off_the_mode_chooses(plan: Plans) -> None:
    config = {"features": {"team_presets": {"enabled": False}}}
    run = plan("standard", flags=["--preset", "rapid_prototype"], config=config)
    assert seated(run) == BALANCED
