"""`eject` and `outdated`: copy a shipped file into the project, and merge later changes of the shipped file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.library.roots import package_library

Call = Callable[..., Any]
pytestmark = pytest.mark.row("A4")
JUDGE = "roles/judge.md"
ORIGINAL = f".skillrun/ejected/{JUDGE}"
SHIPPED = (package_library() / JUDGE).read_text("utf-8")
LINES = SHIPPED.splitlines(keepends=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def eject_older(project: Path, skillrun: Call, edit: Callable[[str], str] = str) -> None:
    """Eject a judge whose last line differs from that of the shipped one, and apply `edit` to the copy."""
    assert skillrun("eject", JUDGE).code == 0
    text = "".join([*LINES[:-1], "The last line as it was.\n"])
    (project / ORIGINAL).write_text(text, "utf-8")
    (project / JUDGE).write_text(edit(text), "utf-8")


def status(skillrun: Call, *more: str) -> dict[str, str]:
    return {row["path"]: row["status"] for row in skillrun("outdated", "--json", *more).json}


@pytest.mark.slow
def test_a_shipped_file_is_copied_and_an_edited_copy_is_used(project: Path, skillrun: Call) -> None:
    done = skillrun("eject", JUDGE)
    assert done.code == 0
    assert done.out.startswith(f"created  {JUDGE}\ncreated  {ORIGINAL}\n")
    assert (project / JUDGE).read_text("utf-8") == (project / ORIGINAL).read_text("utf-8") == SHIPPED
    assert status(skillrun) == {JUDGE: "same"}
    (project / JUDGE).write_text(SHIPPED.replace("You score", "You weigh"), "utf-8")
    assert status(skillrun) == {JUDGE: "changed"}
    done = skillrun("outdated", "--diff")
    assert done.code == 0
    assert f"--- skillrun:{JUDGE}\n+++ {JUDGE}\n" in done.out
    assert "\n+You weigh" in done.out
    judges = [role["origin"] for role in skillrun("list", "--json").json["roles"] if role["name"] == "judge"]
    assert judges == ["project"]
    assert skillrun("validate").code == 0


def test_eject_in_a_subfolder_accepts_the_path_that_messages_show(
    project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    skillrun("init")
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert skillrun("eject", f"skillrun:{JUDGE}").out.startswith(f"created  ../{JUDGE}\n")
    assert f"same      ../{JUDGE}: " in skillrun("outdated", f"../{JUDGE}").out


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("roles/juge.md", "hint: did you mean `roles/judge.md`?"),
        ("skills/brainstorm", "hint: one of skills/brainstorm/context.md, skills/brainstorm/questioning.md"),
        ("config/planning.yaml", "config/planning.yaml cannot be ejected: config files are merged key by key"),
        ("../roles/judge.md", "is not a shipped file"),
        ("starters/role/roles/NAME.md", "is not a shipped file"),
        ("pyproject.toml", "is not a shipped file"),
    ],
)
def test_a_path_that_is_not_a_shipped_file_is_refused(project: Path, skillrun: Call, path: str, message: str) -> None:
    done = skillrun("eject", path)
    assert done.code == 2
    assert message in done.err
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("consensus", "did you mean `skills/protocols/consensus.md`?"),
        ("consensus.md", "did you mean `skills/protocols/consensus.md`?"),
        ("concensus", "did you mean `skills/protocols/consensus.md`?"),
        ("completion", "`skills/plan/completion.md` or"),
        ("skills/protocols/concensus.md", "did you mean `skills/protocols/consensus.md`?"),
    ],
)
def test_the_error_for_a_bare_name_suggests_a_path(project: Path, skillrun: Call, name: str, hint: str) -> None:
    done = skillrun("eject", name)
    assert (done.code, hint in done.err) == (2, True), done.err


@pytest.mark.finding("FR11")
def test_no_file_of_the_project_is_overwritten(project: Path, skillrun: Call) -> None:
    (project / "roles").mkdir()
    (project / JUDGE).write_text("mine\n")
    done = skillrun("eject", JUDGE)
    assert done.code == 2
    assert f"{JUDGE} already exists" in done.err
    assert status(skillrun) == {JUDGE: "by hand"}
    (project / JUDGE).unlink()
    (project / JUDGE).symlink_to("nowhere.md")
    assert skillrun("eject", JUDGE).code == 2
    assert not (project / ".skillrun").exists()
    (project / JUDGE).unlink()
    (project / JUDGE).write_text(SHIPPED, "utf-8")
    assert skillrun("eject", JUDGE).out.startswith(f"created  {ORIGINAL}\n")
    done = skillrun("eject", JUDGE)
    assert done.code == 2
    assert f"{JUDGE} is already ejected" in done.err


def test_new_refuses_a_shipped_name_and_suggests_eject(project: Path, skillrun: Call) -> None:
    assert f"hint: `skillrun eject {JUDGE}` makes a copy for you to edit" in skillrun("new", "role", "judge").err


@pytest.mark.finding("FR11")
def test_changes_of_the_shipped_file_are_merged_into_the_copy(project: Path, skillrun: Call) -> None:
    eject_older(project, skillrun, lambda text: text.replace("You score", "You weigh"))
    (project / JUDGE).chmod(0o640)
    done = skillrun("outdated")
    assert done.code == 1
    assert f"outdated  {JUDGE}: " in done.out
    assert "next: `skillrun outdated --merge` merges 1 file" in done.out
    shown = skillrun("outdated", "--diff").out
    assert "-The last line as it was.\n" in shown
    assert "+You weigh" in shown
    done = skillrun("outdated", "--merge")
    assert done.code == 0, done.err
    assert f"merged    {JUDGE}\n" in done.out
    assert (project / JUDGE).read_text("utf-8") == SHIPPED.replace("You score", "You weigh")
    assert (project / JUDGE).stat().st_mode & 0o777 == 0o640
    assert (project / ORIGINAL).read_text("utf-8") == SHIPPED
    assert status(skillrun) == {JUDGE: "changed"}
    assert sorted(path.name for path in (project / "roles").iterdir()) == ["judge.md"]


def test_windows_line_endings_cause_no_conflict(project: Path, skillrun: Call) -> None:
    eject_older(project, skillrun)
    content = (project / JUDGE).read_bytes().replace(b"You score", b"You weigh").replace(b"\n", b"\r\n")
    (project / JUDGE).write_bytes(content)
    assert skillrun("outdated", "--merge").code == 0
    expected = SHIPPED.replace("You score", "You weigh").replace("\n", "\r\n")
    assert (project / JUDGE).read_bytes().decode() == expected


@pytest.mark.slow
def test_a_conflict_leaves_markers_and_nothing_runs_until_it_is_resolved(project: Path, skillrun: Call) -> None:
    eject_older(project, skillrun, lambda text: text.replace("The last line as it was.", "The last line as I want it."))
    done = skillrun("outdated", "--merge")
    assert done.code == 1
    assert f"merged    {JUDGE}, with conflict markers where both versions changed\n" in done.out
    text = (project / JUDGE).read_text("utf-8")
    assert f"<<<<<<< yours\nThe last line as I want it.\n=======\n{LINES[-1]}>>>>>>> shipped with skillrun " in text
    assert status(skillrun) == {JUDGE: "conflict"}
    assert skillrun("outdated", "--merge").code == 1
    assert (project / JUDGE).read_text("utf-8") == text
    done = skillrun("validate")
    assert done.code == 1
    assert f"{JUDGE}:{len(LINES)}:1: error[conflict]: this is a merge conflict marker" in done.out
    done = skillrun("plan", "Paint it", "--model", "scripted:default", "--unattended")
    assert done.code == 1
    assert "Nothing was run and nothing was spent." in done.err
    (project / JUDGE).write_text("".join([*LINES[:-1], "The last line as we want it.\n"]), "utf-8")
    assert skillrun("outdated").code == 0
    assert status(skillrun) == {JUDGE: "changed"}


def test_only_the_named_files_are_merged_and_a_wrong_name_is_refused(project: Path, skillrun: Call) -> None:
    eject_older(project, skillrun)
    assert skillrun("eject", "roles/chair.md").code == 0
    assert status(skillrun, "./roles/chair.md") == {"roles/chair.md": "same"}
    assert skillrun("outdated", "--merge", "roles/chair.md").code == 0
    assert status(skillrun) == {"roles/chair.md": "same", JUDGE: "outdated"}
    done = skillrun("outdated", "roles/char.md")
    assert done.code == 2
    assert "hint: did you mean `roles/chair.md`?" in done.err


def test_a_file_that_one_side_removed_is_reported(project: Path, skillrun: Call) -> None:
    eject_older(project, skillrun)
    (project / JUDGE).unlink()
    for folder in (project / "roles", project / ".skillrun" / "ejected" / "roles"):
        (folder / "gone.md").write_text("x\n")
    assert status(skillrun) == {JUDGE: "removed", "roles/gone.md": "gone"}
    assert skillrun("outdated").code == 1
    assert skillrun("eject", JUDGE).code == 0
    assert (project / ORIGINAL).read_text("utf-8") == (project / JUDGE).read_text("utf-8") == SHIPPED


def test_a_merge_without_git_fails_with_a_hint(project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    eject_older(project, skillrun)
    before = (project / JUDGE).read_text("utf-8")
    monkeypatch.setenv("PATH", str(project))
    done = skillrun("outdated", "--merge")
    assert done.code == 1
    assert "error: merging requires git, which is not installed\nhint: install git, or apply" in done.err
    assert (project / JUDGE).read_text("utf-8") == before
    assert skillrun("outdated", "--diff").code == 1


def test_nothing_is_read_or_written_outside_the_project(project: Path, skillrun: Call) -> None:
    outside = project.parent / "outside.md"
    outside.write_text("secret\n")
    eject_older(project, skillrun)
    for name in (JUDGE, ORIGINAL):
        content = (project / name).read_text("utf-8")
        (project / name).unlink()
        (project / name).symlink_to(outside)
        done = skillrun("outdated", "--merge", "--diff")
        assert done.code == 1
        assert "leads out of its folder" in done.err
        assert "secret" not in done.out + done.err
        (project / name).unlink()
        (project / name).write_text(content, "utf-8")
    (project / JUDGE).unlink()
    os.mkfifo(project / JUDGE)
    assert skillrun("outdated").code == 1
    assert outside.read_text() == "secret\n"


def test_a_project_without_ejected_files_is_reported(project: Path, skillrun: Call) -> None:
    skillrun("init")
    done = skillrun("outdated")
    assert done.code == 0
    assert "no file of this project overrides a shipped one" in done.out
