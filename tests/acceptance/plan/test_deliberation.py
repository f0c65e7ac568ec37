"""The second round of a panel, light and full, and the synthesis that both end in."""

from __future__ import annotations

import pytest

from tests.acceptance.plan.conftest import Plan, Plans, Rule

ARCHITECTURE = "plan/architecture/proposals"
TESTS = "plan/test-strategy/proposals"
FULL = {"deliberation": {"variant": "full"}}
LENSES = ("minimal", "clean", "pragmatic")
FIRST: list[Rule] = [
    {"address": f"{ARCHITECTURE}/first/*:{lens}/*", "text": f"The {lens} way, as first written."} for lens in LENSES
]
SECOND: list[Rule] = [
    {"address": f"{ARCHITECTURE}/second/*:{lens}/*", "text": f"The {lens} way, thought over."} for lens in LENSES
]
GAP = {"id": "ARC-1", "question": "Who owns the colours?", "priority": "HIGH", "candidates": ["design", "everybody"]}
SYNTHESIS = {
    "options": [{"option": f"Option {name}.", "trade_offs": f"It costs {name}."} for name in ("red", "blue", "grey")],
    "agreements": ["The switch stays."],
    "disagreements": ["Where the colours live."],
    "recommendation": "Take the red one.",
    "gaps": [GAP],
}


def rounds(run: Plan, phase: str) -> list[str]:
    """The steps of the phase's panel, in call order."""
    return list(dict.fromkeys(address.split("/")[3] for address in run.addresses(f"plan/{phase}/proposals/*")))


@pytest.mark.slow
@pytest.mark.row("P2")
def test_light_adds_one_chair_step_and_no_member_call(plan: Plans) -> None:
    note = "The minimal and the clean way cannot both be right."
    run = plan(
        "advanced", [*FIRST, {"address": f"{ARCHITECTURE}/contradictions/*", "text": note}], until="architecture"
    )
    assert rounds(run, "architecture") == ["first", "contradictions", "synthesis"]
    assert run.addresses(f"{ARCHITECTURE}/contradictions/*") == [f"{ARCHITECTURE}/contradictions/chair/1.1"]
    prompt = run.prompt(f"{ARCHITECTURE}/contradictions/*")
    assert all(f"The {lens} way, as first written." in prompt for lens in LENSES)
    assert "Contradictions:" in prompt
    assert "Gaps:" in prompt
    assert note in run.prompt(f"{ARCHITECTURE}/synthesis/*")
    assert run.summary("architecture")["outputs"]["deliberation"] == "light"


@pytest.mark.slow
@pytest.mark.row("P2")
def test_full_shows_members_the_other_answers_and_synthesises_the_second_round(plan: Plans) -> None:
    run = plan("advanced", [*FIRST, *SECOND], config=FULL)
    assert rounds(run, "architecture") == ["first", "second", "synthesis"]
    for lens in LENSES:
        prompt = run.prompt(f"{ARCHITECTURE}/second/*:{lens}/*")
        assert all(f"The {other} way, as first written." in prompt for other in LENSES)
        assert f"your own answer is that of\nsoftware-architect:{lens}." in prompt
    synthesis = run.prompt(f"{ARCHITECTURE}/synthesis/*")
    assert all(f"The {lens} way, thought over." in synthesis for lens in LENSES)
    assert "as first written" not in synthesis
    assert run.summary("architecture")["outputs"]["deliberation"] == "full"


@pytest.mark.slow
@pytest.mark.row("P2")
def test_architects_revise_and_testers_criticise(plan: Plans) -> None:
    run = plan("advanced", [*FIRST, *SECOND], config=FULL)
    revise, critique = "Revise your answer", "as a senior reviewer"
    for prompt in run.prompts(f"{ARCHITECTURE}/second/*"):
        assert revise in prompt
        assert critique not in prompt
    assert len(run.prompts(f"{TESTS}/second/*")) == 3
    for prompt in run.prompts(f"{TESTS}/second/*"):
        assert critique in prompt
        assert revise not in prompt


@pytest.mark.slow
@pytest.mark.row("P2")
@pytest.mark.parametrize("mode", ["rapid", "standard"])
def test_lighter_modes_have_no_second_round(plan: Plans, mode: str) -> None:
    run = plan(mode, config=FULL)
    assert not run.addresses("*/second/*")
    assert not run.addresses("*/contradictions/*")


@pytest.mark.slow
@pytest.mark.row("P2")
def test_a_complete_plan_deliberates_too(plan: Plans) -> None:
    assert rounds(plan("complete", until="architecture"), "architecture") == ["first", "contradictions", "synthesis"]


@pytest.mark.slow
@pytest.mark.row("P2", "P16")
def test_a_failed_second_round_keeps_the_first_and_is_degraded(plan: Plans) -> None:
    overloaded = {"address": f"{ARCHITECTURE}/second/*", "fail": "overloaded"}
    options = [{"option": "Add a table.", "trade_offs": "It is slow."}]
    view = {"options": options, "agreements": [], "disagreements": [], "recommendation": "Add it.", "gaps": []}
    chair = {"address": f"{ARCHITECTURE}/synthesis/*", "data": view}
    run = plan("advanced", [*FIRST, overloaded, chair], config=FULL)
    assert run.done.code == 0
    assert len(run.addresses(f"{ARCHITECTURE}/second/*")) == 6
    synthesis = run.prompt(f"{ARCHITECTURE}/synthesis/*")
    assert all(f"The {lens} way, as first written." in synthesis for lens in LENSES)
    summary = run.summary("architecture")
    assert summary["flags"]["degraded"] is True
    assert "`second` was not answered" in summary["flags"]["degraded_because"]
    assert summary["quality_warnings"] == ["The second round failed; the first one stands."]
    assert [one["phase"] for one in run.overview["degraded"]] == ["architecture"]


@pytest.mark.slow
@pytest.mark.row("P2", "P14")
def test_after_a_second_round_fails_twice_the_rest_of_the_run_is_light(plan: Plans) -> None:
    red = {
        "address": "plan/validation/judged/*",
        "data": {"score": 2, "reasons": ["It does not say who pays."]},
        "times": 3,
    }
    failure = {"address": f"{ARCHITECTURE}/second/*", "fail": "overloaded"}
    run = plan("advanced", [red, *FIRST, failure], config=FULL, until="test-strategy")
    assert len(run.addresses(f"{ARCHITECTURE}/second/*")) == 6, "three members, two attempts, none in the redesign"
    assert run.overview["state"]["light_only"] is True
    assert run.summary("architecture")["outputs"]["deliberation"] == "light", "the redesign is light"
    assert run.summary("architecture")["round"] == 2
    assert rounds(run, "test-strategy") == ["first", "contradictions", "synthesis"]


@pytest.mark.slow
@pytest.mark.row("P2", "P16")
def test_a_member_without_a_second_answer_keeps_its_first(plan: Plans) -> None:
    failure = {"address": f"{ARCHITECTURE}/second/*:clean/*", "fail": "overloaded"}
    run = plan("advanced", [failure, *FIRST, *SECOND], config=FULL, until="architecture")
    for prompt in (run.prompt(f"{ARCHITECTURE}/synthesis/*"), run.prompt("plan/architecture/draft/*")):
        assert "The clean way, as first written." in prompt
        assert "The minimal way, thought over." in prompt
        assert "The pragmatic way, thought over." in prompt
    assert run.summary("architecture")["flags"]["degraded"] is True


@pytest.mark.slow
@pytest.mark.row("P2", "P16")
def test_a_member_without_a_first_answer_is_not_called_for_a_second(plan: Plans) -> None:
    failure = {"address": f"{ARCHITECTURE}/first/*:clean/*", "fail": "overloaded"}
    run = plan("advanced", [failure, *FIRST, *SECOND], config=FULL, until="architecture")
    assert run.addresses(f"{ARCHITECTURE}/second/*") == [
        f"{ARCHITECTURE}/second/software-architect:{lens}/1.1" for lens in ("minimal", "pragmatic")
    ]


@pytest.mark.slow
@pytest.mark.row("P2")
@pytest.mark.parametrize(("budget", "step"), [(2400, "contradictions"), (4000, "second")])
def test_a_long_first_round_falls_back_to_light(plan: Plans, budget: int, step: str) -> None:
    long = [{"address": f"{ARCHITECTURE}/first/*", "text": "word " * 900}]
    config = {"deliberation": {"variant": "full", **({"context_budget": budget} if budget != 2400 else {})}}
    assert rounds(plan("advanced", long, config=config, until="architecture"), "architecture") == [
        "first",
        step,
        "synthesis",
    ]


@pytest.mark.row("P2")
def test_an_unknown_variant_is_rejected_before_the_run(plan: Plans) -> None:
    run = plan("advanced", config={"deliberation": {"variant": "fulll"}})
    assert run.done.code == 1
    assert "`fulll` is not one of the values in `order`" in run.done.err
    assert "did you mean `full`?" in run.done.err
    assert not run.folder.exists()


@pytest.mark.slow
@pytest.mark.row("P3")
@pytest.mark.parametrize("config", [None, FULL], ids=["light", "full"])
def test_both_variants_end_in_a_synthesis_of_three_steps(plan: Plans, config: dict[str, object] | None) -> None:
    prompt = plan("advanced", [*FIRST, *SECOND], config=config, until="architecture").prompt(
        f"{ARCHITECTURE}/synthesis/*"
    )
    steps = [prompt.index(step) for step in ("1. Insights:", "2. Options:", "3. Gaps:")]
    assert steps == sorted(steps)
    assert "come down to one, at most two" in prompt
    assert "trade-offs" in prompt


@pytest.mark.slow
@pytest.mark.row("P3")
@pytest.mark.parametrize("config", [None, FULL], ids=["light", "full"])
def test_the_design_is_drafted_from_at_most_two_options_with_their_trade_offs(
    plan: Plans, config: dict[str, object] | None
) -> None:
    run = plan(
        "advanced", [{"address": f"{ARCHITECTURE}/synthesis/*", "data": SYNTHESIS}], config=config, until="think-deep"
    )
    prompt = run.prompt("plan/architecture/draft/*")
    assert "Take the red one." in prompt
    assert "- option: Option red.\n  trade_offs: It costs red.\n" in prompt
    assert "- option: Option blue.\n  trade_offs: It costs blue.\n" in prompt
    assert "grey" not in prompt


@pytest.mark.row("P3")
@pytest.mark.parametrize("config", [None, FULL], ids=["light", "full"])
def test_gaps_become_open_questions_of_the_phase_and_reach_later_prompts(
    plan: Plans, config: dict[str, object] | None
) -> None:
    run = plan(
        "advanced", [{"address": f"{ARCHITECTURE}/synthesis/*", "data": SYNTHESIS}], config=config, until="think-deep"
    )
    assert run.summary("architecture")["open_questions"][0] == GAP
    assert "Who owns the colours?" in run.prompts("plan/think-deep/thoughts/*")[0]


@pytest.mark.row("P3")
@pytest.mark.finding("FR102")
def test_the_options_are_in_the_positions_and_a_third_one_is_a_warning(plan: Plans) -> None:
    run = plan("advanced", [{"address": f"{ARCHITECTURE}/synthesis/*", "data": SYNTHESIS}], until="architecture")
    positions = run.artifact("positions.md")
    assert "- Option red. Trade-offs: It costs red.\n- Option blue. Trade-offs: It costs blue.\n" in positions
    warning = "The chair gave 3 options; the first two count. Left out: Option grey."
    assert warning in run.summary("architecture")["quality_warnings"]


@pytest.mark.row("P3")
@pytest.mark.finding("FR108")
def test_positions_without_a_synthesis_say_so_in_place_of_an_empty_table(plan: Plans) -> None:
    run = plan("advanced", [*FIRST, {"address": f"{ARCHITECTURE}/synthesis/*", "fail": "other"}], until="architecture")
    positions = run.artifact("positions.md")
    assert "The chair's synthesis failed, so there is no list of agreements and disagreements." in positions
    assert "| Agreement |" not in positions
    assert "None named." not in positions
    assert run.summary("architecture")["flags"]["degraded"]
