"""The quality checks of refine: each adds a warning to the summary and never blocks."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.acceptance.refine.conftest import (
    CITED,
    IDEA,
    NAME,
    PRD,
    QUESTIONS,
    RESCORED,
    SECTIONS,
    Refinement,
    Rule,
    correct,
    question,
    rewrite,
    scores,
    skillrun,
)  # fmt: skip

FLAT = [{**one, "priority": "MEDIUM"} for one in QUESTIONS]
NO_CRITICAL = [{**one, "priority": "HIGH"} for one in QUESTIONS[:1]] + FLAT[1:]
ALIKE = [{**QUESTIONS[0], "choices": ["Everybody gets one early", "Everybody gets one earlier"]}, *QUESTIONS[1:]]
USABLE = "The questions can be used all the same."


@pytest.mark.row("R7")
@pytest.mark.parametrize(
    ("questions", "warnings"),
    [
        (QUESTIONS, []),
        (QUESTIONS[1:], [f"Nothing is asked about Problem. {USABLE}"]),
        (ALIKE, [f"Options say nearly the same in: {QUESTIONS[0]['text']} {USABLE}"]),
        (NO_CRITICAL, [f"No question is critical. {USABLE}"]),
        (FLAT, [f"No question is critical. {USABLE}", f"All questions are of medium priority. {USABLE}"]),
    ],
    ids=["good", "coverage", "distinctness", "no critical", "all medium"],
)
def test_question_checks_warn_and_the_questions_are_still_asked(
    refine: Refinement, questions: Sequence[dict[str, Any]], warnings: list[str]
) -> None:
    done = refine.begin("rapid", [{"address": "refine/questions/proposals/*", "data": {"questions": questions}}])
    assert done.code == 75
    assert refine.warnings("questions") == warnings
    assert all(f"questions: warning: {one}" in done.out for one in warnings)
    assert refine.form().read_text().count("\n## Q") == len(questions)


@pytest.mark.slow
@pytest.mark.row("R7")
@pytest.mark.parametrize(("failing", "calls"), [((), 2), (("assumptions",), 1), (("assumptions", "second-order"), 0)])
def test_deep_thinking_below_the_minimum_warns(refine: Refinement, failing: Sequence[str], calls: int) -> None:
    refine.config(scoring={"thinkdeep_completion": {"minimum_pct": 60}})
    rules = [{"address": f"refine/questions/deep/thinker:{one}/*", "fail": "overloaded"} for one in failing]
    assert refine.begin("advanced", rules, "--no-reports").code == 75
    flags = refine.summary("questions")["flags"]
    assert flags["thinkdeep_expected"] == 2
    assert flags.get("thinkdeep_calls", 0) == calls
    assert flags.get("thinkdeep_completion_pct", 0) == 50 * calls
    found = [one for one in refine.warnings("questions") if one.startswith("Deep thinking reached")]
    assert len(found) == (calls < 2)
    assert all(f"{calls} of 2 ({50 * calls} %)" in one for one in found)


@pytest.mark.slow
@pytest.mark.row("R7")
@pytest.mark.parametrize(("minimum", "warned"), [(50, False), (51, True)])
def test_deep_thinking_at_the_minimum_does_not_warn(refine: Refinement, minimum: int, warned: bool) -> None:
    refine.config(scoring={"thinkdeep_completion": {"minimum_pct": minimum}})
    refine.begin(
        "advanced", [{"address": "refine/questions/deep/thinker:assumptions/*", "fail": "timeout"}], "--no-reports"
    )
    assert any(one.startswith("Deep thinking reached 1 of 2 (50 %)") for one in refine.warnings("questions")) == warned


@pytest.mark.row("R7")
def test_standard_mode_has_no_deep_thinking_and_no_warning_about_it(refine: Refinement) -> None:
    refine.begin("standard", (), "--no-reports")
    assert refine.prompts("refine/questions/deep/*") == []
    assert not any("Deep thinking" in one for one in refine.warnings("questions"))


@pytest.mark.slow
@pytest.mark.row("R7")
@pytest.mark.parametrize(
    ("document", "warnings"),
    [
        (PRD, []),
        (PRD.replace(f"## Executive Summary\n\nText {CITED}.\n", ""), []),
        (PRD.replace(f"## Workflows\n\nText {CITED}.", "## Workflows\n"), ["Missing or empty in PRD.md: Workflows."]),
        (
            PRD.replace("## Problem", "## Trouble").replace("## Revenue Model", "## Money"),
            ["Missing or empty in PRD.md: Problem, Revenue Model."],
        ),
        (PRD + "\nIt has an api [D-1].\n", ["Words of software makers in PRD.md: API."]),
        (
            PRD + "\nThe back-end is a database whose architecture we implement [D-1].\n",
            ["Words of software makers in PRD.md: backend, database, architecture, implementation."],
        ),
        (PRD + "\nRapid apiary, therapist [D-1].\n", []),
    ],
    ids=["good", "no executive summary", "empty", "missing", "api", "all words", "near words"],
)
def test_draft_checks_warn_and_the_run_completes(refine: Refinement, document: str, warnings: list[str]) -> None:
    refine.begin()
    refine.fill()
    fixes = [rewrite(document, points=len(warnings)), correct(points=len(warnings))]
    done = refine.resume([{"address": "refine/draft/prd/*", "text": document}, *fixes])
    assert done.code == 0
    assert refine.warnings("draft") == warnings
    assert all(one in refine.text("summary.md") for one in warnings)


@pytest.mark.row("R7")
@pytest.mark.finding("FT26")
def test_a_document_without_decisions_causes_a_warning(refine: Refinement) -> None:
    settled = [{"address": "refine/questions/proposals/*", "data": {"questions": []}}]
    done = refine.begin("rapid", settled)
    assert done.code == 0
    assert any("There is no decision log" in one for one in refine.warnings("draft"))
    assert refine.warnings("questions")[0] == "Nothing is left to ask in this round; no question was proposed."


@pytest.mark.slow
@pytest.mark.row("R9")
@pytest.mark.parametrize(
    ("points", "verdict"),
    [
        (scores(4), "READY"),
        (scores(3, users=4), "READY"),
        (scores(3), "CONDITIONAL"),
        (scores(2, users=4), "CONDITIONAL"),
    ],
)
def test_the_verdict_depends_on_the_total_score(refine: Refinement, points: dict[str, Any], verdict: str) -> None:
    refine.begin()
    refine.fill()
    refine.resume([{"address": one, "data": points} for one in ("refine/draft/scores/*", RESCORED)])
    summary = refine.summary("draft")
    assert summary["outputs"]["decision"] == verdict
    assert summary["flags"]["validation_score"] == sum(one for one in points.values() if isinstance(one, int))


@pytest.mark.slow
@pytest.mark.row("R9")
def test_thresholds_come_from_the_configuration(refine: Refinement) -> None:
    refine.config(scoring={"prd_readiness": {"ready": 20, "conditional": 19}})
    refine.begin()
    refine.fill()
    low = [{"address": one, "data": scores(3)} for one in ("refine/draft/scores/*", RESCORED)]
    done = refine.resume(low, next_mode="keep this draft")
    assert done.code == 0
    assert refine.summary("draft")["outputs"]["decision"] == "NOT_READY"
    assert "19 are needed" in refine.text("reflection-round-1.md")


@pytest.mark.row("R9")
def test_without_judges_the_document_is_kept_and_flagged_as_unjudged(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    done = refine.resume([{"address": "refine/draft/scores/*", "fail": "overloaded"}])
    assert done.code == 0
    summary = refine.summary("draft")
    assert summary["flags"]["validation_skipped"] is True
    assert "decision" not in summary["outputs"], "no judge scored it"


@pytest.mark.row("R2")
def test_each_stage_gets_only_the_references_of_its_profile(refine: Refinement) -> None:
    refine.begin("standard", (), "--no-reports")
    refine.fill()
    assert refine.resume().code == 0
    marks = {
        "checkpoints": "# Before you hand on",
        "failures": "# When the material fails you",
        "bounds": "# The document in the end",
        "options": "# Questions and their options",
        "scoring": "# Readiness",
        "sources": "# What can be looked up",
    }
    profiles = {
        "research": {"checkpoints", "failures"},
        "questions": {"checkpoints", "failures", "bounds", "options"},
        "answers": {"checkpoints", "failures", "bounds"},
        "draft": {"checkpoints", "failures", "scoring"},
    }
    for phase, wanted in profiles.items():
        for prompt in refine.prompts(f"refine/{phase}/*"):
            assert {name for name, mark in marks.items() if f"{mark}\n" in prompt} == wanted
    assert refine.prompts("refine/completion/*") == []


@pytest.mark.slow
@pytest.mark.row("R2")
def test_the_sources_reference_is_present_when_there_are_sources(refine: Refinement) -> None:
    (refine.project / "notes").mkdir()
    refine.begin("standard", (), "--no-reports", "--repo", "notes")
    assert all("# What can be looked up" in prompt for prompt in refine.prompts("refine/research/*"))
    assert all("# What can be looked up" in prompt for prompt in refine.prompts("refine/questions/*"))
    refine.fill()
    refine.resume()
    assert not any("# What can be looked up" in prompt for prompt in refine.prompts("refine/answers/*"))


@pytest.mark.slow
@pytest.mark.row("R14")
def test_decisions_of_an_existing_document_cause_no_questions(refine: Refinement) -> None:
    (refine.project / "old.md").write_text("# Quiet\n\n## Problem\n\nA noisy hour costs a translator 40 euros.\n")
    decided = {"text": QUESTIONS[0]["text"], "answer": "40 euros.", "section": "Problem"}
    rules = [{"address": "refine/setup/decided/*", "data": {"decisions": [decided]}}]
    refine.begin("rapid", rules, "--prd", "old.md")
    assert refine.state()["state"]["prd_mode"] == "EXTEND"
    form = refine.form().read_text()
    assert QUESTIONS[0]["text"] not in form
    assert form.count("\n## Q") == len(QUESTIONS) - 1
    assert "40 euros" in refine.prompts("refine/questions/proposals/*")[0]
    assert refine.warnings("questions") == []
    refine.fill()
    assert refine.resume().code == 0
    assert "A noisy hour costs a translator 40 euros." in refine.prompts("refine/draft/prd/*")[0]
    assert f"| D-1 | 40 euros. | {QUESTIONS[0]['text']} | - | Problem | 0 |" in refine.text("decision-log.md")
    assert (refine.project / "old.md").read_text().endswith("40 euros.\n")


@pytest.mark.row("R14")
def test_a_new_document_has_no_settled_decisions(refine: Refinement) -> None:
    refine.begin()
    assert refine.state()["state"]["prd_mode"] == "NEW"
    assert refine.prompts("refine/setup/*") == []


@pytest.mark.row("R15")
def test_every_decision_traces_to_its_question_and_round_and_the_writer_sees_its_number(refine: Refinement) -> None:
    refine.begin()
    refine.fill()
    refine.resume()
    log = refine.text("decision-log.md")
    for number, (section, one) in enumerate(zip(SECTIONS, QUESTIONS, strict=True), 1):
        assert f"| D-{number} | Ten seats. | {one['text']} | Q-{number} | {section} | 1 |" in log
    (prompt,) = refine.prompts("refine/draft/prd/*")
    assert all(f"| D-{at} | Ten seats. | {one['text']} |" in prompt for at, one in enumerate(QUESTIONS, 1))


@pytest.mark.row("R3")
def test_every_prompt_variable_has_a_default(refine: Refinement) -> None:
    assert refine.begin("standard", (), "--no-reports").code == 75
    state = refine.state()
    assert state["round"] == 1
    assert state["inputs"] == {"idea": refine.state()["inputs"]["idea"], "mode": "standard", "reports": False}
    assert state["state"] == {
        "mode": "standard", "prd_mode": "NEW", "findings": "", "notes": "", "reflected": 0, "logged": 0,
        "current_answers": [], "decisions": [],
    }  # fmt: skip
    assert refine.entries("setup") == ["first_entry"]
    empty = ("None", "null", "Reflection", "What reports say", "The rounds before", "[]", "{}")
    for prompt in refine.prompts("refine/*/[apm]*/*"):
        assert not any(word in prompt.split() for word in ("None", "null", "[]", "{}"))
        assert not any(f"\n{sign}{one}" in prompt for one in empty for sign in ("", "# "))


@pytest.mark.slow
@pytest.mark.row("R3")
def test_the_mode_defaults_to_standard_and_the_state_overrides_it(refine: Refinement) -> None:
    refine.config(panels={"rapid": ["user-researcher"]})
    refine.done = skillrun("refine", IDEA, "--name", NAME, "--script", refine.script(()), "--no-reports")
    assert refine.state()["state"]["mode"] == "standard"
    refine.fill(skip=[1])
    refine.resume((), next_mode="rapid")
    assert (refine.state()["inputs"]["mode"], refine.state()["state"]["mode"]) == ("standard", "rapid")
    second = [address for address, _ in refine.calls if address.startswith("refine/questions/proposals/")][2:]
    assert second == ["refine/questions/proposals/user-researcher/1.1"]


@pytest.mark.slow
@pytest.mark.row("R3")
def test_an_unset_required_variable_is_an_error_before_any_call(refine: Refinement) -> None:
    done = skillrun("refine", "--script", refine.script(()))
    assert (done.code, "idea" in done.err) == (2, True)
    assert not (refine.project / "runs").exists()
    skillrun("eject", "refine/completion")
    folder = refine.project / "skills" / "refine"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "completion.md").write_text(
        "---\nkind: phase\nsteps: [{id: end, agent: coordinator}]\n---\n## end\nExtend {{ inputs.prd }}.\n"
    )
    done = refine.begin()
    assert (done.code, "`inputs.prd` may be absent" in done.err) == (1, True)
    assert not refine.folder.exists()


def test_duplicate_questions_are_asked_once_in_order_of_priority(refine: Refinement) -> None:
    many = [
        question(section, priority=p) for section, p in zip(SECTIONS, ["MEDIUM", "HIGH", "CRITICAL"] * 2, strict=True)
    ]
    rules: list[Rule] = [
        {"address": "refine/questions/merged/*", "fail": "overloaded"},
        {"address": "refine/questions/proposals/*", "data": {"questions": many}},
    ]
    refine.begin("standard", rules, "--no-reports")
    heads = [line for line in refine.form().read_text().splitlines() if line.startswith("## Q")]
    assert [head.split(" · ")[1] for head in heads] == ["CRITICAL"] * 2 + ["HIGH"] * 2 + ["MEDIUM"] * 2
    warning = "The editor did not answer; the members' questions are asked as they stand."
    assert warning in refine.warnings("questions")


@pytest.mark.row("R7")
@pytest.mark.finding("FR86", "FR109")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"limits": {"unasked_rounds": -3}}, "`unasked_rounds` is -3"),
        ({"token_budgets": {"compaction": {"rounds_before_compaction": -1}}}, "`unasked_rounds` is 3 and"),
        ({"panel": []}, "`panel` is empty"),
        ({"judges": []}, "`judges` is empty"),
        ({"modes": {"rapid": {"judges": []}}}, "`judges` is empty"),
        ({"questions": {"priorities": []}}, "`priorities` is empty"),
        ({"prd": {"sections": []}}, "`sections` is empty"),
        ({"questions": {"similarity": 3}}, "`similarity` is 3"),
        ({"scoring": {"dimensions": {"weak": 3}}}, "`weak` is 3 and `strong` is 3"),
        ({"scoring": {"thinkdeep_completion": {"minimum_pct": 101}}}, "`minimum_pct` is 101"),
    ],
)
def test_a_config_with_which_no_run_could_end_well_is_refused_before_any_call(
    refine: Refinement, config: dict[str, Any], message: str
) -> None:
    refine.config(**config)
    done = refine.begin()
    assert (done.code, refine.folder.exists()) == (1, False), done.out
    assert f"error[check]: {message}" in done.err
