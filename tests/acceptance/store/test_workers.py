"""Runs that are submitted are worked on by any machine, go on after a pause, and are ended at once."""

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

from skillrun.extensions.workers.commands.open_store import open_database
from tests.acceptance.conftest import Call, Make
from tests.launcher import run_skillrun, start_skillrun

SCRIPTED = ("--model", "scripted:x")
PATIENCE = 60.0  # seconds


@pytest.fixture
def start(tmp_path: Path, store: str) -> Iterator[Callable[..., Popen[bytes]]]:
    """Starts a worker in a folder that has nothing of the project."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with ExitStack() as stack:

        def begin(*arguments: str) -> Popen[bytes]:
            process = start_skillrun("worker", "--lease", "2", *arguments, cwd=elsewhere, stdout=DEVNULL)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def until(what: Callable[[], Any]) -> Any:
    """What it gives, as soon as that is anything."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def status(store: str, run: str) -> str:
    ((found,),) = open_database(store).rows("SELECT status FROM runs WHERE name = %(run)s", {"run": run})
    return str(found)


@pytest.mark.slow
@pytest.mark.row("W2")
@pytest.mark.row("W3")
def test_a_worker_elsewhere_runs_what_is_submitted_and_goes_on_once_it_is_answered(
    project: Make, skillrun: Call, store: str, start: Callable[..., Any]
) -> None:
    folder = project("visit", "greeting")
    start()
    begun = skillrun("submit", "visit", "--name", "trip", *SCRIPTED)
    assert begun.code == 0, begun.err
    assert begun.out.startswith("submitted trip: ")
    until(lambda: status(store, "trip") == "waiting")
    asked = skillrun("questions", "--json").json
    assert [(each["run"], each["question"]["text"]) for each in asked] == [("trip", "Where do you want to go?")]
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    done = skillrun("answers", "trip", "--answers", "answers.yaml")
    assert done.out.splitlines()[-1] == "a worker will resume the run"
    until(lambda: status(store, "trip") == "completed")
    assert "where = the lake" in skillrun("logs", "trip").out
    assert skillrun("questions").out == "no open questions\n"
    assert skillrun("submit", "visit", "--name", "trip", *SCRIPTED).code == 2


@pytest.mark.row("W3")
def test_prepared_answers_that_do_not_fit_are_refused_as_they_are_submitted_and_a_doubtful_name_is_warned_of(
    project: Make, skillrun: Call, store: str
) -> None:
    answers = project("visit") / "answers.yaml"
    typed = ("submit", "visit", "--name", "trip", "--answers", "answers.yaml", *SCRIPTED)
    answers.write_text("choose/where: the moon\n")
    refused = skillrun(*typed)
    assert (refused.code, "answers.yaml:1:15: error[answer]" in refused.out + refused.err) == (1, True)
    refused = skillrun("submit", "visit", "--unattended", *SCRIPTED)
    assert (refused.code, "the workflow asks questions and the run is unattended" in refused.err) == (1, True)
    assert open_database(store).rows("SELECT count(*) FROM runs") == [(0,)]
    answers.write_text("choose/where: the lake\nchoose/wher: the lake\n")
    done = skillrun(*typed)
    assert (done.code, "answers.yaml:2:1: warning[unknown-question]" in done.out + done.err) == (0, True)


@pytest.mark.row("W7")
def test_another_engine_works_on_a_run_by_a_command_however_often_it_says_it(
    project: Make, skillrun: Call, store: str
) -> None:
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    (queued,) = skillrun("runs", "--json").json
    assert (queued["run"], queued["workflow"], queued["status"], queued["phase"]) == ("ada", "greeting", "queued", "")
    assert status(store, "ada") == "queued"
    assert skillrun("work", "ada").out == "ada: completed\n"
    assert skillrun("work", "ada").out == "ada: nothing to do\n"
    assert skillrun("show", "ada", "--json").json["usage"]["calls"] == 2


@pytest.mark.row("W4")
def test_a_run_that_is_cancelled_is_worked_on_no_more(project: Make, skillrun: Call, store: str) -> None:
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    assert skillrun("cancel", "ada").out == "cancelled ada\n"
    assert skillrun("work", "ada").out == "ada: nothing to do\n"
    assert skillrun("cancel", "ada").code == 2
    assert status(store, "ada") == "cancelled"


@pytest.mark.slow
@pytest.mark.row("W4")
def test_a_run_that_kills_its_workers_is_given_up_after_five(project: Make, skillrun: Call, store: str) -> None:
    folder = project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    environment = {**os.environ, "SKILLRUN_KILL_AT": "2"}  # just after it is claimed
    for _ in range(5):
        died = run_skillrun("work", "ada", cwd=folder, env=environment, stdout=DEVNULL)
        assert died.returncode == -signal.SIGKILL
        open_database(store).rows("UPDATE runs SET lease_until = now() - interval '1 s'")
    open_database(store).rows("UPDATE runs SET fruitful_at = now() - interval '11 minutes'")
    assert skillrun("work", "ada").out == "ada: nothing to do\n"
    assert status(store, "ada") == "failed"
    ((reason,),) = open_database(store).rows("SELECT reason FROM runs")
    assert reason == "5 workers claimed it and died, with no reply in between"


@pytest.mark.slow
@pytest.mark.row("W2")
def test_what_a_killed_worker_had_is_taken_up_by_another_and_asked_once(
    project: Make, skillrun: Call, store: str, start: Callable[..., Any]
) -> None:
    project("greeting")
    first = start()
    for number in range(6):
        assert skillrun("submit", "greeting", f"Ada {number}", "--name", f"a{number}", *SCRIPTED).code == 0
    first.kill()
    start()
    until(lambda: open_database(store).rows("SELECT count(*) FROM runs WHERE status = 'completed'") == [(6,)])
    twice = "SELECT run, address FROM records WHERE kind = 'reply' GROUP BY 1, 2 HAVING count(*) > 1"
    assert open_database(store).rows(twice) == []


@pytest.mark.slow
@pytest.mark.row("W2")
def test_a_polite_signal_ends_a_worker_and_hands_back_what_it_has(
    project: Make, skillrun: Call, store: str, start: Callable[..., Any]
) -> None:
    project("greeting")
    worker = start()
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    until(lambda: status(store, "ada") != "queued")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
    assert status(store, "ada") in ("queued", "completed")
