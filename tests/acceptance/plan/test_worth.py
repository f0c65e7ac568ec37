"""The quality of a plan: findings are answered, forks are settled first, and code checks the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.acceptance.plan.conftest import CASE, NOTHING, PASSING_CASES, Plan, Plans, Rule

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
REWRITE = "plan/completion/checked#1/revision/rewritten/*"


def answers(*ids: str, done: str = "changed", how: str = "It is so now.") -> dict[str, Any]:
    return {"answers": [{"id": one, "done": done, "how": how} for one in ids]}


def judge_rule(*reasons: str, score: int = 14) -> Rule:
    return {"address": "plan/validation/judged/*", "data": {"score": score, "reasons": list(reasons)}}


def review_rule(*findings: tuple[str, str]) -> Rule:
    return {
        "address": "plan/expert-review/*/review/security-analyst/*",
        "data": {"findings": [{"id": one.split()[0], "risk": one, "severity": weight} for one, weight in findings]},
    }


@pytest.fixture
def reviewed_plan(plan: Plans) -> Plan:
    """Judges are YELLOW, reviewers find a major and a minor point; the author changes one and keeps one."""
    rewrite = {
        "address": "plan/expert-review/revision/rewritten/*",
        "text": f"{DESIGN}- D-2: NOW it has a way back.",
        "record": {
            "answers": [
                *answers("P-1", "HOLE", "CRUMB")["answers"],
                *answers("P-2", done="kept", how="The request rules it out.")["answers"],
            ]
        },
    }
    rules = [
        judge_rule("NO way back.", "NO second theme."),
        review_rule(("HOLE in the wall.", "MAJOR"), ("CRUMB on the floor.", "MINOR")),
        rewrite,
        *WRITTEN,
    ]
    return plan("standard", rules, request=REQUEST)


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_findings_of_judges_and_reviewers_go_to_the_author_with_the_document(reviewed_plan: Plan) -> None:
    assert reviewed_plan.done.code == 0, reviewed_plan.done.err
    prompt = reviewed_plan.prompt("plan/expert-review/revision/rewritten/planner/1.1")
    points = prompt.rpartition("# Points to answer")[2]
    assert all(one in points for one in ("NO way back.", "NO second theme.", "HOLE in the wall."))
    assert "CRUMB" in points, "minor points are included"
    assert prompt.index("# Current task") < prompt.index("You are its author") < prompt.index("# Points to answer")
    assert "Each point is answered" in prompt.partition("\n# Acceptance criteria")[2]
    assert "Each finding points at" not in prompt, "this criterion is for reviewers"
    assert "A cookie keeps it." in prompt.partition("# The design")[2]
    assert "NOW it has a way back." in reviewed_plan.artifact("design.md")
    assert all("NOW it has a way back." in one for one in reviewed_plan.prompts("plan/test-strategy/*"))
    assert "The author: changed, It is so now." in reviewed_plan.artifact("review.md")
    assert reviewed_plan.summary("expert-review")["risks_identified"] == []


@pytest.mark.row("Q2")
def test_plan_md_lists_only_the_points_that_the_author_kept(reviewed_plan: Plan) -> None:
    first = reviewed_plan.artifact("plan.md")
    assert "- NO second theme. Stays, because: The request rules it out." in first
    assert "HOLE" not in first
    assert "CRUMB" not in first, "the author changed it"
    assert "NO way back" not in first


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_reviewers_see_the_judges_findings_and_both_may_read_the_code(plan: Plans) -> None:
    files = {"code/shade.py": "pass\n"}
    run = plan("standard", [judge_rule("NO way back."), *WRITTEN], files=files, flags=["--repo", "code"])
    assert "NO way back." in run.prompts("plan/expert-review/*/review/*")[0]
    assert "Look into the code" in run.prompts("plan/validation/judged/*")[0]
    assert "src/shade.py" not in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_without_reviewers_the_author_answers_the_judges(plan: Plans) -> None:
    config = {"features": {"expert_review": {"enabled": False}}}
    rewrite = {"address": "plan/validation/revision/rewritten/*", "text": "# Design\n\nNEW.", "record": answers("P-1")}
    run = plan("standard", [judge_rule("NO way back."), rewrite, *WRITTEN], config=config, until="test-strategy")
    assert run.artifact("design.md") == "# Design\n\nNEW.\n"
    assert "NEW." in run.prompts("plan/test-strategy/*")[0]


def cases_with_failure(given: str) -> dict[str, Any]:
    """Cases of which the first fails."""
    wrong = {**CASE, "id": "CASE-1", "given": given, "gives": "NOTHING is seen.", "holds": False}
    return {"cases": [wrong, *PASSING_CASES["cases"][1:]]}


@pytest.mark.slow
@pytest.mark.row("Q2", "Q4")
@pytest.mark.parametrize("mode", ["rapid", "standard"])
def test_a_failing_case_goes_to_the_author_before_the_judges(plan: Plans, mode: str) -> None:
    tried = {"address": "plan/architecture/tried/*", "data": cases_with_failure("TWO at once")}
    rewrite = {
        "address": "plan/architecture/revision/rewritten/*",
        "text": f"{DESIGN}- D-2: LOCKED.",
        "record": answers("CASE-1"),
    }
    run = plan(mode, [tried, rewrite, *WRITTEN], request=REQUEST)
    assert run.done.code == 0, run.done.err
    points = run.prompt("plan/architecture/revision/rewritten/*").rpartition("# Points to answer")[2]
    assert "TWO at once" in points
    assert "NOTHING is seen." in points
    assert "CASE-2" not in points, "passing cases are not listed"
    assert all("LOCKED." in prompt for prompt in run.prompts("plan/validation/judged/*"))
    assert "LOCKED." in run.artifact("design.md")
    assert "TWO at once" in run.prompts("plan/test-strategy/draft/*")[0]
    assert "TWO at once" not in run.artifact("plan.md")
    kept_rule = {**rewrite, "record": answers("CASE-1", done="kept", how="It never happens.")}
    run = plan(mode, [tried, kept_rule, *WRITTEN], request=REQUEST)
    assert "- TWO at once Stays, because: It never happens." in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2", "Q6")
def test_decisions_of_a_rewrite_replace_earlier_ones(plan: Plans) -> None:
    def decision_record(text: str) -> dict[str, Any]:
        return {"key_decisions": [{"id": "D-1", "decision": text, "rationale": "So.", "confidence": "HIGH"}]}

    rules = [
        {"address": "plan/architecture/draft/*", "text": DESIGN, "record": {**NOTHING, **decision_record("A cookie.")}},
        {"address": "plan/architecture/tried/*", "data": cases_with_failure("TWO at once")},
        {
            "address": "plan/architecture/revision/rewritten/*",
            "text": DESIGN,
            "record": {**answers("CASE-1"), **decision_record("A locked cookie.")},
        },
        judge_rule("NO way back."),
        {
            "address": "plan/expert-review/revision/rewritten/*",
            "text": DESIGN,
            "record": {**answers("P-1"), **decision_record("A profile.")},
        },
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert [one["decision"] for one in run.summary("architecture")["key_decisions"]] == ["A locked cookie."]
    glossary = run.artifact("summary.md").partition("## What the ids stand for")[2]
    assert "A profile." in glossary
    assert "cookie" not in glossary


@pytest.mark.slow
@pytest.mark.row("Q2", "Q4")
def test_a_case_that_still_fails_after_the_rewrite_goes_to_the_test_plan(plan: Plans) -> None:
    rewrite = {"address": "plan/expert-review/revision/rewritten/*", "text": DESIGN, "record": answers("P-1")}
    tried = {"address": "plan/expert-review/tried/*", "data": cases_with_failure("THREE at once")}
    correction = {"document": "design", "says": "A cookie keeps it.", "instead": "A locked cookie keeps it."}
    draft = {
        "address": "plan/test-strategy/draft/*",
        "text": TESTS,
        "record": {**NOTHING, **answers("CASE-1"), "corrections": [correction]},
    }
    run = plan("standard", [judge_rule("NO way back."), rewrite, tried, draft, *WRITTEN], request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert "Cases that were tried on an earlier one" in run.prompt("plan/expert-review/tried/*")
    assert "THREE at once" in run.prompt("plan/test-strategy/draft/*").rpartition("# Points to answer")[2]
    assert "A locked cookie keeps it." in run.artifact("design.md")
    kept_rule = {**draft, "record": {**NOTHING, **answers("CASE-1", done="kept", how="It never happens.")}}
    run = plan("standard", [judge_rule("NO way back."), rewrite, tried, kept_rule, *WRITTEN], request=REQUEST)
    assert "- THREE at once Stays, because: It never happens." in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q3", "P12")
def test_tasks_may_cite_a_remaining_risk_and_explain_it(plan: Plans) -> None:
    rewrite = {
        "address": "plan/expert-review/revision/rewritten/*",
        "text": DESIGN,
        "record": answers("EXPERT-REVIEW-R1", done="kept", how="It is rare."),
    }
    tasks = {"address": "plan/completion/tasks/*", "text": f"{TASKS}- Serves, too: EXPERT-REVIEW-R1\n"}
    rules = [review_rule(("EXPERT-REVIEW-R1 a hole.", "MAJOR")), rewrite, tasks, *WRITTEN]
    run = plan("standard", rules, request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert "- EXPERT-REVIEW-R1: MAJOR, EXPERT-REVIEW-R1 a hole." in run.artifact("tasks.md")
    assert run.addresses(REWRITE) == [], "citing it is allowed"


@pytest.mark.slow
@pytest.mark.row("Q2", "P13")
def test_coverage_gaps_go_to_the_author_of_the_test_plan(plan: Plans) -> None:
    rules = [
        {"address": "plan/coverage/judged/*", "data": {"score": 15, "reasons": ["NO CASE runs at night."]}},
        {"address": "plan/coverage/revision/*", "text": TESTS + "| T-3 | AC-1 |\n", "record": answers("P-1", "P-2")},
        {"address": "plan/test-strategy/draft/*", "text": TESTS.replace("| T-2 | AC-2 |\n", "")},
        *WRITTEN,
    ]
    run = plan("standard", rules)
    points = run.prompt("plan/coverage/revision/*").rpartition("# Points to answer")[2]
    assert "NO CASE runs at night." in points
    assert "No case names AC-2." in points
    assert "T-3" in run.artifact("test-plan.md")
    assert run.summary("coverage")["outputs"].get("missing", []) == []
    assert "T-3" in run.prompt("plan/completion/tasks/*")


@pytest.mark.slow
@pytest.mark.row("Q5")
def test_forks_are_settled_with_a_reason_before_the_specification(plan: Plans) -> None:
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
    answered = plan("standard", rules, until="clarify", answers={"clarify/settled": ["account"]})
    assert "answer: account" in answered.prompt("plan/clarify/spec/*")
    assert plan("rapid").addresses("plan/clarify/forks/*") == []


@pytest.mark.slow
@pytest.mark.row("Q3", "Q4")
def test_consistent_documents_are_not_rewritten(plan: Plans) -> None:
    run = plan("standard", WRITTEN, request=REQUEST)
    assert run.addresses("plan/completion/checked*/revision/*") == []
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
    "AC-9 is cited, but no document defines it.",
    "I-2 is cited, but no document defines it.",
    "CLARIFY-1 is cited, but no document defines it.",
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
def test_one_call_gets_exactly_the_rule_findings_and_fixes_them(plan: Plans, mode: str) -> None:
    rules = [
        {"address": "plan/completion/tasks/*", "text": BROKEN},
        {"address": REWRITE, "text": TASKS, "record": answers(*(f"P-{n}" for n in range(1, 10)))},
        {"address": "plan/architecture/draft/*", "text": DESIGN},
        *WRITTEN,
    ]
    files = {"code/shade.py": "pass\n"}
    run = plan(mode, rules, request=REQUEST, files=files, flags=["--repo", "code"])
    (prompt,) = run.prompts("plan/completion/checked*/revision/*")
    points = prompt.rpartition("# Points to answer")[2].partition("# ")[0]
    listed = [line.partition(": ")[2] for line in points.splitlines() if line.startswith("- P-")]
    assert sorted(listed) == sorted(LINES)
    assert "TASK-1: Darken" in run.artifact("tasks.md")
    assert run.summary("completion")["quality_warnings"] == []


@pytest.mark.slow
@pytest.mark.row("Q2", "Q3")
def test_a_rule_finding_goes_to_the_author_of_its_document_and_is_dropped_once_refuted(plan: Plans) -> None:
    odd = TASKS + "- Does: show the placeholder.\n"
    rules = [
        {"address": "plan/architecture/draft/*", "text": DESIGN + "- D-2: As ARC-1 asks.\n"},
        {"address": "plan/expert-review/revision/*", "text": DESIGN + "- D-2: ARC-1.\n", "record": answers("P-1")},
        {"address": "plan/completion/tasks/*", "text": odd},
        {"address": REWRITE, "text": odd, "record": answers("P-1", done="kept", how="The field shows it.")},
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert "ARC-1 is cited, but no document" in run.prompt("plan/expert-review/revision/*").rpartition("# Points to")[2]
    (prompt,) = run.prompts("plan/completion/checked*/revision/*")
    assert "ARC-1" not in prompt.rpartition("# Points to answer")[2]
    assert not [one for one in ("plan.md", "summary.md") if "placeholder" in run.artifact(one)]
    assert run.summary("completion")["quality_warnings"] == []


def fix(document: str, says: str, instead: str) -> dict[str, Any]:
    return {"corrections": [{"document": document, "says": says, "instead": instead}]}


@pytest.mark.slow
@pytest.mark.row("Q2", "Q6")
def test_errors_in_earlier_documents_are_corrected_there(plan: Plans) -> None:
    rules: list[Rule] = [
        judge_rule("AC-1 and the design differ."),
        {
            "address": "plan/architecture/draft/*",
            "text": DESIGN,
            "record": {**NOTHING, **fix("specification", "It is dark.", "DIM.")},
        },
        {
            "address": "plan/expert-review/revision/*",
            "text": DESIGN,
            "record": {**answers("P-1"), **fix("specification", "AC-1:  DIM.", "AC-1: It is DIMMED.")},
        },
        {
            "address": "plan/test-strategy/draft/*",
            "text": TESTS,
            "record": {**NOTHING, **fix("design", "A cookie", "A COOKIE")},
        },
        {"address": "plan/completion/*/read/*", "data": {"points": ["WHICH rows?"]}},
        {
            "address": REWRITE,
            "text": TASKS,
            "record": {**answers("P-1"), **fix("test plan", "| T-2 | AC-2 |", "| T-2 | AC-2 |\n| T-3 | AC-2 |")},
        },
        {
            "address": "plan/completion/checked#2/revision/*",
            "text": TASKS.replace("T-2", "T-2, T-3"),
            "record": {**answers("P-1"), **fix("specification", "NOWHERE", "so")},
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
    assert "No task writes the test T-3." in run.prompts("plan/completion/checked#2/revision/*")[0]
    assert 'The specification should say "so" in place of "NOWHERE".' in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2", "Q3")
@pytest.mark.finding("FT17")
def test_documents_are_checked_after_their_last_change(plan: Plans) -> None:
    careless = DESIGN + "- D-2: As ARC-7 asks, in `src/nowhere.py`.\n- D-3: TODO.\n"
    rules: list[Rule] = [
        judge_rule("NO way back."),
        {"address": "plan/expert-review/revision/*", "text": careless, "record": answers("P-1")},
        {"address": "plan/test-strategy/draft/*", "text": TESTS.replace("AC-2", "AC-1")},
        {"address": "plan/coverage/revision/*", "text": TESTS.replace("AC-2", "AC-1"), "record": answers("P-1")},
        {
            "address": "plan/completion/tasks/*",
            "text": TASKS,
            "record": fix("test plan", "| T-2 | AC-1 |", "| T-2 | AC-2, D-9 |"),
        },
        *WRITTEN,
    ]
    files = {"code/shade.py": "pass\n"}
    run = plan("standard", rules, request=REQUEST, files=files, flags=["--repo", "code"])
    opening = run.artifact("plan.md").partition("## Open")[2]
    for line in (
        "ARC-7 is cited, but no document defines it.",
        "D-9 is cited, but no document defines it.",
        "The path src/nowhere.py is not in the code base, and the design does not say that it is new.",
        'The design leaves something open with "TODO": - D-3: TODO.',
    ):
        assert f"- {line}\n" in opening
    assert "AC-2" in run.artifact("coverage.md"), "no case names it at first"
    assert "Criteria without a test" not in run.artifact("summary.md"), "the tasks' author has put it right"
    kept = {**rules[1], "record": answers("P-1", done="kept", how="It is a mark of the page.")}
    first = {**WRITTEN[1], "text": careless}
    finding_ids = {"answers": [*kept["record"]["answers"], *answers("P-2", "P-3", "P-4", done="kept")["answers"]]}
    refuted = [rules[0], first, {**kept, "text": "\n" + careless + "\nMore.", "record": finding_ids}, *WRITTEN]
    run = plan("standard", refuted, request=REQUEST, files=files, flags=["--repo", "code"])
    assert "ARC-7" not in run.artifact("plan.md")
    assert "TODO" not in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_a_point_that_a_later_document_settles_is_not_open(plan: Plans) -> None:
    rules = [
        review_rule(("CRUMB on the floor.", "MINOR"), ("CRACK in the wall.", "MINOR")),
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
    assert run.addresses("plan/expert-review/revision/*") == [], "minor points alone cause no call"


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_a_lost_limit_of_the_request_is_requested_and_then_reported(plan: Plans) -> None:
    warning = "The request says 250 rows; neither the specification nor a task does."
    vague = {"address": "plan/clarify/spec/*", "text": SPEC.replace("250", "some")}
    run = plan("rapid", [vague, *WRITTEN], request=REQUEST)
    assert "The request says 250 rows, and the specification does not" in run.prompt("plan/completion/tasks/*")
    assert run.addresses("plan/completion/*/revision/*") == [], "it may not be a limit, so it causes no call"
    assert warning in str(run.summary("completion")["quality_warnings"])
    kept_rule = {
        **WRITTEN[3],
        "record": {"corrections": [{"document": "specification", "says": "some rows are", "instead": "250 rows are"}]},
    }
    assert warning not in str(
        plan("rapid", [vague, kept_rule, *WRITTEN], request=REQUEST).summary("completion")["quality_warnings"]
    )
    broken = {**WRITTEN[3], "text": TASKS.replace("AC-2, ", "")}
    run = plan("rapid", [vague, broken, *WRITTEN], request=REQUEST)
    assert warning in run.prompts("plan/completion/*/revision/*")[0], "it is sent along with other points"


@pytest.mark.slow
@pytest.mark.row("Q3")
def test_remaining_findings_are_warnings_and_are_in_the_summary(plan: Plans) -> None:
    rules: list[Rule] = [{"address": "plan/completion/tasks/*", "text": TASKS.replace("AC-2, ", "AC-9, ")}]
    rules += [{"address": "plan/completion/checked*/revision/*", "fail": "timeout"}, *WRITTEN]
    run = plan("rapid", rules, request=REQUEST)
    assert run.done.code == 0
    assert "No task serves AC-2." in str(run.summary("completion")["quality_warnings"])
    assert "- No task serves AC-2." in run.artifact("summary.md")
    assert "Rules still find" not in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2", "Q6")
def test_a_refuted_rule_finding_is_not_shown_to_the_reader(plan: Plans) -> None:
    odd = TASKS + "- Does: show the placeholder.\n"
    kept_rule = {"text": odd, "record": answers("P-1", done="kept", how="It is what the field shows.")}
    rules = [{"address": "plan/completion/tasks/*", "text": odd}, {"address": REWRITE, **kept_rule}, *WRITTEN]
    run = plan("rapid", rules, request=REQUEST)
    assert "placeholder" in run.prompt(REWRITE).rpartition("# Points to answer")[2]
    assert "placeholder" not in run.artifact("plan.md")


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_questions_of_a_fresh_reader_are_answered_in_the_tasks(plan: Plans) -> None:
    rules = [
        {"address": "plan/completion/*/read/*", "data": {"points": ["WHICH page comes first?"]}},
        {"address": REWRITE, "text": TASKS + "- Does: the start page first.\n", "record": answers("P-1")},
        *WRITTEN,
    ]
    run = plan("standard", rules, request=REQUEST)
    assert "WHICH page comes first?" in run.prompt(REWRITE)
    assert "the start page first." in run.artifact("tasks.md")
    assert len(run.addresses("plan/completion/*/read/*")) == 1
    assert plan("rapid").addresses("plan/completion/*/read/*") == []


@pytest.mark.row("Q4", "Q6")
def test_the_tasks_begin_with_the_constraints_verbatim(plan: Plans) -> None:
    tasks = plan("standard", WRITTEN, request=REQUEST).artifact("tasks.md")
    assert tasks.startswith('# Tasks\n\n## Constraints\n\n- C-1: "at most 250 rows"\n\n## TASK-1')


@pytest.mark.slow
@pytest.mark.row("Q6")
def test_plan_md_has_decisions_then_open_points_then_the_result(plan: Plans) -> None:
    brief = {"what": "It gets dark.", "decisions": ["A cookie keeps it (D-1)."], "open": ["assumption: one theme."]}
    rules = [{"address": "plan/completion/first/*", "data": brief}, *WRITTEN]
    text = plan("standard", rules, request=REQUEST).artifact("plan.md")
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == ["# Plan", "## Decided", "## Open", "## What is built", "## Where it stands"]
    assert all(one in text for one in ("A cookie keeps it (D-1).", "- assumption: one theme.", "It gets dark."))


@pytest.mark.slow
@pytest.mark.row("Q6")
@pytest.mark.parametrize("mode", ["standard", "complete"])
def test_delivered_documents_do_not_mention_the_process(plan: Plans, mode: str) -> None:
    run = plan(mode, WRITTEN, request=REQUEST)
    for path in ("spec.md", "design.md", "test-plan.md", "tasks.md", "plan.md"):
        text = run.artifact(path)
        assert not [word for word in ("onvergence", "Not measured", "chair", "round ", "panel") if word in text], path


@pytest.mark.slow
@pytest.mark.row("Q7")
def test_the_longest_standard_run_stays_within_its_call_limit(plan: Plans) -> None:
    rules = [
        judge_rule("NO way back."),
        review_rule(("HOLE in the wall.", "MAJOR")),
        {"address": "plan/coverage/judged/*", "data": {"score": 15, "reasons": ["NO CASE runs it."]}},
        {"address": "plan/completion/*/read/*", "data": {"points": ["WHICH page?"]}},
        {"address": "plan/completion/tasks/*", "text": BROKEN},
    ]
    rules += [
        {"address": f"plan/{step}/rewritten/*", "text": text, "record": answers("P-1", "HOLE")}
        for step, text in (("expert-review/revision", DESIGN), ("coverage/revision", TESTS))
    ]
    rules += [
        {
            "address": "plan/completion/checked*/revision/*",
            "text": BROKEN,
            "record": answers(*(f"P-{n}" for n in range(1, 11))),
        }
    ]
    run = plan("standard", [*rules, *WRITTEN], request=REQUEST)
    assert run.done.code == 0, run.done.err
    assert len([one for one in run.addresses() if not one.endswith("/2.1")]) <= 32
    assert len(plan("rapid").calls) <= 9


@pytest.mark.slow
@pytest.mark.row("Q2", "Q7")
def test_a_small_model_gets_no_cases_and_a_message_reports_it(plan: Plans) -> None:
    run = plan("rapid", WRITTEN, request=REQUEST, files={"config/planning.yaml": "tried: {window: 1000000}\n"})
    assert run.addresses("plan/*/tried/*") == []
    assert "The design is not tried on cases" in run.done.out
