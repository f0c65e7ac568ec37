"""`init` and `new`: a project and its first files, which are right as they are; nothing is written over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

Call = Callable[..., Any]
pytestmark = pytest.mark.row("A4")
SCRIPTED = ("--model", "scripted:default")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*")
        if path.is_file() and "runs" not in path.relative_to(folder).parts
    }


def valid(skillrun: Call) -> bool:
    done = skillrun("validate")
    return done.code == 0 and "0 errors, 0 warnings" in done.out


@pytest.mark.slow
def test_an_empty_folder_becomes_a_project_whose_example_runs(place: Path, skillrun: Call) -> None:
    done = skillrun("init")
    assert done.code == 0, done.err
    assert "next:\n  skillrun hello Ada --model scripted:default\n" in done.out
    made = {"workflows/hello.md", "roles/host.md", "config/hello.yaml", ".pre-commit-config.yaml"}
    assert made <= set(contents(place))
    assert valid(skillrun)
    done = skillrun("hello", "Ada", *SCRIPTED)
    assert done.code == 0, done.err
    assert "  welcome.md\n" in done.out
    assert "at most 3 ideas" in skillrun("render", "hello", "ideas").out


@pytest.mark.slow
@pytest.mark.parametrize("name", [(), ("--name", "ada")])
def test_git_leaves_runs_alone_where_skillrun_makes_their_folder(
    place: Path, skillrun: Call, name: tuple[str, ...]
) -> None:
    assert skillrun("init").code == 0
    (place / "mine").mkdir()
    for out in ("runs", "mine", "other"):
        assert skillrun("hello", "Ada", *SCRIPTED, "--out", out, *name).code == 0
    subprocess.run(["git", "init", "-q"], check=True)
    listed = subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], check=True, capture_output=True, text=True)
    folders = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    assert ("runs" in folders, "other" in folders, "mine" in folders) == (False, False, True)
    (place / "runs" / ".gitignore").unlink()
    assert skillrun("hello", "Bob", *SCRIPTED).code == 0
    assert sorted(path.name for path in (place / "runs").iterdir()) == ["ada", "bob"], "it may be taken away"
    assert len(skillrun("runs").out.splitlines()) == 3


def test_the_example_has_a_case_that_holds_and_that_an_edit_breaks(place: Path, skillrun: Call) -> None:
    assert "  skillrun test\n" in skillrun("init").out
    done = skillrun("test")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("hello/formal: passed (4 calls")
    letter = place / "skills" / "hello" / "letter.md"
    letter.write_text(letter.read_text().replace("{{ inputs.tone }}", "warm"))
    done = skillrun("test")
    assert done.code == 1
    assert "does not contain `in a formal tone`" in done.out


def test_nothing_is_written_over_and_what_was_left_alone_is_said(place: Path, skillrun: Call) -> None:
    assert skillrun("init").code == 0
    (place / "roles" / "host.md").write_text("mine\n")
    (place / "config" / "hello.yaml").unlink()
    (place / ".editorconfig").unlink()
    (place / ".editorconfig").symlink_to("nowhere")
    before = contents(place)
    done = skillrun("init")
    assert done.code == 0
    assert contents(place) == before | {"config/hello.yaml": (place / "config" / "hello.yaml").read_text()}
    assert not (place / "nowhere").exists()
    assert "created     config/hello.yaml\n" in done.out
    assert "kept        roles/host.md\n" in done.out
    left = skillrun("init", "--json").json["left_alone"]
    assert left[:2] == [".editorconfig", ".pre-commit-config.yaml"]


def test_where_workflows_are_there_is_no_example(place: Path, skillrun: Call) -> None:
    (place / "workflows").mkdir()
    (place / "workflows" / "mine.md").write_text("")
    done = skillrun("init")
    assert sorted(contents(place)) == [".editorconfig", ".pre-commit-config.yaml", "workflows/mine.md"]
    assert "left out    the example: the project has workflows\n" in done.out
    assert "skillrun hello" not in done.out
    assert "skillrun test" not in done.out


def test_a_folder_that_is_named_is_made_and_one_in_a_repository_has_no_hook(place: Path, skillrun: Call) -> None:
    (place / ".git").mkdir()
    done = skillrun("init", "deep/er one")
    assert done.code == 0
    assert "next:\n  cd 'deep/er one'\n" in done.out
    assert (place / "deep" / "er one" / "workflows" / "hello.md").is_file()
    assert not (place / "deep" / "er one" / ".pre-commit-config.yaml").exists()
    assert f"left out    .pre-commit-config.yaml: it belongs in the root of the repository, {place}\n" in done.out
    assert skillrun("init").code == 0
    assert (place / ".pre-commit-config.yaml").is_file()
    assert f"note: this project is inside the project {place}, and" in skillrun("init", "deep/third").err
    (place / "file").write_text("")
    done = skillrun("init", "file")
    assert done.code == 2
    assert "file is not a folder" in done.err


def test_no_link_leads_what_is_written_out_of_the_folder(place: Path, skillrun: Call) -> None:
    outside = place.parent / "outside"
    outside.mkdir()
    (place / "roles").symlink_to(outside)
    for command in (["init"], ["new", "role", "critic"]):
        done = skillrun(*command)
        assert done.code != 0
        assert "leads out of its folder" in done.err
    assert list(outside.iterdir()) == []


@pytest.mark.slow
def test_every_kind_of_file_begins_right(place: Path, skillrun: Call) -> None:
    assert skillrun("new", "workflow", "first-look").out.startswith("created  roles/first-look-author.md\n")
    assert valid(skillrun)
    done = skillrun("first-look", "a plan", *SCRIPTED)
    assert done.code == 0, done.err
    assert "  draft.md\n" in done.out
    done = skillrun("new", "phase", "first-look/second_look")
    assert "add `second_look:` under `phases:` in workflows/first-look.md" in done.out
    assert skillrun("validate").code == 0
    workflow = place / "workflows" / "first-look.md"
    workflow.write_text(workflow.read_text().replace("  draft:\n", "  draft:\n  second_look:\n"))
    assert valid(skillrun)
    assert skillrun("new", "role", "critic").code == 0
    assert "`panel: [ROLE, ROLE]` with `protocol: relay`" in skillrun("new", "protocol", "relay").out
    phase = place / "skills" / "first-look" / "second_look.md"
    phase.write_text(
        phase.read_text()
        .replace("agent: thinker, writes: second_look.md", "panel: [critic:first, critic:second], protocol: relay")
        .replace("notes.text", "notes.answer")
    )
    assert valid(skillrun)
    assert skillrun("first-look", "a plan", *SCRIPTED, "--name", "panel").code == 0
    assert not any("NAME" in text for text in contents(place).values())


def test_a_new_file_is_the_projects_from_below_too(
    place: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    skillrun("init")
    (place / "src").mkdir()
    monkeypatch.chdir(place / "src")
    assert "created  ../roles/critic.md\n" in skillrun("new", "role", "critic").out
    assert (place / "roles" / "critic.md").is_file()


@pytest.mark.parametrize(
    ("kind", "name", "because"),
    [
        ("role", "host", "roles/host.md already exists"),
        ("workflow", "hello", "workflows/hello.md already exists"),
        ("role", "judge", "the role `judge` already exists: skillrun:roles/judge.md"),
        ("protocol", "quick", "the protocol `quick` already exists: skillrun:skills/protocols/quick.md"),
        ("workflow", "runs", "`runs` is a command of skillrun"),
        ("role", "../out", "`../out` is not a valid name of a role"),
        ("role", "Critic", "`Critic` is not a valid name of a role"),
        ("role", "a" * 61, "is not a valid name of a role"),
        ("workflow", "", "`` is not a valid name of a workflow"),
        ("phase", "look", "`look` does not name the phase's workflow"),
        ("phase", "hello/", "`` is not a valid name of a phase"),
        ("phase", "../../out/x", "`../../out` is not a valid name of a workflow"),
        ("phase", "protocols/x", "`skillrun new protocol NAME` creates a protocol"),
        ("thing", "x", "'thing' is not one of 'workflow', 'phase', 'protocol', 'role'"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(
    place: Path, skillrun: Call, kind: str, name: str, because: str
) -> None:
    skillrun("init")
    before = contents(place)
    done = skillrun("new", kind, name)
    assert done.code == 2
    assert because in done.err
    assert contents(place) == before


def test_a_full_disk_leaves_no_half_of_a_file(place: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, _: str) -> None:
            raise OSError(28, os.strerror(28), "roles/critic.md")

    monkeypatch.setattr("skillrun.cli.starter_files.os.fdopen", Full)
    done = skillrun("new", "role", "critic")
    assert done.code == 1
    assert "No space left on device" in done.err
    monkeypatch.undo()
    assert not (place / "roles" / "critic.md").exists()
