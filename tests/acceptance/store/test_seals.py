"""The seal of a run survives each way into a store and out of it, and no way makes a seal valid."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from skillrun.cli.options import STORE_VARIABLE
from skillrun.extensions.workers.commands.open_store import open_database
from tests.acceptance.conftest import Call, Done, Make
from tests.acceptance.hostile import write

SECRET = "CANARY-outside-the-project"
FILES = {
    "workflows/leak.md": "---\nname: leak\ndescription: Shows a file.\ninputs:\n  what: string\n"
    "  repo?: {type: path, default: own.txt}\nphases:\n  one:\n---\n",
    "skills/leak/one.md": "---\nkind: phase\nsteps:\n  - {id: fine, ask: 'Is it fine?'}\n"
    "  - {id: text, read: '{{ inputs.repo }}', from: project}\n"
    "  - {id: tell, agent: teller, writes: out.md}\n---\n## tell\n{{ text.text }}\n",
    "roles/teller.md": "---\nname: teller\ndescription: Tells.\nmodel: fast\n---\nYou tell.\n",
    "own.txt": "our own text\n",
    "answers.yaml": "fine: it is\n",
}
Resume = Callable[[str], Done]
pytestmark = [pytest.mark.row("Z7"), pytest.mark.finding("FS2")]


@pytest.fixture
def run(project: Make, skillrun: Call, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that waits for an answer. Its user gave the path of a file outside of the project."""
    write(tmp_path, {"victim/secret.txt": SECRET + "\n"})
    folder = project()
    write(folder, FILES)
    with monkeypatch.context() as without_store:
        without_store.delenv(STORE_VARIABLE)
        begun = skillrun("leak", "x", "--repo", str(tmp_path / "victim/secret.txt"), "--model", "scripted:x")
        assert begun.code == 75, begun
    return folder / "runs" / "x"


@pytest.fixture
def resume(skillrun: Call) -> Resume:
    return lambda name: skillrun("resume", name, "--answers", "answers.yaml")


def lose_key(home: Path) -> None:
    """Make the user another one, whose key made no seal."""
    shutil.rmtree(home / ".local")


def is_refused(done: Done, skillrun: Call, run: str) -> bool:
    """Whether the user was shown the path and asked, and nothing outside of the project was read."""
    shown = done.out + done.err + skillrun("logs", run).out + "".join(skillrun("show", run, "one").out)
    return done.code == 1 and "which is outside of this project" in done.err and SECRET not in shown


def seal(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("seal: "))


def test_an_imported_run_keeps_its_seal_and_its_paths(run: Path, skillrun: Call, resume: Resume) -> None:
    assert skillrun("store", "import", "x", "--name", "y").code == 0
    assert resume("y").code == 0
    assert SECRET in skillrun("render", "--run", "y", "one").out


def test_an_exported_run_keeps_its_seal_and_its_paths(run: Path, skillrun: Call, resume: Resume) -> None:
    before = seal((run / "state.md").read_text())
    assert skillrun("store", "import", "x", "--name", "y").code == 0
    assert skillrun("store", "pull", "y", "copy").code == 0
    (Path("copy") / "note.md").write_text("mine\n")
    assert skillrun("store", "push", "y", "copy").code == 0
    assert skillrun("store", "export", "y").code == 0
    assert seal((run.parent / "y" / "state.md").read_text()) == before
    assert resume("runs/y").code == 0
    assert SECRET in skillrun("render", "--run", "runs/y", "one").out


def test_an_import_makes_no_run_of_somebody_else_ones_own(
    run: Path, skillrun: Call, resume: Resume, home: Path
) -> None:
    lose_key(home)
    assert is_refused(resume("runs/x"), skillrun, "runs/x")
    assert skillrun("store", "import", "x", "--name", "y").code == 0
    assert is_refused(resume("y"), skillrun, "y")
    assert skillrun("store", "export", "y").code == 0
    assert is_refused(resume("runs/y"), skillrun, "runs/y")


def test_a_run_that_another_user_started_in_the_store_is_asked_about(
    run: Path, skillrun: Call, resume: Resume, home: Path, tmp_path: Path
) -> None:
    assert skillrun("leak", "z", "--repo", str(tmp_path / "victim/secret.txt"), "--model", "scripted:x").code == 75
    lose_key(home)
    assert is_refused(resume("z"), skillrun, "z")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  repo: ", "  repo: ../victim/../victim/secret.txt\n  old: "),
        ("\noverride: scripted:x", "\noverride: openai:gpt-9"),
        ("  calls: 500", "  calls: 500000"),
        ("\nstate: {}", "\nstate: {panel: 'teller@openai:gpt-9'}"),
    ],
)
def test_an_edit_of_the_row_breaks_the_seal(
    run: Path, skillrun: Call, resume: Resume, store: str, old: str, new: str
) -> None:
    assert skillrun("store", "import", "x", "--name", "y").code == 0
    content = (run / "state.md").read_bytes()
    changed = content.replace(old.encode(), new.encode())
    assert changed != content
    statement = "UPDATE blobs SET content = %(changed)s WHERE content = %(content)s"
    open_database(store).rows(statement + " RETURNING 1", {"changed": changed, "content": content})
    assert is_refused(resume("y"), skillrun, "y")


def test_a_recorded_case_leaves_the_seal_and_claims_none(
    run: Path, skillrun: Call, resume: Resume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(STORE_VARIABLE)
    before = seal((run / "state.md").read_text())
    done = skillrun("test", "--record", "x")
    assert (done.code, SECRET in done.out + done.err) == (2, False)
    assert "which is outside of the project" in done.out
    assert seal((run / "state.md").read_text()) == before
    assert resume("x").code == 0


@pytest.mark.finding("FD6")
def test_a_project_reads_only_its_own_runs_of_a_store(
    project: Make, skillrun: Call, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = {
        "workflows/reader.md": "---\nname: reader\ndescription: Reads.\ninputs: {x: string}\nphases:\n  one:\n---\n",
        "skills/reader/one.md": "---\nkind: phase\nsteps:\n  - {id: it, read: '*.md', from: ada}\n---\n",
    }
    write(project("greeting"), reader)
    assert skillrun("greeting", "Ada", "--model", "scripted:x").code == 0
    assert skillrun("reader", "own", "--model", "scripted:x").code == 0
    write(tmp_path / "clone", reader)
    monkeypatch.chdir(tmp_path / "clone")
    done = skillrun("reader", "other", "--model", "scripted:x")
    assert (done.code, "`ada` is not a run of this project" in done.out) == (1, True), done
