"""A run names a repository as URL@COMMIT for its worker to fetch; a path that cannot be sent is refused first."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from skillrun.extensions.workers.commands.open_store import open_database
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_workers import SCRIPTED, TIMEOUT, start, status, wait_until  # noqa: F401 (`start` is a fixture)
from tests.launcher import start_skillrun
from tests.unit.extensions.workers.test_fetching import COMMIT, commit_all, git, origin  # noqa: F401 (`origin` is a fixture)

pytestmark = pytest.mark.row("W5")
WORKFLOW = """---
name: look
description: Shows a file of a repository.
inputs:
  about: string, what it is for
  repo: path, the code base
phases:
  reading:
---
Looks.
"""
PHASE = """---
kind: phase
description: Reads.
steps:
  - {id: text, read: "{{ inputs.repo }}/a.txt", from: project}
  - {id: told, say: "{{ inputs.repo }} says {{ text.text }}"}
---
"""


@pytest.fixture
def project(project: Make) -> Path:
    """A project whose workflow reads `a.txt` from its input `repo`."""
    folder = project()
    (folder / "workflows").mkdir()
    (folder / "skills/look").mkdir(parents=True)
    (folder / "workflows/look.md").write_text(WORKFLOW)
    (folder / "skills/look/reading.md").write_text(PHASE)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_every_worker_fetches_the_repository_under_the_same_name(
    origin: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pin = commit_all(origin)
    repository = f"{pin.url}@{pin.sha}"
    done = skillrun("submit", "look", "shelf", "--repo", repository, *SCRIPTED)
    assert done.code == 0, done.err
    assert f"a worker will fetch {pin.url} at {pin.sha[:12]} (at most 200 MB)" in done.out
    ((request,),) = open_database(store).rows("SELECT request FROM runs")
    assert request["inputs"]["repo"] == f"../repositories/origin-{pin.sha}"
    for machine in ("one", "two"):
        assert skillrun("submit", "look", "shelf", "--name", machine, "--repo", repository, *SCRIPTED).code == 0
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))
        assert skillrun("worker", "once", machine, "--file-urls").out == f"{machine}: completed\n"
        assert f"../repositories/origin-{pin.sha} says first" in skillrun("logs", machine).out


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_a_worker_that_cannot_fetch_leaves_the_run_to_others_with_a_reason(
    origin: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    start: object,  # noqa: F811
) -> None:
    pin = commit_all(origin)
    assert skillrun("submit", "look", "x", "--name", "x", "--repo", f"{pin.url}@{pin.sha}", *SCRIPTED).code == 0
    start()  # type: ignore[operator]
    declined = wait_until(lambda: skillrun("worker", "list", "--json").json["left"])
    assert "file:// URLs are not allowed on this machine" in declined["x"]
    assert "`x` was declined by " in skillrun("worker", "list").err
    shown = skillrun("show", "x")
    assert shown.code == 2
    assert "`x` has not started; it waits for a worker of the queue `default`: " in shown.err
    assert "file:// URLs are not allowed on this machine" in shown.err
    assert status(store, "x") == "queued"
    assert skillrun("worker", "once", "x", "--file-urls").out == "x: completed\n"
    assert skillrun("worker", "list", "--json").json["left"] == {}


@pytest.mark.usefixtures("project")
def test_a_missing_commit_fails_the_run_with_a_message(
    origin: Path,  # noqa: F811
    skillrun: Call,
    store: str,
) -> None:
    url = commit_all(origin).url
    assert skillrun("submit", "look", "x", "--name", "x", "--repo", f"{url}@{COMMIT}", *SCRIPTED).code == 0
    assert skillrun("worker", "once", "x", "--file-urls").out == f"x: failed: {url} has no commit {COMMIT}\n"
    assert f"`x` never started and is failed: {url} has no commit {COMMIT}" in skillrun("show", "x").err
    assert status(store, "x") == "failed"
    assert skillrun("worker", "once", "x", "--file-urls").out == "x: nothing to do\n"


@pytest.mark.slow
def test_a_path_that_cannot_be_sent_is_refused_before_submission(
    project: Path,
    origin: Path,  # noqa: F811
    skillrun: Call,
    store: str,
) -> None:
    (project / ".gitignore").write_text("built/\n")
    for name in ("built", "code"):
        (project / name).mkdir()
        (project / name / "a.txt").write_text(name)
    for repository, message in {
        str(origin): "is outside of the project and cannot be sent",
        "../origin": "is outside of the project and cannot be sent",
        "built": "which has no files to send",
        "none": "does not exist",
        "https://host/x.git@main": "is not a repository URL with a full commit hash",
        f"https://me:hush@host/x.git@{COMMIT}": "must not contain credentials",
    }.items():
        refused = skillrun("submit", "look", "x", "--repo", repository, *SCRIPTED)
        assert (refused.code, message in refused.err) == (2, True), refused.err
        assert "hush" not in refused.err
    assert open_database(store).rows("SELECT count(*) FROM runs") == [(0,)]
    for run, repository in {"a": str(project / "code"), "b": "code", "c": "./code/"}.items():
        assert skillrun("submit", "look", "x", "--name", run, "--repo", repository, *SCRIPTED).code == 0
        assert skillrun("worker", "once", run).out == f"{run}: completed\n"
        assert "code says code" in skillrun("logs", run).out


def is_running(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.finding("FA4")
@pytest.mark.usefixtures("project")
def test_a_worker_for_one_run_that_is_stopped_ends_git_and_returns_the_run_to_the_queue(
    skillrun: Call, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh").write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 1000\n"
    )
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/ssh")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repository = f"ssh://git@host/x.git@{COMMIT}"
    assert skillrun("submit", "look", "x", "--name", "x", "--repo", repository, *SCRIPTED).code == 0
    with start_skillrun("worker", "once", "x", stdout=PIPE, text=True) as process:
        ssh = int(wait_until((tmp_path / "pid").exists) and (tmp_path / "pid").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=TIMEOUT)[0] == "x: interrupted\n"
    wait_until(lambda: not is_running(ssh))
    assert list((tmp_path / "cache/skillrun/projects/repositories").iterdir()) == []
    assert status(store, "x") == "queued"
