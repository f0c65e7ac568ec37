"""How the members of a phase work together: chosen by phase and mode, changed by signals, with fallbacks."""

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
    {"title": "Two names", "severity": "MAJOR", "evidence": "Both are used.", "consequence": "Readers guess."},
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
    return list(dict.fromkeys(address.split("/")[3] for address in run.addresses(f"{panel}/*")))


def choice(run: Plan) -> tuple[str, str]:
    """The strategy of the architecture, and why it differs from the configured one."""
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
def test_strategies_come_from_the_config(plan: Plans) -> None:
    config = {"strategy_per_phase": {"architecture": {"advanced": "red-team"}, "test_strategy": {"advanced": "quick"}}}
    run = plan("advanced", config=config)
    assert choice(run) == ("red-team", "")
    assert run.summary("test-strategy")["outputs"]["strategy"] == "quick"


@pytest.mark.row("P5")
def test_quick_calls_every_member_once(plan: Plans) -> None:
    run = plan("standard")
    assert steps(run, ARCHITECTURE) == ["first", "synthesis"]
    assert len(run.addresses(f"{ARCHITECTURE}/first/*")) == 3


@pytest.mark.row("P5")
def test_each_perspectives_member_has_a_different_lens(plan: Plans) -> None:
    prompts = plan("advanced").prompts(f"{ARCHITECTURE}/first/*")
    lenses = [prompt.partition("Your lens is ")[2].partition(".")[0] for prompt in prompts]
    assert len(set(lenses)) == 3
    assert all(lenses)


@pytest.mark.slow
@pytest.mark.row("P5")
def test_a_red_team_proposes_attacks_defends_and_synthesises(plan: Plans) -> None:
    run = plan(
        "complete",
        [
            {"address": f"{TESTS}/proposal/*", "text": "Any size is taken. Both names are used."},
            {"address": f"{TESTS}/challenge/*", "data": {"findings": FINDINGS}},
            {"address": f"{TESTS}/defence/*", "text": "Conceded: there is a limit of ten."},
            {"address": f"{TESTS}/synthesis/*", "data": OUTCOME},
        ],
    )
    assert run.addresses(f"{TESTS}/*") == [
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
def test_attack_findings_reach_the_documents_even_without_the_chair(plan: Plans) -> None:
    config = {"strategy_per_phase": {"architecture": {"complete": "red-team"}}}
    rules: list[Rule] = []
    for panel in (ARCHITECTURE, TESTS):
        rules.append({"address": f"{panel}/challenge/*", "data": {"findings": FINDINGS}})
        rules.append({"address": f"{panel}/synthesis/*", "fail": "overloaded"})
    run = plan("complete", rules, config=config)
    assert run.done.code == 0
    lines = [f"- {one['severity']}: {one['title']}. {one['consequence']}" for one in FINDINGS]
    positions = run.artifact("positions.md")
    assert all(line in positions.partition("## Findings of the attack")[2] for line in lines)
    assert "Not measured: this was an attack and a defence." in positions
    for phase in ("architecture", "test-strategy"):
        prompt = run.prompt(f"plan/{phase}/draft/*")
        points = prompt.rpartition("# Points to answer")[2]
        assert all(f": {one['title']}\n  - severity: {one['severity']}\n" in points for one in FINDINGS)
        warning = "The chair's synthesis failed; proposal, findings and defence stand as they are."
        assert warning in run.summary(phase)["quality_warnings"]


@pytest.mark.slow
@pytest.mark.row("P5", "P16")
@pytest.mark.finding("FP11")
def test_without_the_challenger_the_proposal_is_used_and_degraded(plan: Plans) -> None:
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
    assert choice(run) == ("quick", "")
    assert steps(run, ARCHITECTURE) == ["first", "synthesis"]
    assert steps(run, TESTS) == ["first"], "different aspects cannot be compared"


@pytest.mark.slow
@pytest.mark.row("P5")
def test_without_convergence_the_second_round_runs_and_the_synthesis_is_generic(plan: Plans) -> None:
    config = {"features": {"convergence": {"enabled": False}}, "deliberation": {"variant": "full"}}
    run = plan("advanced", config=config)
    assert choice(run) == ("perspectives", "")
    assert steps(run, ARCHITECTURE) == ["first", "second", "synthesis"]
    assert "convergence" not in run.summary("architecture")["outputs"]
    assert "Not measured: it is off" in run.artifact("positions.md")
    prompt = run.prompt(f"{ARCHITECTURE}/synthesis/*")
    assert "Weigh each point by its evidence" in prompt
    assert not any(words in prompt for words in ("Counted by their words", "be short", "side by side"))


@pytest.mark.slow
@pytest.mark.row("P5")
def test_without_multi_strategy_every_phase_is_quick(plan: Plans) -> None:
    run = plan("complete", config={"features": {"multi_strategy": {"enabled": False}}})
    for phase in ("research", "architecture", "test-strategy"):
        assert run.summary(phase)["outputs"]["strategy"] == "quick"


@pytest.mark.slow
@pytest.mark.row("P6")
def test_two_security_keywords_in_the_research_select_red_team(plan: Plans) -> None:
    run = plan("advanced", [SECURITY], until="architecture")
    assert choice(run) == ("red-team", "security keywords in the request or the research: encryption, payments")
    assert steps(run, ARCHITECTURE)[:2] == ["proposal", "challenge"]


@pytest.mark.slow
@pytest.mark.row("P6")
def test_one_security_keyword_changes_nothing(plan: Plans) -> None:
    rule = {"address": "plan/research/findings/first/*:code/*", "text": "Encryption, encrypted and decrypting."}
    assert choice(plan("advanced", [rule], until="architecture"))[0] == "perspectives"


@pytest.mark.slow
@pytest.mark.row("P6")
@pytest.mark.finding("FP5", "FT14", "FR67")
@pytest.mark.parametrize(
    ("request_", "strategy", "words"),
    [
        (
            "Add a login with sso, password, authentication and MFA",
            "red-team",
            "authentication, login, sso, mfa, password",
        ),
        ("Let people log in, with the login of the shop", "perspectives", ""),
        ("Send a webhook for each deploy", "red-team", "webhook, deploy"),
        ("Take payments under PCI", "red-team", "payments, pci"),
        ("Encrypt exports with a crypto library", "red-team", "encrypt, crypto"),
        ("Show hipaa notes without the ssn", "red-team", "hipaa, ssn"),
        ("Copy staging to production", "red-team", "staging, production"),
        ("Let guests log in where members sign in", "red-team", "log in, sign in"),
        ("Authenticate and reauthenticate: authentication", "perspectives", ""),
    ],
    ids=[
        "several groups", "forms of one keyword that is also a flag", "flags of the risk scan", "one group",
        "one group of other words", "one group that is also a risk category", "one risk category",
        "synonyms", "forms",
    ],
)  # fmt: skip
def test_distinct_keywords_and_risk_flags_are_counted(plan: Plans, request_: str, strategy: str, words: str) -> None:
    run = plan("advanced", request=request_, until="architecture")
    selected, reason = choice(run)
    assert selected == strategy
    assert set(reason.partition(": ")[2].split(", ")) == set(words.split(", "))


@pytest.mark.slow
@pytest.mark.row("P6")
@pytest.mark.finding("FT14")
@pytest.mark.parametrize("place", ["security_keywords", "risk_categories"])
def test_each_pattern_of_a_project_group_is_a_keyword(plan: Plans, place: str) -> None:
    config = {place: {"vault": [r"\bvaults?\b", r"\bkms\b"]}}
    run = plan("advanced", config=config, request="Read the keys from the KMS, not the vault", until="architecture")
    assert choice(run)[0] == "red-team"
    assert sorted(run.summary("research")["outputs"]["security_keywords"]) == ["kms", "vault"]


@pytest.mark.slow
@pytest.mark.row("P6")
def test_few_files_and_no_open_question_select_quick(plan: Plans) -> None:
    assert choice(plan("complete", [FEW, CLOSED], until="architecture")) == ("quick", "3 files and no open question")


@pytest.mark.slow
@pytest.mark.row("P6")
@pytest.mark.parametrize(
    ("resolves", "expected"), [([], "perspectives"), (["RES-1"], "quick")], ids=["open", "resolved"]
)
def test_a_research_question_counts_until_it_is_resolved(plan: Plans, resolves: list[str], expected: str) -> None:
    decision = {"id": "CLA-1", "decision": "All.", "rationale": "Said.", "confidence": "HIGH", "resolves": resolves}
    rules = [
        FEW,
        {**CLOSED, "data": {**PANEL, "gaps": [OPEN]}},
        {"address": "plan/clarify/spec/*", "record": {**NOTHING, "key_decisions": [decision]}},
    ]
    assert choice(plan("complete", rules, until="architecture"))[0] == expected


@pytest.mark.slow
@pytest.mark.row("P6")
def test_four_files_are_not_few(plan: Plans) -> None:
    rules = [{**FEW, "data": {"files_affected": 4}}, CLOSED]
    assert choice(plan("complete", rules, until="architecture"))[0] == "perspectives"


@pytest.mark.slow
@pytest.mark.row("P6")
def test_an_unclear_request_selects_at_least_perspectives(plan: Plans) -> None:
    config = {"strategy_per_phase": {"architecture": {"advanced": "quick"}}}
    run = plan("advanced", [UNCLEAR], config=config, until="architecture")
    assert choice(run) == ("perspectives", "the request is unclear at 6/10")


@pytest.mark.slow
@pytest.mark.row("P6")
def test_a_signal_without_effect_is_not_an_override(plan: Plans) -> None:
    assert choice(plan("advanced", [UNCLEAR], until="architecture")) == ("perspectives", "")


@pytest.mark.slow
@pytest.mark.row("P6")
@pytest.mark.parametrize(
    ("signals", "expected"),
    [([FEW, CLOSED, UNCLEAR], "perspectives"), ([SECURITY, FEW, CLOSED, UNCLEAR], "red-team")],
    ids=["few and unclear", "all three"],
)
def test_the_deepest_of_several_strategies_wins(plan: Plans, signals: list[Rule], expected: str) -> None:
    assert choice(plan("complete", signals, until="architecture"))[0] == expected


@pytest.mark.slow
@pytest.mark.row("P6")
def test_signals_come_from_the_config(plan: Plans) -> None:
    config = {"strategy_signals": {"security_keywords": 3, "few_files": 12, "unclear_score": 6}}
    strategy, _ = choice(plan("complete", [SECURITY, CLOSED, UNCLEAR], config=config, until="architecture"))
    assert strategy == "quick"


@pytest.mark.slow
@pytest.mark.row("P6")
def test_an_override_causes_no_question_and_show_reports_it(plan: Plans) -> None:
    run = plan("advanced", [SECURITY], until="architecture", unattended=False)
    assert [event for event in run.events if event["event"] == "Asked" and event["phase"] == "architecture"] == []
    flags = {one["phase"]: one["flags"] for one in run.overview["phases"]}
    assert flags["architecture"]["strategy_override"].startswith("security keywords in the request or the research")
