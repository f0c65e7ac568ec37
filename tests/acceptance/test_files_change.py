"""Files that change under a running program: moved, removed, full, broken; what is said, kept and gone on with."""

from __future__ import annotations

import errno
import os
import re
import resource
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skillrun.store import checkpoints
from skillrun.store.local.lock import LocalLease
from skillrun.syntax.diagnostics import SkillrunError
from tests.acceptance.conftest import Call, Done, Make
from tests.launcher import run_skillrun, start_skillrun

GREET = ("greeting", "Ada", "--model", "scripted:default")
Meddle = Callable[[Callable[[], object], str], None]


@pytest.fixture
def meddle(monkeypatch: pytest.MonkeyPatch) -> Meddle:
    """Does something once, at the first named point of a run that begins so."""

    def at(action: Callable[[], object], point: str) -> None:
        def reached(name: str) -> None:
            if name.startswith(point):
                monkeypatch.setattr(checkpoints, "hook", None)
                action()

        monkeypatch.setattr(checkpoints, "hook", reached)

    return at


def failing(monkeypatch: pytest.MonkeyPatch, number: int, *points: str) -> None:
    """From now on these points fail as the system does."""

    def reached(name: str) -> None:
        if name in points:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(checkpoints, "hook", reached)


def type_next(done: Done, skillrun: Call) -> Done:
    """Type every command of the last line, as it is written there."""
    told = done.out.splitlines()[-1]
    assert told.startswith("next: "), done.out
    for command in re.findall("`([^`]+)`", told):
        words = shlex.split(command)
        if words[0] == "skillrun":
            done = skillrun(*words[1:])
        elif len(words) > 1:
            subprocess.run(words, check=True)
    return done


def calls(run: Path, skillrun: Call) -> int:
    found: int = skillrun("show", str(run), "--json").json["usage"]["calls"]
    return found


MOVED: dict[str, tuple[Callable[[Path], object], str]] = {
    "the lock": (lambda run: (run / ".run/lock").unlink(), "was removed or replaced during the run"),
    "the lock, exchanged": (lambda run: exchanged(run / ".run/lock"), "was removed or replaced"),
    ".run, moved": (lambda run: (run / ".run").rename(run.parent / "aside"), ".run was moved during the run"),
    "the folder": (lambda run: run.rename(run.with_name("eve")), "was moved during the run, to {runs}/eve"),
    "its records": (lambda run: shutil.rmtree(run / "summaries"), "draft.md was removed during the run"),
}
GONE: dict[str, tuple[Callable[[Path], object], str]] = {
    ".run": (lambda run: shutil.rmtree(run / ".run"), "its journal with it"),
    "the folder": (shutil.rmtree, "ada was removed during the run"),
    "the journal": (lambda run: (run / ".run/journal.db").unlink(), "journal.db was removed or replaced"),
}


def exchanged(path: Path) -> None:
    path.rename(path.with_name("other"))
    shutil.copy(path.with_name("other"), path)


@pytest.mark.finding("FM10")
@pytest.mark.parametrize("what", MOVED)
def test_a_run_whose_files_are_moved_stops_and_goes_on_with_the_command_that_it_says(
    project: Make, skillrun: Call, meddle: Meddle, what: str
) -> None:
    run = project("greeting") / "runs" / "ada"
    action, message = MOVED[what]
    before: list[str] = []

    def act() -> None:
        before.extend((run / "state.md").read_text().splitlines())
        action(run)
        if what != "the folder":
            with (
                pytest.raises(SkillrunError, match=f"is being run by process {os.getpid()}|another"),
                LocalLease(run).hold(),
            ):
                pass

    meddle(act, "rename draft.md: after" if what == "its records" else "call: after")
    done = skillrun(*GREET)
    assert (done.code, message.format(runs=run.parent) in done.out, "Traceback" in done.err) == (1, True, False), done
    if what.startswith("the lock"):
        assert (run / "state.md").read_text().splitlines() == before
    if what == ".run, moved":  # typed too early, it leaves room for what is moved back
        early = skillrun("resume", "ada")
        assert (early.code, "Nothing was changed" in early.err, (run / ".run").exists()) == (1, True, False), early
    done = type_next(done, skillrun)
    assert done.code == 0, done
    assert what != "the folder" or "answer is unknown" not in done.out, "what was under way is recorded where it is now"
    assert calls(run if run.exists() else run.with_name("eve"), skillrun) == 2


@pytest.mark.finding("FM10")
@pytest.mark.parametrize("what", GONE)
def test_a_run_whose_journal_is_removed_stops_and_says_what_is_left(
    project: Make, skillrun: Call, meddle: Meddle, what: str
) -> None:
    run = project("greeting") / "runs" / "ada"
    action, message = GONE[what]
    meddle(lambda: action(run), "call: after")
    done = skillrun(*GREET)
    assert (done.code, message in done.out, "goes on" in done.out) == (1, True, False), done
    assert ("start the run again" in done.out or "start a new one" in done.out) is True
    assert skillrun("resume", "ada").code in (1, 2)
    assert skillrun(*GREET, "--name", "new").code == 0


@pytest.mark.finding("FM10")
@pytest.mark.parametrize("name", ["journal.db-wal", "witness"])
def test_a_log_or_witness_that_is_removed_loses_nothing(
    project: Make, skillrun: Call, meddle: Meddle, name: str
) -> None:
    run = project("greeting") / "runs" / "ada"
    meddle((run / ".run" / name).unlink, "call: after")
    done = skillrun(*GREET)
    if name == "journal.db-wal":
        assert (done.code, f"{name} was removed or replaced" in done.out) == (1, True), done
        done = skillrun("resume", "ada")
    assert done.code == 0, done
    assert calls(run, skillrun) == 2


@pytest.mark.finding("FM10")
def test_who_holds_a_run_still_holds_it_where_the_lock_is_removed(tmp_path: Path) -> None:
    with LocalLease(tmp_path).hold():
        (tmp_path / ".run" / "lock").unlink()
        assert LocalLease(tmp_path).is_held()
        with pytest.raises(SkillrunError, match="is being run by process"), LocalLease(tmp_path).hold():
            pass
        assert (tmp_path / ".run" / "owner.json").exists()
    assert not LocalLease(tmp_path).is_held()


@pytest.mark.finding("FM9")
def test_a_transcript_that_cannot_be_written_is_told_of_once_and_changes_nothing_else(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = project("greeting") / "runs" / "ada"
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith("transcript.ndjson"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    done = skillrun(*GREET)
    assert (done.code, done.out.count("the transcript (.run/transcript.ndjson) stopped: No space")) == (
        0, 1
    ), done  # fmt: skip
    assert ("Traceback" in done.err + caplog.text, calls(run, skillrun)) == (False, 2)


@pytest.mark.finding("FM9")
def test_a_transcript_that_cannot_be_opened_is_told_of_once(project: Make, skillrun: Call) -> None:
    transcript = project("greeting") / "runs" / "ada" / ".run" / "transcript.ndjson"
    transcript.mkdir(parents=True)
    done = skillrun(*GREET, "--name", "ada")
    assert (done.code, done.out.count("transcript.ndjson) stopped: Is a directory")) == (0, 1), done


@pytest.mark.slow
@pytest.mark.finding("FM9")
def test_a_transcript_that_was_cut_off_goes_on_with_a_line_of_its_own(project: Make, skillrun: Call) -> None:
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
def test_output_that_cannot_be_written_changes_no_exit_code(project: Make) -> None:
    folder = project("greeting")
    with Path("/dev/full").open("w") as full:
        done = run_skillrun(*GREET, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stderr.count("the output cannot be written (No space left on device); the run continues") == 1
    assert "status: completed" in (folder / "runs" / "ada" / "state.md").read_text()


@pytest.mark.finding("FM12")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_an_artifact_that_cannot_be_written_ends_the_run_in_words_and_it_goes_on(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run = project("greeting") / "runs" / "ada"
    failing(monkeypatch, number, "rename greeting.md: before")
    done = skillrun(*GREET)
    told = f"{run / 'greeting.md'} cannot be read or written: {os.strerror(number)}"
    assert (done.code, f"failed: {told}" in done.out, "Traceback" in done.err) == (1, True, False), done
    assert "status: failed" in (run / "state.md").read_text()
    monkeypatch.setattr(checkpoints, "hook", None)
    assert (type_next(done, skillrun).code, calls(run, skillrun)) == (0, 2)


@pytest.mark.finding("FM12")
def test_an_artifact_in_whose_place_a_folder_stands_ends_the_run_in_words(project: Make, skillrun: Call) -> None:
    run = project("greeting") / "runs" / "ada"
    (run / "greeting.md").mkdir(parents=True)
    done = skillrun(*GREET, "--name", "ada")
    assert (done.code, "cannot write `greeting.md`: Is a directory" in done.out) == (1, True), done
    (run / "greeting.md").rmdir()
    assert type_next(done, skillrun).code == 0


@pytest.mark.finding("FM12")
def test_a_state_that_reached_the_folder_and_perhaps_not_the_disk_says_what_the_command_says(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = project("visit") / "runs" / "visit"

    def reached(name: str) -> None:  # as the folder's own fsync fails, behind the rename
        if name == "rename state.md: after" and "status: waiting" in (run / "state.md").read_text():
            monkeypatch.setattr(checkpoints, "hook", None)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(checkpoints, "hook", reached)
    done = skillrun("visit", "--model", "scripted:default")
    assert (done.code, f"failed: {run / 'state.md'} cannot be read or written" in done.out) == (1, True), done
    assert skillrun("show", "visit", "--json").json["status"] == "failed"
    assert type_next(done, skillrun).code == 75


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
def test_what_is_under_way_beside_a_file_that_cannot_be_written_is_heard_and_recorded(
    project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    folder = project("greeting")
    (folder / "workflows" / "pair.md").write_text(PAIR)
    (folder / "skills" / "pair").mkdir()
    for name in ("one", "two"):
        (folder / "skills" / "pair" / f"{name}.md").write_text(PHASE.format(name))
    (folder / "script.yaml").write_text('- {address: "pair/two/said/*", text: heard, delay: 0.3}\n')
    begun: list[str] = []

    def reached(name: str) -> None:
        begun.append(name)
        if name == point and "rename one.md: before" in begun:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints, "hook", reached)
    done = skillrun("pair", "--script", "script.yaml")
    assert (done.code, "No space left on device" in done.out, "free disk space" in done.out) == (1, True, True), done
    monkeypatch.setattr(checkpoints, "hook", None)
    shown = skillrun("show", "pair", "--json").json
    assert shown["unanswered"] == []
    again = skillrun("resume", "pair", "--script", "script.yaml", "--json").json
    assert (again["status"], calls(folder / "runs" / "pair", skillrun)) == ("completed", again["usage"]["calls"])
    assert (folder / "runs" / "pair" / "two.md").read_text() == "heard\n"
    assert "asking pair/two/said" not in "".join(again["warnings"])


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Files grow to `room` bytes and no further."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.finding("FM4")
@pytest.mark.parametrize("room", [1, 4000, 6000, 10_000, 20_000, 34_000])
def test_a_disk_that_is_full_when_a_run_begins_leaves_its_name_free(project: Make, skillrun: Call, room: int) -> None:
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
def test_runs_with_the_same_words_get_names_of_their_own_at_once(project: Make) -> None:
    folder = project("greeting")
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    running = [start_skillrun(*GREET, **pipes) for _ in range(3)]
    errors = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], errors
    assert {path.name for path in (folder / "runs").iterdir()} == {".gitignore", "ada", "ada-2", "ada-3"}


@pytest.mark.slow
@pytest.mark.finding("FL16")
def test_a_command_that_is_printed_works_where_it_is_read(
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
    assert type_next(done, skillrun).code == 0
    done = skillrun("visit", "--model", "scripted:default", "--answers", "answers.yaml", "--out", "elsewhere")
    assert (done.code, type_next(done, skillrun).code) == (0, 0)
