"""The initial scan: risk and size of the request, the suggested mode and team, and the estimated cost."""

from __future__ import annotations

import re

import pytest

from skillrun.library.roots import package_library
from tests.acceptance.plan.conftest import Plan, Plans

RISKY = "Add a login with Stripe payments to src/shop/pay.py and src/shop/pay.py, then purge the old table"
ONE = "Let people export their GDPR record"
HASTY = "A quick spike of a colour picker"


def setup_questions(run: Plan) -> list[str]:
    """The questions of the first phase."""
    return [
        one["text"]
        for event in run.events
        if event["event"] == "Asked" and event["phase"] == "setup"
        for one in event["questions"]
    ]


@pytest.fixture
def risky(plan: Plans) -> Plan:
    """No mode is given and the user accepts the suggestion. Slow, because each mode is estimated."""
    return plan(None, request=RISKY, answers={"setup/mode-choice": "complete"})


@pytest.mark.slow
@pytest.mark.row("P10")
def test_two_risk_categories_suggest_complete_mode_and_are_stored(risky: Plan) -> None:
    flags = ["security-critical", "billing-external-api", "destructive-operations"]
    assert risky.overview["state"]["risk_flags"] == flags
    assert risky.summary("setup")["outputs"]["risk_flags"] == flags
    assert risky.summary("setup")["outputs"]["suggested_mode"] == "complete"


@pytest.mark.slow
@pytest.mark.row("P10", "P19")
def test_the_user_is_asked_for_a_missing_mode(risky: Plan) -> None:
    (text,) = setup_questions(risky)
    assert "complete is suggested because it touches security-critical" in text
    assert risky.overview["state"]["mode"] == "complete"
    assert risky.addresses("plan/think-deep/*")


@pytest.mark.slow
@pytest.mark.row("P10")
def test_exactly_two_risk_categories_suggest_complete_mode(plan: Plans) -> None:
    run = plan("rapid", request="Add a login with payments", until="setup")
    assert run.summary("setup")["outputs"]["risk_flags"] == ["security-critical", "billing-external-api"]
    assert run.summary("setup")["outputs"]["suggested_mode"] == "complete"


@pytest.mark.slow
@pytest.mark.row("P10")
@pytest.mark.parametrize(
    ("request_", "mode", "team"), [(ONE, "advanced", "balanced"), (HASTY, "rapid", "rapid_prototype")]
)
def test_one_risk_category_suggests_advanced_and_a_spike_suggests_rapid(
    plan: Plans, request_: str, mode: str, team: str
) -> None:
    run = plan("rapid", request=request_)
    outputs = run.summary("setup")["outputs"]
    assert (outputs["suggested_mode"], outputs["suggested_preset"]) == (mode, team)
    assert f"Suggested: {mode} mode with the {team} team" in run.messages()[0]
    assert setup_questions(run) == []
    assert run.overview["state"]["mode"] == "rapid"


@pytest.mark.row("P10")
def test_a_request_without_risks_suggests_standard_mode(plan: Plans) -> None:
    run = plan("rapid")
    assert run.summary("setup")["outputs"]["suggested_mode"] == "standard"
    assert run.overview["state"]["risk_flags"] == []


@pytest.mark.slow
@pytest.mark.row("P19")
def test_risk_words_files_mode_and_team_are_shown_before_the_first_call(risky: Plan) -> None:
    events = [event for event in risky.events if event["event"] in ("Said", "CallStarted", "CallEnded")]
    messages = [event["text"] for event in events[: [event["event"] for event in events].index("CallStarted")]]
    first, second, *_ = messages
    assert "Suggested: complete mode with the balanced team" in first
    assert all(f"{word} (" in first for word in ("login", "purge"))
    assert "Stripe, payments (billing-external-api)" in first
    assert "It names src/shop/pay.py." in first
    assert re.search(r"A guess at its size: \d+ files", first)
    assert re.search(r"In standard mode, with the balanced team: about \d+ calls, \d+ tokens, price ", second)
    assert risky.summary("setup")["usage"]["calls"] == 0


@pytest.mark.slow
@pytest.mark.row("P19", "Q8")
@pytest.mark.finding("FP12")
def test_the_mode_question_has_each_price_and_estimates_include_tool_turns(risky: Plan, plan: Plans) -> None:
    (text,) = setup_questions(risky)
    priced = {mode: (int(calls), int(tokens)) for mode, calls, tokens in PRICED.findall(text)}
    assert priced.keys() == {"standard", "complete"}
    assert priced["standard"] < priced["complete"]
    second = risky.messages()[1]
    assert f"about {priced['standard'][0]} calls, {priced['standard'][1]} tokens" in second
    for mode, rewrites in (("rapid", 1), ("standard", 5)):  # a plan without rework needs none of these
        run = plan(mode)
        assert 0 <= run.overview["estimate"]["calls"] - run.overview["usage"]["calls"] <= rewrites
        assert run.overview["estimate"]["turns"] == 0
    tools = plan("rapid", flags=["--repo", "."], until="setup")
    estimate, without = tools.overview["estimate"], plan("rapid").overview["estimate"]
    assert abs(without["calls"] - estimate["calls"]) <= 1  # a simulated rewrite
    assert estimate["turns"] >= 2
    assert estimate["tokens"] > without["tokens"] + 6000 * estimate["turns"]
    assert f"calls and {estimate['turns']} turns with tools" in tools.messages()[1]


PRICED = re.compile(r"(\w+): about (\d+) calls, (\d+) tokens")


@pytest.mark.slow
@pytest.mark.row("P19")
def test_the_size_estimate_grows_with_the_parts_and_the_named_files(plan: Plans) -> None:
    small = plan("rapid", request=HASTY).summary("setup")["outputs"]
    assert (small["expected_files"], small["named_files"]) == (3, [])
    parts = plan("rapid", request=ONE).summary("setup")["outputs"]
    assert parts["expected_files"] == 3
    names = [f"src/{letter}.py" for letter in "abcdefgh"]
    many = plan("rapid", request=f"Rename it in {' '.join(names)}").summary("setup")["outputs"]
    assert many["named_files"] == names
    assert many["expected_files"] == 8
    pages = "https://a.com/b.html, //a.com/c.html, www.a.com/d.html, http://a.com:80/~me/e.html?f=g.html#h.md"
    web = plan("rapid", request=f"Rename it in src/a.py as {pages} say", until="setup").summary("setup")["outputs"]
    assert web["named_files"] == ["src/a.py"]


@pytest.mark.row("P6", "P10")
def test_risks_add_a_red_team_and_security_knowledge_to_the_architecture(risky: Plan, plan: Plans) -> None:
    assert risky.summary("architecture")["outputs"]["strategy"] == "red-team"
    skill = (package_library() / "skills/security-review/SKILL.md").read_text(encoding="utf-8")
    knowledge = skill.split("---\n")[2].strip()
    assert knowledge in risky.prompt("plan/architecture/proposals/proposal/*")
    assert knowledge not in plan("complete", until="architecture").prompts("plan/architecture/proposals/first/*")[0]
