"""Teams: the members of each phase, and the fallbacks for missing teams and members."""

from __future__ import annotations

import pytest

from tests.acceptance.plan.conftest import Plan, Plans

BALANCED = {
    "research/findings/first": ["researcher:code", "researcher:domain"],
    "architecture/proposals/first": [f"software-architect:{lens}" for lens in ("minimal", "clean", "pragmatic")],
    "expert-review/*/review/review": ["security-analyst", "simplicity-reviewer"],
    "test-strategy/proposals/first": ["qa-strategist", "qa-security", "qa-performance"],
    "validation/judged/scores": ["judge:feasibility", "judge:completeness", "judge:risk"],
    "coverage/judged/scores": ["judge:feasibility", "judge:completeness", "judge:risk"],
}
PROTOTYPE = {
    "research/findings/first": ["researcher:code"],
    "architecture/proposals/first": [],  # a single member writes the document itself
    "expert-review/*/review/review": ["security-analyst", "simplicity-reviewer"],
    "test-strategy/proposals/first": [],
    "validation/judged/scores": ["judge:feasibility", "judge:completeness"],
    "coverage/judged/scores": ["judge:completeness", "judge:risk"],
}


def called_members(run: Plan) -> dict[str, list[str]]:
    """The members called at each step, in order."""
    return {place: [address.split("/")[-2] for address in run.addresses(f"plan/{place}/*")] for place in BALANCED}


@pytest.mark.row("P8", "P13")
def test_the_balanced_team_is_the_default(plan: Plans) -> None:
    run = plan("standard")
    assert run.overview["state"]["preset"] == "balanced"
    assert called_members(run) == BALANCED


@pytest.mark.slow
@pytest.mark.row("P8", "P13")
def test_rapid_prototype_has_one_author_per_document_two_judges_and_the_balanced_reviewers(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "rapid_prototype"])
    assert run.done.code == 0
    assert called_members(run) == PROTOTYPE
    assert run.addresses("plan/architecture/draft/software-architect:pragmatic/*")
    assert run.addresses("plan/test-strategy/draft/qa-strategist/*")
    assert run.summary("setup")["quality_warnings"] == []


@pytest.mark.slow
@pytest.mark.row("P8")
def test_an_unknown_team_falls_back_to_balanced_with_a_warning(plan: Plans) -> None:
    run = plan("standard", flags=["--preset", "unknown"])
    assert run.done.code == 0
    assert "warning: `preset` is `unknown`; allowed: balanced, rapid_prototype; `balanced` is used" in run.done.err
    assert run.overview["state"]["preset"] == "balanced"
    assert called_members(run) == BALANCED


@pytest.mark.slow
@pytest.mark.row("P8")
def test_phases_without_members_use_the_balanced_team_with_a_warning(plan: Plans) -> None:
    config = {"team_presets": {"solo": {"architecture": ["software-architect:clean"]}}}
    run = plan("standard", flags=["--preset", "solo"], config=config)
    assert run.done.code == 0
    assert called_members(run) == BALANCED | {"architecture/proposals/first": []}
    (warning,) = [one["text"] for one in run.overview["warnings"] if one["phase"] == "setup"]
    assert warning.startswith("The solo team has nobody for research, test_strategy, ")
    assert warning.endswith("the balanced team stands in.")


@pytest.mark.row("P8")
def test_a_team_with_an_unknown_role_is_rejected_before_any_call(plan: Plans) -> None:
    config = {"team_presets": {"ghosts": {"architecture": ["software-architekt"]}}}
    run = plan("standard", flags=["--preset", "ghosts"], config=config)
    assert run.done.code == 1
    assert "error[unknown-role]: there is no role `software-architekt`" in run.done.err
    assert not run.folder.exists()


@pytest.mark.slow
@pytest.mark.row("P8")
@pytest.mark.finding("FP6", "FP9")
def test_an_unusable_config_is_rejected_line_by_line_before_any_call(
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
    lines = [line for line in run.done.err.splitlines() if line.startswith("config/planning.yaml:1:")]
    assert [line.partition(" ")[2] for line in lines] == [
        "error[duplicate-member]: `software-architect:clean` is listed twice",
        "error[type]: `green` is `30`; expected a whole number from 0 to 20",
        "error[check]: `low` is 0.9, above `high`, 0.7: nothing could be medium",
        "error[check]: 5 reviews offer 4 redesigns, and the breaker `redesign` allows 2",
        "error[type]: `threshold` is `200`; expected a whole number from 0 to 100",
        "error[check]: five dimensions give at most 10; a request could never be clear enough",
    ]


@pytest.mark.row("P19")
@pytest.mark.finding("FR109")
def test_numbers_below_their_least_are_refused_before_any_call(plan: Plans) -> None:
    config = {
        "specify_gate": {"threshold": -8},
        "strategy_signals": {"few_files": -1},
        "suggestions": {"files_per_part": -2},
    }
    run = plan("standard", config=config)
    assert run.done.code == 1
    assert not run.folder.exists()
    for message in (
        "`threshold`, `degraded_threshold` and `low_score` of `specify_gate` are at least 0",
        "`security_keywords`, `few_files` and `unclear_score` of `strategy_signals` are at least 0",
        "`files_per_part` is at least 1",
    ):
        assert f"error[check]: {message}" in run.done.err


@pytest.mark.slow
@pytest.mark.row("P8")
@pytest.mark.finding("FP10")
def test_an_ignored_team_and_a_deleted_team_are_reported(plan: Plans) -> None:
    run = plan("rapid", flags=["--preset", "balanced"], until="setup")
    (text,) = run.summary("setup")["quality_warnings"]
    assert text.startswith("The balanced team was asked for; rapid mode has the rapid_prototype team, as the feature")
    assert plan("rapid", until="setup").summary("setup")["quality_warnings"] == []
    config = {"team_presets": {"solo": {name: [who] for name, who in SOLO.items()}}}
    solo = plan("standard", flags=["--preset", "solo"], config=config, until="research", isolated=True)
    assert solo.overview["state"]["preset"] == "solo"
    (solo.project / "config" / "planning.yaml").unlink()
    resumed = solo.resume([{"address": "plan/clarify/*", "fail": "auth"}])
    notices = [event["text"] for event in resumed.events if event["event"] == "Notice"]
    assert "`preset` is `solo`; allowed: balanced, rapid_prototype; `balanced` is used" in notices
    assert resumed.overview["state"]["preset"] == "balanced"


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
def test_with_team_presets_disabled_the_mode_chooses_the_team(plan: Plans) -> None:
    config = {"features": {"team_presets": {"enabled": False}}}
    run = plan("standard", flags=["--preset", "rapid_prototype"], config=config)
    assert called_members(run) == BALANCED


@pytest.mark.row("P8", "P4", "P11")
@pytest.mark.finding("FT26")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"team_presets": {"mine": {"architecure": ["software-architect:clean"]}}}, "a preset has architecure"),
        ({"convergence": {"agreement_weight": 1, "overlap_weight": 1}}, "are 1 and 1"),
        ({"convergence": {"agreement_weight": -1, "overlap_weight": 2}}, "are -1 and 2"),
        ({"convergence": {"high": 1.5}}, "between 0 and 1"),
        ({"specify_gate": {"questions": 0}}, "`questions` is 0"),
    ],
)
def test_config_that_no_run_can_use_is_rejected(plan: Plans, config: dict[str, object], message: str) -> None:
    run = plan("rapid", config=config)
    assert run.done.code == 1
    assert "error[check]" in run.done.err
    assert message in run.done.err


@pytest.mark.row("P8")
@pytest.mark.finding("FR61")
@pytest.mark.parametrize("config", [{}, {"judges": "debate"}, {"modes": {"standard": {"judges": "debate"}}}])
def test_a_team_of_five_judges_is_an_error_before_anything_is_spent(plan: Plans, config: dict[str, object]) -> None:
    lenses = ("feasibility", "completeness", "risk", "tracing", "walking")
    team = {"validation": [f"judge:{lens}" for lens in lenses]}
    done = plan("standard", config={**config, "team_presets": {"crowd": team}}).done
    assert done.code == 1
    assert "error[seats]" in done.err
    assert "1 to 4 members, not 5" in done.err
    assert "nothing was spent" in done.err


@pytest.mark.row("P6", "P10")
@pytest.mark.finding("FR62")
@pytest.mark.parametrize("place", ["security_keywords", "risk_categories", "quick_words", "product_parts"])
def test_a_broken_pattern_is_an_error_before_anything_is_spent(plan: Plans, place: str) -> None:
    done = plan("standard", config={place: {"keys": [r"\bkeys?\b", "vault[a-"]}}).done
    assert done.code == 1
    assert "config/planning.yaml:1:" in done.err
    assert "error[pattern]: `vault[a-` is not a regular expression" in done.err
    assert "nothing was spent" in done.err
