"""A test case is untrusted: it reads only inside the project, whatever it or a recorded run folder says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acceptance.conftest import Call
from tests.acceptance.hostile import write

SECRET = "CANARY-outside-the-project"
PROJECT = {
    "workflows/leak.md": "---\nname: leak\ndescription: Shows a file.\ninputs:\n  what: string\n"
    "  repo?: {type: path, default: own.txt}\n  others?(array): {type: path, default: []}\n"
    "phases:\n  one:\n---\n",
    "skills/leak/one.md": "---\nkind: phase\nsteps:\n  - {id: text, read: '{{ inputs.repo }}', from: project}\n"
    "  - {id: tell, agent: teller, writes: out.md}\n---\n## tell\n{{ text.text }}\n",
    "roles/teller.md": "---\nname: teller\ndescription: Tells.\nmodel: fast\n---\nYou tell.\n",
    "own.txt": "our own text\n",
}
CASE = "tests/leak/a.md"
MISS = "expect: {prompts: {'*': {lacks: CANARY}}}\n---\n"  # a failed case shows the line of the prompt
pytestmark = [pytest.mark.row("Z7"), pytest.mark.finding("FS1")]


@pytest.fixture
def leak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone, next to a folder of the user with a secret."""
    write(tmp_path, {"victim/secret.txt": SECRET + "\n"})
    folder = tmp_path / "clone"
    write(folder, PROJECT)
    (folder / "link.txt").symlink_to(tmp_path / "victim" / "secret.txt")
    (folder / "linked").symlink_to(tmp_path / "victim")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    return folder


def snapshot(folder: Path) -> str:
    """The texts of all files that a command has written into the clone."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


@pytest.mark.parametrize("flags", [(), ("--junit", "junit.xml"), ("--json",), ("leak", "--compare", ".", "--yes")])
@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ",
        "../victim/secret.txt",
        "{victim}/secret.txt",
        "link.txt",
        "linked/secret.txt",
        "sub/../../victim",
    ],
)
def test_a_case_that_needs_a_path_outside_is_an_error_at_its_line(
    leak: Path, skillrun: Call, path: str, flags: tuple[str, ...]
) -> None:
    path = path.format(victim=leak.parent / "victim")
    write(leak, {CASE: f"---\ninputs:\n  what: x\n  repo: {path}\n{MISS}", "s/a.txt": ""})
    done = skillrun("test", *flags)
    shown = done.out + done.err
    assert done.code == 2, shown
    assert f"{CASE}:4:" in shown or '"line": 4' in shown, shown
    assert "outside of the project" in shown
    assert SECRET not in shown + snapshot(leak)


def test_a_list_of_paths_and_a_default_are_refused_too(leak: Path, skillrun: Call) -> None:
    write(leak, {CASE: f"---\ninputs:\n  what: x\n  others: [own.txt, /etc/hostname]\n{MISS}"})
    done = skillrun("test")
    assert (done.code, f"{CASE}:4:" in done.out, "`/etc/hostname`, which is outside" in done.out) == (2, True, True)
    write(leak, {CASE: f"---\ninputs: {{what: x}}\n{MISS}"})
    workflow = PROJECT["workflows/leak.md"].replace("default: own.txt", "default: ../victim/secret.txt")
    write(leak, {"workflows/leak.md": workflow})
    done = skillrun("test")
    assert (done.code, "outside of the project" in done.out, SECRET in done.out) == (2, True, False), done.out


def test_a_path_is_refused_while_it_runs_even_if_the_check_of_the_case_missed_it(
    leak: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is exchanged after the check: what reads the project does not follow it either."""
    monkeypatch.setattr("skillrun.runtime.inputs.is_outside", lambda *_: False)
    for path in ("/proc/self/environ", "../victim/secret.txt", "link.txt", f"{leak.parent}/victim/secret.txt"):
        write(leak, {CASE: f"---\ninputs: {{what: x, repo: '{path}'}}\n{MISS}"})
        done = skillrun("test")
        assert (done.code, SECRET in done.out + done.err) == (1, False), (path, done)


def test_validation_says_nothing_of_a_path_outside(leak: Path, skillrun: Call) -> None:
    texts = []
    for path in ("../victim/secret.txt", "../victim/missing"):
        write(leak, {CASE: f"---\ninputs: {{what: x, repo: {path}}}\n{MISS}"})
        texts.append((done := skillrun("validate")).out.replace(path, "PATH") + done.err.replace(path, "PATH"))
    assert texts[0].replace(" " * 20, "") == texts[1].replace(" " * 20, "")


@pytest.mark.finding("FS2")
def test_a_case_recorded_from_a_run_of_somebody_else_copies_nothing_from_outside(leak: Path, skillrun: Call) -> None:
    assert skillrun("leak", "x", "--model", "scripted:default", "--name", "one").code == 0
    state = leak / "runs" / "one" / "state.md"
    state.write_text(state.read_text().replace("  repo: own.txt", "  repo: /proc/self/environ"))
    done = skillrun("test", "--record", "one")
    assert (done.code, "outside of the project" in done.out + done.err) == (2, True), done
    assert SECRET not in done.out + done.err + snapshot(leak)


def test_what_the_user_types_is_read_outside_of_the_project(leak: Path, skillrun: Call) -> None:
    path = os.fspath(leak.parent / "victim" / "secret.txt")
    assert skillrun("leak", "x", "--repo", path, "--model", "scripted:default", "--name", "one").code == 0
    assert SECRET in skillrun("render", "--run", "one", "one").out
    assert SECRET in skillrun("render", "leak", "one", "-i", "what=x", "-i", f"repo={path}").out


@pytest.mark.finding("FC6")
@pytest.mark.parametrize("link", ["tests", "tests/leak"])
@pytest.mark.parametrize("command", [("test",), ("test", "--json"), ("validate",), ("validate", "--format", "github")])
def test_the_names_in_a_folder_outside_are_not_listed(
    leak: Path, skillrun: Call, link: str, command: tuple[str, ...]
) -> None:
    """The log of a CI job would show the names of a private folder."""
    outside = leak.parent / "victim"
    write(outside, {"leak/private.md": SECRET, "private.md": SECRET})
    (leak / link).parent.mkdir(exist_ok=True)
    (leak / link).symlink_to(outside)
    done = skillrun(*command)
    assert done.code != 0
    assert "this link leads out of the project" in done.out + done.err
    assert link in done.out + done.err
    assert "private" not in done.out + done.err
