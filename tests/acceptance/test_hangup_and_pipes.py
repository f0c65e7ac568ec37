"""A closed terminal, files that are pipes, and renamed phases and steps of a run that waits."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from skillrun.runtime.session import ending_signals
from tests.acceptance.conftest import Call, Make
from tests.launcher import start_skillrun

WORKFLOW = "---\nname: w\nphases:\n  draft:\n---\nW.\n"
PHASE = """---
kind: phase
steps:
  - {id: text, agent: host}
  - {id: ok, ask: "Good?", choices: [approve, reject]}
---
## text
Write a note.
"""
ROLE = "---\nname: host\ndescription: Writes.\nmodel: fast\n---\nYou write.\n"
RUN = ("w", "--name", "r", "--model", "scripted:default")


@pytest.fixture
def folder(project: Make) -> Path:
    folder = project()
    files = {"workflows/w.md": WORKFLOW, "skills/w/draft.md": PHASE, "roles/host.md": ROLE}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def feed(path: str | Path, text: str) -> threading.Thread:
    """Write a text into a pipe, in a thread."""
    thread = threading.Thread(target=Path(path).write_text, args=(text,), daemon=True)
    thread.start()
    return thread


@pytest.mark.finding("FX12")
@pytest.mark.slow
def test_a_hangup_ends_a_run_with_its_state(folder: Path) -> None:
    (folder / "script.yaml").write_text('- {address: "*", text: x, delay: 30}\n')
    with start_skillrun("w", "--name", "r", "--script", "script.yaml", stdout=-1, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("draft: started"):
                break
        process.send_signal(signal.SIGHUP)
        out = process.stdout.read()
    assert (process.returncode, "next: resume with `skillrun resume r --script script.yaml`" in out) == (129, True), out
    assert "status: interrupted" in (folder / "runs" / "r" / "state.md").read_text()


@pytest.mark.finding("FX12")
def test_a_hangup_is_left_to_a_caller_that_ignores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    assert ending_signals() == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    assert ending_signals() == [signal.SIGINT, signal.SIGTERM]


@pytest.mark.finding("FX12")
def test_prepared_answers_and_scripts_may_come_from_a_pipe(folder: Path, skillrun: Call) -> None:
    pipes = [folder.parent / "answers", folder.parent / "script"]
    for pipe in pipes:
        os.mkfifo(pipe)
    feeding = [feed(pipes[0], "ok: approve\n"), feed(pipes[1], '- {address: "*", text: x}\n')]
    done = skillrun("w", "--name", "r", "--answers", str(pipes[0]), "--script", str(pipes[1]))
    for thread in feeding:
        thread.join(10)
    assert (done.code, "answered from the prepared answers: ok = approve" in done.out) == (0, True), done
    os.mkfifo(folder / "answers")  # such a pipe of a project may never end
    refused = skillrun(*RUN, "--answers", "answers")
    assert (refused.code, "answers is not a regular file" in refused.err) == (2, True), refused


@pytest.mark.finding("FX12")
@pytest.mark.slow
def test_standard_input_may_be_a_file_of_the_project(folder: Path) -> None:
    (folder / "answers.yaml").write_text("ok: approve\n")
    (folder / "script.yaml").write_text('- {address: "*", text: x}\n')
    with (folder / "answers.yaml").open() as stdin:
        command = ("w", "--name", "r", "--answers", "-", "--script", "script.yaml")
        with start_skillrun(*command, stdin=stdin, stdout=-1, text=True) as process:
            out, _ = process.communicate()
    assert (process.returncode, "answered from the prepared answers: ok = approve" in out) == (0, True), out


@pytest.mark.finding("FX12")
def test_a_pipe_is_not_named_in_the_next_command_and_is_read_with_a_limit(folder: Path, skillrun: Call) -> None:
    waiting = skillrun(*RUN, "--answers", "/dev/null")
    assert "next: put `draft/ok: approve` (or: reject) into answers.yaml and run " in waiting.out
    assert "`skillrun resume r --answers answers.yaml`, or in a terminal resume with `skillrun resume r`" in waiting.out
    assert "the file is larger than 1,000,000 bytes" in skillrun("resume", "r", "--answers", "/dev/zero").err
    script = skillrun("resume", "r", "--script", str(folder))
    assert (script.code, "directory" in script.err) == (2, True)


@pytest.mark.finding("FX12")
def test_a_renamed_open_phase_is_called_again_only_with_consent(folder: Path, skillrun: Call) -> None:
    assert skillrun(*RUN).code == 75
    (folder / "workflows" / "w.md").write_text(WORKFLOW.replace("draft:", "text: {skill: w/draft}"))
    refused = skillrun("resume", "r")
    assert refused.code == 1
    assert "the phase `draft` is gone; its replies are not used: 1 call (w/draft/text/host/1.1)" in refused.err
    assert "`was: draft` keeps its summaries" in refused.err
    assert "error: resuming would make 1 call again" in refused.err
    assert "the phase `draft` is gone" in skillrun("resume", "r", "--preview").out
    assert "put `text/ok: approve`" in skillrun("resume", "r", "--yes").out


@pytest.mark.finding("FX12")
def test_a_renamed_step_of_the_open_phase_is_called_again_only_with_consent(folder: Path, skillrun: Call) -> None:
    assert skillrun(*RUN).code == 75
    phase = folder / "skills" / "w" / "draft.md"
    phase.write_text(PHASE.replace("id: text", "id: note").replace("## text", "## note"))
    refused = skillrun("resume", "r")
    place = "the step `draft/text` is gone; its replies are not used: 1 call (w/draft/text/host/1.1)"
    assert (refused.code, place in refused.err) == (1, True), refused
    phase.write_text(PHASE.replace("Good?", "Is it good?"))
    assert "is gone" not in skillrun("resume", "r").out


@pytest.mark.finding("FX12")
@pytest.mark.parametrize("flags", ["--yes", "--from-start --yes"])
@pytest.mark.parametrize("part", ["phase", "step"])
def test_an_accepted_loss_is_not_asked_about_again(folder: Path, skillrun: Call, part: str, flags: str) -> None:
    workflow, phase = folder / "workflows" / "w.md", folder / "skills" / "w" / "draft.md"

    def rename(number: int) -> None:
        if part == "phase":
            workflow.write_text(WORKFLOW.replace("draft:", f"part{number}: {{skill: w/draft}}"))
        else:
            phase.write_text(PHASE.replace("id: text", f"id: part{number}").replace("## text", f"## part{number}"))

    assert skillrun(*RUN).code == 75
    rename(1)
    assert skillrun("resume", "r", *flags.split()).code == 75
    phase.write_text(phase.read_text().replace("Good?", "Is it good?"))
    again = skillrun("resume", "r")
    assert (again.code, "is gone" in again.out + again.err) == (75, False), again
    rename(2)  # loses the replies that were made since
    refused = skillrun("resume", "r")
    gone = "part1" if part == "phase" else "draft/part1"
    assert (refused.code, f"the {part} `{gone}` is gone" in refused.err) == (1, True), refused
    assert "the phase `draft` is gone" not in refused.err
    assert "`draft/text` is gone" not in refused.err
