"""Paths on the command line: for inputs, for `validate`, and from a subfolder of the project."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

FLOW = """---
name: copy
inputs:
  words: string, what it is about
  from?: path, what is copied
  folder?: path, what is listed
phases:
  copy:
---
"""
PHASE = """---
kind: phase
steps:
  - {id: one, when: inputs.from, read: "{{ inputs.from }}", from: project}
  - {id: all, when: inputs.folder, read: "{{ inputs.folder }}/*.md", from: project}
  - {id: copy, write: copy.md}
---
## copy
{{ inputs.words }}: {{ one.text | default('none') }}, {{ all.files | default([]) | join(' ') }}
"""
BROKEN = "---\nkind: phase\nsteps: x\n---\n"


@pytest.fixture
def copy_project(project: Call) -> Path:
    """A project whose workflow copies a file, and a folder with two notes next to the project."""
    folder: Path = project()
    files = {"workflows/copy.md": FLOW, "skills/copy/copy.md": PHASE, "../notes/a.md": "A", "../notes/b.md": "B"}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def set_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


@pytest.mark.finding("FL14")
@pytest.mark.parametrize("absolute", [True, False])
def test_a_path_input_outside_the_project_is_read(copy_project: Path, skillrun: Call, absolute: bool) -> None:
    notes = str(copy_project.parent / "notes") if absolute else "../notes"
    done = skillrun("copy", "x", "--from", f"{notes}/a.md", "--folder", notes, "--name", "a", "--unattended")
    assert done.code == 0, done.out + done.err
    assert (copy_project / "runs" / "a" / "copy.md").read_text("utf-8").strip() == "x: A, a.md b.md"


@pytest.mark.finding("FL14")
def test_standard_input_is_accepted_for_text_and_refused_for_paths(
    copy_project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_stdin(monkeypatch, "grün\n".encode())
    done = skillrun("copy", "-", "--name", "a", "--unattended")
    assert done.code == 0, done.out + done.err
    assert "grün" in (copy_project / "runs" / "a" / "copy.md").read_text("utf-8")
    set_stdin(monkeypatch, b"\xff")
    assert (done := skillrun("copy", "-", "--unattended")).code == 2
    assert "`words` is not UTF-8" in done.err
    done = skillrun("copy", "x", "--from", "-", "--unattended")
    assert done.code == 2
    assert "`from` takes a path; it cannot be `-` (standard input)\nhint: write standard input to a file" in done.err


@pytest.fixture
def broken(copy_project: Path) -> Path:
    """The same project with two broken files."""
    (copy_project / "skills" / "copy" / "copy.md").write_text(BROKEN, encoding="utf-8")
    (copy_project / "skills" / "other").mkdir()
    (copy_project / "skills" / "other" / "more.md").write_text(BROKEN, encoding="utf-8")
    (copy_project / "src").mkdir()
    return copy_project


@pytest.mark.slow
@pytest.mark.finding("FL14", "FL19")
@pytest.mark.parametrize("argument", ["skills/copy", "skills/copy/copy.md", "./skills/copy/", "src/../skills/copy"])
def test_validate_checks_one_part_of_a_project(broken: Path, skillrun: Call, argument: str) -> None:
    done = skillrun("validate", argument)
    assert done.code == 1
    assert done.out.startswith("skills/copy/copy.md:3:8: error[type]")
    assert "1 error, 0 warnings in 1 file" in done.out
    assert "note: 1 problem in other files; `skillrun validate .` shows all" in done.err
    assert skillrun("validate", "workflows").code == 0


@pytest.mark.slow
@pytest.mark.finding("FL14")
def test_problem_paths_can_be_opened_from_the_current_folder(
    broken: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(broken.parent)
    for argument in ("project", str(broken), "project/skills/other/more.md"):
        report = skillrun("validate", argument, "--json")
        paths = [problem["path"] for problem in report.json["problems"]]
        assert paths
        assert all(Path(path).is_file() for path in paths)
        assert {Path(path).is_absolute() for path in paths} == {argument.startswith("/")}


@pytest.mark.slow
@pytest.mark.finding("FL14")
def test_commands_in_a_subfolder_use_the_enclosing_project(
    broken: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(broken / "src")
    done = skillrun("validate")
    assert done.out.startswith("../skills/copy/copy.md:3:8: error[type]")
    for command in (("copy", "x"), ("render", "copy", "copy")):
        done = skillrun(*command)
        assert done.code == 1
        assert done.err.startswith("../skills/copy/copy.md:3:8: error[type]")


@pytest.mark.slow
@pytest.mark.finding("FL19")
def test_a_folder_without_project_files_is_refused_or_reported_as_empty(
    broken: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = skillrun("validate", "src")
    assert done.code == 2
    assert "src is not a project file and contains none" in done.err
    assert "`skillrun validate .` checks the whole project" in done.err
    monkeypatch.chdir(broken.parent / "notes")
    done = skillrun("validate")
    assert done.code == 0
    assert "note: . has no project files" in done.err
