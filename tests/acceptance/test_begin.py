"""`init` and `new`: create a valid project and valid files, and overwrite nothing."""

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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def is_valid(skillrun: Call) -> bool:
    done = skillrun("validate")
    return done.code == 0 and "0 errors, 0 warnings" in done.out


@pytest.mark.slow
def test_an_empty_folder_becomes_a_project_whose_example_runs(folder: Path, skillrun: Call) -> None:
    done = skillrun("init")
    assert done.code == 0, done.err
    assert "next:\n  skillrun hello Ada --model scripted:default\n" in done.out
    created = {"workflows/hello.md", "roles/host.md", "config/hello.yaml", ".pre-commit-config.yaml"}
    assert created <= set(contents(folder))
    assert is_valid(skillrun)
    done = skillrun("hello", "Ada", *SCRIPTED)
    assert done.code == 0, done.err
    assert "  welcome.md\n" in done.out
    assert "at most 3 ideas" in skillrun("render", "hello", "ideas").out


@pytest.mark.slow
@pytest.mark.parametrize("name", [(), ("--name", "ada")])
def test_git_ignores_a_runs_folder_that_skillrun_creates(folder: Path, skillrun: Call, name: tuple[str, ...]) -> None:
    assert skillrun("init").code == 0
    (folder / "mine").mkdir()
    for out in ("runs", "mine", "other"):
        assert skillrun("hello", "Ada", *SCRIPTED, "--out", out, *name).code == 0
    subprocess.run(["git", "init", "-q"], check=True)
    files = subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], check=True, capture_output=True, text=True)
    folders = {line.partition("/")[0] for line in files.stdout.splitlines()}
    assert ("runs" in folders, "other" in folders, "mine" in folders) == (False, False, True)
    (folder / "runs" / ".gitignore").unlink()
    assert skillrun("hello", "Bob", *SCRIPTED).code == 0
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["ada", "bob"], "it stays removed"
    assert len(skillrun("runs").out.splitlines()) == 3


def test_the_example_has_a_case_that_passes_until_an_edit_breaks_it(folder: Path, skillrun: Call) -> None:
    assert "  skillrun test\n" in skillrun("init").out
    done = skillrun("test")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("hello/formal: passed (4 calls")
    letter = folder / "skills" / "hello" / "letter.md"
    letter.write_text(letter.read_text().replace("{{ inputs.tone }}", "warm"))
    done = skillrun("test")
    assert done.code == 1
    assert "does not contain `in a formal tone`" in done.out


@pytest.mark.finding("FR11")
def test_init_overwrites_nothing_and_lists_the_files_it_kept(folder: Path, skillrun: Call) -> None:
    assert skillrun("init").code == 0
    (folder / "roles" / "host.md").write_text("mine\n")
    (folder / "config" / "hello.yaml").unlink()
    (folder / ".editorconfig").unlink()
    (folder / ".editorconfig").symlink_to("nowhere")
    before = contents(folder)
    done = skillrun("init")
    assert done.code == 0
    assert contents(folder) == before | {"config/hello.yaml": (folder / "config" / "hello.yaml").read_text()}
    assert not (folder / "nowhere").exists()
    assert "created     config/hello.yaml\n" in done.out
    assert "kept        roles/host.md\n" in done.out
    left_alone = skillrun("init", "--json").json["left_alone"]
    assert left_alone[:2] == [".editorconfig", ".pre-commit-config.yaml"]


def test_a_project_with_workflows_gets_no_example(folder: Path, skillrun: Call) -> None:
    (folder / "workflows").mkdir()
    (folder / "workflows" / "mine.md").write_text("")
    done = skillrun("init")
    assert sorted(contents(folder)) == [".editorconfig", ".pre-commit-config.yaml", "workflows/mine.md"]
    assert "left out    the example: the project has workflows\n" in done.out
    assert "skillrun hello" not in done.out
    assert "skillrun test" not in done.out


def test_init_creates_a_named_folder_and_no_hook_inside_a_repository(folder: Path, skillrun: Call) -> None:
    (folder / ".git").mkdir()
    done = skillrun("init", "deep/er one")
    assert done.code == 0
    assert "next:\n  cd 'deep/er one'\n" in done.out
    assert (folder / "deep" / "er one" / "workflows" / "hello.md").is_file()
    assert not (folder / "deep" / "er one" / ".pre-commit-config.yaml").exists()
    assert f"left out    .pre-commit-config.yaml: it belongs in the root of the repository, {folder}\n" in done.out
    assert skillrun("init").code == 0
    assert (folder / ".pre-commit-config.yaml").is_file()
    assert f"note: this project is inside the project {folder}, and" in skillrun("init", "deep/third").err
    (folder / "file").write_text("")
    done = skillrun("init", "file")
    assert done.code == 2
    assert "file is not a folder" in done.err


def test_nothing_is_written_through_a_link_out_of_the_folder(folder: Path, skillrun: Call) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (folder / "roles").symlink_to(outside)
    for command in (["init"], ["new", "role", "critic"]):
        done = skillrun(*command)
        assert done.code != 0
        assert "leads out of its folder" in done.err
    assert list(outside.iterdir()) == []


@pytest.mark.slow
def test_every_kind_of_new_file_is_valid(folder: Path, skillrun: Call) -> None:
    assert skillrun("new", "workflow", "first-look").out.startswith("created  roles/first-look-author.md\n")
    assert is_valid(skillrun)
    done = skillrun("first-look", "a plan", *SCRIPTED)
    assert done.code == 0, done.err
    assert "  draft.md\n" in done.out
    done = skillrun("new", "phase", "first-look/second_look")
    assert "add `second_look:` under `phases:` in workflows/first-look.md" in done.out
    assert skillrun("validate").code == 0
    workflow = folder / "workflows" / "first-look.md"
    workflow.write_text(workflow.read_text().replace("  draft:\n", "  draft:\n  second_look:\n"))
    assert is_valid(skillrun)
    assert skillrun("new", "role", "critic").code == 0
    assert "`panel: [ROLE, ROLE]` with `protocol: relay`" in skillrun("new", "protocol", "relay").out
    phase = folder / "skills" / "first-look" / "second_look.md"
    phase.write_text(
        phase.read_text()
        .replace("agent: thinker, writes: second_look.md", "panel: [critic:first, critic:second], protocol: relay")
        .replace("notes.text", "notes.answer")
    )
    assert is_valid(skillrun)
    assert skillrun("first-look", "a plan", *SCRIPTED, "--name", "panel").code == 0
    assert not any("NAME" in text for text in contents(folder).values())


def test_new_in_a_subfolder_creates_the_file_in_the_project(
    folder: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    skillrun("init")
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    assert "created  ../roles/critic.md\n" in skillrun("new", "role", "critic").out
    assert (folder / "roles" / "critic.md").is_file()


@pytest.mark.parametrize(
    ("kind", "name", "message"),
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
        ("skill", "x", "'skill' is not one of 'workflow', 'phase', 'protocol', 'role'"),
    ],
)
def test_an_existing_or_invalid_name_is_refused(
    folder: Path, skillrun: Call, kind: str, name: str, message: str
) -> None:
    skillrun("init")
    before = contents(folder)
    done = skillrun("new", kind, name)
    assert done.code == 2
    assert message in done.err
    assert contents(folder) == before


def test_a_full_disk_leaves_no_partial_file(folder: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, _: str) -> None:
            raise OSError(28, os.strerror(28), "roles/critic.md")

    monkeypatch.setattr("skillrun.cli.new.os.fdopen", FullDisk)
    done = skillrun("new", "role", "critic")
    assert done.code == 1
    assert "No space left on device" in done.err
    monkeypatch.undo()
    assert not (folder / "roles" / "critic.md").exists()
