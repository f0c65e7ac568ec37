"""Runs of an older workflow version resume under the current phase names."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.store.frontmatter import from_frontmatter
from tests.acceptance.conftest import Call, Make

WORKFLOW = """---
name: trip
inputs:
  place: string
  days?: {type: integer, default: 3}
state:
  mode?: {type: string, default: quick}
phases:
  look:
  ask:
  pack:
---
"""
PHASES = {
    "look": "---\nkind: phase\nsteps:\n  - {id: found, agent: guide}\noutputs: {found: '{{ found.text }}'}\n---\n"
    "## found\nLook at {{ inputs.place }}.\n",
    "ask": "---\nkind: phase\nsteps:\n  - {id: when, ask: When?}\n---\n",
    "pack": "---\nkind: phase\nsteps:\n  - {id: bag, agent: guide, writes: bag.md}\n---\n"
    "## bag\nPack for {{ inputs.days | default(0) }} days, {{ state.mode | default('any') }}: "
    "{{ phases.look.outputs.found }}\n",
}


@pytest.fixture
def trip(project: Make) -> Path:
    folder = project()
    files = {"workflows/trip.md": WORKFLOW, "roles/guide.md": "---\nname: guide\n---\nYou know the way.\n"}
    files |= {f"skills/trip/{name}.md": text for name, text in PHASES.items()}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "answers.yaml").write_text("when: in May\n")
    (folder / "script.yaml").write_text("- {address: none, text: none}\n")
    return folder


def rename_phases(trip: Path) -> None:
    """Rename `look` to `survey` and `ask` to `settle`."""
    workflow = trip / "workflows" / "trip.md"
    text = workflow.read_text().replace("  look:\n", "  survey: {skill: trip/look, was: [look, SURVEYING]}\n")
    workflow.write_text(text.replace("  ask:\n", '  settle: {skill: trip/ask, was: [ask, "2"]}\n'))
    pack = trip / "skills" / "trip" / "pack.md"
    pack.write_text(pack.read_text().replace("phases.look", "phases.survey"))


def calls(skillrun: Call, run: str) -> list[str]:
    lines = skillrun("logs", run, "--json").out.splitlines()
    return [line for line in lines if '"event": "CallStarted"' in line or '"event":"CallStarted"' in line]


@pytest.mark.row("P17")
def test_renamed_phases_keep_their_summaries(trip: Path, skillrun: Call) -> None:
    assert skillrun("trip", "Rome", "--model", "scripted:x", "--name", "rome").code == 75
    before = len(calls(skillrun, "rome"))
    rename_phases(trip)
    done = skillrun("resume", "rome", "--answers", "answers.yaml", "--yes")
    assert done.code == 0, done.err
    new_calls = calls(skillrun, "rome")[before:]
    assert new_calls
    assert not any("survey" in line or "look" in line for line in new_calls)
    summaries = trip / "runs" / "rome" / "summaries"
    assert sorted(path.stem for path in summaries.iterdir()) == ["pack", "settle", "survey"]
    assert from_frontmatter(summaries / "survey.md")[0]["phase"] == "survey"


CONFIG = "modes: {quick: {}, slow: {}}\n"


@pytest.mark.row("P17")
@pytest.mark.finding("FR101")
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("mode: slow", "mode: gone", "`mode` is `gone`; allowed: quick, slow"),
        ("score: 4", "score: 40", "`score` is `40`; expected a whole number from 0 to 10"),
        ("flags: []", "flags: hello", "`flags` is `hello`; expected a list, such as `[]` or `[hello]`"),
        ("days: 3", "days: many", "`days` is `many`; expected a whole number"),
    ],
)
def test_a_recorded_value_that_is_not_allowed_ends_the_resume(
    trip: Path, skillrun: Call, before: str, after: str, message: str
) -> None:
    workflow = trip / "workflows" / "trip.md"
    state = "  mode: {type: enum, values: '{{ config.modes }}', default: slow}\n"
    state += "  score: {type: integer 0..10, default: 4}\n  flags(array): {type: string, default: []}\n"
    text = workflow.read_text().replace("  mode?: {type: string, default: quick}\n", state)
    workflow.write_text(text.replace("phases:\n", "config: trip\nphases:\n"))
    (trip / "config").mkdir(exist_ok=True)
    (trip / "config" / "trip.yaml").write_text(CONFIG)
    assert skillrun("trip", "Rome", "--model", "scripted:x", "--name", "rome").code == 75
    path = trip / "runs" / "rome" / "state.md"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    done = skillrun("resume", "rome", "--answers", "answers.yaml", "--adopt")
    assert (done.code, message in done.err) == (1, True), done.err
    path.write_text(path.read_text().replace(after, before))
    if before == "mode: slow":  # the config has lost the mode
        (trip / "config" / "trip.yaml").write_text(CONFIG.replace("slow: {}", "slower: {}"))
        workflow.write_text(workflow.read_text().replace("default: slow", "default: quick"))
        assert "`mode` is `slow`" in skillrun("resume", "rome", "--answers", "answers.yaml").err
        assert skillrun("resume", "rome", "--answers", "answers.yaml", "--from-start").code == 0
    else:
        assert skillrun("resume", "rome", "--answers", "answers.yaml").code == 0


@pytest.mark.row("P17")
@pytest.mark.finding("FR107")
def test_a_migrated_run_uses_the_model_of_the_environment(
    trip: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLRUN_MODEL", "scripted:other")
    folder = trip / "runs" / "old"
    folder.mkdir(parents=True)
    state = "schema_version: 1\nworkflow: trip\ncurrent_phase: look\ninputs: {place: Rome}\n"
    (folder / "state.md").write_text(f"---\n{state}---\n")
    done = skillrun("resume", "old", "--answers", "answers.yaml", "--no-adopt")
    assert done.code == 0, done.err
    assert "strong = scripted:other" in done.out
    assert from_frontmatter(folder / "state.md")[0]["models"]["strong"] == "scripted:other"
