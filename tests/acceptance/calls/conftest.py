"""Shared fixtures: a workflow with tools, a failed member, a loop, a repair and two rounds, and a run of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Call, Done

PART = "## Part\n\nSomething was found and is kept here. Something else as well.\n\n"
FILES = {
    "workflows/w.md": """---
name: w
description: Looks, and judges.
inputs: {request: string, repo: path, letter?: string}
repository: "{{ inputs.repo }}"
phases:
  ask:
  look:
  judge:
---
## Preamble
You are careful.
""",
    "skills/w/ask.md": "---\nkind: phase\nsteps: [{say: This phase asks no questions.}]\n---\n",
    "skills/w/look.md": """---
kind: phase
steps:
  - id: seen
    agent: [looker:close, looker:far]
    at_least: 1
    material: {The letter: "{{ inputs.letter }}"}
  - id: talks
    repeat:
      - {id: seen-again, agent: clerk, fresh: true}
    until: pass.index > 1
    at_most: 2
---
## seen
Look.

## seen-again
Look again, a {{ pass.index }}. time.
""",
    "skills/w/judge.md": """---
kind: phase
steps:
  - {id: verdict, agent: clerk, output: {score: integer 1..5, why?: string}}
  - {when: verdict.data.score < 3, goto: judge, at_most: 1}
  - {id: report, write: verdict.md}
---
## verdict
Judge, in round {{ run.round }}.

## report
The score is {{ verdict.data.score }}.
""",
    "roles/looker.md": (
        "---\nname: looker\ndescription: Looks.\ntools: [Read, Grep]\n"
        "variants: {close: near, far: away}\n---\nYou look.\n"
    ),
    "roles/clerk.md": "---\nname: clerk\ndescription: Judges.\n---\nYou judge.\n",
    "config/models.yaml": "models: {'scripted:default': {window: 6000, max_output: 1000}}\n",
    "code/a.py": "".join(f"line_{number} = {number}\n" for number in range(40)),
    "letter.md": "# Letter\n\n" + 300 * PART,
}
REPLIES: list[dict[str, Any]] = [
    {"address": "*/seen/looker:close/1.1", "calls": [{"name": "Read", "arguments": {"path": "a.py"}}]},
    {"address": "*/seen/looker:close/2.1", "text": "It is code.\x1b[31m\nerror: not a line of the program's"},
    {"address": "*/seen/looker:far/*", "fail": "other", "message": "too far away"},
    {"address": "*/verdict/*/1.1", "text": "I will not say.", "times": 1},
    {"address": "*/verdict/*/2.1", "data": {"score": 1}, "times": 1},
    {"address": "*/verdict/*", "data": {"score": 4, "why": "it was better"}},
]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {**FILES, "replies.yaml": json.dumps(REPLIES)}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start_run(skillrun: Call, library: Path, name: str = "it", *extra: str) -> Done:
    letter = (library / "letter.md").read_text()
    options = ("see", "--repo", "code", "--letter", letter, "--model", "scripted:default", "--script", "replies.yaml")
    return skillrun("w", *options, "--name", name, "--unattended", *extra)


@pytest.fixture
def run(library: Path, skillrun: Call) -> Path:
    """A run with tools, a failed member, a loop, a repair and a second round."""
    done = start_run(skillrun, library)
    assert done.code == 0, done
    return library / "runs" / "it"
