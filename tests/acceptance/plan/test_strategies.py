"""How the members of a phase work together: chosen by phase and mode, moved by signals, and what it falls back to."""

from __future__ import annotations

import pytest

from tests.acceptance.plan.conftest import NOTHING, Plan, Plans, Rule

ARCHITECTURE = "plan/architecture/proposals"
TESTS = "plan/test-strategy/proposals"
STRATEGIES = {
    "rapid": ("quick", "quick", "quick"),
    "standard": ("quick", "quick", "quick"),
    "advanced": ("quick", "perspectives", "perspectives"),
    "complete": ("perspectives", "perspectives", "red-team"),
}
FINDINGS = [
    {"title": "No limit", "severity": "CRITICAL", "evidence": "Any size.", "consequence": "It falls over."},
    {"title": "Two names", "severity": "MAJOR", "evidence": "Both are used.", "consequence": "Nobody knows."},
    {"title": "A typo", "severity": "MINOR", "evidence": "teh", "consequence": "None."},
]
OUTCOME = {
    "agreements": ["The limit is conceded."],
    "disagreements": ["The names stay in dispute."],
    "recommendation": "The proposal, with a limit.",
    "gaps": [],
}
OPEN = {"id": "RES-1", "question": "Which browsers?", "priority": "HIGH", "candidates": []}
PANEL = {"options": [], "agreements": [], "disagreements": [], "recommendation": "Do it.", "gaps": []}
CLOSED: Rule = {"address": "plan/research/findings/synthesis/*", "data": PANEL}
FEW: Rule = {"address": "plan/research/facts/*", "data": {"files_affected": 3}}
SECURITY: Rule = {"address": "plan/research/findings/first/*:code/*", "text": "It touches encryption and payments."}
UNCLEAR: Rule = {
    "address": "plan/clarify/*/score/*",
    "data": {"value": 2, "scope": 1, "acceptance": 1, "constraints": 1, "risk": 1},
}


def steps(run: Plan, panel: str) -> list[str]:
    return list(dict.fromkeys(address.split("/")[3] for address in run.asked(f"{panel}/*")))


def chosen(run: Plan) -> tuple[str, str]:
    """The strategy of the architecture, and the reason why it is another than the configured one."""
    summary = run.summary("architecture")
    return summary["outputs"]["strategy"], summary["flags"].get("strategy_override", "")


@pytest.mark.row("P5")
@pytest.mark.parametrize("mode", STRATEGIES)
def test_each_phase_and_mode_has_its_strategy(plan: Plans, mode: str) -> None:
    run = plan(mode)
    phases = ("research", "architecture", "test-strategy")
    assert tuple(run.summary(phase)["outputs"]["strategy"] for phase in phases) == STRATEGIES[mode]


@pytest.mark.slow
@pytest.mark.row("P5")
def test_the_strategy_of_a_phase_and_mode_is_config(plan: Plans) -> None:
    config = {"strategy_per_phase": {"architecture": {"advanced": "red-team"}, "test_strategy": {"advanced": "quick"}}}
    run = plan("advanced", config=config)
    assert chosen(run) == ("red-team", "")
    assert run.summary("test-strategy")["outputs"]["strategy"] == "quick"


@pytest.mark.row("P5")
def test_quick_asks_everybody_once(plan: Plans) -> None:
    run = plan("standard")
    assert steps(run, ARCHITECTURE) == ["first", "synthesis"]
    assert len(run.asked(f"{ARCHITECTURE}/first/*")) == 3


@pytest.mark.row("P5")
def test_members_of_perspectives_each_have_a_lens_of_their_own(plan: Plans) -> None:
    prompts = plan("advanced").prompts(f"{ARCHITECTURE}/first/*")
    lenses = [prompt.partition("Your lens is ")[2].partition(".")[0] for prompt in prompts]
    assert len(set(lenses)) == 3
    assert all(lenses)


@pytest.mark.slow
@pytest.mark.row("P5")
def test_a_red_team_proposes_attacks_defends_and_draws_the_sum(plan: Plans) -> None:
    run = plan(
        "complete",
        [
            {"address": f"{TESTS}/proposal/*", "text": "Any size is taken. Both names are used."},
            {"address": f"{TESTS}/challenge/*", "data": {"findings": FINDINGS}},
            {"address": f"{TESTS}/defence/*", "text": "Conceded: there is a limit of ten."},
            {"address": f"{TESTS}/synthesis/*", "data": OUTCOME},
        ],
    )
    assert run.asked(f"{TESTS}/*") == [
        f"{TESTS}/proposal/qa-strategist/1.1",
        f"{TESTS}/challenge/qa-security/1.1",
        f"{TESTS}/defence/qa-strategist/1.1",
        f"{TESTS}/synthesis/chair/1.1",
    ]
    challenge, defence = run.prompt(f"{TESTS}/challenge/*"), run.prompt(f"{TESTS}/defence/*")
    assert "Any size is taken." in challenge
    assert all(f"- {severity}: " in challenge for severity in ("CRITICAL", "MAJOR", "MINOR"))
    assert all(f"title: {one['title']}\n  severity: {one['severity']}\n" in defence for one in FINDINGS)
    assert "limit of ten" in run.prompt(f"{TESTS}/synthesis/*")
    assert "The proposal, with a limit." in run.prompt("plan/test-strategy/draft/*")
    assert "The names stay in dispute." in run.prompt("plan/test-strategy/draft/*").partition("# Disputed")[2]


@pytest.mark.slow
@pytest.mark.row("P5", "P16")
@pytest.mark.finding("FP3")
def test_what_an_attack_found_reaches_the_documents_with_its_severity_also_without_the_chair(plan: Plans) -> None:
    config = {"strategy_per_phase": {"architecture": {"complete": "red-team"}}}
    rules: list[Rule] = []
    for panel in (ARCHITECTURE, TESTS):
        rules.append({"address": f"{panel}/challenge/*", "data": {"findings": FINDINGS}})
        rules.append({"address": f"{panel}/synthesis/*", "fail": "overloaded"})
    run = plan("complete", rules, config=config)
    assert run.done.code == 0
    lines = [f"- {one['severity']}: {one['title']}. {one['consequence']}" for one in FINDINGS]
    told = run.artifact("positions.md")
    assert all(line in told.partition("## Findings of the attack")[2] for line in lines)
    assert "Not measured: this was an attack and a defence." in told
    for phase in ("architecture", "test-strategy"):
        prompt = run.prompt(f"plan/{phase}/draft/*")
        points = prompt.rpartition("# Points to answer")[2]
        assert all(f": {one['title']}\n  - severity: {one['severity']}\n" in points for one in FINDINGS)
        said = "The chair's synthesis failed; proposal, findings and defence stand as they are."
        assert said in run.summary(phase)["quality_warnings"]


@pytest.mark.slow
@pytest.mark.row("P5", "P16")
@pytest.mark.finding("FP11")
def test_when_the_challenger_fails_the_proposal_stands_alone_and_is_degraded(plan: Plans) -> None:
    rules = [
        {"address": f"{TESTS}/proposal/*", "text": "The proposed tests."},
        {"address": f"{TESTS}/challenge/*", "fail": "overloaded"},
    ]
    run = plan("complete", rules)
    assert run.done.code == 0
    assert steps(run, TESTS) == ["proposal", "challenge"]
    assert "The proposed tests." in run.prompt("plan/test-strategy/draft/*")
    summary = run.summary("test-strategy")
    assert summary["outputs"]["strategy"] == "red-team"
    assert summary["flags"]["degraded"] is True
    assert summary["quality_warnings"] == ["The challenger did not answer; the proposal stands alone."]


@pytest.mark.row("P5")
def test_without_deliberation_perspectives_becomes_quick(plan: Plans) -> None:
    run = plan("advanced", config={"features": {"deliberation": {"enabled": False}}})
    assert chosen(run) == ("quick", "")
    assert steps(run, ARCHITECTURE) == ["first", "synthesis"]
    assert steps(run, TESTS) == ["first"], "what looks at different sides has nothing to be compared"


@pytest.mark.slow
@pytest.mark.row("P5")
def test_without_convergence_there_is_a_second_round_and_no_adapted_synthesis(plan: Plans) -> None:
    config = {"features": {"convergence": {"enabled": False}}, "deliberation": {"variant": "full"}}
    run = plan("advanced", config=config)
    assert chosen(run) == ("perspectives", "")
    assert steps(run, ARCHITECTURE) == ["first", "second", "synthesis"]
    assert "convergence" not in run.summary("architecture")["outputs"]
    assert "Not measured: it is off" in run.artifact("positions.md")
    prompt = run.prompt(f"{ARCHITECTURE}/synthesis/*")
    assert "Weigh each point by its evidence" in prompt
    assert not any(words in prompt for words in ("Counted by their words", "be short", "side by side"))


@pytest.mark.slow
@pytest.mark.row("P5")
def test_without_the_choice_of_strategies_every_phase_is_quick(plan: Plans) -> None:
    run = plan("complete", config={"features": {"multi_strategy": {"enabled": False}}})
    for phase in ("research", "architecture", "test-strategy"):
        assert run.summary(phase)["outputs"]["strategy"] == "quick"


@pytest.mark.slow
@pytest.mark.row("P6")
def test_two_security_keywords_in_the_research_make_it_a_red_team(plan: Plans) -> None:
    run = plan("advanced", [SECURITY], until="architecture")
    assert chosen(run) == ("red-team", "security keywords in the request or the research: encryption, payments")
    assert steps(run, ARCHITECTURE)[:2] == ["proposal", "challenge"]


@pytest.mark.slow
@pytest.mark.row("P6")
def test_one_security_keyword_changes_nothing(plan: Plans) -> None:
    rule = {"address": "plan/research/findings/first/*:code/*", "text": "Encryption, encrypted and decrypting."}
    assert chosen(plan("advanced", [rule], until="architecture"))[0] == "perspectives"


@pytest.mark.slow
@pytest.mark.row("P6")
@pytest.mark.finding("FP5")
@pytest.mark.parametrize(
    ("request_", "strategy", "words"),
    [
        (
            "Add a login with sso, password, authentication and MFA",
            "red-team",
            "authentication, login, sso, mfa, password",
        ),
        ("Let people log in", "perspectives", ""),
        ("Send a webhook for each deploy", "red-team", "webhook, deploy"),
    ],
    ids=["words of one group", "one word is one, as a keyword and as a flag", "flags of the risk scan"],
)
def test_keywords_are_counted_by_words_and_the_flags_of_the_scan_count_too(
    plan: Plans, request_: str, strategy: str, words: str
) -> None:
    run = plan("advanced", request=request_, until="architecture")
    found, because = chosen(run)
    assert found == strategy
    assert set(because.partition(": ")[2].split(", ")) == set(words.split(", "))


@pytest.mark.slow
@pytest.mark.row("P6")
def test_few_files_and_no_open_question_make_it_quick(plan: Plans) -> None:
    assert chosen(plan("complete", [FEW, CLOSED], until="architecture")) == ("quick", "3 files and no open question")


@pytest.mark.slow
@pytest.mark.row("P6")
@pytest.mark.parametrize(
    ("resolves", "expected"), [([], "perspectives"), (["RES-1"], "quick")], ids=["open", "resolved"]
)
def test_a_question_of_the_research_counts_until_it_is_resolved(
    plan: Plans, resolves: list[str], expected: str
) -> None:
    decision = {"id": "CLA-1", "decision": "All.", "rationale": "Said.", "confidence": "HIGH", "resolves": resolves}
    rules = [
        FEW,
        {**CLOSED, "data": {**PANEL, "gaps": [OPEN]}},
        {"address": "plan/clarify/spec/*", "record": {**NOTHING, "key_decisions": [decision]}},
    ]
    assert chosen(plan("complete", rules, until="architecture"))[0] == expected


@pytest.mark.slow
@pytest.mark.row("P6")
def test_more_files_than_three_are_not_few(plan: Plans) -> None:
    rules = [{**FEW, "data": {"files_affected": 4}}, CLOSED]
    assert chosen(plan("complete", rules, until="architecture"))[0] == "perspectives"


@pytest.mark.slow
@pytest.mark.row("P6")
def test_an_unclear_request_gets_perspectives_at_least(plan: Plans) -> None:
    config = {"strategy_per_phase": {"architecture": {"advanced": "quick"}}}
    run = plan("advanced", [UNCLEAR], config=config, until="architecture")
    assert chosen(run) == ("perspectives", "the request is unclear at 6/10")


@pytest.mark.slow
@pytest.mark.row("P6")
def test_a_signal_that_changes_nothing_is_no_override(plan: Plans) -> None:
    assert chosen(plan("advanced", [UNCLEAR], until="architecture")) == ("perspectives", "")


@pytest.mark.slow
@pytest.mark.row("P6")
@pytest.mark.parametrize(
    ("signals", "expected"),
    [([FEW, CLOSED, UNCLEAR], "perspectives"), ([SECURITY, FEW, CLOSED, UNCLEAR], "red-team")],
    ids=["few and unclear", "all three"],
)
def test_of_several_signals_the_deepest_wins(plan: Plans, signals: list[Rule], expected: str) -> None:
    assert chosen(plan("complete", signals, until="architecture"))[0] == expected


@pytest.mark.slow
@pytest.mark.row("P6")
def test_what_counts_as_a_signal_is_config(plan: Plans) -> None:
    config = {"strategy_signals": {"security_keywords": 3, "few_files": 12, "unclear_score": 6}}
    strategy, _ = chosen(plan("complete", [SECURITY, CLOSED, UNCLEAR], config=config, until="architecture"))
    assert strategy == "quick"


@pytest.mark.slow
@pytest.mark.row("P6")
def test_nobody_is_asked_about_an_override_and_show_tells_it(plan: Plans) -> None:
    run = plan("advanced", [SECURITY], until="architecture", unattended=False)
    assert [event for event in run.events if event["event"] == "Asked" and event["phase"] == "architecture"] == []
    flags = {one["phase"]: one["flags"] for one in run.story["phases"]}
    assert flags["architecture"]["strategy_override"].startswith("security keywords in the request or the research")
