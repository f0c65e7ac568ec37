"""Submitted runs execute on any machine, resume after a pause, and can be cancelled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import pytest

from skillrun.cli.registry import OLD_NAMES
from skillrun.extensions.workers.commands.open_store import open_database
from tests.acceptance.conftest import Call, Make
from tests.launcher import run_skillrun, start_skillrun

SCRIPTED = ("--model", "scripted:x")
TIMEOUT = 60.0  # seconds


@pytest.fixture
def start(tmp_path: Path, store: str) -> Iterator[Callable[..., Popen[bytes]]]:
    """Starts a worker in a folder without the project's files."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with ExitStack() as stack:

        def begin(*arguments: str) -> Popen[bytes]:
            process = start_skillrun("worker", "--lease", "2", *arguments, cwd=folder, stdout=DEVNULL)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def wait_until(condition: Callable[[], Any]) -> Any:
    """Wait for the condition; returns its first truthy result."""
    end = time.monotonic() + TIMEOUT
    while not (result := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return result


def status(store: str, run: str) -> str:
    ((found,),) = open_database(store).rows("SELECT status FROM runs WHERE name = %(run)s", {"run": run})
    return str(found)


@pytest.mark.slow
@pytest.mark.row("W2")
@pytest.mark.row("W3")
def test_a_worker_in_another_folder_executes_a_submitted_run_and_resumes_it_once_answered(
    project: Make, skillrun: Call, store: str, start: Callable[..., Any]
) -> None:
    folder = project("visit", "greeting")
    start()
    submitted = skillrun("submit", "visit", "--name", "trip", *SCRIPTED)
    assert submitted.code == 0, submitted.err
    assert submitted.out.startswith("submitted trip: ")
    wait_until(lambda: status(store, "trip") == "waiting")
    questions = skillrun("questions", "--json").json
    assert [(each["run"], each["question"]["text"]) for each in questions] == [("trip", "Where do you want to go?")]
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    done = skillrun("answers", "trip", "--answers", "answers.yaml")
    assert done.out.splitlines()[-1] == "a worker will resume the run"
    wait_until(lambda: status(store, "trip") == "completed")
    assert "where = the lake" in skillrun("logs", "trip").out
    assert skillrun("questions").out == "no open questions\n"
    assert skillrun("submit", "visit", "--name", "trip", *SCRIPTED).code == 2


@pytest.mark.row("W3")
def test_submit_refuses_invalid_prepared_answers_and_warns_of_unknown_questions(
    project: Make, skillrun: Call, store: str
) -> None:
    answers = project("visit") / "answers.yaml"
    command = ("submit", "visit", "--name", "trip", "--answers", "answers.yaml", *SCRIPTED)
    answers.write_text("choose/where: the moon\n")
    refused = skillrun(*command)
    assert (refused.code, "answers.yaml:1:15: error[answer]" in refused.out + refused.err) == (1, True)
    refused = skillrun("submit", "visit", "--unattended", *SCRIPTED)
    assert (refused.code, "the workflow asks questions and the run is unattended" in refused.err) == (1, True)
    assert open_database(store).rows("SELECT count(*) FROM runs") == [(0,)]
    answers.write_text("choose/where: the lake\nchoose/wher: the lake\n")
    done = skillrun(*command)
    assert (done.code, "answers.yaml:2:1: warning[unknown-question]" in done.out + done.err) == (0, True)


@pytest.mark.row("W7")
def test_a_command_executes_a_submitted_run_once_however_often_it_is_repeated(
    project: Make, skillrun: Call, store: str
) -> None:
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    (queued,) = skillrun("runs", "--json").json
    assert (queued["run"], queued["workflow"], queued["status"], queued["phase"]) == ("ada", "greeting", "queued", "")
    assert status(store, "ada") == "queued"
    assert skillrun("worker", "once", "ada").out == "ada: completed\n"
    assert skillrun("worker", "once", "ada").out == "ada: nothing to do\n"
    assert skillrun("show", "ada", "--json").json["usage"]["calls"] == 2


@pytest.mark.row("W7")
def test_the_old_names_of_commands_work_and_warn(project: Make, skillrun: Call, store: str) -> None:
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    outputs = {
        ("work", "ada"): "ada: completed\n",
        ("workers",): "no workers\n0 runs queued, 0 running, 0 waiting for a user\n",
        ("limits", "anthropic=2"): "anthropic: 0 of 2 slots held\n",
        ("export", "ada"): "/runs/ada\n",
        ("import", "ada", "--name", "bob"): "copied ada to `bob` in the store ",
        ("pull", "bob"): "pulled 5 files into bob\n",
        ("push", "bob"): "pushed 0 files to bob\n",
        ("edit", "bob"): "greeting.md\n",
    }
    assert {command for command, *_ in outputs} == OLD_NAMES.keys()
    for command, output in outputs.items():
        done = skillrun(*command)
        warning = f"warning: `skillrun {command[0]}` is now `skillrun {OLD_NAMES[command[0]]}`; "
        assert (done.code, done.err) == (0, f"{warning}the old name will be removed in 0.3\n")
        assert output in done.out


@pytest.mark.row("W4")
def test_a_cancelled_run_is_not_executed(project: Make, skillrun: Call, store: str) -> None:
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    assert skillrun("cancel", "ada").out == "cancelled ada\n"
    assert skillrun("worker", "once", "ada").out == "ada: nothing to do\n"
    assert skillrun("cancel", "ada").code == 2
    assert status(store, "ada") == "cancelled"


@pytest.mark.slow
@pytest.mark.row("W4")
def test_a_run_that_kills_its_workers_is_given_up_after_five(project: Make, skillrun: Call, store: str) -> None:
    folder = project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    environment = {**os.environ, "SKILLRUN_KILL_AT": "2"}  # just after it is claimed
    for _ in range(5):
        worker = run_skillrun("worker", "once", "ada", cwd=folder, env=environment, stdout=DEVNULL)
        assert worker.returncode == -signal.SIGKILL
        open_database(store).rows("UPDATE runs SET lease_until = now() - interval '1 s'")
    open_database(store).rows("UPDATE runs SET fruitful_at = now() - interval '11 minutes'")
    assert skillrun("worker", "once", "ada").out == "ada: nothing to do\n"
    assert status(store, "ada") == "failed"
    ((reason,),) = open_database(store).rows("SELECT reason FROM runs")
    assert reason == "5 workers in a row claimed the run and died before a model replied"


@pytest.mark.slow
@pytest.mark.row("W2")
def test_runs_of_a_killed_worker_are_taken_over_and_their_calls_are_made_once(
    project: Make, skillrun: Call, store: str, start: Callable[..., Any]
) -> None:
    project("greeting")
    first = start()
    for number in range(6):
        assert skillrun("submit", "greeting", f"Ada {number}", "--name", f"a{number}", *SCRIPTED).code == 0
    first.kill()
    start()
    wait_until(lambda: open_database(store).rows("SELECT count(*) FROM runs WHERE status = 'completed'") == [(6,)])
    duplicates = "SELECT run, address FROM records WHERE kind = 'reply' GROUP BY 1, 2 HAVING count(*) > 1"
    assert open_database(store).rows(duplicates) == []


@pytest.mark.slow
@pytest.mark.row("W2")
def test_sigterm_ends_a_worker_and_releases_its_runs(
    project: Make, skillrun: Call, store: str, start: Callable[..., Any]
) -> None:
    project("greeting")
    worker = start()
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    wait_until(lambda: status(store, "ada") != "queued")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT) == 0
    assert status(store, "ada") in ("queued", "completed")
