"""The documents: a decision record, a plan for one issue, a review of a plan; each lists the files read."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any

import pytest

from tests.acceptance.deliberation.conftest import (
    ARCHITECT,
    CLASH,
    PHASES,
    RECORD,
    SECURITY,
    TESTER,
    Hold,
    Rule,
    answer,
)

CODE = {"src/login.py": "".join(f"line {n}\n" for n in range(1, 41)), "src/app.py": "app\n"}
ISSUE = {
    "number": 12,
    "title": "Login fails: twice",
    "body": "Steps:\r\n\r\n1. open the page\r\n2. type a `ß`\r\n",
    "labels": [{"name": "bug"}],
    "comments": [{"author": {"login": "ann"}, "body": "Only with long names."}],
}
PLAN = "# Plan: #12 Login fails\n\n## Steps\n\n### Step 1: a test\n\nChange `src/login.py`.\n"


def reads(member: str, *ranges: tuple[str, int, int]) -> Rule:
    """A specialist that reads files before it answers."""
    calls = [{"name": "Read", "arguments": {"path": path, "offset": first, "limit": n}} for path, first, n in ranges]
    return {"address": f"*/first/{member}/1.1", "calls": calls}


@pytest.mark.row("D10")
def test_a_decision_record_has_decision_reasons_dissent_and_conditions_for_change(hold: Hold) -> None:
    text = hold(CLASH).artifact("decision-record.md")
    heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert heads == [
        "Why", "First steps", "Options", "Dissent", "Open", "What would change it", "Conflicts", "What was looked at",
    ]  # fmt: skip
    assert text.startswith("# Sessions are rows of a table\n\n**Question.** Where do sessions live?\n\n**Decision.** ")
    assert "- They can be ended at once. (`src/login.py` 3–8)" in text
    assert f"| A table | Ended at once. | A query. | {SECURITY}, {TESTER} |" in text
    assert "| A signed / cookie |" in text
    dissent = next(line for line in text.splitlines() if line.startswith(f"- {ARCHITECT} would do this: "))
    assert re.fullmatch(r".*: A signed cookie\. Servers stay alike\. Confidence \w+; would change with: .+", dissent)
    assert "How long does it last? The table grows with it. To settle by: the owner." in text
    assert "\n\n\n" not in text
    assert "{{" not in text


@pytest.mark.row("D10")
def test_a_specialist_that_the_record_omits_is_added(hold: Hold) -> None:
    data: dict[str, Any] = {**RECORD["data"], "dissents": [], "options": [], "open": [], "next": [], "costs": []}
    text = hold({"address": "*/record/decision/*", "data": data}).artifact("decision-record.md")
    for member in (ARCHITECT, SECURITY, TESTER):
        assert f"- {member} is for none of the options: " in text
    assert "## Open" not in text


@pytest.mark.row("D10")
@pytest.mark.parametrize("workflow", PHASES)
def test_each_document_names_the_files_and_lines_that_each_specialist_read(hold: Hold, workflow: str) -> None:
    rules = [reads(SECURITY, ("src/login.py", 3, 4), ("src/login.py", 20, 2), ("src/app.py", 1, 1))]
    files = {**CODE, "plan.md": PLAN}
    run = hold(*rules, workflow=workflow, subject="plan.md", files=files, flags=["--repo", "."])
    (path,) = [one for one in ("decision-record.md", "plan.md", "plan-review.md") if (run.folder / one).exists()]
    section = run.artifact(path).partition("## What was looked at\n")[2]
    assert f"- {SECURITY}: `src/app.py` 1–1; `src/login.py` 3–6, 20–21\n" in section
    assert f"- {TESTER}: opened no file\n" in section


@pytest.mark.row("D10")
def test_an_issue_is_read_as_github_prints_it(hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(ISSUE).encode())))
    run = hold({"address": "*/draft/*", "text": PLAN}, workflow="plan-issue", subject="-")
    prompt = run.prompt(f"*/first/{SECURITY}/*")
    assert "title: 'Login fails: twice'\nbody: |-\n  Steps:\n\n  1. open the page\n  2. type a `ß`\n" in prompt
    assert "login: ann\n  body: Only with long names." in prompt
    assert run.artifact("plan.md").startswith("# Plan: #12 Login fails\n")


@pytest.mark.row("D10")
@pytest.mark.finding("FT5", "FR30")
@pytest.mark.parametrize(
    "text",
    [
        "", " \n\t\n", "# Plan\n", "---\n\n***\n", "\ufeff", "# Plan\n<!-- steps\ngo here -->\n",
        "---\ntitle: x\n---\n# Plan\n",
    ],
)  # fmt: skip
def test_an_empty_plan_is_rejected_before_any_call(hold: Hold, text: str) -> None:
    run = hold(workflow="review-plan", subject="target.md", files={"target.md": text}, code=1)
    assert "failed: The plan `target.md` is empty. Write the plan, or name another file." in run.done.out
    assert run.calls == {}


@pytest.mark.row("D10")
@pytest.mark.finding("FT5")
def test_code_reports_missing_files_and_lines_of_a_plan(hold: Hold) -> None:
    plan = """# Plan
Change `setup.py`, README.md and `pyproject.toml`; `Makefile` and `app.py` stay.
Create `src/fresh.py` for `src/gone.py`.
- Files: `src/lost.py`, `src/more.py` (new)
Add a check to `src/away.py`. See `src/login.py:5000` and `src/app.py:1`.
"""
    files = {**CODE, "target.md": plan, "Makefile": "all:\n"}
    run = hold(workflow="review-plan", subject="target.md", files=files, flags=["--repo", "."])
    found = run.artifact("plan-review.md").partition("## What code found\n")[2].partition("\n## ")[0]
    missing = ("setup.py", "README.md", "pyproject.toml", "src/gone.py", "src/lost.py", "src/away.py")
    lines = {f"- `{path}` is not in the repository, and the plan does not call it new" for path in missing}
    lines.add("- `src/login.py` has 40 lines, and the plan names line 5000")
    assert {line.rpartition(" (line ")[0] for line in found.strip().splitlines()} == lines


@pytest.mark.row("D10")
@pytest.mark.finding("FT5")
def test_without_a_repository_only_quotations_are_evidence(hold: Hold) -> None:
    rule = weighing(challenge("CRITICAL", "Place", where="src/login.py:3"), challenge("MAJOR", "Words", quote=QUOTE))
    run = hold(rule, workflow="review-plan", subject="target.md", files={"target.md": TARGET})
    assert run.summary("verdict")["outputs"]["verdict"] == "ready with changes"
    assert "in `where`" not in run.prompt("*/weighed/*")


@pytest.mark.row("D10")
@pytest.mark.finding("FT4", "FT12")
def test_code_checks_a_corrected_plan_again(hold: Hold) -> None:
    draft = PLAN + "\nChange `src/gone.py` and `src/away.py`. The rest is TBD.\n"
    corrected = PLAN + "\nChange `src/gone.py`, `src/other.py` and `src/login.py:99`.\nThe rest is TBD.\n"
    given = [
        {"id": "P-1", "done": "changed", "how": "It is named."},
        {"id": "P-2", "done": "changed", "how": "Removed."},
        {"id": "P-3", "done": "kept", "how": "The issue leaves it open."},
    ]
    rewrite = {"address": "*/revision/*", "text": corrected, "record": {"answers": given}}
    rules = ({"address": "*/draft/*", "text": draft}, rewrite)
    run = hold(*rules, workflow="plan-issue", files=CODE, flags=["--repo", "."])
    kept = "This line puts off what work needs: Change `src/gone.py` and `src/away.py`. The rest is TBD."
    section = run.artifact("plan.md").partition("\n## Found but not corrected\n")[2].partition("\n## ")[0]
    ending = "is not in the repository, and the plan does not say that it is new."
    assert section.strip().splitlines() == [
        f"- The file src/gone.py {ending} The author's answer: changed, It is named.",
        f"- The file src/other.py {ending}",
        "- The file src/login.py has 40 lines, and the plan names line 99.",
        "- This line puts off what work needs: The rest is TBD.",
        f"- {kept} The author's answer: kept, The issue leaves it open.",
    ]
    assert run.summary("plan")["flags"]["uncorrected"] == 4
    assert "Code still finds 4 problems in the plan, listed at its end." in run.summary("plan")["quality_warnings"]
    assert len([address for address in run.calls if "/revision/" in address]) == 1


@pytest.mark.row("D10")
@pytest.mark.finding("FT1")
def test_a_plan_has_the_conflicts_and_the_decision_of_a_person(hold: Hold) -> None:
    unsure: list[Rule] = [
        {"address": f"*/first/{one}/*", "data": answer(f"{one} would guess so.", "A guess.", level="LOW")}
        for one in (ARCHITECT, SECURITY, TESTER)
    ]
    config = {"deliberation": {"rounds": 1}}
    run = hold(*unsure, CLASH, workflow="plan-issue", config=config, answers={"verdict": "Use rows."})
    plan = run.artifact("plan.md")
    assert "## Decided by a person\n\nNone of the specialists was sure. A person decided: Use rows.\n" in plan
    assert "## Conflicts\n\n- C-1 (Where sessions live): the chair, by evidence: Rows hold. A row is deleted.\n" in plan


@pytest.mark.row("D10")
@pytest.mark.finding("FT13")
def test_sentences_of_a_record_end_with_punctuation(hold: Hold) -> None:
    data: dict[str, Any] = {
        **RECORD["data"],
        "dissents": [{"member": ARCHITECT, "holds": "one line in `cli.py`", "because": "there is one caller"}],
        "open": [{"question": "How long", "matters": "the table grows", "who": "the owner"}],
        "options": [],
    }
    text = hold({"address": "*/record/decision/*", "data": data}).artifact("decision-record.md")
    assert f"- {ARCHITECT} would do this: one line in `cli.py`. there is one caller. Confidence HIGH; " in text
    assert "- How long. the table grows. To settle by: the owner.\n" in text


@pytest.mark.slow
@pytest.mark.row("D10")
def test_findings_of_code_in_a_plan_are_fixed_once_or_reported(hold: Hold) -> None:
    draft = PLAN + "\n### Step 2\n\nChange `src/gone.py`, and create `src/fresh.py`. The rest is TBD.\n"
    look = {"name": "Read", "arguments": {"path": "src/app.py"}}
    draw = {"address": "*/draft/*/[2-9].*", "text": draft}
    looks = {"address": "*/draft/*", "calls": [look]}
    rewrite = {
        "address": "*/revision/*",
        "text": PLAN,
        "record": {"answers": [{"id": f"P-{n}", "done": "changed", "how": "So."} for n in (1, 2)]},
    }
    run = hold(draw, looks, rewrite, workflow="plan-issue", files=CODE, flags=["--repo", "."])
    prompt = run.prompt("*/revision/*")
    assert "The file src/gone.py is not in the repository" in prompt
    assert "src/fresh.py is not" not in prompt
    assert "puts off what work needs: Change `src/gone.py`" in prompt
    assert run.artifact("plan.md").startswith(PLAN.strip())
    heading = "Found but not corrected"
    assert heading not in run.artifact("plan.md")
    assert "- the author: `src/app.py` 1–1\n" in run.artifact("plan.md")
    lost: Rule = {"address": "*/revision/*", "fail": "overloaded"}
    unfixed = hold(draw, looks, lost, workflow="plan-issue", files=CODE, flags=["--repo", ".", "--out", "others"])
    assert f"## {heading}\n\n- The file src/gone.py" in unfixed.artifact("plan.md")
    assert unfixed.summary("plan")["flags"]["uncorrected"] == 2
    sound = hold(
        {"address": "*/draft/*", "text": PLAN}, workflow="plan-issue", files=CODE, flags=["--repo", ".", "--out", "c"]
    )
    assert not [address for address in sound.calls if "/revision/" in address], "a plan without faults costs no call"


UNPROVED = ("Invented", "Nothing shown", "No such place", "Anywhere", "Not there")
QUOTE = "Sessions live in a *signed* cookie."
TARGET = f"# Plan\n\n{QUOTE} AC-7 holds. Change `src/login.py` and `src/gone.py`.\n\n- Limits: TBD\n"


def challenge(severity: str, title: str, **more: str) -> dict[str, Any]:
    fields = {"title": title, "severity": severity, "consequence": "It is stolen.", "change": f"Change {title}."}
    return {**fields, "raised_by": [{"member": SECURITY}, {"member": SECURITY}], **more}


def weighing(*challenges: dict[str, Any], **more: Any) -> Rule:
    data = {"challenges": list(challenges), "refuted": [], "holds": [], "why": "It is short.", **more}
    return {"address": "*/weighed/*", "data": data}


@pytest.mark.row("D10")
@pytest.mark.finding("FT5")
@pytest.mark.parametrize(
    ("challenges", "verdict"),
    [
        (
            [challenge("MINOR", "Small", quote=QUOTE), challenge("CRITICAL", "Stolen", quote="signed   cookie")],
            "not ready",
        ),
        ([challenge("MAJOR", "Slow", where="src/login.py 3–8")], "ready with changes"),
        ([challenge("MINOR", "Small", quote=QUOTE)], "ready"),
        ([], "ready"),
        ([challenge("CRITICAL", "Invented", quote="Passwords are kept in the clear.")], "ready"),
        ([challenge("CRITICAL", "Nothing shown")], "ready"),
        ([challenge("CRITICAL", "No such place", where="src/nowhere.py:3")], "ready"),
        ([challenge("CRITICAL", "Anywhere", where="in the second step.")], "ready"),
        ([challenge("MAJOR", "By name", where="`Makefile`")], "ready with changes"),
        ([challenge("MAJOR", "Name and line", where="setup.py, line 2")], "ready with changes"),
        ([challenge("MAJOR", "Not there", where="pyproject.toml:1")], "ready"),
        *(
            (
                [challenge("CRITICAL", "Not there", where=where), challenge("MINOR", "Small", where="src/login.py:40")],
                "ready",
            )
            for where in ("src/login.py:41", "src/login.py, line 5000", "`src/login.py` 41–50", "src/login.py#L50")
        ),
    ],
)
def test_the_verdict_depends_on_the_challenges_with_evidence(
    hold: Hold, challenges: list[dict[str, Any]], verdict: str
) -> None:
    files = {**CODE, "target.md": TARGET, "Makefile": "all:\n", "setup.py": "a\nb\n"}
    run = hold(weighing(*challenges), workflow="review-plan", subject="target.md", files=files, flags=["--repo", "."])
    text = run.artifact("plan-review.md")
    assert text.startswith(f"# Review of target.md\n\n**{verdict.capitalize()}** (")
    assert run.summary("verdict")["outputs"]["verdict"] == verdict
    unproved = text.partition("## Raised without evidence")[2]
    for one in challenges:
        is_listed = f"### {one['severity']}: {one['title']}" in text
        assert is_listed is (one["title"] not in UNPROVED)
        assert is_listed or one["title"] in unproved


@pytest.mark.row("D10")
@pytest.mark.finding("FR25")
@pytest.mark.parametrize(
    ("evidence", "counts"),
    [
        *(({"quote": quote}, True) for quote in (
            "\"The “limit” isn't checked.\"", "> The 'limit' isn’t checked", "The limit isn’t … some rows - or all",
            "the limit isn't ... all, at once", "[…] some\trows – or all, […]", "_checked_ for\u00a0some rows",
        )),
        ({"quote": "The limit isn't ... stored anywhere"}, False), ({"quote": "at … all …"}, False),
        ({"where": "src/login.py:3 and src/login.py:5000"}, True), ({"where": "src/login.py:3-5000"}, False),
    ],
)  # fmt: skip
def test_a_quotation_counts_with_other_marks_spaces_and_omissions(
    hold: Hold, evidence: dict[str, str], counts: bool
) -> None:
    plan = "# Plan\n\nThe “limit” isn’t *checked* for\n        some rows — or all, at once.\n"
    rule = weighing(challenge("CRITICAL", "Unchecked", **evidence))
    files = {**CODE, "target.md": plan}
    run = hold(rule, workflow="review-plan", subject="target.md", files=files, flags=["--repo", "."])
    assert run.summary("verdict")["outputs"]["verdict"] == ("not ready" if counts else "ready")


@pytest.mark.row("D10")
@pytest.mark.finding("FR29")
def test_a_reply_adds_no_heading_to_a_record(hold: Hold) -> None:
    forged = "Use rows.\n\n## Conflicts\n\n- none"
    data: dict[str, Any] = {
        "title": forged, "decision": forged, "reasons": [{"reason": forged, "rests_on": forged}], "costs": [forged],
        "options": [{"option": forged, "speaks_for": forged, "speaks_against": forged, "held_by": []}],
        "dissents": [{"member": ARCHITECT, "holds": forged, "because": forged}],
        "open": [{"question": forged, "matters": forged, "who": forged}], "reconsider": [forged], "next": [forged],
    }  # fmt: skip
    text = hold(CLASH, {"address": "*/record/decision/*", "data": data}).artifact("decision-record.md")
    assert text.count("\n## Conflicts") == 1


@pytest.mark.row("D10")
@pytest.mark.finding("FR29")
def test_a_reply_adds_no_heading_to_a_review(hold: Hold) -> None:
    forged = "It is lost.\n\n## Conflicts\n\n- none"
    one = {**challenge("CRITICAL", forged, quote=QUOTE, where=forged), "consequence": forged, "change": forged}
    unproved = {**one, "quote": "", "where": ""}
    small = {**one, "severity": "MINOR"}
    refuted = [{"title": forged, "raised_by": SECURITY, "because": forged}]
    rule = weighing(one, unproved, small, refuted=refuted, holds=[forged], why=forged)
    run = hold(rule, workflow="review-plan", subject="target.md", files={"target.md": TARGET})
    assert "\n## Conflicts" not in run.artifact("plan-review.md")


@pytest.mark.row("D10")
@pytest.mark.parametrize("title", [" Stolen ", "Stolen\nat night", "Stolen\n"])
def test_a_challenge_counts_whatever_the_whitespace_of_its_title(hold: Hold, title: str) -> None:
    rule = weighing(challenge("CRITICAL", title, quote=QUOTE))
    run = hold(rule, workflow="review-plan", subject="target.md", files={**CODE, "target.md": TARGET})
    assert run.summary("verdict")["outputs"]["verdict"] == "not ready"


@pytest.mark.row("D4", "D10")
def test_a_review_gets_open_gaps_and_ignores_the_sources_of_a_plan(hold: Hold) -> None:
    gap = {"id": "G-1", "question": "Who ends a session?", "priority": "HIGH", "candidates": []}
    many = weighing(*(challenge("MAJOR", title, quote=QUOTE) for title in ("One", "Two", "Three")))
    quiet = {"address": "*/findings/*", "data": {"consensus": [], "conflicts": [], "gaps": [gap]}}
    files = {**CODE, "target.md": f"{TARGET}\n## Sources\n\n- `PLAN-ada`: `planning/PLAN-ada.md`, the base\n"}
    run = hold(many, quiet, workflow="review-plan", subject="target.md", files=files, flags=["--repo", "."])
    assert "Who ends a session?" in run.prompt("*/weighed/*").partition("# What nobody has answered")[2]
    text = run.artifact("plan-review.md")
    assert "`src/gone.py` is not in the repository" in text
    assert "PLAN-ada.md" not in text
    assert text.count("\n\n### MAJOR: ") == 3
    assert "\n\n\n" not in text


@pytest.mark.slow
@pytest.mark.row("D10")
def test_a_review_has_challenges_required_changes_and_refuted_points(hold: Hold) -> None:
    rule = weighing(
        challenge("MAJOR", "Slow", where="src/login.py 3–8"),
        challenge("CRITICAL", "Stolen", quote=QUOTE),
        challenge("MINOR", "Odd", quote=QUOTE),
        refuted=[{"title": "Too big", "raised_by": TESTER, "because": "It is not."}],
        holds=["The order of steps."],
    )
    rules = [
        rule,
        CLASH,
        {"address": f"*/first/{TESTER}/*", "data": answer("Not so.", {"reason": "Why", "quote": QUOTE})},
    ]
    files = {**CODE, "target.md": TARGET, "spec.md": "- AC-7: it holds\n"}
    run = hold(*rules, workflow="review-plan", subject="target.md", files=files, flags=["--repo", "."])
    text = run.artifact("plan-review.md")
    assert "## What would have to change\n\n1. Stolen: Change Stolen.\n2. Slow: Change Slow.\n" in text
    assert f"### CRITICAL: Stolen\n\n> {QUOTE}\n\nIt is stolen.\n\n*Raised by {SECURITY}.*" in text
    assert f"### MINOR: Odd\n\n> {QUOTE}\n\nIt is stolen.\n\nChange: Change Odd. *Raised by {SECURITY}.*" in text
    assert f"- Too big ({TESTER}): It is not." in text
    assert "- The order of steps." in text
    assert f"## Said by those of whom nothing stands above\n\n- {ARCHITECT}: " in text
    assert "`src/gone.py` is not in the repository" in text
    assert "AC-7 is cited and stands nowhere" in text
    assert "put off (line 5): - Limits: TBD" in text
    for step in ("first", "findings"):
        assert "AC-7 is cited" in run.prompt(f"*/{step}/*"), "every member sees the findings of code"
    arguments = ["--repo", ".", "--request", "spec.md", "--out", "others"]
    known = hold(*rules, workflow="review-plan", subject="target.md", files=files, flags=arguments)
    assert "AC-7 is cited and stands nowhere" not in known.artifact("plan-review.md")
    assert "it holds" in known.prompt("*/first/*")
    assert "what the plan has to do stands under `What the plan is for`" in known.prompt("*/first/*")
    assert "what the plan has to do, it says itself" in run.prompt("*/first/*")
