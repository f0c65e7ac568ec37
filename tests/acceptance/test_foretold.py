"""The estimate of a run: from measured sizes, before it starts, for each answer, and after it goes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli import preview
from tests.acceptance.conftest import Done
from tests.acceptance.plan.conftest import skillrun

pytestmark = pytest.mark.row("Q8")

FILES = {
    "workflows/w.md": """---
name: w
description: Looks, and judges.
inputs: {request: string, repo: path}
state: {depth: {type: string, default: short}}
repository: "{{ inputs.repo }}"
phases:
  choose:
  look: {when: "state.depth == 'long'"}
  write:
  judge:
---
""",
    "skills/w/choose.md": """---
kind: phase
steps:
  - set: {cost: "{{ run.estimate }}"}
  - {when: cost, say: "About {{ cost.calls }} calls; {{ cost.measured }} of {{ cost.steps }} steps."}
  - id: how-deep
    ask: "How deep? {{ run.estimate.answers.how_deep.long.calls | default('?') }} calls where it is long."
    choices: [short, long]
  - set: {depth: "{{ how_deep.answer }}"}
---
""",
    "skills/w/look.md": "---\nkind: phase\nsteps: [{id: seen, agent: looker}]\n---\n## seen\nLook.\n",
    "skills/w/write.md": (
        "---\nkind: phase\nsteps: [{id: text, agent: looker, writes: text.md}]\n---\n## text\nWrite.\n"
    ),
    "skills/w/judge.md": """---
kind: phase
steps:
  - {id: verdict, agent: clerk, fresh: true, output: {again: boolean}}
  - {when: verdict.data.again, goto: write, at_most: 1}
---
## verdict
Judge.
""",
    "roles/looker.md": "---\nname: looker\ndescription: Looks.\ntools: [Read]\n---\nYou look.\n",
    "roles/clerk.md": "---\nname: clerk\ndescription: Judges.\ntools: []\n---\nYou judge.\n",
    "config/sizes.yaml": (
        "steps:\n  w/write/text: {reply: 5000, turns: 3, found: 2000}\n  w/judge/verdict: {reply: 700}\n"
    ),
}
STEPS = ("look/seen", "look/summary", "write/text", "write/summary", "judge/verdict")
SCRIPT: list[dict[str, Any]] = [
    {"address": "*/look/seen/*/1.1", "calls": [{"name": "Read", "arguments": {"path": "a.py"}}]},
    {"address": "*/look/seen/*", "text": "Seen. " * 300},
    {"address": "*/judge/verdict*", "data": {"again": True}, "times": 1},
    {"address": "*/judge/verdict*", "data": {"again": False}},
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        **FILES, "code/a.py": "a = 1\n" * 50, "replies.yaml": json.dumps(SCRIPT), "answers.yaml": "how-deep: long\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_workflow(*flags: str) -> Done:
    return skillrun("w", "Do it.", "--repo", "code", "--name", "run", "--model", "scripted:x", *flags)


@pytest.mark.slow
def test_a_dry_run_uses_the_measured_sizes_and_tool_turns(project: Path) -> None:
    estimate = run_workflow("--dry-run", "--json").json
    assert (estimate["steps"], estimate["measured"], estimate["turns"]) == (3, 2, 3)
    assert estimate["phases"]["judge"]["output"] == 700
    assert 4500 <= estimate["phases"]["write"]["output"] <= 5500
    input_tokens = estimate["phases"]["write"]["input"]
    (project / "config/sizes.yaml").write_text("steps:\n  w/write/text: {reply: 100, turns: 2, found: 500}\n")
    smaller = run_workflow("--dry-run", "--json").json
    assert (smaller["measured"], smaller["turns"]) == (1, 2)
    assert smaller["phases"]["write"]["input"] < input_tokens - 3 * 2000
    assert "measured in finished runs (`skillrun sizes`) for 1 of 3 steps." in run_workflow("--dry-run").out


@pytest.mark.slow
def test_the_estimate_is_shown_at_the_start_after_an_answer_and_after_going_back(project: Path) -> None:
    waiting = run_workflow("--script", "replies.yaml")
    assert waiting.code == 75
    assert "choose: About 3 calls; 2 of 3 steps." in waiting.out
    done = skillrun("resume", "run", "--script", "replies.yaml", "--answers", "answers.yaml")
    assert done.code == 0, done.err
    estimate = json.loads(skillrun("show", "run", "--json").out)["estimate"]
    chosen = estimate["answers"]["how_deep"]["long"]
    assert (chosen["calls"], chosen["turns"], chosen["steps"], chosen["measured"]) == (5, 4, 5, 2)
    lines = [line for line in done.out.splitlines() if "expected now" in line]
    assert lines[0].startswith("choose: expected now, with how-deep = long: about 5 calls and 4 turns with tools, ")
    assert f"{chosen['tokens']:,} tokens" in lines[0]
    remaining = sum(chosen["phases"][name]["tokens"] for name in ("write", "judge"))
    assert lines[1].startswith("judge: expected now, from here on: about 3 calls and 3 turns with tools, ")
    assert f"{remaining:,} tokens" in lines[1]
    assert len(lines) == 2
    assert "expected now, from here on" in skillrun("show", "run").out


@pytest.mark.slow
def test_an_answer_that_does_not_change_the_estimate_prints_none(project: Path) -> None:
    (project / "answers.yaml").write_text("how-deep: short\n")
    done = run_workflow("--unattended", "--answers", "answers.yaml")
    assert done.code == 0, done.err
    assert "choose: About 3 calls" in done.out
    assert "with how-deep" not in done.out


@pytest.mark.slow
def test_sizes_prints_finished_runs_in_the_format_of_the_config(project: Path) -> None:
    run_workflow("--script", "replies.yaml", "--unattended", "--answers", "answers.yaml")
    sizes = skillrun("sizes", "run", "--json").json
    size = sizes["steps"]["w/look/seen"]
    assert size["turns"] == 1
    assert 300 <= size["reply"] <= 900
    assert size["found"] > 50
    assert set(sizes["steps"]) == {f"w/{step}" for step in STEPS}
    (project / "config/sizes.yaml").write_text(skillrun("sizes", "run", "run").out)
    assert run_workflow("--dry-run", "--json").json["measured"] == 3
    assert skillrun("sizes", "nothing").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps:\n  w/a: {reply: -1}\n", "config/sizes.yaml:2:16: error"),
        ("steps:\n  w/a: {reply: 1, turn: 2}\n", "config/sizes.yaml:2:19: error[unknown-key]"),
        ("steps:\n  w/a: {turns: 2}\n", "config/sizes.yaml:2:8: error"),
        ("steps: [a]\n", "config/sizes.yaml:1:8: error"),
    ],
)
def test_an_error_in_the_sizes_is_reported_at_its_position(project: Path, text: str, message: str) -> None:
    (project / "config/sizes.yaml").write_text(text)
    done = skillrun("validate")
    assert done.code == 1
    assert message in done.out + done.err


@pytest.mark.slow
def test_code_in_prompts_is_estimated_at_its_measured_length(project: Path) -> None:
    phase = """---
kind: phase
steps:
  - {id: places, find: "{{ paths_in(inputs.request) }}", show: 500}
  - {id: text, agent: looker, writes: text.md, material: {The code: "{{ places.texts }}"}}
---
## text
Write.
"""
    (project / "skills/w/write.md").write_text(phase, encoding="utf-8")
    before = run_workflow("--dry-run", "--json").json["phases"]["write"]["input"]
    sizes = project / "config/sizes.yaml"
    sizes.write_text(sizes.read_text() + "  w/write/places: {reply: 3000}\n")
    after = run_workflow("--dry-run", "--json").json["phases"]["write"]["input"]
    assert 4 * 2700 <= after - before <= 4 * 3300, "in the call and in three turns with tools"
    flags = ("--repo", ".", "--name", "real", "--model", "scripted:x", "--unattended", "--answers", "answers.yaml")
    done = skillrun("w", "See `code/a.py:1-9`.", *flags)
    assert done.code == 0, done.err
    measured = skillrun("sizes", "real").out
    assert "w/write/places: {reply: " in measured


LATE = {
    "workflows/w.md": """---
name: w
description: Writes, and tells the cost.
inputs: {request: string, repo: path}
phases:
  write:
  tell:
---
""",
    "skills/w/write.md": (
        "---\nkind: phase\nsteps: [{id: text, agent: clerk, writes: text.md}]\n---\n## text\nWrite.\n"
    ),
    "skills/w/tell.md": """---
kind: phase
steps:
  - {say: "Almost done."}
  - {id: last, agent: clerk, writes: last.md}
  - {when: run.estimate.calls > 1, say: "About {{ run.estimate.calls }} calls."}
---
## last
Write the last words.
""",
}


def count_previews(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an entry for each dry run of the whole workflow."""
    previews: list[str] = []
    preview_run = preview.preview_run

    async def record(*arguments: Any, **settings: Any) -> Any:
        previews.append("preview")
        return await preview_run(*arguments, **settings)

    monkeypatch.setattr(preview, "preview_run", record)
    return previews


def write_late(project: Path) -> None:
    for name, text in LATE.items():
        (project / name).write_text(text, encoding="utf-8")


def read_estimate() -> Any:
    return json.loads(skillrun("show", "run", "--json").out)["estimate"]


def test_a_run_is_estimated_only_before_the_first_step_that_reads_the_estimate(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_late(project)
    previews = count_previews(monkeypatch)
    waiting = run_workflow("--budget", "calls=1")
    assert waiting.code == 75, waiting.err
    assert previews == []
    assert read_estimate() == {}
    done = skillrun("resume", "run", "--budget", "calls=9")
    assert done.code == 0, done.err
    assert previews == ["preview"]
    assert "tell: About 3 calls." in done.out
    assert read_estimate()["calls"] == 3


def test_a_resumed_run_keeps_its_estimate(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_late(project)
    step = '  - {when: run.estimate, say: "About {{ run.estimate.calls }} calls."}\n'
    first = project / "skills/w/write.md"
    first.write_text(first.read_text().replace("steps: [{id:", f"steps:\n{step}  - {{id:").replace("}]", "}"))
    previews = count_previews(monkeypatch)
    waiting = run_workflow("--budget", "calls=1")
    assert "write: About 3 calls." in waiting.out
    estimate = read_estimate()
    more = "  - {id: more, agent: clerk, writes: more.md}\n---\n## more\nWrite more.\n"
    tell = project / "skills/w/tell.md"
    tell.write_text(tell.read_text().replace("---\n## last", f"{more}\n## last"))
    done = skillrun("resume", "run", "--budget", "calls=9", "--yes")
    assert done.code == 0, done.err
    assert previews == ["preview"]
    assert "tell: About 3 calls." in done.out
    assert read_estimate() == estimate


def test_a_run_that_could_not_be_estimated_has_no_estimate_when_it_resumes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_late(project)
    tell = project / "skills/w/tell.md"
    step = '  - {say: "{{ run.estimate.calls | default(0) }} calls."}\n'
    fails = '  - {read: gone.md, when: "not run.estimate"}\n'
    tell.write_text(tell.read_text().replace("steps:\n", f"steps:\n{step}{fails}", 1))
    previews = count_previews(monkeypatch)
    failed = run_workflow()
    assert failed.code == 1, failed.out
    assert previews == ["preview"]
    tell.write_text(tell.read_text().replace(fails, ""))
    done = skillrun("resume", "run", "--yes")
    assert done.code == 0, done.err + done.out
    assert previews == ["preview"]
    assert "tell: 0 calls." in done.out
