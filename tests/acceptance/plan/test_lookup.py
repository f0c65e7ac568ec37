"""What was left out of a prompt, or is settled, is looked up by its id; what is delivered explains every id."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.plan.conftest import Plan, Plans, Rule
from tests.acceptance.plan.test_context import DECISION, NARROW, QUESTION, RISK

pytestmark = pytest.mark.row("P9")

CODE = {"shop/theme.py": "colour = 'light'\n"}
SETTLED: Rule = {
    "address": "plan/clarify/spec/*",
    "text": "# Specification\n\nSee RES-1.\n",
    "record": {
        "summary": "Done.",
        "key_decisions": [{**DECISION, "resolves": ["RES-1"]}],
        "open_questions": [
            {"id": "RES-1", "question": "Is there a setting today?", "priority": "HIGH", "candidates": []},
            {"id": "RES-2", "question": "Which charts are there?", "priority": "HIGH", "candidates": []},
            QUESTION,
        ],
        "risks_identified": [RISK],
    },
}
PROPOSAL = "plan/architecture/draft/software-architect:pragmatic"


def settling(count: int) -> Rule:
    """A specification with so many decisions of about thirty tokens each."""
    decisions = [
        {**DECISION, "id": f"CLA-{n:02}", "decision": f"The menu number {n} stays as it is today, with all its parts."}
        for n in range(1, count + 1)
    ]
    return {**SETTLED, "record": {"summary": "Done.", "key_decisions": decisions}}


def looked(plan: Plans, ids: str, *rules: Rule, **more: Any) -> Plan:
    """A plan in which the architect looks ids up before the proposal."""
    call = {"address": f"{PROPOSAL}/1.1", "calls": [{"name": "Lookup", "arguments": {"id": ids}}]}
    return plan("rapid", [call, *rules], files={**CODE, **more.pop("files", {})}, flags=["--repo", "shop"], **more)


def tools(run: Plan, pattern: str) -> set[str]:
    with closing(SqliteJournal.open(run.folder)) as journal:
        sent = [entry.body for entry in journal.entries("sent") if entry.address == pattern]
    return {tool["name"] for body in sent for tool in body["tools"]}


def results(run: Plan) -> list[str]:
    with closing(SqliteJournal.open(run.folder)) as journal:
        return [entry.body["result"] for entry in journal.entries("tool") if "result" in entry.body]


@pytest.mark.slow
def test_a_settled_question_is_looked_up_with_what_settled_it(plan: Plans) -> None:
    run = looked(plan, "res-1, CLA-1 NO-7", SETTLED, until="architecture")
    (found,) = results(run)
    assert "RES-1: question of clarify, settled by CLA-1\n  question: Is there a setting today?" in found
    assert "CLA-1: decision of clarify\n  decision: Follow the system." in found
    assert "  confidence: HIGH" in found
    assert "no record has the id `NO-7`; known ids: CLA-1, RES-1, RES-2, CLA-Q1, CLA-R1" in found
    assert "RES-1: question of clarify" in run.prompts(f"{PROPOSAL}/2.1")[0]
    assert "Lookup" not in tools(run, "plan/research/findings/first/researcher:code/1.1")
    assert tools(run, "plan/research/findings/first/researcher:code/1.1")


@pytest.mark.slow
def test_what_a_prompt_has_no_room_for_is_looked_up_and_what_it_shows_needs_no_tool(plan: Plans) -> None:
    run = looked(plan, "CLA-01", settling(30), files=NARROW, until="architecture")
    (found,) = results(run)
    assert found.startswith("CLA-01: decision of clarify\n  decision: The menu number 1 stays as it is today")
    short = looked(plan, "CLA-01", settling(2), until="architecture")
    assert "Lookup" not in tools(short, f"{PROPOSAL}/1.1")
    assert results(short) == []
    assert "you have no tool `Lookup`" in short.prompt(f"{PROPOSAL}/2.1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [("NO-1", "error: no record has the id `NO-1`; known ids: CLA-1, RES-1"), (" ", "error: `id` must be an id")],
)
def test_what_is_not_on_record_is_an_error_that_names_what_is(plan: Plans, given: str, said: str) -> None:
    run = looked(plan, given, SETTLED, until="architecture")
    assert results(run)[0].startswith(said)


@pytest.mark.slow
def test_the_last_document_explains_every_id_on_record(plan: Plans) -> None:
    text = plan("rapid", [SETTLED]).artifact("summary.md")
    assert "## What the ids stand for" in text
    assert "- RES-1: question of clarify, HIGH, settled by CLA-1: Is there a setting today?" in text
    assert "- RES-2: question of clarify, HIGH, open: Which charts are there?" in text
    assert "- CLA-1: decision of clarify, HIGH: Follow the system. Reason: It was asked for." in text
    assert "- CLA-Q1: question of clarify, LOW, open: Who picks the grey? Candidates: design; sales" in text
    assert "- CLA-R1: risk of clarify, HIGH: Charts stay white. Mitigation: Try each chart." in text
