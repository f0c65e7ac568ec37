"""Lookup of omitted and settled records by id, and documents that explain every id."""

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


def decisions_of(count: int) -> Rule:
    """A specification with this many decisions of about thirty tokens each."""
    decisions = [
        {**DECISION, "id": f"CLA-{n:02}", "decision": f"The menu number {n} stays as it is today, with all its parts."}
        for n in range(1, count + 1)
    ]
    return {**SETTLED, "record": {"summary": "Done.", "key_decisions": decisions}}


def plan_with_lookup(plan: Plans, ids: str, *rules: Rule, **more: Any) -> Plan:
    """A plan whose architect looks up ids before the proposal."""
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
def test_lookup_returns_a_settled_question_and_its_decision(plan: Plans) -> None:
    run = plan_with_lookup(plan, "res-1, CLA-1 NO-7", SETTLED, until="architecture")
    (found,) = results(run)
    assert "RES-1: question of clarify, settled by CLA-1\n  question: Is there a setting today?" in found
    assert "CLA-1: decision of clarify\n  decision: Follow the system." in found
    assert "  confidence: HIGH" in found
    assert "no record has the id `NO-7`; known ids: CLA-1, RES-1, RES-2, CLA-Q1, CLA-R1" in found
    assert "RES-1: question of clarify" in run.prompts(f"{PROPOSAL}/2.1")[0]
    assert "Lookup" not in tools(run, "plan/research/findings/first/researcher:code/1.1")
    assert tools(run, "plan/research/findings/first/researcher:code/1.1")


@pytest.mark.slow
def test_lookup_is_available_only_when_the_prompt_omits_records(plan: Plans) -> None:
    run = plan_with_lookup(plan, "CLA-01", decisions_of(30), files=NARROW, until="architecture")
    (found,) = results(run)
    assert found.startswith("CLA-01: decision of clarify\n  decision: The menu number 1 stays as it is today")
    short = plan_with_lookup(plan, "CLA-01", decisions_of(2), until="architecture")
    assert "Lookup" not in tools(short, f"{PROPOSAL}/1.1")
    assert results(short) == []
    assert "you have no tool `Lookup`" in short.prompt(f"{PROPOSAL}/2.1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ids", "message"),
    [("NO-1", "error: no record has the id `NO-1`; known ids: CLA-1, RES-1"), (" ", "error: `id` must be an id")],
)
def test_an_unknown_id_is_an_error_that_lists_the_known_ids(plan: Plans, ids: str, message: str) -> None:
    run = plan_with_lookup(plan, ids, SETTLED, until="architecture")
    assert results(run)[0].startswith(message)


@pytest.mark.slow
def test_the_last_document_explains_every_recorded_id(plan: Plans) -> None:
    text = plan("rapid", [SETTLED]).artifact("summary.md")
    assert "## What the ids stand for" in text
    assert "- RES-1: question of clarify, HIGH, settled by CLA-1: Is there a setting today?" in text
    assert "- RES-2: question of clarify, HIGH, open: Which charts are there?" in text
    assert "- CLA-1: decision of clarify, HIGH: Follow the system. Reason: It was asked for." in text
    assert "- CLA-Q1: question of clarify, LOW, open: Who picks the grey? Candidates: design; sales" in text
    assert "- CLA-R1: risk of clarify, HIGH: Charts stay white. Mitigation: Try each chart." in text
