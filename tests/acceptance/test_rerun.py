"""A completed run after an edit: which calls a rerun would make, and the rerun itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.row("N1")
Call = Callable[..., Any]

FILES = {
    "workflows/post.md": "---\nname: post\ninputs: {about: string}\nphases:\n  plan:\n  write:\n  check:\n---\n",
    "skills/post/plan.md": """---
kind: phase
steps: [{id: points, agent: author, output: {points(array): string}}]
outputs: {points: "{{ points.data.points }}", key_decisions: [], open_questions: [], risks_identified: [], summary: x}
---
## points
List points about {{ inputs.about }}.
""",
    "skills/post/write.md": """---
kind: phase
steps: [{id: text, agent: author, writes: post.md, material: {Points: "{{ phases.plan.outputs.points }}"}}]
outputs: {text: "{{ text.text }}", key_decisions: [], open_questions: [], risks_identified: [], summary: x}
---
## text
Write the post.
""",
    "skills/post/check.md": """---
kind: phase
steps:
  - {id: seen, agent: reader, material: {Post: "{{ phases.write.outputs.text }}"}, output: {good: boolean}}
outputs: {key_decisions: [], open_questions: [], risks_identified: [], summary: x}
---
## seen
Is it good?
""",
    "roles/author.md": "---\nname: author\n---\nYou write.\n",
    "roles/reader.md": "---\nname: reader\n---\nYou read.\n",
}
RUN = ("post", "tea", "--name", "tea", "--model", "scripted:x")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = skillrun(*RUN)
    assert done.code == 0, done.err
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def state_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in (folder / "runs").rglob("*") if path.is_file() and ".run" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


def test_all_calls_are_reused_when_nothing_changed(folder: Path, skillrun: Call) -> None:
    assert skillrun("resume", "tea", "--preview").out == "no calls would be made: all 3 are reused\n"
    done = skillrun("resume", "tea")
    assert "`skillrun resume tea --preview` shows the calls that a rerun would make" in done.out


@pytest.mark.slow
def test_the_preview_counts_the_calls_of_an_edit_and_changes_nothing(folder: Path, skillrun: Call) -> None:
    before = state_of(folder)
    edit(folder / "skills/post/check.md", "Is it good?", "Is it short?")
    done = skillrun("resume", "tea", "--preview")
    tokens = skillrun("resume", "tea", "--preview", "--json").json["would_ask"][0]["tokens"]
    assert done.out.splitlines() == [
        "changed since the run: skills/post/check.md",
        f"  post/check/seen/reader/1.1 (scripted:x, {tokens:,} tokens): called again",
        f"certain: 1 of 3 calls, {tokens:,} tokens in, about $0.00",
        "reused: 2 of 3 calls",
        "next: `skillrun resume tea --from-start --yes` starts this rerun",
    ]
    assert state_of(folder) == before


@pytest.mark.slow
def test_calls_after_a_changed_reply_are_only_possible(folder: Path, skillrun: Call) -> None:
    edit(folder / "skills/post/plan.md", "List points", "List three points")
    preview = skillrun("resume", "tea", "--preview", "--json").json
    assert [(call["phase"], call["certain"]) for call in preview["would_ask"]] == [
        ("plan", True),
        ("write", False),
        ("check", False),
    ]
    assert (preview["reused"], preview["from_start"], preview["changed"]) == (0, True, ["skills/post/plan.md"])
    assert "possible: 2 of 3 calls, " in skillrun("resume", "tea", "--preview").out


@pytest.mark.slow
def test_the_rerun_makes_those_calls_after_confirmation(folder: Path, skillrun: Call) -> None:
    edit(folder / "skills/post/check.md", "Is it good?", "Is it short?")
    refused = skillrun("resume", "tea", "--from-start")
    assert refused.code == 1
    assert "hint: `skillrun resume tea --from-start --yes` resumes anyway" in refused.err
    done = skillrun("resume", "tea", "--from-start", "--yes")
    assert done.code == 0, done.err
    assert "4 calls" in done.out, "three of the first run and one new call"
    assert skillrun("resume", "tea", "--preview").out == "no calls would be made: all 3 are reused\n"


@pytest.mark.slow
def test_the_rerun_reads_the_project_again(tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = """---
kind: phase
steps:
  - {id: log, read: log.txt, from: project}
  - {id: text, agent: author, material: {Log: "{{ log }}"}, writes: text.md}
---
## text
Explain it.
"""
    files = {"workflows/log.md": "---\nname: log\nphases:\n  only:\n---\n", "skills/log/only.md": phase}
    for path, text in {**files, "roles/author.md": FILES["roles/author.md"], "log.txt": "All is well.\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert skillrun("log", "--name", "r", "--model", "scripted:x").code == 0
    assert skillrun("resume", "r", "--from-start").code == 0, "nothing has changed"
    (tmp_path / "log.txt").write_text("Out of memory.\n", encoding="utf-8")
    assert "log/only/text/author/1.1" in skillrun("resume", "r", "--preview").out
    refused = skillrun("resume", "r", "--from-start")
    assert (refused.code, refused.err.startswith("  log/only/text/author/1.1 ")) == (1, True)


@pytest.mark.slow
def test_the_rerun_uses_the_replies_of_a_script(folder: Path, skillrun: Call) -> None:
    edit(folder / "skills/post/write.md", "Write the post.", "Write a short post.")
    (folder / "replies.yaml").write_text("- {address: '*/write/*', text: Tea.}\n", encoding="utf-8")
    script = ("--script", "replies.yaml")
    assert "--script replies.yaml --from-start --yes`" in skillrun("resume", "tea", "--preview", *script).out
    assert skillrun("resume", "tea", "--from-start", "--yes", *script).code == 0
    assert (folder / "runs/tea/post.md").read_text("utf-8").strip() == "Tea."


@pytest.mark.slow
def test_an_edit_does_not_affect_completed_phases_of_an_unfinished_run(folder: Path, skillrun: Call) -> None:
    done = skillrun("post", "tea", "--name", "paused", "--model", "scripted:x", "--budget", "calls=2")
    assert done.code == 75
    edit(folder / "skills/post/plan.md", "List points", "List three points")
    preview = skillrun("resume", "paused", "--preview").out
    assert "post/check/seen" in preview
    assert "post/plan/points" not in preview
    assert "`skillrun resume paused --from-start --preview` previews a rerun of all phases" in preview
    assert "post/plan/points" in skillrun("resume", "paused", "--from-start", "--preview").out


def test_a_quiet_run_prints_its_phases_and_its_result(folder: Path, skillrun: Call) -> None:
    lines = skillrun("post", "tea", "--name", "quiet", "--model", "scripted:x", "--quiet").out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["plan", "write", "check"]
    assert lines[3:5] == ["completed", f"folder: {folder}/runs/quiet"]
    assert lines[5].startswith("3 calls, ")
    assert len(lines) == 6


def pause_before_check(skillrun: Call) -> None:
    """Start a run whose budget is exhausted after the first two phases."""
    done = skillrun("post", "tea", "--name", "late", "--model", "scripted:x", "--budget", "calls=2")
    assert done.code == 75, done.out


def test_a_resumed_run_names_the_edits_that_it_ignores(folder: Path, skillrun: Call) -> None:
    pause_before_check(skillrun)
    edit(folder / "skills" / "post" / "plan.md", "List points", "List five points")
    edit(folder / "skills" / "post" / "check.md", "Is it good?", "Is it short?")
    edit(folder / "roles" / "author.md", "You write.", "You write fast.")
    edit(folder / "roles" / "reader.md", "You read.", "You read fast.")
    workflow = folder / "workflows" / "post.md"
    workflow.write_text(workflow.read_text() + "More.\n")
    ended = "not used: roles/author.md (phase `plan`, `write` have ended), skills/post/plan.md (phase `plan` has ended)"
    shared = "used only by phases that have not ended: workflows/post.md"
    preview = skillrun("resume", "late", "--preview").out.splitlines()
    assert preview[-3:-1] == [ended, shared]
    assert "`skillrun resume late --from-start --preview` previews a rerun of all phases" in preview[-1]
    assert skillrun("resume", "late", "--preview", "--json").json["ignored"] == [ended, shared]
    done = skillrun("resume", "late", "--budget", "calls=3")
    assert done.code == 0, done.err
    hint = "hint: `skillrun resume late --from-start` runs all phases again"
    assert done.err.splitlines()[-3:] == [f"warning: {ended}", f"warning: {shared}", hint]


@pytest.mark.finding("FX11")
def test_an_edit_that_a_resumed_run_ignored_is_named_until_its_phase_runs_again(folder: Path, skillrun: Call) -> None:
    pause_before_check(skillrun)
    plan = folder / "skills" / "post" / "plan.md"
    before = plan.read_text()
    edit(plan, "List points", "List five points")
    ended = "not used: skills/post/plan.md (phase `plan` has ended)"
    assert skillrun("resume", "late", "--budget", "calls=2").code == 75
    for _ in range(2):
        assert ended in skillrun("resume", "late", "--preview").out
        assert ended in skillrun("resume", "late", "--budget", "calls=2").err
    plan.write_text(before)
    assert "not used" not in skillrun("resume", "late", "--preview").out
    edit(plan, "List points", "List six points")
    assert skillrun("resume", "late", "--budget", "calls=9").code == 0
    assert "changed since the run, and not used: skills/post/plan.md" in skillrun("resume", "late").out
    assert skillrun("resume", "late", "--from-start", "--yes").code == 0
    assert "not used" not in skillrun("resume", "late").out


@pytest.mark.finding("FX11")
def test_an_edited_file_that_only_ended_phases_use_is_named(folder: Path, skillrun: Call) -> None:
    (folder / "roles" / "planner.md").write_text("---\nname: planner\n---\nYou plan.\n")
    edit(folder / "skills" / "post" / "plan.md", "author", "planner")
    pause_before_check(skillrun)
    edit(folder / "roles" / "planner.md", "You plan.", "You plan well.")
    assert "not used: roles/planner.md (phase `plan` has ended)" in skillrun("resume", "late", "--preview").out


READS = {
    "file": "{id: guide, read: docs/guide.md, from: project}",
    "pattern": "{id: guide, read: 'docs/*.md', from: project}",
    "frontmatter": "{id: guide, read: docs/guide.md, from: project, shape: {tone?: string}}",
    "repository": "{id: guide, find: [docs/guide.md], show: 20}",
}


@pytest.mark.finding("FX11")
@pytest.mark.parametrize("read", READS)
def test_an_edited_file_that_an_ended_phase_has_read_is_named(folder: Path, skillrun: Call, read: str) -> None:
    guide, before = folder / "docs" / "guide.md", "---\ntone: dry\n---\nBe brief.\n"
    guide.parent.mkdir()
    guide.write_text(before)
    edit(folder / "workflows/post.md", "phases:", "repository: docs/..\nphases:")
    edit(folder / "skills/post/plan.md", "steps: [", f"steps: [{READS[read]}, ")
    pause_before_check(skillrun)
    named = "not used: docs/guide.md (phase `plan` has ended)"
    again = "`skillrun resume late --from-start --preview` previews a rerun of all phases"
    assert "not used" not in skillrun("resume", "late", "--preview").out
    guide.write_text(before.replace("dry", "warm"))
    preview = skillrun("resume", "late", "--preview")
    assert (named in preview.out, again in preview.out) == (True, True), preview.out
    assert "changed since the run: docs/guide.md" in skillrun("resume", "late", "--from-start", "--preview").out
    assert f"warning: {named}" in skillrun("resume", "late", "--budget", "calls=2").err
    guide.write_text(before)
    assert "not used" not in skillrun("resume", "late", "--preview").out
    guide.unlink()
    assert named in skillrun("resume", "late", "--preview").out


@pytest.mark.finding("FX11")
def test_a_new_file_that_a_read_pattern_of_an_ended_phase_matches_is_named(folder: Path, skillrun: Call) -> None:
    (folder / "docs").mkdir()
    (folder / "docs" / "a.md").write_text("A\n")
    edit(folder / "skills/post/plan.md", "steps: [", f"steps: [{READS['pattern']}, ")
    pause_before_check(skillrun)
    (folder / "docs" / "b.md").write_text("B\n")
    assert "not used: docs/b.md (phase `plan` has ended)" in skillrun("resume", "late", "--preview").out


@pytest.mark.finding("FX11")
def test_an_artifact_that_a_later_phase_wrote_again_is_no_edit(folder: Path, skillrun: Call) -> None:
    edit(folder / "skills/post/plan.md", "steps: [", "steps: [{write: note.md, id: note}, {id: own, read: '*.md'}, ")
    edit(folder / "skills/post/plan.md", "## points", "## note\nOne\n## points")
    edit(folder / "skills/post/write.md", "steps: [", "steps: [{write: note.md, id: note}, ")
    edit(folder / "skills/post/write.md", "## text", "## note\nTwo\n## text")
    pause_before_check(skillrun)
    assert "not used" not in skillrun("resume", "late", "--preview").out


def test_an_edit_that_is_used_causes_no_warning(folder: Path, skillrun: Call) -> None:
    pause_before_check(skillrun)
    edit(folder / "skills" / "post" / "check.md", "Is it good?", "Is it short?")
    assert "not used" not in skillrun("resume", "late", "--preview").out
    done = skillrun("resume", "late", "--budget", "calls=3")
    assert (done.code, "warning" in done.err) == (0, False)


def test_resuming_a_completed_run_names_the_changed_files(folder: Path, skillrun: Call) -> None:
    edit(folder / "skills" / "post" / "plan.md", "List points", "List five points")
    lines = skillrun("resume", "tea").out.splitlines()
    assert lines[1] == "changed since the run, and not used: skills/post/plan.md"


def test_a_resume_counts_its_own_calls_and_those_of_the_run(folder: Path, skillrun: Call) -> None:
    edit(folder / "skills" / "post" / "check.md", "Is it good?", "Is it short?")
    done = skillrun("resume", "tea", "--from-start", "--yes")
    lines = done.out.splitlines()
    index = lines.index("this resume: 1 call made, 2 reused")
    assert lines[index + 1].startswith("in total: 4 calls, ")
    second = skillrun("resume", "tea", "--from-start", "--yes", "--json").json
    assert (second["made"], second["reused"], second["usage"]["calls"]) == (0, 3, 4)
    assert "this resume" not in skillrun("post", "coffee", "--model", "scripted:x").out
