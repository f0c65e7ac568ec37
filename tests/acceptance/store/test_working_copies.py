"""Edits of a stored run on any machine follow the rule for local runs: they are kept, and nothing is lost."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from skillrun.extensions.workers.commands.open_store import open_database, open_store
from skillrun.extensions.workers.postgres.files import Edit, EditConflict, RunEdits
from skillrun.repository.paths import PathRefused
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_workers import SCRIPTED

pytestmark = pytest.mark.row("W5")


@pytest.fixture
def artifact(project: Make, skillrun: Call, store: str) -> str:
    """The name of an artifact of the completed run `ada`."""
    project("greeting")
    assert skillrun("greeting", "Ada", "--name", "ada", *SCRIPTED).code == 0
    return next(name for name in _edits().list_files() if name != "state.md" and "/" not in name)


def _edits() -> RunEdits:
    url = os.environ["SKILLRUN_STORE"]
    return open_store(url).runs.open_run("ada").edits()


def _content(name: str) -> str:
    edits = _edits()
    return edits.content(edits.list_files()[name]).decode()


def _editor(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = folder / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)


def test_an_edit_is_saved_in_the_store_and_counts_as_manual(
    artifact: str, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _editor(tmp_path, 'echo mine >> "$1"', monkeypatch)
    assert skillrun("store", "edit", "ada").out.splitlines() == sorted(_edits().list_files())
    assert skillrun("store", "edit", "ada", artifact).out == f"changed {artifact} of ada\n"
    assert _content(artifact).endswith("mine\n")
    assert artifact in str(skillrun("show", "ada", "--json").json["changed_by_hand"])
    _editor(tmp_path, "true", monkeypatch)
    assert skillrun("store", "edit", "ada", artifact).out == f"{artifact} is unchanged\n"
    assert skillrun("store", "edit", "ada", "nothing.md").code == 2
    _editor(tmp_path, 'echo "x: 1" > "$1"', monkeypatch)
    assert "belongs to the run itself" in skillrun("store", "edit", "ada", "state.md").err


def test_a_conflicting_edit_is_saved_locally_and_the_stored_version_stays(
    artifact: str, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits, before = _edits(), _edits().list_files()[artifact]
    _editor(tmp_path, 'echo mine > "$1"', monkeypatch)
    put = RunEdits.put

    def put_after_another_edit(self: RunEdits, wanted: dict[str, Edit]) -> None:
        put(edits, {artifact: Edit(b"theirs\n", before)})
        put(self, wanted)

    monkeypatch.setattr(RunEdits, "put", put_after_another_edit)
    refused = skillrun("store", "edit", "ada", artifact)
    assert refused.code == 1
    assert "was changed by another user meanwhile" in refused.err
    local_copy = Path(refused.err.rsplit("your version is in ", 1)[1].strip())
    assert local_copy.read_text() == "mine\n"
    assert _content(artifact) == "theirs\n"


def test_a_push_sends_changed_and_new_files(artifact: str, skillrun: Call) -> None:
    pulled = skillrun("store", "pull", "ada", "copy")
    assert pulled.code == 0, pulled.err
    assert (Path("copy") / artifact).read_text() == _content(artifact)
    assert skillrun("store", "push", "ada", "copy").out == "pushed 0 files to ada\n"
    (Path("copy") / artifact).write_text("mine\n")
    (Path("copy") / "notes").mkdir()
    (Path("copy") / "notes" / "more.md").write_text("more\n")
    (Path("copy") / ".env").write_text("KEY=secret\n")
    (Path("copy") / "id_rsa").write_text("secret\n")
    (Path("copy") / "away.md").symlink_to("/etc/passwd")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("copy/socket")
        os.mkfifo("copy/pipe")
        pushed = skillrun("store", "push", "ada", "copy", "--json")
    assert pushed.code == 0, pushed.err
    assert pushed.json["files"] == sorted([artifact, "notes/more.md"])
    assert _content(artifact) == "mine\n"
    assert not {".env", "id_rsa", "away.md", "socket", "pipe"} & _edits().list_files().keys()
    assert skillrun("store", "push", "ada", "copy").out == "pushed 0 files to ada\n"


def test_a_conflicting_push_writes_nothing_and_a_pull_adds_the_stored_version_under_a_new_name(
    artifact: str, skillrun: Call
) -> None:
    assert skillrun("store", "pull", "ada", "copy").code == 0
    _edits().put({artifact: Edit(b"theirs\n", _edits().list_files()[artifact])})
    (Path("copy") / artifact).write_text("mine\n")
    (Path("copy") / "new.md").write_text("new\n")
    refused = skillrun("store", "push", "ada", "copy")
    assert (refused.code, "changed by another user meanwhile:" in refused.err) == (1, True)
    assert _content(artifact) == "theirs\n"
    assert "new.md" not in _edits().list_files()
    pulled = skillrun("store", "pull", "ada", "copy", "--json")
    assert pulled.code == 1
    stored_copy = pulled.json["beside"][artifact]
    assert stored_copy == artifact.replace(".md", ".new.md")
    assert (Path("copy") / stored_copy).read_text() == "theirs\n"
    assert (Path("copy") / artifact).read_text() == "mine\n"
    assert skillrun("store", "push", "ada", "copy").code == 2
    (Path("copy") / stored_copy).unlink()
    assert skillrun("store", "push", "ada", "copy").code == 0
    assert _content(artifact) == "mine\n"
    assert _content("new.md") == "new\n"
    assert stored_copy not in _edits().list_files()


def test_an_unrelated_folder_is_left_unchanged(artifact: str, skillrun: Call) -> None:
    Path("mine").mkdir()
    (Path("mine") / "a.md").write_text("a")
    assert "is not a copy of a run" in skillrun("store", "pull", "ada", "mine").err
    assert "`skillrun store pull ada` creates one" in skillrun("store", "push", "ada").err
    assert [path.name for path in Path("mine").iterdir()] == ["a.md"]


def test_a_push_is_all_or_nothing_and_writes_no_engine_files(artifact: str) -> None:
    before = _edits().list_files()
    for name in ("state.md", ".run/x", "../x", "summaries/new.md", f"{artifact}/below.md", ".git/config", "a\x00b"):
        with pytest.raises(PathRefused):
            _edits().put({"good.md": Edit(b"good", None), name: Edit(b"bad", None)})
    with pytest.raises(EditConflict):
        _edits().put({"good.md": Edit(b"good", None), artifact: Edit(b"bad", "0" * 64)})
    assert _edits().list_files() == before


def test_a_run_in_a_folder_has_no_working_copies(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    project("greeting")
    monkeypatch.delenv("SKILLRUN_STORE")
    assert skillrun("greeting", "Ada", "--name", "ada", *SCRIPTED).code == 0
    for command in ("edit", "pull", "push"):
        refused = skillrun("store", command, "ada")
        assert refused.code == 2
        assert "`ada` is a run in a local folder" in refused.err
        assert "runs/ada" in refused.err
    assert skillrun("store", "edit", "nobody").err.startswith("error: no store is configured")
    open_database(store)
