"""What a plan is worth: findings are answered, forks are settled first, and code checks the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.acceptance.plan.conftest import CASE, HELD, NOTHING, Plan, Plans, Rule

SPEC = """\
# Specification

## Constraints

- C-1: "at most 250 rows"

## Acceptance criteria

- AC-1: It is dark.
- AC-2: At most 250 rows are shown.
"""
DESIGN = """\
# Design

## Interfaces

- I-1: `shade(page: Page) -> Page`

## Decisions

- D-1: A cookie keeps it.
"""
TESTS = "# Test plan\n\n| id | criterion |\n| --- | --- |\n| T-1 | AC-1 |\n| T-2 | AC-2 |\n"
TASKS = """\
## TASK-1: Darken

- Files: new `src/shade.py`
- **Makes**:
  - a helper
  - I-1 `shade`
- Serves: AC-1, AC-2, C-1
- Tests first: T-1, T-2
"""
WRITTEN: Sequence[Rule] = (
    {"address": "plan/clarify/spec/*", "text": SPEC, "record": NOTHING},
    {"address": "plan/architecture/draft/*", "text": DESIGN},
    {"address": "plan/test-strategy/draft/*", "text": TESTS},
    {"address": "plan/completion/tasks/*", "text": TASKS},
)
REQUEST = "Add dark mode, with at most 250 rows"
MENDED = "plan/completion/checked#1/mended/rewritten/*"


def changed(*ids: str, done: str = "changed", how: str = "It is so now.") -> dict[str, Any]:
    return {"answers": [{"id": one, "done": done, "how": how} for one in ids]}


def judged(*reasons: str, score: int = 14) -> Rule:
    return {"address": "plan/validation/judged/*", "data": {"score": score, "reasons": list(reasons)}}


def found(*findings: tuple[str, str]) -> Rule:
    return {
        "address": "plan/expert-review/*/review/security-analyst/*",
        "data": {"findings": [{"id": one.split()[0], "risk": one, "severity": weight} for one, weight in findings]},
    }


@pytest.fixture
def heard(plan: Plans) -> Plan:
    """Judges are YELLOW, reviewers find something large and something small; the author changes one and keeps one."""
    mended = {
        "address": "plan/expert-review/mended/rewritten/*",
        "text": f"{DESIGN}- D-2: NOW it has a way back.",
        "record": {
            "answers": [
                *changed("P-1", "HOLE", "CRUMB")["answers"],
                *changed("P-2", done="kept", how="The request rules it out.")["answers"],
            ]
        },
    }
    rules = [
        judged("NO way back.", "NO second theme."),
        found(("HOLE in the wall.", "MAJOR"), ("CRUMB on the floor.", "MINOR")),
        mended,
        *WRITTEN,
    ]
    return plan("standard", rules, request=REQUEST)


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_what_judges_and_reviewers_find_goes_to_the_author_with_the_document(heard: Plan) -> None:
    assert heard.done.code == 0, heard.done.err
    prompt = heard.prompt("plan/expert-review/mended/rewritten/planner/1.1")
    points = prompt.rpartition("# Points to answer")[2]
    assert all(one in points for one in ("NO way back.", "NO second theme.", "HOLE in the wall."))
    assert "CRUMB" in points, "what is slight goes along"
    assert prompt.index("# Current task") < prompt.index("You are its author") < prompt.index("# Points to answer")
    assert "Each point is answered" in prompt.partition("\n# Acceptance criteria")[2]
    assert "Each finding points at" not in prompt, "that is when a reviewer is done"
    assert "A cookie keeps it." in prompt.partition("# The design")[2]
    assert "NOW it has a way back." in heard.artifact("design.md")
    assert all("NOW it has a way back." in one for one in heard.prompts("plan/test-strategy/*"))
    assert "The author: changed, It is so now." in heard.artifact("review.md")
    assert heard.summary("expert-review")["risks_identified"] == []


@pytest.mark.row("Q2")
def test_what_stays_as_it_was_and_what_is_minor_stands_in_what_is_read_first(heard: Plan) -> None:
    first = heard.artifact("plan.md")
    assert "- NO second theme. Stays, because: The request rules it out." in first
    assert "HOLE" not in first
    assert "CRUMB" not in first, "it went along, and was changed"
    assert "NO way back" not in first


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_reviewers_know_what_judges_found_and_both_may_read_the_code(plan: Plans) -> None:
    files = {"code/shade.py": "pass\n"}
    run = plan("standard", [judged("NO way back."), *WRITTEN], files=files, flags=["--repo", "code"])
    assert "NO way back." in run.prompts("plan/expert-review/*/review/*")[0]
    assert "Look into the code" in run.prompts("plan/validation/judged/*")[0]
    assert "src/shade.py" not in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_without_reviewers_the_author_answers_the_judges(plan: Plans) -> None:
    config = {"features": {"expert_review": {"enabled": False}}}
    mended = {"address": "plan/validation/mended/rewritten/*", "text": "# Design\n\nNEW.", "record": changed("P-1")}
    run = plan("standard", [judged("NO way back."), mended, *WRITTEN], config=config, until="test-strategy")
    assert run.artifact("design.md") == "# Design\n\nNEW.\n"
    assert "NEW." in run.prompts("plan/test-strategy/*")[0]


def breaking(given: str) -> dict[str, Any]:
    """Cases of which the first breaks the design."""
    wrong = {**CASE, "id": "CASE-1", "given": given, "gives": "NOTHING is seen.", "holds": False}
    return {"cases": [wrong, *HELD["cases"][1:]]}


@pytest.mark.slow
@pytest.mark.row("Q2", "Q4")
@pytest.mark.parametrize("mode", ["rapid", "standard"])
def test_a_case_that_breaks_the_design_goes_to_its_author_before_anybody_judges_it(plan: Plans, mode: str) -> None:
    tried = {"address": "plan/architecture/tried/*", "data": breaking("TWO at once")}
    mended = {
        "address": "plan/architecture/mended/rewritten/*",
        "text": f"{DESIGN}- D-2: LOCKED.",
        "record": changed("CASE-1"),
    }
    run = plan(mode, [tried, mended, *WRITTEN], request=REQUEST)
    assert run.done.code == 0, run.done.err
    points = run.prompt("plan/architecture/mended/rewritten/*").rpartition("# Points to answer")[2]
    assert "TWO at once" in points
    assert "NOTHING is seen." in points
    assert "CASE-2" not in points, "what holds is no point"
    assert all("LOCKED." in prompt for prompt in run.prompts("plan/validation/judged/*"))
    assert "LOCKED." in run.artifact("design.md")
    assert "TWO at once" in run.prompts("plan/test-strategy/draft/*")[0]
    assert "TWO at once" not in run.artifact("plan.md")
    kept = {**mended, "record": changed("CASE-1", done="kept", how="Nobody does.")}
    run = plan(mode, [tried, kept, *WRITTEN], request=REQUEST)
    assert "- TWO at once Stays, because: Nobody does." in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2", "Q6")
def test_what_a_rewrite_decides_anew_stands_in_place_of_what_was_decided(plan: Plans) -> None:
    def deciding(text: str) -> dict[str, Any]:
        return {"key_decisions": [{"id": "D-1", "decision": text, "rationale": "So.", "confidence": "HIGH"}]}

    rules = [
        {"address": "plan/architecture/draft/*", "text": DESIGN, "record": {**NOTHING, **deciding("A cookie.")}},
        {"address": "plan/architecture/tried/*", "data": breaking("TWO at once")},
        {
            "address": "plan/architecture/mended/rewritten/*",
            "text": DESIGN,
            "record": {**changed("CASE-1"), **deciding("A locked cookie.")},
        },
        judged("NO way back."),
        {
            "address": "plan/expert-review/mended/rewritten/*",
            "text": DESIGN,
            "record": {**changed("P-1"), **deciding("A profile.")},
        },
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert [one["decision"] for one in run.summary("architecture")["key_decisions"]] == ["A locked cookie."]
    told = run.artifact("summary.md").partition("## What the ids stand for")[2]
    assert "A profile." in told
    assert "cookie" not in told


@pytest.mark.slow
@pytest.mark.row("Q2", "Q4")
def test_what_still_breaks_the_rewritten_design_is_put_right_with_the_tests(plan: Plans) -> None:
    mended = {"address": "plan/expert-review/mended/rewritten/*", "text": DESIGN, "record": changed("P-1")}
    tried = {"address": "plan/expert-review/tried/*", "data": breaking("THREE at once")}
    correction = {"document": "design", "says": "A cookie keeps it.", "instead": "A locked cookie keeps it."}
    draft = {
        "address": "plan/test-strategy/draft/*",
        "text": TESTS,
        "record": {**NOTHING, **changed("CASE-1"), "corrections": [correction]},
    }
    run = plan("standard", [judged("NO way back."), mended, tried, draft, *WRITTEN], request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert "Cases that were tried on an earlier one" in run.prompt("plan/expert-review/tried/*")
    assert "THREE at once" in run.prompt("plan/test-strategy/draft/*").rpartition("# Points to answer")[2]
    assert "A locked cookie keeps it." in run.artifact("design.md")
    kept = {**draft, "record": {**NOTHING, **changed("CASE-1", done="kept", how="Nobody does.")}}
    run = plan("standard", [judged("NO way back."), mended, tried, kept, *WRITTEN], request=REQUEST)
    assert "- THREE at once Stays, because: Nobody does." in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q3", "P12")
def test_a_risk_that_the_review_leaves_may_be_named_and_is_explained_where_it_is(plan: Plans) -> None:
    mended = {
        "address": "plan/expert-review/mended/rewritten/*",
        "text": DESIGN,
        "record": changed("EXPERT-REVIEW-R1", done="kept", how="It is rare."),
    }
    tasks = {"address": "plan/completion/tasks/*", "text": f"{TASKS}- Serves, too: EXPERT-REVIEW-R1\n"}
    rules = [found(("EXPERT-REVIEW-R1 a hole.", "MAJOR")), mended, tasks, *WRITTEN]
    run = plan("standard", rules, request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert "- EXPERT-REVIEW-R1: MAJOR, EXPERT-REVIEW-R1 a hole." in run.artifact("tasks.md")
    assert run.asked(MENDED) == [], "naming it is no fault"


@pytest.mark.slow
@pytest.mark.row("Q2", "P13")
def test_what_the_coverage_lacks_goes_to_the_author_of_the_test_plan(plan: Plans) -> None:
    rules = [
        {"address": "plan/coverage/judged/*", "data": {"score": 15, "reasons": ["NOBODY tries it at night."]}},
        {"address": "plan/coverage/mended/*", "text": TESTS + "| T-3 | AC-1 |\n", "record": changed("P-1", "P-2")},
        {"address": "plan/test-strategy/draft/*", "text": TESTS.replace("| T-2 | AC-2 |\n", "")},
        *WRITTEN,
    ]
    run = plan("standard", rules)
    points = run.prompt("plan/coverage/mended/*").rpartition("# Points to answer")[2]
    assert "NOBODY tries it at night." in points
    assert "No case names AC-2." in points
    assert "T-3" in run.artifact("test-plan.md")
    assert run.summary("coverage")["outputs"].get("missing", []) == []
    assert "T-3" in run.prompt("plan/completion/tasks/*")


@pytest.mark.slow
@pytest.mark.row("Q5")
def test_forks_are_settled_before_the_specification_with_the_reason(plan: Plans) -> None:
    fork = {
        "id": "F-1",
        "text": "Cookie or account?",
        "choices": ["cookie", "account"],
        "default": "cookie",
        "because": "No login.",
    }
    rules = [{"address": "plan/clarify/forks/*", "data": {"questions": [fork]}}]
    run = plan("standard", rules, until="clarify")
    spec = run.prompt("plan/clarify/spec/*").partition("# What was settled")[2]
    assert all(one in spec for one in ("answer: cookie", "answered_by: default", "because: No login."))
    assert "answer: cookie" in run.prompt("plan/clarify/gate#1/score/*")
    told = plan("standard", rules, until="clarify", answers={"clarify/settled": ["account"]})
    assert "answer: account" in told.prompt("plan/clarify/spec/*")
    assert plan("rapid").asked("plan/clarify/forks/*") == []


@pytest.mark.slow
@pytest.mark.row("Q3", "Q4")
def test_documents_that_agree_are_not_mended(plan: Plans) -> None:
    run = plan("standard", WRITTEN, request=REQUEST)
    assert run.asked("plan/completion/checked*/mended/*") == []
    assert run.summary("completion")["quality_warnings"] == []
    assert run.summary("completion")["outputs"].get("findings", []) == []


BROKEN = f"""\
## TASK-1: Darken

- Files: `src/gone.py`
- Uses: {"`existing` " * 40}I-2 `paint`
- Serves: AC-1, AC-9, CLARIFY-1
- Tests first: T-1
- Does: it, for now.
"""
LINES = (
    "AC-9 is cited, and nothing in the documents is called so.",
    "I-2 is cited, and nothing in the documents is called so.",
    "CLARIFY-1 is cited, and nothing in the documents is called so.",
    "No task serves C-1.",
    "No task serves AC-2.",
    "No task writes the test T-2.",
    "No task makes I-1.",
    "src/gone.py is not in the code base, and the tasks do not say that it is new.",
    'Line 7 leaves something open with "for now".',
)


@pytest.mark.slow
@pytest.mark.row("Q3", "Q4", "Q7")
@pytest.mark.parametrize("mode", ["rapid", "standard"])
def test_what_rules_find_is_mended_once_by_a_call_that_gets_exactly_that(plan: Plans, mode: str) -> None:
    rules = [
        {"address": "plan/completion/tasks/*", "text": BROKEN},
        {"address": MENDED, "text": TASKS, "record": changed(*(f"P-{n}" for n in range(1, 10)))},
        {"address": "plan/architecture/draft/*", "text": DESIGN},
        *WRITTEN,
    ]
    files = {"code/shade.py": "pass\n"}
    run = plan(mode, rules, request=REQUEST, files=files, flags=["--repo", "code"])
    (prompt,) = run.prompts("plan/completion/checked*/mended/*")
    points = prompt.rpartition("# Points to answer")[2].partition("# ")[0]
    told = [line.partition(": ")[2] for line in points.splitlines() if line.startswith("- P-")]
    assert sorted(told) == sorted(LINES)
    assert "TASK-1: Darken" in run.artifact("tasks.md")
    assert run.summary("completion")["quality_warnings"] == []


@pytest.mark.slow
@pytest.mark.row("Q2", "Q3")
def test_what_a_rule_finds_goes_to_the_author_of_that_document_and_once_refuted_is_gone(plan: Plans) -> None:
    odd = TASKS + "- Does: show the placeholder.\n"
    rules = [
        {"address": "plan/architecture/draft/*", "text": DESIGN + "- D-2: As ARC-1 asks.\n"},
        {"address": "plan/expert-review/mended/*", "text": DESIGN + "- D-2: ARC-1.\n", "record": changed("P-1")},
        {"address": "plan/completion/tasks/*", "text": odd},
        {"address": MENDED, "text": odd, "record": changed("P-1", done="kept", how="The field shows it.")},
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert "ARC-1 is cited, and nothing" in run.prompt("plan/expert-review/mended/*").rpartition("# Points to")[2]
    (prompt,) = run.prompts("plan/completion/checked*/mended/*")
    assert "ARC-1" not in prompt.rpartition("# Points to answer")[2]
    assert not [one for one in ("plan.md", "summary.md") if "placeholder" in run.artifact(one)]
    assert run.summary("completion")["quality_warnings"] == []


def fix(document: str, says: str, instead: str) -> dict[str, Any]:
    return {"corrections": [{"document": document, "says": says, "instead": instead}]}


@pytest.mark.slow
@pytest.mark.row("Q2", "Q6")
def test_what_an_earlier_document_says_wrongly_is_put_right_there(plan: Plans) -> None:
    rules: list[Rule] = [
        judged("AC-1 and the design differ."),
        {
            "address": "plan/architecture/draft/*",
            "text": DESIGN,
            "record": {**NOTHING, **fix("specification", "It is dark.", "DIM.")},
        },
        {
            "address": "plan/expert-review/mended/*",
            "text": DESIGN,
            "record": {**changed("P-1"), **fix("specification", "AC-1:  DIM.", "AC-1: It is DIMMED.")},
        },
        {
            "address": "plan/test-strategy/draft/*",
            "text": TESTS,
            "record": {**NOTHING, **fix("design", "A cookie", "A COOKIE")},
        },
        {"address": "plan/completion/*/read/*", "data": {"points": ["WHICH rows?"]}},
        {
            "address": MENDED,
            "text": TASKS,
            "record": {**changed("P-1"), **fix("test plan", "| T-2 | AC-2 |", "| T-2 | AC-2 |\n| T-3 | AC-2 |")},
        },
        {
            "address": "plan/completion/checked#2/mended/*",
            "text": TASKS.replace("T-2", "T-2, T-3"),
            "record": {**changed("P-1"), **fix("specification", "NOWHERE", "so")},
        },
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert "- AC-1: DIM." in run.prompts("plan/validation/judged/*")[0]
    assert "- AC-1: It is DIMMED." in run.artifact("spec.md")
    assert "- AC-1: It is DIMMED." in run.prompts("plan/test-strategy/draft/*")[0]
    assert "A COOKIE keeps it." in run.artifact("design.md")
    assert "A COOKIE keeps it." in run.prompts("plan/coverage/judged/*")[0]
    assert "| T-3 | AC-2 |" in run.artifact("test-plan.md")
    assert "No task writes the test T-3." in run.prompts("plan/completion/checked#2/mended/*")[0]
    assert 'The specification should say "so" in place of "NOWHERE".' in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_what_a_later_document_settles_is_not_open(plan: Plans) -> None:
    rules = [
        found(("CRUMB on the floor.", "MINOR"), ("CRACK in the wall.", "MINOR")),
        {"address": "plan/completion/first/*", "data": {"what": "Dark.", "decisions": [], "open": [], "settled": [1]}},
        {"address": "plan/architecture/draft/*", "text": DESIGN, "record": NOTHING},
        {"address": "plan/test-strategy/draft/*", "text": TESTS, "record": NOTHING},
        {"address": "plan/completion/tasks/*", "text": TASKS, "record": {"corrections": []}},
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert "1. CRUMB on the floor." in run.prompt("plan/completion/first/*")
    assert "CRACK" in run.artifact("plan.md")
    assert "CRUMB" not in run.artifact("plan.md")
    assert run.asked("plan/expert-review/mended/*") == [], "what is slight is no reason for a call"


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_a_limit_of_the_request_that_got_lost_is_asked_for_and_then_told(plan: Plans) -> None:
    lost = "The request says 250 rows; neither the specification nor a task does."
    vague = {"address": "plan/clarify/spec/*", "text": SPEC.replace("250", "some")}
    run = plan("rapid", [vague, *WRITTEN], request=REQUEST)
    assert "The request says 250 rows, and the specification does not" in run.prompt("plan/completion/tasks/*")
    assert run.asked("plan/completion/*/mended/*") == [], "it may be no limit, and is no reason for a call"
    assert lost in str(run.summary("completion")["quality_warnings"])
    kept = {
        **WRITTEN[3],
        "record": {"corrections": [{"document": "specification", "says": "some rows are", "instead": "250 rows are"}]},
    }
    assert lost not in str(
        plan("rapid", [vague, kept, *WRITTEN], request=REQUEST).summary("completion")["quality_warnings"]
    )
    broken = {**WRITTEN[3], "text": TASKS.replace("AC-2, ", "")}
    run = plan("rapid", [vague, broken, *WRITTEN], request=REQUEST)
    assert lost in run.prompts("plan/completion/*/mended/*")[0], "with other points it goes along"


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_what_is_left_is_a_warning_and_stands_in_the_summary(plan: Plans) -> None:
    rules: list[Rule] = [{"address": "plan/completion/tasks/*", "text": TASKS.replace("AC-2, ", "AC-9, ")}]
    rules += [{"address": "plan/completion/checked*/mended/*", "fail": "timeout"}, *WRITTEN]
    run = plan("rapid", rules, request=REQUEST)
    assert run.done.code == 0
    assert "No task serves AC-2." in str(run.summary("completion")["quality_warnings"])
    assert "- No task serves AC-2." in run.artifact("summary.md")
    assert "Rules still find" not in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2", "Q6")
def test_what_only_a_rule_took_for_a_fault_is_not_told_to_the_reader(plan: Plans) -> None:
    odd = TASKS + "- Does: show the placeholder.\n"
    kept = {"text": odd, "record": changed("P-1", done="kept", how="It is what the field shows.")}
    rules = [{"address": "plan/completion/tasks/*", "text": odd}, {"address": MENDED, **kept}, *WRITTEN]
    run = plan("rapid", rules, request=REQUEST)
    assert "placeholder" in run.prompt(MENDED).rpartition("# Points to answer")[2]
    assert "placeholder" not in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_a_newcomer_reads_the_tasks_and_is_answered(plan: Plans) -> None:
    rules = [
        {"address": "plan/completion/*/read/*", "data": {"points": ["WHICH page comes first?"]}},
        {"address": MENDED, "text": TASKS + "- Does: the start page first.\n", "record": changed("P-1")},
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert "WHICH page comes first?" in run.prompt(MENDED)
    assert "the start page first." in run.artifact("tasks.md")
    assert len(run.asked("plan/completion/*/read/*")) == 1
    assert plan("rapid").asked("plan/completion/*/read/*") == []


@pytest.mark.row("Q4", "Q6")
def test_constraints_stand_on_top_of_the_tasks_word_for_word(plan: Plans) -> None:
    tasks = plan("standard", WRITTEN, request=REQUEST).artifact("tasks.md")
    assert tasks.startswith('# Tasks\n\n## Constraints\n\n- C-1: "at most 250 rows"\n\n## TASK-1')


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_what_is_read_first_has_decisions_then_what_is_open_then_what_is_built(plan: Plans) -> None:
    brief = {"what": "It gets dark.", "decisions": ["A cookie keeps it (D-1)."], "open": ["assumption: one theme."]}
    rules = [{"address": "plan/completion/first/*", "data": brief}, *WRITTEN]
    text = plan("standard", rules, request=REQUEST).artifact("plan.md")
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == ["# Plan", "## Decided", "## Open", "## What is built", "## Where it stands"]
    assert all(one in text for one in ("A cookie keeps it (D-1).", "- assumption: one theme.", "It gets dark."))


@pytest.mark.slow
@pytest.mark.row("Q6")
@pytest.mark.parametrize("mode", ["standard", "complete"])
def test_what_is_delivered_says_nothing_of_how_it_was_made(plan: Plans, mode: str) -> None:
    run = plan(mode, WRITTEN, request=REQUEST)
    for path in ("spec.md", "design.md", "test-plan.md", "tasks.md", "plan.md"):
        text = run.artifact(path)
        assert not [word for word in ("onvergence", "Not measured", "chair", "round ", "panel") if word in text], path


@pytest.mark.slow
@pytest.mark.row("Q7")
def test_the_deepest_path_of_standard_stays_within_its_calls(plan: Plans) -> None:
    rules = [
        judged("NO way back."),
        found(("HOLE in the wall.", "MAJOR")),
        {"address": "plan/coverage/judged/*", "data": {"score": 15, "reasons": ["NOBODY tries it."]}},
        {"address": "plan/completion/*/read/*", "data": {"points": ["WHICH page?"]}},
        {"address": "plan/completion/tasks/*", "text": BROKEN},
    ]
    rules += [
        {"address": f"plan/{step}/rewritten/*", "text": text, "record": changed("P-1", "HOLE")}
        for step, text in (("expert-review/mended", DESIGN), ("coverage/mended", TESTS))
    ]
    rules += [
        {
            "address": "plan/completion/checked*/mended/*",
            "text": BROKEN,
            "record": changed(*(f"P-{n}" for n in range(1, 11))),
        }
    ]
    run = plan("standard", [*rules, *WRITTEN], request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert len([one for one in run.asked() if not one.endswith("/2.1")]) <= 32
    assert len(plan("rapid").calls) <= 9


@pytest.mark.slow
@pytest.mark.row("Q2", "Q7")
def test_a_model_too_small_to_follow_cases_is_not_asked_and_that_is_said(plan: Plans) -> None:
    run = plan("rapid", WRITTEN, request=REQUEST, files={"config/planning.yaml": "tried: {window: 1000000}\n"})
    assert run.asked("plan/*/tried/*") == []
    assert "The design is not tried on cases" in run.done.out
