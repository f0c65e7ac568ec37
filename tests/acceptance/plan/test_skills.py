"""Published Agent Skills in the prompts of selected phases and roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.plan.conftest import Plans

SHIPPED = Path(__file__).parents[3]
SECURITY = "Draw the path of one request: who sends it, what it carries"
HOUSE = """\
---
name: house-style
description: Naming rules. Use when naming anything.
license: Apache-2.0
allowed-tools: Read Grep
metadata: {author: acme, version: "1.0"}
---
# House style

Names describe their purpose. Braces such as {{ these }} stay.
"""
LINE = "Names describe their purpose. Braces such as {{ these }} stay."


def shipped(path: str) -> str:
    return (SHIPPED / path).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.row("P18")
def test_a_phase_loads_a_skill_when_its_condition_holds(plan: Plans) -> None:
    risky = plan("rapid", request="Encrypt the settings", until="test-strategy")
    assert all(SECURITY in prompt for prompt in risky.prompts("plan/architecture/*"))
    assert not any(SECURITY in prompt for prompt in risky.prompts("plan/research/*"))
    assert not any(SECURITY in prompt for prompt in plan("rapid").prompts())


@pytest.mark.row("P18")
def test_a_role_has_its_skill_in_every_prompt(plan: Plans) -> None:
    run = plan("standard")
    roles = {address.split("/")[-2] for address, prompt in run.calls if SECURITY in prompt}
    assert roles == {"qa-security", "security-analyst"}


@pytest.mark.slow
@pytest.mark.row("P18")
def test_project_files_add_a_published_skill_to_a_role(plan: Plans) -> None:
    role = shipped("roles/qa-strategist.md").replace("\ntools:", "\nskills: [house-style]\ntools:", 1)
    files = {"skills/house-style/SKILL.md": HOUSE, "roles/qa-strategist.md": role}
    run = plan("standard", files=files)
    assert run.done.code == 0, run.done.err
    assert {address.split("/")[-2] for address, prompt in run.calls if LINE in prompt} == {"qa-strategist"}


@pytest.mark.slow
@pytest.mark.row("P18")
def test_project_files_add_a_published_skill_to_a_phase(plan: Plans) -> None:
    phase = shipped("skills/plan/assets.md").replace("\nsteps:", "\nreferences: [house-style]\nsteps:", 1)
    run = plan("standard", files={"skills/house-style/SKILL.md": HOUSE, "skills/plan/assets.md": phase})
    assert run.done.code == 0, run.done.err
    assert {address.split("/")[1] for address, prompt in run.calls if LINE in prompt} == {"assets"}


@pytest.mark.slow
@pytest.mark.row("P18")
def test_a_skill_of_the_role_and_of_its_phase_is_in_the_prompt_once(plan: Plans) -> None:
    role = shipped("roles/qa-strategist.md").replace("\ntools:", "\nskills: [house-style]\ntools:", 1)
    phase = shipped("skills/plan/test-strategy.md").replace("references: [", "references: [house-style, ", 1)
    files = {
        "skills/house-style/SKILL.md": HOUSE,
        "roles/qa-strategist.md": role,
        "skills/plan/test-strategy.md": phase,
    }
    run = plan("standard", files=files)
    assert run.done.code == 0, run.done.err
    counts = {address: prompt.count(LINE) for address, prompt in run.calls if "/qa-strategist" in address}
    assert set(counts.values()) == {1}, counts
    assert any(address.startswith("plan/test-strategy/") for address in counts)
    assert all(prompt.count(LINE) == 1 for prompt in run.prompts("plan/test-strategy/*"))
