"""A command in a subfolder uses the project above it; paths are relative to the subfolder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
pytestmark = pytest.mark.row("A4")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "review.md"
SCRIPTED = ("--model", "scripted:default")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the page about reviews, with code in `src/app`, which is the current directory."""
    folder = tmp_path / "project"
    for name, text in re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        write(folder / name, text)
    write(folder / "src" / "app" / "change.py", "CHANGE = 1\n")
    write(folder / "src" / "other.py", "OTHER = 2\n")
    write(tmp_path / "outside.py", "OUTSIDE = 3\n")
    monkeypatch.chdir(folder / "src" / "app")
    return folder


def has_review(skillrun: Call) -> bool:
    return "review" in [workflow["name"] for workflow in skillrun("list", "--json").json["workflows"]]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_workflow_runs_and_its_run_belongs_to_the_project(project: Path, skillrun: Call) -> None:
    done = skillrun("review", "change.py", *SCRIPTED, "--name", "a")
    assert done.code == 0, done.err
    assert f"project: {project}\n" in done.err
    assert "next: `skillrun show a` shows the details" in done.out
    assert (project / "runs" / "a" / "findings.md").is_file()
    assert [path.name for path in Path.cwd().iterdir()] == ["change.py"]
    assert "a" in skillrun("runs").out
    assert skillrun("show", "a").code == 0
    assert skillrun("resume", "a").code == 0
    assert has_review(skillrun)


@pytest.mark.parametrize(
    ("path", "recorded", "text"),
    [
        ("change.py", "src/app/change.py", "CHANGE = 1"),
        ("./change.py", "src/app/change.py", "CHANGE = 1"),
        ("../other.py", "src/other.py", "OTHER = 2"),
        ("../../../outside.py", "../outside.py", "OUTSIDE = 3"),
    ],
)
def test_a_path_is_relative_to_the_current_directory(
    project: Path, skillrun: Call, path: str, recorded: str, text: str
) -> None:
    assert skillrun("review", path, *SCRIPTED, "--name", "a").code == 0
    assert f"change: {recorded}\n" in (project / "runs" / "a" / "state.md").read_text("utf-8")
    assert text in skillrun("render", "review", "reading", "-i", f"change={path}").out


def test_an_absolute_path_is_kept_and_a_missing_file_is_refused(project: Path, skillrun: Call) -> None:
    assert skillrun("review", str(project / "src" / "other.py"), *SCRIPTED, "--name", "a").code == 0
    done = skillrun("review", "nothing.py", *SCRIPTED)
    assert done.code == 2
    assert f"the path {project / 'src' / 'app' / 'nothing.py'} does not exist" in done.err
    assert "submit" not in done.err
    fetched = skillrun("review", f"https://example.org/x.git@{'a' * 40}", *SCRIPTED)
    assert (fetched.code, "to have a worker fetch URL@COMMIT, use `skillrun submit`" in fetched.err) == (2, True)


@pytest.mark.slow
def test_problems_have_paths_relative_to_the_current_directory(project: Path, skillrun: Call) -> None:
    write(project / "skills" / "review" / "reading.md", "---\nkind: 3\n---\n")
    for command in (["review", "change.py"], ["validate"], ["render", "review", "reading"]):
        done = skillrun(*command)
        assert done.code == 1
        assert "../../skills/review/reading.md:2:7: error" in done.out + done.err


def test_the_nearest_project_is_used_but_none_above_a_repository_or_home(
    project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project / "src" / "config" / "app.yaml", "a: 1\n")  # the config of another program
    assert has_review(skillrun)
    write(project / "src" / "config" / "planning.yaml", "{}\n")
    assert not has_review(skillrun)
    (project / "src" / "config" / "planning.yaml").unlink()
    assert has_review(skillrun)
    monkeypatch.setenv("HOME", str(project))
    assert not has_review(skillrun)
    monkeypatch.setenv("HOME", str(project.parent))
    assert has_review(skillrun)
    write(project / "src" / ".git", "gitdir: other\n")
    assert not has_review(skillrun)


def test_a_project_without_files_is_found_by_its_runs(
    tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "code")
    done = skillrun("brainstorm", "Tea", *SCRIPTED, "--name", "tea", "--agents", "0", "--rounds", "1")
    assert done.code == 75, done.err
    monkeypatch.chdir(tmp_path / "code" / "src")
    assert "tea" in skillrun("runs").out
    assert skillrun("show", "tea").code == 0


def test_a_project_that_another_user_may_have_created_is_not_used(
    project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    project.chmod(0o777)
    done = skillrun("review", "change.py", *SCRIPTED)
    assert done.code == 2
    assert (
        f"{project} has this workflow, but is ignored because another user owns it; "
        "if you trust this project, run the command there: `cd" in done.err
    )
    assert not has_review(skillrun)
    monkeypatch.chdir(project)
    assert has_review(skillrun)


def test_a_runs_link_out_of_the_project_is_refused_in_a_subfolder(project: Path, skillrun: Call) -> None:
    (project.parent / "elsewhere").mkdir()
    (project / "runs").symlink_to("../elsewhere")
    done = skillrun("review", "change.py", *SCRIPTED)
    assert done.code == 2
    assert "`../../runs` is a link to outside the project" in done.err
