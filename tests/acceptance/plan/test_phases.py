"""The phases of a plan, their artifacts and summaries, and the effect of the mode."""

from __future__ import annotations

import pytest

from tests.acceptance.plan.conftest import PHASES, Plan, Plans

ARTIFACTS = {
    "setup": ["request.md"],
    "research": ["research.md"],
    "clarify": ["spec.md"],
    "architecture": ["design.md", "positions.md"],
    "think-deep": ["think-deep-assumptions.md", "think-deep-second-order.md"],
    "validation": ["validation.md"],
    "expert-review": ["review.md"],
    "test-strategy": ["test-plan.md"],
    "coverage": ["coverage.md"],
    "assets": ["assets.md"],
    "completion": ["tasks.md", "plan.md", "summary.md"],
}
SKIPPED = {
    "rapid": {"think-deep", "validation", "expert-review", "assets"},
    "standard": {"think-deep"},
    "advanced": set(),
    "complete": set(),
}
MODES = ["rapid", "standard", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("advanced", "complete"))]
RECORD = {"phase", "status", "round", "artifacts", "flags", "key_decisions", "open_questions", "risks_identified"}


def step_addresses(run: Plan, phase: str) -> list[str]:
    return [address for address in run.addresses(f"plan/{phase}/*") if "/summary/" not in address]


@pytest.mark.row("P1")
@pytest.mark.parametrize("mode", MODES)
def test_the_phases_run_in_order_and_the_mode_decides_which(plan: Plans, mode: str) -> None:
    run = plan(mode)
    assert run.done.code == 0
    assert [one["phase"] for one in run.overview["phases"]] == list(PHASES)
    assert {one["phase"] for one in run.overview["phases"] if one["status"] == "skipped"} == SKIPPED[mode]
    begun = [event["phase"] for event in run.events if event["event"] == "PhaseStarted"]
    assert begun == [phase for phase in PHASES if phase not in SKIPPED[mode]]


@pytest.mark.row("P1")
@pytest.mark.parametrize("mode", MODES)
def test_each_phase_that_runs_writes_its_artifacts_and_a_summary(plan: Plans, mode: str) -> None:
    run = plan(mode)
    for phase in set(PHASES) - SKIPPED[mode]:
        record = run.summary(phase)
        written = [path for path in ARTIFACTS[phase] if (mode, path) != ("rapid", "positions.md")]
        if phase == "expert-review" and not SKIPPED[mode]:
            written = ["design.md", *written]  # its author answers what deep thinking would change
        assert record["artifacts"] == written
        assert all(run.artifact(path).strip() for path in written)
        assert record["status"] == "completed"
        assert record.keys() >= RECORD
        assert record["summary"]
    assert run.addresses("*/summary/*") == []
    for phase in SKIPPED[mode]:
        assert run.summary(phase)["status"] == "skipped"
        assert not any((run.folder / path).exists() for path in ARTIFACTS[phase])


@pytest.mark.row("Q7")
@pytest.mark.parametrize(("mode", "calls"), [("rapid", 7), ("standard", 27), ("advanced", 35)])
def test_a_plan_without_rework_makes_the_expected_number_of_calls(plan: Plans, mode: str, calls: int) -> None:
    assert len(plan(mode).calls) == calls


@pytest.mark.slow
@pytest.mark.row("P1")
def test_coverage_and_assets_both_follow_the_test_strategy(plan: Plans) -> None:
    run = plan("standard", [{"address": "plan/test-strategy/draft/*", "text": "Turn the lamp off and look."}])
    assert "Turn the lamp off" in run.prompts("plan/coverage/judged/*")[0]
    assert "Turn the lamp off" in run.prompt("plan/assets/assets/*")
    assert run.artifact("coverage.md") not in run.prompt("plan/assets/assets/*")


@pytest.mark.row("P1")
def test_a_deeper_mode_adds_steps(plan: Plans) -> None:
    rapid, standard, advanced, complete = (plan(mode) for mode in SKIPPED)
    assert len(rapid.calls) < len(standard.calls) < len(advanced.calls)
    assert step_addresses(rapid, "clarify") == ["plan/clarify/spec/planner/1.1"]
    assert len(step_addresses(standard, "clarify")) == 3
    assert not standard.addresses("plan/architecture/*/contradictions/*")
    assert advanced.addresses("plan/architecture/*/contradictions/*")
    assert not advanced.addresses("*/debate#1/*")
    assert complete.addresses("*/debate#1/*")
    assert complete.addresses("plan/test-strategy/*/challenge/*")
