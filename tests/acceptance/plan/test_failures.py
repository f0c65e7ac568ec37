"""A member that does not reply: one retry, then the run continues without it, marked as degraded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.plan.conftest import NOTHING, Plans, Rule

FIRST = "plan/architecture/proposals/first/software-architect"
CLEAN = f"{FIRST}:clean/*"


@pytest.mark.slow
@pytest.mark.row("P16")
def test_a_member_that_replies_on_retry_is_not_missing(plan: Plans) -> None:
    run = plan("standard", [{"address": CLEAN, "fail": "overloaded", "times": 1}], until="architecture")
    assert run.addresses(CLEAN) == [f"{FIRST}:clean/1.1", f"{FIRST}:clean/1.2"]
    assert "degraded" not in run.summary("architecture")["flags"]


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.parametrize(
    ("failure", "why"),
    [
        ({"fail": "timeout", "message": "No answer in time."}, "No answer in time."),
        ({"text": ""}, "the reply is empty"),
    ],
    ids=["no answer", "empty"],
)
def test_after_one_retry_the_phase_is_degraded_and_uses_the_other_replies(plan: Plans, failure: Rule, why: str) -> None:
    others: list[Rule] = [
        {"address": f"{FIRST}:{lens}/*", "text": f"The {lens} way."} for lens in ("minimal", "pragmatic")
    ]
    run = plan("standard", [{"address": CLEAN, **failure}, *others], until="architecture")
    assert len(run.addresses(CLEAN)) == 2
    assert [len(run.addresses(f"{FIRST}:{lens}/*")) for lens in ("minimal", "pragmatic")] == [1, 1]
    synthesis = run.prompt("plan/architecture/proposals/synthesis/*")
    assert "The minimal way." in synthesis
    assert "The pragmatic way." in synthesis
    assert "software-architect:clean wrote" not in synthesis
    summary = run.summary("architecture")
    assert summary["status"] == "completed"
    assert summary["flags"]["degraded"] is True
    assert summary["flags"]["degraded_because"] == f"first: software-architect:clean: {why}"
    assert [one["phase"] for one in run.overview["degraded"]] == ["architecture"]


@pytest.mark.slow
@pytest.mark.row("P16")
def test_an_invalid_reply_is_repaired_once_before_it_fails(plan: Plans) -> None:
    judge = "plan/validation/judged/scores/judge:risk"
    run = plan("standard", [{"address": f"{judge}/*", "text": "Looks fine to me."}], until="validation")
    assert run.addresses(f"{judge}/*") == [f"{judge}/{turn}.{attempt}" for attempt in (1, 2) for turn in (1, 2)]
    assert "Your last reply could not be used" in run.prompt(f"{judge}/2.1")
    summary = run.summary("validation")
    assert summary["flags"]["degraded"] is True
    assert summary["outputs"]["level"] == "YELLOW"


AUTHORS = {
    "plan/clarify/spec/*": "the specification",
    "plan/architecture/draft/*": "the design",
    "plan/test-strategy/draft/*": "the test plan",
    "plan/assets/*": "the assets",
    "plan/completion/tasks/*": "the tasks",
    "plan/completion/first/*": "this page",
}


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.finding("FT19")
@pytest.mark.parametrize("address", AUTHORS)
def test_without_an_author_the_plan_is_degraded_and_names_what_is_missing(plan: Plans, address: str) -> None:
    mode = "standard" if "assets" in address else "rapid"
    run = plan(mode, [{"address": address, "fail": "overloaded"}])
    assert run.done.code == 0, run.done.err
    assert len(run.addresses(address)) == (4 if "assets" in address else 2), "one retry; a parallel phase runs again"
    phase = address.split("/")[1]
    assert [one["phase"] for one in run.overview["degraded"]] == [phase]
    assert f"Missing: {AUTHORS[address]}. The model gave no usable text for it." in run.artifact("plan.md")
    written = {"spec.md", "design.md", "test-plan.md", "tasks.md", "summary.md"}
    assert all(run.artifact(path) for path in written)


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.finding("FT19")
def test_several_missing_authors_are_all_named(plan: Plans) -> None:
    missing = [one for one in AUTHORS if "spec" not in one and "assets" not in one]
    run = plan("rapid", [{"address": address, "text": ""} for address in missing])
    assert run.done.code == 0
    listed = ", ".join(AUTHORS[one] for one in missing)
    assert f"Missing: {listed}. The model gave no usable text for them." in run.artifact("plan.md")
    assert "No tasks could be written." in run.artifact("tasks.md")
    assert run.summary("completion")["outputs"]["findings"] == [], "rules do not check tasks that do not exist"


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.finding("FT19")
def test_a_document_that_was_cut_off_is_kept(plan: Plans) -> None:
    cut = {"text": "# Specification\n\n- AC-1: It is dark", "stop": "length"}
    run = plan("rapid", [{"address": "plan/clarify/spec/*", **cut}])
    assert run.artifact("spec.md").startswith("# Specification\n\n- AC-1: It is dark\n\nThe specification was cut off")
    assert "It is dark" in run.prompt("plan/architecture/draft/*")


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.finding("FT19")
def test_answers_stand_in_place_of_the_specification(plan: Plans) -> None:
    fork = {"id": "F-1", "text": "Where?", "choices": ["cookie", "account"], "default": "cookie", "because": "So."}
    rules: list[Rule] = [
        {"address": "plan/clarify/forks/*", "data": {"questions": [fork]}},
        {"address": "plan/clarify/spec/*", "fail": "timeout"},
    ]
    run = plan("standard", rules, answers={"F-1": "account"})
    assert "- Where? account" in run.artifact("spec.md")
    assert "- Where? Prepared answer: account" in run.artifact("summary.md")


RISK = {"id": "RES-R1", "risk": "It flickers", "severity": "HIGH", "mitigation": "Set the class before the first paint"}


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.parametrize("mode", ["rapid", "standard", "complete"])
def test_without_specification_and_design_the_plan_shows_what_there_is(plan: Plans, mode: str) -> None:
    rules: list[Rule] = [
        {"address": "plan/research/findings/first/researcher:code/*", "text": "The page is `settings.html`."},
        {"address": "plan/research/facts/*", "data": {"files_affected": 12, "risks": [RISK]}},
        *(
            {"address": f"plan/{place}/*", "fail": "overloaded"}
            for place in ("clarify/spec", "architecture", "expert-review")
        ),
    ]
    run = plan(mode, rules)
    assert run.done.code == 0
    page = run.artifact("plan.md")
    assert "Missing: the specification, the design. The model gave no usable text for them." in page
    failed = page.partition("## What failed")[2].partition("## Where it stands")[0]
    assert "- clarify: `spec` was not answered" in failed
    assert "- architecture: " in failed
    assert "`draft` was not answered" in failed
    assert "The page is `settings.html`." in run.artifact("research.md")
    assert ("- RES-R1, HIGH risk: It flickers" in page) == (mode == "complete")


@pytest.mark.slow
@pytest.mark.row("P16")
def test_open_points_are_listed_without_an_author_for_the_first_page(plan: Plans) -> None:
    question = {"id": "ARC-Q1", "question": "Who sets it?", "priority": "HIGH", "candidates": ["user", "admin"]}
    rules: list[Rule] = [
        {
            "address": "plan/architecture/draft/*",
            "text": "# Design",
            "record": {**NOTHING, "open_questions": [question]},
        },
        {"address": "plan/completion/first/*", "fail": "overloaded"},
    ]
    assert "- ARC-Q1, open question: Who sets it?" in plan("rapid", rules).artifact("plan.md").partition("## Open")[2]


@pytest.mark.slow
@pytest.mark.row("P9", "P16")
@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            {"open": []},
            ["ARC-Q1, open question: Who sets it? Candidates: user; admin", "ARC-Q12, open question: When?"],
        ),
        ({"open": ["When it starts (arc-q12)."]}, ["ARC-Q1, open question: Who", "When it starts (arc-q12)."]),
        ({"open": [], "settled": [1]}, ["ARC-Q12, open question: When?"]),
    ],
    ids=["unnamed", "named", "settled"],
)
def test_urgent_open_questions_reach_the_first_page_without_its_author(
    plan: Plans, page: dict[str, Any], expected: list[str]
) -> None:
    question = {"id": "ARC-Q1", "question": "Who sets it?", "priority": "HIGH", "candidates": ["user", "admin"]}
    more = [
        {**question, "id": "ARC-Q12", "question": "When?", "candidates": []},
        {**question, "id": "ARC-Q3", "question": "Who picks the grey?", "priority": "LOW"},
        {**question, "id": "ARC-Q4", "question": "Is there a menu?"},
    ]
    decision = {"id": "D-1", "decision": "Yes.", "rationale": "So.", "confidence": "HIGH", "resolves": ["ARC-Q4"]}
    record = {**NOTHING, "open_questions": [question, *more], "key_decisions": [decision]}
    rules: list[Rule] = [
        {"address": "plan/architecture/draft/*", "text": "# Design", "record": record},
        {"address": "plan/test-strategy/draft/*", "text": "# Tests", "record": NOTHING},
        {"address": "plan/clarify/spec/*", "text": "# Specification", "record": NOTHING},
        {"address": "plan/completion/tasks/*", "text": "# Tasks", "record": {"corrections": []}},
        {"address": "plan/completion/first/*", "data": {"what": "Dark.", "decisions": [], **page}},
    ]
    run = plan("rapid", rules)
    assert "1. ARC-Q1, open question: Who sets it?\n2. ARC-Q12, open question" in run.prompt("plan/completion/first/*")
    listed = run.artifact("plan.md").partition("## Open\n\n")[2].partition("\n##")[0].splitlines()
    lines = [line for line in listed if "ARC" in line.upper()]
    assert len(lines) == len(expected), lines
    assert all(any(text in line for line in lines) for text in expected), lines


@pytest.mark.slow
@pytest.mark.row("P16")
def test_a_document_that_was_sent_back_stands_if_nobody_rewrites_it(plan: Plans) -> None:
    reject = {"score": 2, "reasons": ["NO way back."]}
    rules: list[Rule] = []
    for author, judges, text in (
        ("architecture/draft", "validation", "The first design."),
        ("test-strategy/draft", "coverage", "The first test plan."),
    ):
        rules += [
            {"address": f"plan/{author}/*", "text": text, "times": 1},
            {"address": f"plan/{author}/*", "fail": "overloaded"},
            {"address": f"plan/{judges}/judged/*", "data": reject, "times": 3},
        ]
    run = plan("standard", rules)
    opening, _, rest = run.artifact("plan.md").partition("## Open")
    assert "Missing" not in opening
    for name, document in (("design", "design.md"), ("test plan", "test-plan.md")):
        text = run.artifact(document)
        assert text.startswith(f"The first {name}.")
        assert text.endswith(f"The {name} was sent back, and it could not be rewritten.\n\n- NO way back.\n")
        assert f"The {name} was sent back and could not be rewritten; `{document}` ends with the reasons." in rest


@pytest.mark.slow
@pytest.mark.row("P16")
def test_with_no_reply_at_all_the_run_fails_and_shows_how_to_resume(plan: Plans) -> None:
    places = ("research", "clarify", "architecture")
    run = plan("rapid", [{"address": f"plan/{place}/*", "fail": "overloaded"} for place in places], isolated=True)
    assert run.done.code == 1
    assert "`skillrun resume run --unattended --script " in run.done.out
    assert run.resume().done.code == 0


@pytest.mark.slow
@pytest.mark.row("P16")
def test_a_plan_completes_without_replies_in_research_and_testing(plan: Plans) -> None:
    run = plan(
        "standard",
        [
            {"address": "plan/research/findings/first/*", "fail": "overloaded"},
            {"address": "plan/test-strategy/proposals/first/*", "fail": "overloaded"},
        ],
    )
    assert run.done.code == 0
    assert "Nobody answered: nothing is known but the request." in run.artifact("research.md")
    assert "What the testers found is evidence" not in run.prompt("plan/test-strategy/draft/*")
    assert [one["phase"] for one in run.overview["degraded"]] == ["research", "test-strategy"]


@pytest.mark.slow
@pytest.mark.row("P16")
@pytest.mark.finding("FR68")
def test_a_document_that_an_author_wrote_whole_is_not_called_partial(plan: Plans) -> None:
    run = plan("standard", [{"address": "plan/architecture/proposals/*/chair/*", "fail": "timeout"}])
    opening = run.artifact("plan.md").partition("## ")[0]
    assert "Some of those asked for the design gave no usable text." in opening
    assert "part of the design" not in opening
