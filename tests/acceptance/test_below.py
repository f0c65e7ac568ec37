"""The project is found from any folder below it: its files, its runs, and what paths mean that are typed there."""

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
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the page about reviews, with code in `src/app`; one is there."""
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


def test_a_workflow_runs_and_its_run_is_the_projects(place: Path, skillrun: Call) -> None:
    done = skillrun("review", "change.py", *SCRIPTED, "--name", "a")
    assert done.code == 0, done.err
    assert f"project: {place}\n" in done.err
    assert "next: `skillrun show a` shows the details" in done.out
    assert (place / "runs" / "a" / "findings.md").is_file()
    assert [path.name for path in Path.cwd().iterdir()] == ["change.py"]
    assert "a" in skillrun("runs").out
    assert skillrun("show", "a").code == 0
    assert skillrun("resume", "a").code == 0
    assert has_review(skillrun)


@pytest.mark.parametrize(
    ("typed", "recorded", "text"),
    [
        ("change.py", "src/app/change.py", "CHANGE = 1"),
        ("./change.py", "src/app/change.py", "CHANGE = 1"),
        ("../other.py", "src/other.py", "OTHER = 2"),
        ("../../../outside.py", "../outside.py", "OUTSIDE = 3"),
    ],
)
def test_a_path_is_meant_from_where_it_was_typed(
    place: Path, skillrun: Call, typed: str, recorded: str, text: str
) -> None:
    assert skillrun("review", typed, *SCRIPTED, "--name", "a").code == 0
    assert f"change: {recorded}\n" in (place / "runs" / "a" / "state.md").read_text("utf-8")
    assert text in skillrun("render", "review", "reading", "-i", f"change={typed}").out


def test_an_absolute_path_stays_and_one_to_nothing_is_refused(place: Path, skillrun: Call) -> None:
    assert skillrun("review", str(place / "src" / "other.py"), *SCRIPTED, "--name", "a").code == 0
    done = skillrun("review", "nothing.py", *SCRIPTED)
    assert done.code == 2
    assert f"but {place / 'src' / 'app' / 'nothing.py'} does not exist" in done.err
    assert "submit" not in done.err
    fetched = skillrun("review", f"https://example.org/x.git@{'a' * 40}", *SCRIPTED)
    assert (fetched.code, "to have a worker fetch URL@COMMIT, use `skillrun submit`" in fetched.err) == (2, True)


@pytest.mark.slow
def test_problems_have_paths_that_lead_to_them_from_here(place: Path, skillrun: Call) -> None:
    write(place / "roles" / "reviewer.md", "---\nmodel: 3\n---\n")
    for command in (["review", "change.py"], ["validate"], ["render", "review", "reading"]):
        done = skillrun(*command)
        assert done.code == 1
        assert "../../roles/reviewer.md:2:8: error" in done.out + done.err


def test_the_nearest_project_counts_and_none_above_a_repository_or_home(
    place: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place / "src" / "config" / "app.yaml", "a: 1\n")  # some program's
    assert has_review(skillrun)
    write(place / "src" / "config" / "planning.yaml", "{}\n")
    assert not has_review(skillrun)
    (place / "src" / "config" / "planning.yaml").unlink()
    assert has_review(skillrun)
    monkeypatch.setenv("HOME", str(place))
    assert not has_review(skillrun)
    monkeypatch.setenv("HOME", str(place.parent))
    assert has_review(skillrun)
    write(place / "src" / ".git", "gitdir: elsewhere\n")
    assert not has_review(skillrun)


def test_without_files_of_its_own_a_project_is_where_its_runs_are(
    tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "code")
    done = skillrun("brainstorm", "Tea", *SCRIPTED, "--name", "tea", "--agents", "0", "--rounds", "1")
    assert done.code == 75, done.err
    monkeypatch.chdir(tmp_path / "code" / "src")
    assert "tea" in skillrun("runs").out
    assert skillrun("show", "tea").code == 0


def test_a_project_that_somebody_else_may_have_put_there_is_not_taken(
    place: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    place.chmod(0o777)
    done = skillrun("review", "change.py", *SCRIPTED)
    assert done.code == 2
    assert f"{place} has it, but belongs to another user; if you trust it, run the command there: `cd" in done.err
    assert not has_review(skillrun)
    monkeypatch.chdir(place)
    assert has_review(skillrun)


def test_a_folder_of_runs_that_leads_out_is_refused_from_below_too(place: Path, skillrun: Call) -> None:
    (place.parent / "elsewhere").mkdir()
    (place / "runs").symlink_to("../elsewhere")
    done = skillrun("review", "change.py", *SCRIPTED)
    assert done.code == 2
    assert "`../../runs` is a link to outside the project" in done.err
