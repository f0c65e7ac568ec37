"""`eject` and `outdated`: a shipped file of one's own, and what comes of it when the shipped one changes."""

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
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def older(place: Path, skillrun: Call, mine: Callable[[str], str] = str) -> None:
    """Eject the judge from a skillrun whose judge had another last line; yours is made of that."""
    assert skillrun("eject", JUDGE).code == 0
    text = "".join([*LINES[:-1], "The last line as it was.\n"])
    (place / ORIGINAL).write_text(text, "utf-8")
    (place / JUDGE).write_text(mine(text), "utf-8")


def status(skillrun: Call, *more: str) -> dict[str, str]:
    return {row["path"]: row["status"] for row in skillrun("outdated", "--json", *more).json}


@pytest.mark.slow
def test_a_shipped_file_is_copied_and_counts_when_it_is_changed(place: Path, skillrun: Call) -> None:
    done = skillrun("eject", JUDGE)
    assert done.code == 0
    assert done.out.startswith(f"created  {JUDGE}\ncreated  {ORIGINAL}\n")
    assert (place / JUDGE).read_text("utf-8") == (place / ORIGINAL).read_text("utf-8") == SHIPPED
    assert status(skillrun) == {JUDGE: "same"}
    (place / JUDGE).write_text(SHIPPED.replace("You score", "You weigh"), "utf-8")
    assert status(skillrun) == {JUDGE: "changed"}
    done = skillrun("outdated", "--diff")
    assert done.code == 0
    assert f"--- skillrun:{JUDGE}\n+++ {JUDGE}\n" in done.out
    assert "\n+You weigh" in done.out
    judges = [role["origin"] for role in skillrun("list", "--json").json["roles"] if role["name"] == "judge"]
    assert judges == ["project"]
    assert skillrun("validate").code == 0


def test_it_is_ejected_into_the_project_from_below_by_the_path_that_messages_have(
    place: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    skillrun("init")
    (place / "src").mkdir()
    monkeypatch.chdir(place / "src")
    assert skillrun("eject", f"skillrun:{JUDGE}").out.startswith(f"created  ../{JUDGE}\n")
    assert f"same      ../{JUDGE}: " in skillrun("outdated", f"../{JUDGE}").out


@pytest.mark.parametrize(
    ("path", "because"),
    [
        ("roles/juge.md", "hint: did you mean `roles/judge.md`?"),
        ("skills/brainstorm", "hint: one of skills/brainstorm/context.md, skills/brainstorm/questioning.md"),
        ("config/planning.yaml", "config/planning.yaml cannot be ejected: config files are merged key by key"),
        ("../roles/judge.md", "is not a shipped file"),
        ("starters/role/roles/NAME.md", "is not a shipped file"),
        ("pyproject.toml", "is not a shipped file"),
    ],
)
def test_what_is_no_shipped_file_is_refused(place: Path, skillrun: Call, path: str, because: str) -> None:
    done = skillrun("eject", path)
    assert done.code == 2
    assert because in done.err
    assert list(place.iterdir()) == []


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
def test_a_bare_name_is_answered_with_the_path_that_it_may_mean(
    place: Path, skillrun: Call, name: str, hint: str
) -> None:
    done = skillrun("eject", name)
    assert (done.code, hint in done.err) == (2, True), done.err


def test_no_file_of_the_project_is_written_over(place: Path, skillrun: Call) -> None:
    (place / "roles").mkdir()
    (place / JUDGE).write_text("mine\n")
    done = skillrun("eject", JUDGE)
    assert done.code == 2
    assert f"{JUDGE} already exists" in done.err
    assert status(skillrun) == {JUDGE: "by hand"}
    (place / JUDGE).unlink()
    (place / JUDGE).symlink_to("nowhere.md")
    assert skillrun("eject", JUDGE).code == 2
    assert not (place / ".skillrun").exists()
    (place / JUDGE).unlink()
    (place / JUDGE).write_text(SHIPPED, "utf-8")
    assert skillrun("eject", JUDGE).out.startswith(f"created  {ORIGINAL}\n")
    done = skillrun("eject", JUDGE)
    assert done.code == 2
    assert f"{JUDGE} is already ejected" in done.err


def test_a_name_that_ships_is_no_new_one_and_eject_is_named(place: Path, skillrun: Call) -> None:
    assert f"hint: `skillrun eject {JUDGE}` copies it to edit" in skillrun("new", "role", "judge").err


def test_what_has_changed_in_the_shipped_file_is_merged_into_yours(place: Path, skillrun: Call) -> None:
    older(place, skillrun, lambda text: text.replace("You score", "You weigh"))
    (place / JUDGE).chmod(0o640)
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
    assert (place / JUDGE).read_text("utf-8") == SHIPPED.replace("You score", "You weigh")
    assert (place / JUDGE).stat().st_mode & 0o777 == 0o640
    assert (place / ORIGINAL).read_text("utf-8") == SHIPPED
    assert status(skillrun) == {JUDGE: "changed"}
    assert sorted(path.name for path in (place / "roles").iterdir()) == ["judge.md"]


def test_line_ends_of_windows_are_no_conflict(place: Path, skillrun: Call) -> None:
    older(place, skillrun)
    content = (place / JUDGE).read_bytes().replace(b"You score", b"You weigh").replace(b"\n", b"\r\n")
    (place / JUDGE).write_bytes(content)
    assert skillrun("outdated", "--merge").code == 0
    expected = SHIPPED.replace("You score", "You weigh").replace("\n", "\r\n")
    assert (place / JUDGE).read_bytes().decode() == expected


@pytest.mark.slow
def test_a_conflict_has_marks_and_nothing_runs_on_it_until_it_is_settled(place: Path, skillrun: Call) -> None:
    older(place, skillrun, lambda text: text.replace("The last line as it was.", "The last line as I want it."))
    done = skillrun("outdated", "--merge")
    assert done.code == 1
    assert f"merged    {JUDGE}, with conflict markers where both sides changed it\n" in done.out
    text = (place / JUDGE).read_text("utf-8")
    assert f"<<<<<<< yours\nThe last line as I want it.\n=======\n{LINES[-1]}>>>>>>> shipped with skillrun " in text
    assert status(skillrun) == {JUDGE: "conflict"}
    assert skillrun("outdated", "--merge").code == 1
    assert (place / JUDGE).read_text("utf-8") == text
    done = skillrun("validate")
    assert done.code == 1
    assert f"{JUDGE}:{len(LINES)}:1: error[conflict]: this is a merge conflict marker" in done.out
    done = skillrun("plan", "Paint it", "--model", "scripted:default", "--unattended")
    assert done.code == 1
    assert "Nothing was run and nothing was spent." in done.err
    (place / JUDGE).write_text("".join([*LINES[:-1], "The last line as we want it.\n"]), "utf-8")
    assert skillrun("outdated").code == 0
    assert status(skillrun) == {JUDGE: "changed"}


def test_only_the_named_files_are_merged_and_a_wrong_name_is_refused(place: Path, skillrun: Call) -> None:
    older(place, skillrun)
    assert skillrun("eject", "roles/chair.md").code == 0
    assert status(skillrun, "./roles/chair.md") == {"roles/chair.md": "same"}
    assert skillrun("outdated", "--merge", "roles/chair.md").code == 0
    assert status(skillrun) == {"roles/chair.md": "same", JUDGE: "outdated"}
    done = skillrun("outdated", "roles/char.md")
    assert done.code == 2
    assert "hint: did you mean `roles/chair.md`?" in done.err


def test_a_file_that_one_side_has_no_more_is_told(place: Path, skillrun: Call) -> None:
    older(place, skillrun)
    (place / JUDGE).unlink()
    for folder in (place / "roles", place / ".skillrun" / "ejected" / "roles"):
        (folder / "gone.md").write_text("x\n")
    assert status(skillrun) == {JUDGE: "removed", "roles/gone.md": "gone"}
    assert skillrun("outdated").code == 1
    assert skillrun("eject", JUDGE).code == 0
    assert (place / ORIGINAL).read_text("utf-8") == (place / JUDGE).read_text("utf-8") == SHIPPED


def test_without_git_a_merge_says_what_is_missing(place: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    older(place, skillrun)
    before = (place / JUDGE).read_text("utf-8")
    monkeypatch.setenv("PATH", str(place))
    done = skillrun("outdated", "--merge")
    assert done.code == 1
    assert "error: merging requires git, which is not installed\nhint: install git, or apply" in done.err
    assert (place / JUDGE).read_text("utf-8") == before
    assert skillrun("outdated", "--diff").code == 1


def test_nothing_is_read_or_written_out_of_the_project(place: Path, skillrun: Call) -> None:
    outside = place.parent / "outside.md"
    outside.write_text("secret\n")
    older(place, skillrun)
    for name in (JUDGE, ORIGINAL):
        kept = (place / name).read_text("utf-8")
        (place / name).unlink()
        (place / name).symlink_to(outside)
        done = skillrun("outdated", "--merge", "--diff")
        assert done.code == 1
        assert "leads out of its folder" in done.err
        assert "secret" not in done.out + done.err
        (place / name).unlink()
        (place / name).write_text(kept, "utf-8")
    (place / JUDGE).unlink()
    os.mkfifo(place / JUDGE)
    assert skillrun("outdated").code == 1
    assert outside.read_text() == "secret\n"


def test_a_project_without_any_says_so(place: Path, skillrun: Call) -> None:
    skillrun("init")
    done = skillrun("outdated")
    assert done.code == 0
    assert "no file of this project overrides a shipped one" in done.out
