"""Paths that a person types: for an input, for `validate`, and from a folder below the project's."""

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
def place(project: Call) -> Path:
    """A project whose workflow copies a file, and beside it a folder with two notes."""
    folder: Path = project()
    files = {"workflows/copy.md": FLOW, "skills/copy/copy.md": PHASE, "../notes/a.md": "A", "../notes/b.md": "B"}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


@pytest.mark.finding("FL14")
@pytest.mark.parametrize("absolute", [True, False])
def test_a_typed_path_outside_of_the_project_is_read(place: Path, skillrun: Call, absolute: bool) -> None:
    notes = str(place.parent / "notes") if absolute else "../notes"
    done = skillrun("copy", "x", "--from", f"{notes}/a.md", "--folder", notes, "--name", "a", "--unattended")
    assert done.code == 0, done.out + done.err
    assert (place / "runs" / "a" / "copy.md").read_text("utf-8").strip() == "x: A, a.md b.md"


@pytest.mark.finding("FL14")
def test_standard_input_is_a_text_and_no_path(place: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, "grün\n".encode())
    done = skillrun("copy", "-", "--name", "a", "--unattended")
    assert done.code == 0, done.out + done.err
    assert "grün" in (place / "runs" / "a" / "copy.md").read_text("utf-8")
    piped(monkeypatch, b"\xff")
    assert (done := skillrun("copy", "-", "--unattended")).code == 2
    assert "`words` is not UTF-8" in done.err
    done = skillrun("copy", "x", "--from", "-", "--unattended")
    assert done.code == 2
    assert "`from` is a path, but `-` means standard input\nhint: write standard input to a file" in done.err


@pytest.fixture
def broken(place: Path) -> Path:
    """The project with two broken files."""
    (place / "skills" / "copy" / "copy.md").write_text(BROKEN, encoding="utf-8")
    (place / "skills" / "other").mkdir()
    (place / "skills" / "other" / "more.md").write_text(BROKEN, encoding="utf-8")
    (place / "src").mkdir()
    return place


@pytest.mark.slow
@pytest.mark.finding("FL14", "FL19")
@pytest.mark.parametrize("typed", ["skills/copy", "skills/copy/copy.md", "./skills/copy/", "src/../skills/copy"])
def test_a_part_of_a_project_is_checked_as_that(broken: Path, skillrun: Call, typed: str) -> None:
    done = skillrun("validate", typed)
    assert done.code == 1
    assert done.out.startswith("skills/copy/copy.md:3:8: error[type]")
    assert "1 error, 0 warnings in 1 file" in done.out
    assert "note: 1 problem in other files; `skillrun validate .` shows all" in done.err
    assert skillrun("validate", "workflows").code == 0


@pytest.mark.slow
@pytest.mark.finding("FL14")
def test_problems_have_paths_that_can_be_opened_from_here(
    broken: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(broken.parent)
    for typed in ("project", str(broken), "project/skills/other/more.md"):
        told = skillrun("validate", typed, "--json")
        paths = [one["path"] for one in told.json["problems"]]
        assert paths
        assert all(Path(path).is_file() for path in paths)
        assert {Path(path).is_absolute() for path in paths} == {typed.startswith("/")}


@pytest.mark.slow
@pytest.mark.finding("FL14")
def test_a_folder_below_the_project_is_in_it(broken: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(broken / "src")
    done = skillrun("validate")
    assert done.out.startswith("../skills/copy/copy.md:3:8: error[type]")
    for command in (("copy", "x"), ("render", "copy", "copy")):
        done = skillrun(*command)
        assert done.code == 1
        assert done.err.startswith("../skills/copy/copy.md:3:8: error[type]")


@pytest.mark.slow
@pytest.mark.finding("FL19")
def test_what_is_no_part_of_a_project_is_refused_and_an_empty_one_said(
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
