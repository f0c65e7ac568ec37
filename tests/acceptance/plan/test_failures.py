"""A member that does not reply: one retry, then the run continues without it, marked as degraded."""

from __future__ import annotations

import pytest

from tests.acceptance.plan.conftest import Plans, Rule

FIRST = "plan/architecture/proposals/first/software-architect"
CLEAN = f"{FIRST}:clean/*"


@pytest.mark.slow
@pytest.mark.row("P16")
def test_a_member_that_replies_on_retry_is_not_missing(plan: Plans) -> None:
    run = plan("standard", [{"address": CLEAN, "fail": "overloaded", "times": 1}], until="architecture")
    assert run.addresses(CLEAN) == [f"{FIRST}:clean/1.1", f"{FIRST}:clean/1.2"]
    assert "degraded" not in run.summary("architecture")["flags"]


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.parametrize(
    ("failure", "why"),
    [
        ({"fail": "timeout", "message": "No answer in time."}, "No answer in time."),
        ({"text": "The clean", "stop": "length"}, "the reply was cut off at the length limit"),
        ({"text": ""}, "the reply is empty"),
    ],
    ids=["no answer", "cut off", "empty"],
)
def test_after_one_retry_the_phase_is_degraded_and_uses_the_other_replies(plan: Plans, failure: Rule, why: str) -> None:
    others: list[Rule] = [
        {"address": f"{FIRST}:{lens}/*", "text": f"The {lens} way."} for lens in ("minimal", "pragmatic")
    ]
    run = plan("standard", [{"address": CLEAN, **failure}, *others], until="architecture")
    assert len(run.addresses(CLEAN)) == 2
    assert [len(run.addresses(f"{FIRST}:{lens}/*")) for lens in ("minimal", "pragmatic")] == [1, 1]
    synthesis = run.prompt("plan/architecture/proposals/synthesis/*")
    assert "The minimal way." in synthesis
    assert "The pragmatic way." in synthesis
    assert "software-architect:clean wrote" not in synthesis
    summary = run.summary("architecture")
    assert summary["status"] == "completed"
    assert summary["flags"]["degraded"] is True
    assert summary["flags"]["degraded_because"] == f"first: software-architect:clean: {why}"
    assert [one["phase"] for one in run.overview["degraded"]] == ["architecture"]


@pytest.mark.slow
@pytest.mark.row("P16")
def test_an_invalid_reply_is_repaired_once_before_it_fails(plan: Plans) -> None:
    judge = "plan/validation/judged/scores/judge:risk"
    run = plan("standard", [{"address": f"{judge}/*", "text": "Looks fine to me."}], until="validation")
    assert run.addresses(f"{judge}/*") == [f"{judge}/{turn}.{attempt}" for attempt in (1, 2) for turn in (1, 2)]
    assert "Your last reply could not be used" in run.prompt(f"{judge}/2.1")
    summary = run.summary("validation")
    assert summary["flags"]["degraded"] is True
    assert summary["outputs"]["level"] == "YELLOW"


@pytest.mark.slow
@pytest.mark.row("P16")
def test_a_phase_with_one_member_fails_after_one_retry_and_shows_how_to_resume(plan: Plans) -> None:
    spec = "plan/clarify/spec/planner"
    run = plan("standard", [{"address": f"{spec}/*", "fail": "overloaded"}], isolated=True)
    assert run.done.code == 1
    assert run.addresses(f"{spec}/*") == [f"{spec}/1.1", f"{spec}/1.2"]
    assert "`skillrun resume run --unattended --script " in run.done.out
    assert run.resume().done.code == 0


@pytest.mark.slow
@pytest.mark.row("P16")
def test_a_plan_completes_without_replies_in_research_and_testing(plan: Plans) -> None:
    run = plan(
        "standard",
        [
            {"address": "plan/research/findings/first/*", "fail": "overloaded"},
            {"address": "plan/test-strategy/proposals/first/*", "fail": "overloaded"},
        ],
    )
    assert run.done.code == 0
    assert "Nobody answered: nothing is known but the request." in run.artifact("research.md")
    assert "What the testers found is evidence" not in run.prompt("plan/test-strategy/draft/*")
    assert [one["phase"] for one in run.overview["degraded"]] == ["research", "test-strategy"]
