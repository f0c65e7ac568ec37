"""A complete session of refine: its pauses, its rounds, its document."""

import pytest

from tests.acceptance.refine.conftest import NAME, PRD, QUESTIONS, RESCORED, Refinement, question, rewrite, scores

LATER = [question("Workflows", "What does the host see when someone leaves early?", "HIGH")]


@pytest.mark.slow
@pytest.mark.row("R1", "R5", "R8", "R9", "R15")
def test_a_session_turns_an_idea_into_a_document_with_a_decision_log(refine: Refinement) -> None:
    done = refine.begin("standard")
    assert done.code == 75
    assert f"skillrun resume {NAME}" in done.out.splitlines()[-1]
    assert (refine.folder / "research" / "reports").is_dir()
    refine.report()
    done = refine.resume()
    assert done.code == 75
    assert f"skillrun resume {NAME}" in done.out.splitlines()[-1]
    assert refine.form().read_text().count("\n## Q") == len(QUESTIONS)
    refine.fill()
    not_ready = [{"address": "refine/draft/scores/*", "data": scores(2)}]
    assert refine.resume(not_ready).code == 75
    assert (refine.folder / "reflection-round-1.md").is_file()
    followups = [{"address": "refine/questions/*ed*", "data": {"questions": LATER}}]
    followups += [{"address": "refine/questions/proposals/*", "data": {"questions": LATER}}]
    done = refine.resume(followups, next_mode="standard")
    assert done.code == 75, done.out
    assert (refine.folder / "round-1" / "reflection-round-1.md").is_file()
    assert any("Reflection on round 1" in prompt for prompt in refine.prompts("refine/questions/proposals/*"))
    refine.fill(2, "A lamp goes out.")
    better = PRD.replace("Text", "A lamp goes out")
    rules = [{"address": "refine/draft/prd/*", "text": better}, rewrite(better)]
    low = [{"address": one, "data": scores(3, users=1)} for one in ("refine/draft/scores/*", RESCORED)]
    done = refine.resume([*rules, *low])
    assert done.code == 0, done.out
    assert refine.summary("draft")["outputs"]["decision"] == "CONDITIONAL"
    assert refine.text("PRD.md").startswith(f"{better.strip()}\n\n## Sources\n\n- `[request]`: ")
    log = refine.text("decision-log.md")
    assert f"| D-7 | A lamp goes out. | {LATER[0]['text']} | Q-2-1 | Workflows | 2 |" in log
    assert log.count("| 1 |\n") == len(QUESTIONS)


@pytest.mark.slow
@pytest.mark.row("Q7")
@pytest.mark.parametrize(("mode", "calls"), [("rapid", 4), ("standard", 10)])
def test_a_refinement_without_rework_makes_the_expected_calls_and_rules_fill_all_records(
    refine: Refinement, mode: str, calls: int
) -> None:
    refine.begin(mode)
    if mode != "rapid":
        refine.report()
        refine.resume()
    refine.fill()
    assert refine.resume().code == 0
    assert len(refine.calls) == calls
    assert not refine.prompts("*/summary/*")
    phases = ["questions", "answers", "draft"] + (["research"] if mode != "rapid" else [])
    assert all(refine.summary(phase)["summary"] for phase in phases)
    assert refine.summary("answers")["summary"] == "Seats are what counts."
