"""Runs the six recipes of `docs/changing.md`, each of which extends a plan with files alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from skillrun.library.roots import package_library
from tests.acceptance.plan.conftest import Plan, Plans, skillrun
from tests.acceptance.plan.test_specify_gate import VAGUE, prepared_answers, questions, scores

PAGE: Final = Path(__file__).parents[3] / "docs" / "changing.md"
_FILE: Final = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINE: Final = re.compile(r"^```yaml line=(\S+) after=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipe(title: str) -> dict[str, str]:
    """The files that a section of the page writes, and the shipped files that it adds a line to."""
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}\n")[2].partition("\n## A ")[0]
    files = dict(_FILE.findall(section))
    for path, after, line in _LINE.findall(section):
        shipped = (package_library() / path).read_text(encoding="utf-8")
        assert shipped.count(f"\n  {after}\n") == 1
        files[path] = shipped.replace(f"\n  {after}\n", f"\n  {after}\n{line}")
    assert files
    return files


def is_valid(run: Plan) -> bool:
    """Whether the project has neither errors nor warnings."""
    return skillrun("validate", "--strict", str(run.project)).code == 0


@pytest.mark.slow
@pytest.mark.row("P8")
def test_a_recipe_adds_a_preset(plan: Plans) -> None:
    run = plan("standard", files=recipe("A preset"), flags=["--preset", "fortress"])
    assert run.done.code == 0
    assert run.overview["state"]["preset"] == "fortress"
    members = {address.split("/")[-2] for address in run.addresses("plan/architecture/proposals/first/*")}
    assert members == {"software-architect:clean", "security-analyst"}
    assert run.addresses("plan/validation/judged/*") == ["plan/validation/judged/scores/judge:risk/1.1"]
    assert is_valid(run)


@pytest.mark.slow
@pytest.mark.row("P1")
def test_a_recipe_adds_a_phase(plan: Plans) -> None:
    risk = {"id": "TH-1", "risk": "A stranger reads the settings.", "severity": "HIGH", "mitigation": "Ask who it is."}
    record = {"summary": "Done.", "key_decisions": [], "open_questions": [], "risks_identified": [risk]}
    rules = [
        {"address": "plan/threats/threats/*", "text": "Strangers, through the side door."},
        {"address": "plan/threats/summary/*", "data": record},
    ]
    run = plan("standard", rules, files=recipe("A phase"))
    assert run.done.code == 0
    names = [one["phase"] for one in run.overview["phases"]]
    assert names.index("threats") == names.index("architecture") + 1
    assert run.artifact("threats.md").strip() == "Strangers, through the side door."
    assert run.summary("threats")["flags"] == {"modelled": True}
    assert "A stranger reads the settings." in run.prompts("plan/validation/judged/*")[0]
    assert is_valid(run)


@pytest.mark.slow
@pytest.mark.row("P5")
def test_a_recipe_adds_a_protocol(plan: Plans) -> None:
    start = {"address": "plan/architecture/proposals/start/*", "text": "BEGUN by the first."}
    run = plan("advanced", [start], files=recipe("A protocol"))
    assert run.done.code == 0
    assert run.addresses("plan/architecture/proposals/*") == [
        "plan/architecture/proposals/start/software-architect:minimal/1.1",
        "plan/architecture/proposals/finish/software-architect:clean/1.1",
    ]
    assert "BEGUN by the first." in run.prompt("plan/architecture/proposals/finish/*")
    assert run.summary("architecture")["outputs"]["strategy"] == "relay"
    assert "software-architect:clean wrote:" in run.prompt("plan/architecture/draft/*")
    assert is_valid(run)


@pytest.mark.slow
@pytest.mark.row("P11")
def test_a_recipe_adds_a_question_bank(plan: Plans) -> None:
    run = plan("standard", scores(VAGUE), files=recipe("A question bank"), answers=prepared_answers())
    assert run.done.code == 0
    assert questions(run) == [["scope-1", "scope-2"]]
    assert "Does it touch the checkout?" in run.prompt("plan/clarify/spec/*")
    assert is_valid(run)


@pytest.mark.slow
@pytest.mark.row("P1", "P15")
def test_a_recipe_adds_a_mode(plan: Plans) -> None:
    run = plan("paranoid", files=recipe("A mode"))
    assert run.done.code == 0
    assert run.overview["state"]["mode"] == "paranoid"
    assert run.addresses("plan/architecture/proposals/challenge/*")
    assert run.addresses("plan/validation/judged/debate#1/*")
    assert run.addresses("plan/think-deep/*")
    assert run.addresses("plan/expert-review/*")
    assert run.addresses("plan/clarify/gate*") == []
    assert is_valid(run)
    assert "paranoid" in skillrun("plan", "--help").out
    refused = plan("paranoid")
    assert refused.done.code == 2
    assert "paranoid" in refused.done.err


@pytest.mark.slow
@pytest.mark.row("P10")
def test_a_recipe_adds_a_risk_category(plan: Plans) -> None:
    request = "Let parents see what their children read"
    run = plan("standard", request=request, files=recipe("A risk category"))
    assert run.done.code == 0
    assert run.overview["state"]["risk_flags"] == ["minors"]
    assert "- Words for minors: children" in run.artifact("request.md")
    assert "advanced mode" in run.messages()[0]
    assert "minors" in run.prompt("plan/clarify/gate#1/score/*")
    assert is_valid(run)
    assert plan("standard", request=request).overview["state"]["risk_flags"] == []
