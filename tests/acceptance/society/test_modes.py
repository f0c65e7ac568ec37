"""Planning modes: one model; several whose best plan is rewritten; several that first criticise each other."""

from __future__ import annotations

import re

import pytest

from tests.acceptance.society.conftest import MODELS, REQUEST, Rule, Society, answers, item, plan, point, review

DRAFTS = "implementation-plan/drafting/*/drafts"
CRITIQUES = "implementation-plan/drafting/critiques"


def critique(*points: object) -> dict[str, object]:
    return {"points": list(points), "body": "The second one."}


@pytest.mark.row("S1")
@pytest.mark.row("S7")
def test_by_default_one_model_writes_and_one_reviews(society: Society) -> None:
    assert society.begin().code == 0, society.done.err
    assert [address.split("/")[1:-2] for address in society.addresses()] == [
        ["planning", "written"],
        ["review", "cycle#1", "reviews"],
    ]
    assert society.files() == [".gitignore", "PLAN-REVIEW-SYNTHESIS.md", "PLAN-REVIEW-default.md"]
    assert society.text("planning/.gitignore") == "*\n"
    assert society.text("ImplementationPlan.md") == plan().strip() + "\n"
    report = society.front("report.md")
    assert (report["planning_mode"], report["plan_review_mode"]) == ("single-model", "single-model")


@pytest.mark.row("S1")
def test_the_state_stores_modes_and_models_and_missing_ones_get_defaults(
    society: Society,
) -> None:
    """A run of an older workflow has none of these keys and continues with one model."""
    assert society.begin("multi-model-deep", "multi-model", attended=True).code == 75
    inputs = society.front("state.md")["inputs"]
    assert (inputs["planning_mode"], inputs["plan_review_mode"]) == ("multi-model-deep", "multi-model")
    assert inputs["planning_models"] == inputs["plan_review_models"] == list(MODELS)
    path = society.folder / "state.md"
    text = re.sub(r"^  plan\w*_mode: .*\n", "", path.read_text("utf-8"), flags=re.MULTILINE)
    text = re.sub(r"^  plan\w*_models:\n(  - .*\n)+", "", text, flags=re.MULTILINE)
    path.write_text(text, "utf-8")
    assert list(society.front("state.md")["inputs"]) == ["request"]
    assert society.resume((), "--unattended").code == 0, society.done.err
    assert len(society.addresses()) == 2
    inputs = society.front("state.md")["inputs"]
    assert (inputs["planning_mode"], inputs["plan_review_mode"]) == ("single-model", "single-model")
    assert inputs["planning_models"] == ["latest GPT", "latest Gemini", "latest Claude Opus"]


@pytest.mark.row("S3")
@pytest.mark.row("S7")
def test_several_models_draft_and_the_author_of_the_base_rewrites_its_plan(society: Society) -> None:
    rules: list[Rule] = [{"address": f"{DRAFTS}/planner@{model}/*", "text": plan(f"the {model}")} for model in MODELS]
    assert society.begin("multi-model", rules=rules).code == 0, society.done.err
    assert [text for text in society.files() if text.startswith("PLAN-") and "REVIEW" not in text] == [
        "PLAN-ada.md",
        "PLAN-bea.md",
        "PLAN-cyn.md",
    ]
    assert society.text("planning/.gitignore") == "*\n"
    for model in MODELS:
        name = model.partition(":")[2]
        assert f"Changes the {model}." in society.text(f"planning/PLAN-{name}.md")
    (seen,) = society.prompts("drafting/comparison/*")
    assert all(f"Changes the {model}." in seen for model in MODELS)
    (address,) = society.addresses("planning/rewritten/*")
    assert "planner@scripted:bea" in address, "the base was bea's"
    (prompt,) = society.prompts("planning/rewritten/*")
    base, _, others = prompt.partition("# The other plans")
    assert "# The base, which is your plan" in base
    assert "Changes the scripted:bea." in base
    assert "Changes the scripted:ada." in others
    assert "Changes the scripted:cyn." in others
    assert "What POINT-1 says of PLAN-ada." in prompt
    assert not society.addresses("drafting/critiques/*")
    written = society.text("ImplementationPlan.md")
    assert "[PLAN-bea, POINT-1]" in written
    assert "| POINT-1 | What POINT-1 says of PLAN-ada. | changed: POINT-1 is in T-1. |" in written
    assert "- `PLAN-bea`: `planning/PLAN-bea.md`, the base\n" in written


DEEP: list[Rule] = [
    {
        "address": f"{CRITIQUES}/plan-reviewer@scripted:ada/*",
        "data": critique(
            point("CRITIQUE-ada-1", "flaw", "PLAN-ada", "BLOCKING"),
            point("CRITIQUE-ada-2", "flaw", "PLAN-cyn"),
            point("CRITIQUE-ada-4", "disagreement", "PLAN-cyn"),
            point("CRITIQUE-ada-3", "strength", "PLAN-bea"),
        ),
    },
    {
        "address": f"{CRITIQUES}/plan-reviewer@scripted:bea/*",
        "data": critique(
            point("CRITIQUE-bea-1", "flaw", "PLAN-bea"),
            point("CRITIQUE-bea-2", "flaw", "PLAN-bea"),
            point("CRITIQUE-bea-3", "strength", "PLAN-ada"),
        ),
    },
    {
        "address": f"{CRITIQUES}/plan-reviewer@scripted:cyn/*",
        "data": critique(
            point("CRITIQUE-cyn-1", "flaw", "PLAN-bea", "BLOCKING"),
            point("CRITIQUE-cyn-2", "gap", "all", "BLOCKING"),
            point("CRITIQUE-cyn-3", "disagreement", "PLAN-ada"),
            point("CRITIQUE-cyn-4", "recommendation", "PLAN-bea"),
        ),
    },
    {
        "address": "implementation-plan/planning/rewritten/*",
        "text": plan(sources="PLAN-cyn, CRITIQUE-cyn-2"),
        "record": answers(
            "CRITIQUE-ada-2",
            "CRITIQUE-ada-3",
            "CRITIQUE-bea-3",
            "CRITIQUE-cyn-2",
            "CRITIQUE-cyn-4",
            CRITIQUE_cyn_3="The request says at most.",
        ),
    },
]


@pytest.mark.slow
@pytest.mark.row("S4")
def test_in_deep_mode_each_criticises_all_plans_and_the_one_with_the_fewest_flaws_is_rewritten(
    society: Society,
) -> None:
    rules: list[Rule] = [
        *DEEP,
        *({"address": f"{DRAFTS}/planner@{one}/*", "text": plan(f"the {one}")} for one in MODELS),
    ]
    assert society.begin("multi-model-deep", rules=rules).code == 0, society.done.err
    assert [text for text in society.files() if text.startswith("CRITIQUE")] == [
        "CRITIQUE-ada.md",
        "CRITIQUE-bea.md",
        "CRITIQUE-cyn.md",
    ]
    prompts = society.prompts("drafting/critiques/*")
    assert len(prompts) == len(MODELS)
    assert all(f"Changes the {model}." in prompt for model in MODELS for prompt in prompts)
    front = society.front("planning/CRITIQUE-cyn.md")
    assert [one["kind"] for one in front["points"]] == ["flaw", "gap", "disagreement", "recommendation"]
    assert not society.addresses("drafting/comparison/*")
    (address,) = society.addresses("planning/rewritten/*")
    assert "planner@scripted:cyn" in address, "ada's has a blocking flaw, bea's one of three, cyn's none that blocks"
    (prompt,) = society.prompts("planning/rewritten/*")
    points = prompt.partition("# Points to answer")[2]
    ids = set(re.findall(r"- (CRITIQUE-\w+-\d)", points))
    about_others = {"CRITIQUE-ada-1", "CRITIQUE-bea-1", "CRITIQUE-bea-2", "CRITIQUE-cyn-1"}
    assert ids == {f"CRITIQUE-{one}" for one in ("ada-2", "ada-3", "bea-3", "cyn-2", "cyn-3", "cyn-4")}
    assert re.findall(r"- (CRITIQUE-\w+-\d)", points)[0] == "CRITIQUE-cyn-2", "blocking points come first"
    assert not ids & about_others, "flaws of rejected plans are left out"
    assert "kept: The request says at most." in society.text("ImplementationPlan.md")
    assert "CRITIQUE-cyn-3" in society.text("report.md").partition("not followed")[2]


@pytest.mark.row("S4")
def test_without_critiques_one_model_compares_the_plans(society: Society) -> None:
    rules: list[Rule] = [{"address": f"{CRITIQUES}/*", "fail": "overloaded"}]
    assert society.begin("multi-model-deep", rules=rules).code == 0, society.done.err
    assert society.addresses("drafting/comparison/*")
    assert "Nobody criticised the plans; one model compares them instead." in society.messages()
    assert "degraded" in society.done.out


@pytest.mark.row("S3")
def test_a_part_without_sources_is_sent_back_once(society: Society) -> None:
    bare: list[Rule] = [
        {
            "address": "implementation-plan/planning/rewritten/*",
            "text": plan(sources="PLAN-bea, PLAN-zoe").replace(" [PLAN-bea, PLAN-zoe]", "", 1),
            "record": answers("POINT-1"),
        },
        {
            "address": "implementation-plan/planning/checked#1/correction/*",
            "text": plan(sources="PLAN-bea"),
            "record": answers("P-1", "P-2"),
        },
    ]
    assert society.begin("multi-model", rules=bare).code == 0, society.done.err
    (prompt,) = society.prompts("planning/checked*/correction/*")
    assert "D-1 does not say which drafts it comes from." in prompt
    assert "PLAN-zoe is cited in line" in prompt
    assert society.front("summaries/planning.md")["flags"]["findings"] == 0


FAULTS = {
    ("500", "50"): "The request says 500 rows and the plan does not",
    ("Serves: C-1, D-1, I-1", "Serves: C-7, D-1, I-1"): "C-7 is cited in line",
    ("- C-1:", "- C-1: "): "No task serves C-1.",
    ("- Run: `pytest tests/test_export.py`;", "-"): "Of 1 tasks 0 have the line `Run:`.",
    ("- Does: counts rows", "- Does: counts rows as needed"): "puts off or is vague: as needed.",
}


@pytest.mark.row("S3")
def test_rules_check_every_plan_and_its_author_answers_the_findings(society: Society) -> None:
    faulty = plan()
    for change in FAULTS:
        faulty = faulty.replace(*change)
    rules: list[Rule] = [
        {"address": "implementation-plan/planning/written/*", "text": faulty},
        {"address": "implementation-plan/planning/checked*/correction/*", "text": plan(), "record": answers("P-1")},
    ]
    assert society.begin(rules=rules).code == 0, society.done.err
    prompt = society.prompts("planning/checked*/correction/*")[0]
    assert [found for found in FAULTS.values() if found not in prompt] == []
    assert society.text("ImplementationPlan.md") == plan().strip() + "\n"


@pytest.mark.row("S3")
def test_only_a_sources_heading_written_by_the_model_is_removed(society: Society) -> None:
    rules = [{"address": "implementation-plan/planning/written/*", "text": plan(more="## Sources\n\nT-1\n")}]
    assert society.begin(rules=rules).code == 0
    assert society.text("ImplementationPlan.md") == plan().strip() + "\n"


@pytest.mark.row("S3")
def test_remaining_rule_findings_are_reported(society: Society) -> None:
    bare: list[Rule] = [
        {"address": "implementation-plan/planning/*", "text": plan().replace("### T-1: a limit", "### A limit")},
    ]
    assert society.begin(rules=bare).code == 0, society.done.err
    assert len(society.addresses("planning/checked#1/correction/*/1.1")) == 1
    assert not society.addresses("planning/checked#2/*"), "it is sent back once"
    assert "The plan has no tasks that are numbered" in society.text("report.md").partition("rules still find")[2]
    assert "The plan has no tasks that are numbered" in society.prompts("review/*")[0]


@pytest.mark.slow
@pytest.mark.row("S6")
def test_a_returned_plan_keeps_its_drafts_and_is_rewritten_by_its_author(society: Society) -> None:
    rules: list[Rule] = [
        {"address": "implementation-plan/review/*/reviews/*", "data": review("FAIL", item("REVIEW-ada-1")), "times": 3},
        {
            "address": "implementation-plan/planning/revised/*",
            "text": plan(sources="PLAN-bea, REVIEW-ada-1"),
            "record": answers("REVIEW-ada-1", "REVIEW-ada-1-1", "REVIEW-ada-1-2"),
        },
    ]
    assert society.begin("multi-model", "multi-model", rules).code == 0, society.done.err
    assert len(society.addresses("drafting/*")) == len(MODELS) + 1, "no model drafts twice"
    (address,) = society.addresses("planning/revised/*")
    assert "planner@scripted:bea" in address
    (prompt,) = society.prompts("planning/revised/*")
    assert "What REVIEW-ada-1 says." in prompt
    assert plan(sources="PLAN-bea, POINT-1").splitlines()[3] in prompt
    first, again = (society.prompts("review/*")[at] for at in (0, -1))
    assert "`REVIEW-ada-1` and so on" in first
    assert "-2-1` and so on" in again, "points of two reviews have different ids"
    written = society.text("ImplementationPlan.md")
    assert written.count("## Sources") == 1
    assert "| POINT-1 |" in written
    assert "| REVIEW-ada-1 | What REVIEW-ada-1 says. | changed: REVIEW-ada-1 is in T-1. |" in written
    assert "[PLAN-bea, REVIEW-ada-1]" in written


def test_every_prompt_has_the_given_files(society: Society) -> None:
    (society.project / "spec.md").write_text("The file is UTF-8.\n")
    (society.project / "known.md").write_text("Rows come from a generator.\n")
    assert society.begin("multi-model", "single-model", (), "--spec", "spec.md", "--research", "known.md").code == 0
    for prompt in society.prompts():
        assert REQUEST in prompt
        assert "The file is UTF-8." in prompt
        assert "Rows come from a generator." in prompt
