"""The specify gate: a request is scored, and questions cover its weakest dimension, for at most three rounds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.plan.conftest import CLEAR, Plan, Plans, Rule, skillrun

VAGUE = {"value": 2, "scope": 0, "acceptance": 1, "constraints": 1, "risk": 1}
SCOPED = {**VAGUE, "scope": 2}
GATE = "clarify/gate/questions"


def scores(*values: Rule) -> list[dict[str, Any]]:
    """The reply to each scoring call; the last one repeats."""
    last = len(values)
    return [
        {"address": f"plan/clarify/gate#{n if n < last else '*'}/score/*", "data": dict(one)}
        for n, one in enumerate(values, 1)
    ]


def questions(run: Plan) -> list[list[str]]:
    """The question ids of each round."""
    return [
        [one["id"] for one in event["questions"]]
        for event in run.events
        if event["event"] == "Asked" and "/questions@" in event["address"]
    ]


def prepared_answers(*, times: int = 9) -> dict[str, Any]:
    return {GATE: [f"Answer number {n}." for n in range(1, times + 1)]}


@pytest.fixture
def climbing(plan: Plans) -> Plan:
    """Unclear at first, clear after two rounds of questions."""
    return plan("standard", scores(VAGUE, SCOPED, {**SCOPED, "acceptance": 2}), answers=prepared_answers(times=6))


@pytest.fixture
def stuck(plan: Plans) -> Plan:
    """Never clear, whatever the answers."""
    return plan("standard", scores(VAGUE), answers=prepared_answers())


@pytest.mark.row("P11")
def test_a_clear_request_is_scored_on_five_dimensions_without_questions(plan: Plans) -> None:
    run = plan("standard")
    assert questions(run) == []
    assert len(run.addresses("plan/clarify/gate*/score/*")) == 1
    prompt = run.prompt("plan/clarify/gate#1/score/*")
    assert all(f"| {name} |" in prompt for name in CLEAR)
    assert run.overview["state"]["specify_score"] == 8
    assert run.overview["state"]["specify_dimensions"] == CLEAR
    assert run.summary("clarify")["outputs"]["threshold"] == 8
    assert run.summary("clarify")["quality_warnings"] == []


@pytest.mark.slow
@pytest.mark.row("P11", "Q6")
def test_the_score_is_stored_in_the_state_not_as_a_decision(plan: Plans) -> None:
    own = {"id": "CLARIFY-1", "decision": "Only paying guests.", "rationale": "Asked.", "confidence": "HIGH"}
    record = {"summary": "Clear.", "key_decisions": [own], "open_questions": [], "risks_identified": []}
    run = plan("standard", [{"address": "plan/clarify/spec/*", "record": record}], until="architecture")
    assert run.summary("clarify")["key_decisions"] == [own]
    assert run.summary("clarify")["outputs"]["specify_score"] == 8
    assert "of 10" not in run.prompt("plan/architecture/draft/*")


@pytest.mark.slow
@pytest.mark.row("P11")
def test_two_or_three_questions_come_from_the_bank_of_the_weakest_dimension(climbing: Plan) -> None:
    first, second = questions(climbing)
    assert [one.partition("-")[0] for one in first] == ["scope"] * 3
    assert [one.partition("-")[0] for one in second] == ["acceptance"] * 3


@pytest.mark.row("P11")
def test_answers_are_scored_and_the_progress_is_shown(climbing: Plan) -> None:
    assert len(climbing.addresses("plan/clarify/gate*/score/*")) == 3
    assert "Answer number 1." not in climbing.prompt("plan/clarify/gate#1/score/*")
    assert "Answer number 3." in climbing.prompt("plan/clarify/gate#2/score/*")
    last = climbing.prompt("plan/clarify/gate#3/score/*")
    assert "Answer number 3." in last
    assert "Answer number 6." in last
    assert "Scope 0 → 2, now 7/10" in climbing.messages()
    assert "Acceptance 1 → 2, now 8/10" in climbing.messages()
    assert climbing.overview["state"]["specify_score"] == 8
    assert climbing.summary("clarify")["quality_warnings"] == []


@pytest.mark.row("P11")
def test_the_answers_reach_the_specification(climbing: Plan) -> None:
    prompt = climbing.prompt("plan/clarify/spec/*")
    assert all(f"Answer number {n}." in prompt for n in range(1, 7))


@pytest.mark.slow
@pytest.mark.row("P11")
def test_after_three_rounds_the_run_continues_with_a_warning_and_a_flag(stuck: Plan) -> None:
    question_ids = questions(stuck)
    assert [len(one) for one in question_ids] == [3, 3, 2]
    assert len({one for each in question_ids for one in each}) == 8
    assert len(stuck.addresses("plan/clarify/gate*/score/*")) == 4
    assert stuck.overview["state"]["specify_score"] == 5
    record = stuck.summary("clarify")
    assert record["flags"]["low_specify_score"] is True
    assert record["quality_warnings"] == [
        "Went on at 5/10, below 8; scope is the weakest side of the request.",
    ]
    assert stuck.done.code == 0


@pytest.mark.slow
@pytest.mark.row("P11")
def test_a_score_of_six_causes_a_warning_and_no_flag(plan: Plans) -> None:
    run = plan("standard", scores({**VAGUE, "scope": 1}), answers=prepared_answers())
    record = run.summary("clarify")
    assert run.overview["state"]["specify_score"] == 6
    assert "low_specify_score" not in record["flags"]
    assert len(record["quality_warnings"]) == 1


@pytest.mark.slow
@pytest.mark.row("P11")
def test_without_an_answer_there_is_no_second_round(plan: Plans) -> None:
    run = plan("standard", scores(VAGUE))
    assert len(questions(run)) == 1
    assert len(run.addresses("plan/clarify/gate*/score/*")) == 1
    assert run.summary("clarify")["flags"]["low_specify_score"] is True


@pytest.mark.slow
@pytest.mark.row("P11")
def test_rapid_mode_skips_the_gate(plan: Plans) -> None:
    run = plan("rapid", scores(VAGUE))
    assert run.addresses("plan/clarify/gate*") == []
    assert questions(run) == []
    assert "specify_score" not in run.overview["state"]
    assert run.summary("clarify")["flags"] == {}


@pytest.mark.slow
@pytest.mark.row("P11")
def test_degraded_research_relaxes_the_threshold(plan: Plans) -> None:
    six = {"value": 2, "scope": 1, "acceptance": 1, "constraints": 1, "risk": 1}
    failure = {"address": "plan/research/findings/first/researcher:domain/*", "fail": "timeout"}
    run = plan("standard", [failure, *scores(six)])
    assert run.summary("research")["flags"]["degraded"] is True
    assert run.summary("clarify")["outputs"]["threshold"] == 6
    assert questions(run) == []
    assert run.summary("clarify")["quality_warnings"] == []
    healthy = plan("standard", scores(six))
    assert len(questions(healthy)) == 1


@pytest.mark.slow
@pytest.mark.row("P11")
def test_thresholds_and_limits_come_from_the_config(plan: Plans) -> None:
    config = {
        "specify_gate": {"threshold": 9, "questions": 2, "low_score": 9},
        "breakers": {"specify_gate": {"limit": 1}},
    }
    run = plan("standard", config=config, answers=prepared_answers())
    assert [len(one) for one in questions(run)] == [2]
    assert len(run.addresses("plan/clarify/gate*/score/*")) == 2
    assert run.summary("clarify")["flags"]["low_specify_score"] is True


@pytest.mark.slow
@pytest.mark.row("P11", "P14")
@pytest.mark.finding("FP7")
def test_an_ask_breaker_of_the_gate_offers_another_round(plan: Plans) -> None:
    config = {"breakers": {"specify_gate": {"limit": 1, "then": "ask"}}}
    choices = ["retry", "go on without it"]
    rounds = {**prepared_answers(), "retry": choices}
    run = plan("standard", scores(VAGUE), config=config, answers=rounds, until="clarify", unattended=False)
    offers = [
        event["questions"][0] for event in run.events if event["event"] == "Asked" and "retry-" in event["address"]
    ]
    assert [one["choices"] for one in offers] == [choices] * 2
    assert len(run.addresses("plan/clarify/gate*/score/*")) == 3
    assert "Went on at 5/10" in str(run.summary("clarify")["quality_warnings"])
    assert "`specify_gate` has reached its limit of 1: ask" in skillrun("show", str(run.folder)).out


@pytest.mark.slow
@pytest.mark.row("P10", "P11")
def test_risk_flags_of_the_scan_affect_the_risk_dimension(plan: Plans) -> None:
    run = plan("standard", request="Add a login with a second factor")
    assert "security-critical" in run.prompt("plan/clarify/gate#1/score/*")
    assert "risk is 2 only when" in run.prompt("plan/clarify/gate#1/score/*")
    assert "risk is 2 only when" not in plan("standard").prompt("plan/clarify/gate#1/score/*")
