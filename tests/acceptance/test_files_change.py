"""Files that are moved, removed or unwritable during a run: the messages, the kept data, and how the run resumes."""

from __future__ import annotations

import errno
import os
import re
import resource
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skillrun.store import kill_points
from skillrun.store.local.lock import LocalLease
from skillrun.syntax.diagnostics import SkillrunError
from tests.acceptance.conftest import Call, Done, Make
from tests.launcher import run_skillrun, start_skillrun

GREET = ("greeting", "Ada", "--model", "scripted:default")
Meddle = Callable[[Callable[[], object], str], None]


@pytest.fixture
def meddle(monkeypatch: pytest.MonkeyPatch) -> Meddle:
    """Runs an action once, at the first checkpoint whose name starts with `point`."""

    def register(action: Callable[[], object], point: str) -> None:
        def hook(name: str) -> None:
            if name.startswith(point):
                monkeypatch.setattr(kill_points, "hook", None)
                action()

        monkeypatch.setattr(kill_points, "hook", hook)

    return register


def fail_checkpoints(monkeypatch: pytest.MonkeyPatch, number: int, *points: str) -> None:
    """Let these checkpoints fail with a system error."""

    def hook(name: str) -> None:
        if name in points:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(kill_points, "hook", hook)


def run_next_commands(done: Done, skillrun: Call) -> Done:
    """Run every command of the last line, as printed."""
    line = done.out.splitlines()[-1]
    assert line.startswith("next: "), done.out
    for command in re.findall("`([^`]+)`", line):
        words = shlex.split(command)
        if words[0] == "skillrun":
            done = skillrun(*words[1:])
        elif len(words) > 1:
            subprocess.run(words, check=True)
    return done


def count_calls(run: Path, skillrun: Call) -> int:
    count: int = skillrun("show", str(run), "--json").json["usage"]["calls"]
    return count


MOVED: dict[str, tuple[Callable[[Path], object], str]] = {
    "the lock": (lambda run: (run / ".run/lock").unlink(), "was removed or replaced during the run"),
    "the lock, replaced": (lambda run: replace_file(run / ".run/lock"), "was removed or replaced"),
    ".run, moved": (lambda run: (run / ".run").rename(run.parent / "aside"), ".run was moved during the run"),
    "the folder": (lambda run: run.rename(run.with_name("eve")), "was moved to {runs}/eve during the run"),
    "its records": (lambda run: shutil.rmtree(run / "summaries"), "draft.md was removed during the run"),
}
REMOVED: dict[str, tuple[Callable[[Path], object], str]] = {
    ".run": (lambda run: shutil.rmtree(run / ".run"), "including its journal"),
    "the folder": (shutil.rmtree, "ada was removed during the run"),
    "the journal": (lambda run: (run / ".run/journal.db").unlink(), "journal.db was removed or replaced"),
}


def replace_file(path: Path) -> None:
    path.rename(path.with_name("other"))
    shutil.copy(path.with_name("other"), path)


@pytest.mark.finding("FM10")
@pytest.mark.parametrize("change", MOVED)
def test_a_run_whose_files_are_moved_stops_and_resumes_with_the_printed_command(
    project: Make, skillrun: Call, meddle: Meddle, change: str
) -> None:
    run = project("greeting") / "runs" / "ada"
    action, message = MOVED[change]
    before: list[str] = []

    def act() -> None:
        before.extend((run / "state.md").read_text().splitlines())
        action(run)
        if change != "the folder":
            with (
                pytest.raises(SkillrunError, match=f"is being run by process {os.getpid()}|another"),
                LocalLease(run).hold(),
            ):
                pass

    meddle(act, "rename draft.md: after" if change == "its records" else "call: after")
    done = skillrun(*GREET)
    assert (done.code, message.format(runs=run.parent) in done.out, "Traceback" in done.err) == (1, True, False), done
    if change.startswith("the lock"):
        assert (run / "state.md").read_text().splitlines() == before
    if change == ".run, moved":  # too early: it leaves the path free, so that the folder can be moved back
        early = skillrun("resume", "ada")
        assert (early.code, "Nothing was changed" in early.err, (run / ".run").exists()) == (1, True, False), early
    done = run_next_commands(done, skillrun)
    assert done.code == 0, done
    assert change != "the folder" or "answer is unknown" not in done.out, "replies are recorded in the new folder"
    assert count_calls(run if run.exists() else run.with_name("eve"), skillrun) == 2


@pytest.mark.finding("FM10")
@pytest.mark.parametrize("removed", REMOVED)
def test_a_run_whose_journal_is_removed_stops_and_suggests_a_new_run(
    project: Make, skillrun: Call, meddle: Meddle, removed: str
) -> None:
    run = project("greeting") / "runs" / "ada"
    action, message = REMOVED[removed]
    meddle(lambda: action(run), "call: after")
    done = skillrun(*GREET)
    assert (done.code, message in done.out, "continues" in done.out) == (1, True, False), done
    assert ("start the run again" in done.out or "start a new one" in done.out) is True
    assert skillrun("resume", "ada").code in (1, 2)
    assert skillrun(*GREET, "--name", "new").code == 0


@pytest.mark.finding("FM10")
@pytest.mark.parametrize("name", ["journal.db-wal", "witness"])
def test_removing_the_log_or_the_witness_loses_nothing(
    project: Make, skillrun: Call, meddle: Meddle, name: str
) -> None:
    run = project("greeting") / "runs" / "ada"
    meddle((run / ".run" / name).unlink, "call: after")
    done = skillrun(*GREET)
    if name == "journal.db-wal":
        assert (done.code, f"{name} was removed or replaced" in done.out) == (1, True), done
        done = skillrun("resume", "ada")
    assert done.code == 0, done
    assert count_calls(run, skillrun) == 2


@pytest.mark.finding("FM10")
def test_a_run_stays_locked_when_its_lock_file_is_removed(tmp_path: Path) -> None:
    with LocalLease(tmp_path).hold():
        (tmp_path / ".run" / "lock").unlink()
        assert LocalLease(tmp_path).is_held()
        with pytest.raises(SkillrunError, match="is being run by process"), LocalLease(tmp_path).hold():
            pass
        assert (tmp_path / ".run" / "owner.json").exists()
    assert not LocalLease(tmp_path).is_held()


@pytest.mark.finding("FM9")
def test_an_unwritable_transcript_is_reported_once_and_changes_nothing_else(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = project("greeting") / "runs" / "ada"
    write = os.write

    def write_to_full_disk(descriptor: int, data: bytes) -> int:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith("transcript.ndjson"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_to_full_disk)
    done = skillrun(*GREET)
    assert (done.code, done.out.count("the transcript (.run/transcript.ndjson) stopped: No space")) == (
        0, 1
    ), done  # fmt: skip
    assert ("Traceback" in done.err + caplog.text, count_calls(run, skillrun)) == (False, 2)


@pytest.mark.finding("FM9")
def test_a_transcript_that_cannot_be_opened_is_reported_once(project: Make, skillrun: Call) -> None:
    transcript = project("greeting") / "runs" / "ada" / ".run" / "transcript.ndjson"
    transcript.mkdir(parents=True)
    done = skillrun(*GREET, "--name", "ada")
    assert (done.code, done.out.count("transcript.ndjson) stopped: Is a directory")) == (0, 1), done


@pytest.mark.slow
@pytest.mark.finding("FM9")
def test_a_truncated_transcript_continues_on_a_new_line(project: Make, skillrun: Call) -> None:
    folder = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\n")
    assert skillrun("visit", "--model", "scripted:default").code == 75
    with (folder / "runs" / "visit" / ".run" / "transcript.ndjson").open("a") as file:
        file.write('{"event": "Said", "phase": "choo')
    assert skillrun("resume", "visit", "--answers", "answers.yaml").code == 0
    logs = skillrun("logs", "visit").out
    assert (logs.count("starting visit"), logs.count("resuming visit")) == (1, 1), logs


@pytest.mark.slow
@pytest.mark.finding("FM9")
def test_unwritable_output_does_not_change_the_exit_code(project: Make) -> None:
    folder = project("greeting")
    with Path("/dev/full").open("w") as full:
        done = run_skillrun(*GREET, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stderr.count("the output cannot be written (No space left on device); the run continues") == 1
    assert "status: completed" in (folder / "runs" / "ada" / "state.md").read_text()


@pytest.mark.finding("FM12")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_an_unwritable_artifact_fails_the_run_with_a_message_and_it_resumes(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run = project("greeting") / "runs" / "ada"
    fail_checkpoints(monkeypatch, number, "rename greeting.md: before")
    done = skillrun(*GREET)
    message = f"{run / 'greeting.md'} cannot be read or written: {os.strerror(number)}"
    assert (done.code, f"failed: {message}" in done.out, "Traceback" in done.err) == (1, True, False), done
    assert "status: failed" in (run / "state.md").read_text()
    monkeypatch.setattr(kill_points, "hook", None)
    assert (run_next_commands(done, skillrun).code, count_calls(run, skillrun)) == (0, 2)


@pytest.mark.finding("FM12")
def test_a_run_does_not_start_where_a_folder_has_the_name_of_an_artifact(project: Make, skillrun: Call) -> None:
    run = project("greeting") / "runs" / "ada"
    (run / "greeting.md").mkdir(parents=True)
    done = skillrun(*GREET, "--name", "ada")
    assert (done.code, "has no run, but it has files: `greeting.md`" in done.err) == (2, True), done
    (run / "greeting.md").rmdir()
    assert skillrun(*GREET, "--name", "ada").code == 0


@pytest.mark.finding("FM12")
def test_a_state_that_may_not_be_on_disk_has_the_status_that_the_command_reports(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = project("visit") / "runs" / "visit"

    fsync = os.fsync

    def fail_after_rename(descriptor: int) -> None:
        fsync(descriptor)
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if is_folder and (run / "state.md").exists() and "status: waiting" in (run / "state.md").read_text():
            monkeypatch.setattr(os, "fsync", fsync)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail_after_rename)
    done = skillrun("visit", "--model", "scripted:default")
    assert (done.code, f"failed: {run / 'state.md'} cannot be read or written" in done.out) == (1, True), done
    assert skillrun("show", "visit", "--json").json["status"] == "failed"
    assert run_next_commands(done, skillrun).code == 75


PAIR = """---
name: pair
description: Two at once.
inputs: {}
parallel: true
phases:
  one: {after: []}
  two: {after: []}
---
Two.
"""
PHASE = """---
kind: phase
description: One of two.
steps:
  - {{id: said, agent: writer, writes: {0}.md}}
---
## said
Say {0}.
"""


@pytest.mark.finding("FM12")
@pytest.mark.parametrize("point", ["rename one.md: before", "rename state.md: before"])
def test_a_running_call_is_recorded_when_another_file_cannot_be_written(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    folder = project("greeting")
    (folder / "workflows" / "pair.md").write_text(PAIR)
    (folder / "skills" / "pair").mkdir()
    for name in ("one", "two"):
        (folder / "skills" / "pair" / f"{name}.md").write_text(PHASE.format(name))
    (folder / "script.yaml").write_text('- {address: "pair/two/said/*", text: hello, delay: 0.3}\n')
    points: list[str] = []

    def hook(name: str) -> None:
        points.append(name)
        if name == point and "rename one.md: before" in points:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kill_points, "hook", hook)
    done = skillrun("pair", "--script", "script.yaml")
    assert (done.code, "No space left on device" in done.out, "free disk space" in done.out) == (1, True, True), done
    monkeypatch.setattr(kill_points, "hook", None)
    shown = skillrun("show", "pair", "--json").json
    assert shown["unanswered"] == []
    again = skillrun("resume", "pair", "--script", "script.yaml", "--json").json
    assert (again["status"], count_calls(folder / "runs" / "pair", skillrun)) == ("completed", again["usage"]["calls"])
    assert (folder / "runs" / "pair" / "two.md").read_text() == "hello\n"
    assert "asking pair/two/said" not in "".join(again["warnings"])


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Limits every file to `room` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.finding("FM4")
@pytest.mark.parametrize("room", [1, 4000, 6000, 10_000, 20_000, 34_000])
def test_a_full_disk_at_the_start_of_a_run_leaves_its_name_free(project: Make, skillrun: Call, room: int) -> None:
    folder = project("greeting")
    with full_disk(room):
        done = skillrun(*GREET)
    assert (done.code, "bug" in done.err, "Traceback" in done.err) == (1, False, False), done
    run = folder / "runs" / "ada"
    if (run / "state.md").exists():
        assert skillrun("resume", "ada").code == 0
    else:
        assert not run.exists()
        assert skillrun(*GREET).code == 0
    assert skillrun("show", "ada", "--json").json["status"] == "completed"


@pytest.mark.slow
@pytest.mark.finding("FL16")
def test_concurrent_runs_with_the_same_request_get_different_names(project: Make) -> None:
    folder = project("greeting")
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    processes = [start_skillrun(*GREET, **pipes) for _ in range(3)]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    assert {path.name for path in (folder / "runs").iterdir()} == {".gitignore", "ada", "ada-2", "ada-3"}


@pytest.mark.slow
@pytest.mark.finding("FL16")
def test_a_printed_command_works_in_the_current_directory(
    project: Make, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("visit")
    assert skillrun("visit", "--model", "scripted:default").code == 75
    shutil.copytree(folder, tmp_path / "other", ignore=shutil.ignore_patterns("runs"))
    monkeypatch.chdir(tmp_path / "other")
    Path("answers.yaml").write_text("where: the lake\n")
    done = skillrun("resume", str(folder / "runs" / "visit"))
    assert (done.code, f"`skillrun resume {folder / 'runs' / 'visit'}`" in done.out) == (75, True), done
    done = skillrun("resume", str(folder / "runs" / "visit"), "--answers", "answers.yaml")
    assert done.code == 0
    assert run_next_commands(done, skillrun).code == 0
    done = skillrun("visit", "--model", "scripted:default", "--answers", "answers.yaml", "--out", "elsewhere")
    assert (done.code, run_next_commands(done, skillrun).code) == (0, 0)
