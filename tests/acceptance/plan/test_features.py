"""Feature switches of a plan: modes, requirements, changes during a run, validation and display."""

from __future__ import annotations

import pytest
import yaml

from tests.acceptance.plan.conftest import Plan, Plans, Rule, skillrun

PAUSED = [{"address": "plan/validation/judged/*", "fail": "budget"}]
"""The run fails at the judges, after all earlier phases have completed."""


def switches(run: Plan) -> dict[str, str]:
    return {one["name"]: one["because"] or "on" for one in run.overview["features"]}


def configure(run: Plan, config: Rule) -> None:
    path = run.project / "config" / "planning.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.row("P15")
def test_a_feature_is_on_when_mode_config_and_requirements_allow_it(plan: Plans) -> None:
    assert switches(plan("advanced"))["multi_strategy"] == "on"
    assert switches(plan("standard"))["multi_strategy"] == "not in standard mode"
    off = plan("advanced", config={"features": {"deliberation": {"enabled": False}}})
    assert switches(off)["deliberation"] == "not enabled"
    assert switches(off)["multi_strategy"] == "needs deliberation"
    assert switches(off)["convergence"] == "on"
    assert off.addresses("plan/architecture/proposals/contradictions/*") == []
    assert plan("advanced").addresses("plan/architecture/proposals/contradictions/*")


@pytest.mark.slow
@pytest.mark.row("P15")
def test_show_lists_active_features_and_why_others_were_off(plan: Plans) -> None:
    run = plan("advanced", config={"features": {"deliberation": {"enabled": False}}})
    lines = [line.strip() for line in skillrun("show", str(run.folder)).out.splitlines()]
    assert "convergence: on" in lines
    assert "deliberation: off, not enabled" in lines
    assert "multi_strategy: off, needs deliberation" in lines


@pytest.mark.slow
@pytest.mark.row("P15")
def test_a_feature_enabled_during_a_run_applies_to_the_remaining_phases(plan: Plans) -> None:
    off = {"features": {name: {"enabled": False} for name in ("specify_gate", "expert_review")}}
    run = plan("standard", PAUSED, config=off, isolated=True)
    assert run.done.code == 1
    before = run.addresses()
    configure(run, {"features": {"expert_review": {"enabled": True}}})
    resumed = run.resume(())
    assert resumed.done.code == 0
    assert resumed.addresses("plan/expert-review/*/review/*")  # not yet completed: the switch applies
    assert resumed.addresses("plan/clarify/gate*") == []  # completed: not rerun
    assert [one for one in resumed.addresses() if "/clarify/" in one or "/architecture/" in one] == [
        one for one in before if "/clarify/" in one or "/architecture/" in one
    ]
    assert switches(resumed)["expert_review"] == "on"


@pytest.mark.slow
@pytest.mark.row("P15")
def test_a_feature_disabled_during_a_run_applies_to_the_remaining_phases(plan: Plans) -> None:
    run = plan("standard", PAUSED, isolated=True)
    configure(run, {"features": {"expert_review": {"enabled": False}}})
    resumed = run.resume(())
    assert resumed.summary("expert-review")["status"] == "skipped"
    assert switches(resumed)["expert_review"] == "not enabled"
    assert resumed.summary("clarify")["status"] == "completed"


@pytest.mark.slow
@pytest.mark.row("P15")
@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"deliberation": {"requires": ["multi_strategy"]}}, "`deliberation` requires itself through `multi_strategy`"),
        ({"deliberation": {"requires": ["convergense"]}}, "there is no feature `convergense`"),
        ({"deliberation": {"modes": ["advancde"]}}, "there is no mode `advancde`"),
        ({"deliberation": {"enbled": True}}, "the shipped config has no `features.deliberation.enbled`"),
    ],
)
def test_validate_finds_cycles_and_unknown_names(plan: Plans, features: Rule, message: str) -> None:
    run = plan("standard", isolated=False)
    place = run.project.parent / f"features-{abs(hash(message))}"
    place.mkdir()
    (place / "config").mkdir()
    (place / "config" / "planning.yaml").write_text(yaml.safe_dump({"features": features}), encoding="utf-8")
    done = skillrun("validate", str(place))
    assert done.code == 1
    assert message in done.out + done.err
