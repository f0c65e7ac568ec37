"""What goes wrong between workers: the same run for two, a worker without a key, a question that is withdrawn."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import pytest

from skillrun.cli.options import STORE_VARIABLE
from skillrun.extensions.workers.commands.open_store import open_database, open_store
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_fair import CALLS, claude, notes, workers, written  # noqa: F401 (`notes` is a fixture)
from tests.acceptance.store.test_workers import SCRIPTED, start, status, until  # noqa: F401 (`start` is a fixture)
from tests.launcher import run_skillrun, start_skillrun
from tests.servers.postgres import started
from tests.servers.wire import Answer, Asked

pytestmark = [pytest.mark.row("W2"), pytest.mark.allow_hosts(["127.0.0.1"])]
EXPIRE = "UPDATE runs SET lease_until = now() - interval '1 s' WHERE status = 'running'"


def begun(run: str, folder: Path) -> Popen[str]:
    return start_skillrun("work", run, cwd=folder, stdout=PIPE, stderr=PIPE, text=True)


def replies(store: str) -> list[tuple[str, int]]:
    """How often each call was answered on record."""
    return open_database(store).rows("SELECT address, count(*) FROM records WHERE kind = 'reply' GROUP BY address")


@pytest.mark.slow
def test_of_four_that_are_given_the_same_run_at_once_one_does_it_and_the_others_leave_with_a_word(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with claude(monkeypatch, written) as wire:
        assert skillrun("submit", "notes", "Ada").code == 0
        four = [begun("ada", notes) for _ in range(4)]
        said = [process.communicate(timeout=60) for process in four]
    assert sum(out.endswith("ada: completed\n") for out, _ in said) == 1
    for out, err in said:
        left = out == "ada: nothing to do\n" or "ada is being run by process" in err
        assert left or out.endswith("ada: completed\n"), (out, err)
    assert sorted(number for _, number in replies(store)) == [1] * CALLS
    assert sum(asked.path.startswith("/v1/messages") for asked in wire.asked) == CALLS


@pytest.mark.slow
def test_a_worker_whose_lease_is_over_in_a_call_writes_nothing_once_another_has_the_run(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is stopped in its first call; by the time it goes on, the second has done all of them."""
    asked_first, go_on = threading.Event(), threading.Event()

    def held(asked: Asked) -> Answer:
        if not asked_first.is_set():
            asked_first.set()
            go_on.wait(60)
        return written(asked)

    with claude(monkeypatch, held):
        assert skillrun("submit", "notes", "Ada").code == 0
        first = begun("ada", notes)
        assert asked_first.wait(60)
        os.kill(first.pid, signal.SIGSTOP)
        open_database(store).rows(EXPIRE)
        assert skillrun("work", "ada").out.endswith("ada: completed\n")
        whole = open_database(store).rows("SELECT seq, chain, epoch FROM records ORDER BY seq")
        go_on.set()
        os.kill(first.pid, signal.SIGCONT)
        out, err = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "ada: failed: the run `ada` was taken over by" in out, (out, err)
    assert open_database(store).rows("SELECT seq, chain, epoch FROM records ORDER BY seq") == whole
    assert sorted(number for _, number in replies(store)) == [1] * CALLS
    assert status(store, "ada") == "completed"


@pytest.mark.slow
@pytest.mark.row("W5")
def test_a_worker_without_a_key_says_so_and_leaves_the_run_to_one_that_has_it(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    start: object,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert skillrun("submit", "notes", "Ada").code == 0
    refused = skillrun("work", "ada")
    assert refused.code == 1
    assert "would be embedded:" in refused.err
    assert "because no provider key is set" in refused.err
    start()  # type: ignore[operator]
    left = until(lambda: skillrun("workers", "--json").json["left"])
    assert "because no provider key is set" in left["ada"]
    assert (status(store, "ada"), open_database(store).rows("SELECT epoch FROM runs")) == ("queued", [(0,)])
    with claude(monkeypatch, written):
        assert skillrun("work", "ada").out.endswith("ada: completed\n")


@pytest.mark.slow
@pytest.mark.row("W5")
def test_a_run_that_goes_on_stays_with_the_provider_that_it_began_with(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with claude(monkeypatch, written):
        assert skillrun("submit", "notes", "Ada").code == 0
        died = run_skillrun("work", "ada", cwd=notes, env={**os.environ, "SKILLRUN_KILL_AT": "20"}, stdout=DEVNULL)
        assert died.returncode == -signal.SIGKILL
        open_database(store).rows(EXPIRE)
        assert 0 < len(replies(store)) < CALLS
        with monkeypatch.context() as other:
            other.delenv("ANTHROPIC_API_KEY")
            other.setenv("OPENAI_API_KEY", "sk-other")
            refused = skillrun("work", "ada")
        assert refused.code == 1
        assert "ANTHROPIC_API_KEY is not set" in refused.err
        assert skillrun("work", "ada").out.endswith("ada: completed\n")
    assert sorted(number for _, number in replies(store)) == [1] * CALLS


@pytest.mark.slow
@pytest.mark.row("W3")
def test_an_answer_to_a_question_that_is_withdrawn_or_answered_changes_nothing(
    project: Make, skillrun: Call, store: str
) -> None:
    (project("visit") / "answers.yaml").write_text("choose/where: the lake\n")
    for run in ("gone", "there"):
        assert skillrun("submit", "visit", "--name", run, *SCRIPTED).code == 0
        assert skillrun("work", run).code == 75
    assert skillrun("cancel", "gone").code == 0
    refused = skillrun("answers", "gone", "--answers", "answers.yaml")
    assert refused.code == 1
    assert "`gone` has no open questions (it is cancelled)" in refused.err
    assert skillrun("answers", "gone", "--json").json["questions"] == []
    assert status(store, "gone") == "cancelled"
    assert skillrun("work", "gone").out == "gone: nothing to do\n"
    assert skillrun("answers", "there", "--answers", "answers.yaml").code == 0
    again = skillrun("answers", "there", "--answers", "answers.yaml")
    assert (again.code, "are already answered" in again.err) == (1, True)
    assert skillrun("work", "there").out == "there: completed\n"
    late = skillrun("answers", "there", "--answers", "answers.yaml")
    assert (late.code, "`there` has no open questions (it is completed)" in late.err) == (1, True)


@pytest.mark.slow
@pytest.mark.row("W5")
def test_what_is_pushed_has_a_worker_go_on_where_that_is_typed(
    project: Make,
    skillrun: Call,
    store: str,
    start: object,  # noqa: F811
) -> None:
    folder = project("visit")
    assert skillrun("submit", "visit", "--name", "trip", *SCRIPTED).code == 0
    assert skillrun("work", "trip").code == 75
    open_database(store).rows("DELETE FROM procrastinate_jobs")
    assert skillrun("pull", "trip", "here").code == 0
    (folder / "here/notes.md").write_text("Mine.\n")
    assert skillrun("push", "trip", "here").out.endswith("pushed 1 file to trip\n")
    assert status(store, "trip") == "waiting"
    (folder / "here/more.md").write_text("Mine too.\n")
    assert skillrun("push", "trip", "here", "--go-on").out.endswith("queued the run for a worker\n")
    ((before,),) = open_database(store).rows("SELECT epoch FROM runs")
    assert status(store, "trip") == "queued"
    start()  # type: ignore[operator]
    until(lambda: status(store, "trip") == "waiting")
    assert open_database(store).rows("SELECT epoch > %(before)s FROM runs", {"before": before}) == [(True,)]
    assert skillrun("cancel", "trip").code == 0
    (folder / "here/last.md").write_text("And this.\n")
    late = skillrun("push", "trip", "here", "--go-on")
    assert "it is running, has ended, or was not submitted" in late.err
    assert status(store, "trip") == "cancelled"


def test_a_run_that_another_begins_at_the_same_moment_is_not_put_off(
    project: Make, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks as if nobody has begun the run, and somebody has by the time that it is claimed."""
    project("visit")
    assert skillrun("submit", "visit", "--name", "trip", *SCRIPTED).code == 0
    assert skillrun("work", "trip").code == 75
    open_database(store).rows("UPDATE runs SET status = 'queued'")
    runs = open_store(store).runs
    found = [False, False]
    has = type(runs).has
    monkeypatch.setattr(type(runs), "has", lambda self, name: found.pop() if found else has(self, name))
    assert skillrun("work", "trip").code == 75


@pytest.mark.slow
@pytest.mark.parametrize("away", [0.0, 3.0])
def test_a_store_that_is_away_in_the_middle_loses_no_run_and_no_reply(
    notes: Path,  # noqa: F811
    skillrun: Call,
    monkeypatch: pytest.MonkeyPatch,
    away: float,
) -> None:
    """It is ended as by a crash, in a call: for a moment, and for longer than its worker waits."""
    with started() as server, claude(monkeypatch, written) as wire:
        monkeypatch.setenv(STORE_VARIABLE, server.url)
        assert skillrun("store", "migrate").code == 0
        assert skillrun("submit", "notes", "Ada").code == 0
        with workers(notes):
            until(lambda: len(replies(server.url)) > 1)
            server.again(signal.SIGQUIT, away)
            open_database(server.url).retry(lambda: until(lambda: status(server.url, "ada") == "completed"), 60)
        assert sorted(number for _, number in replies(server.url)) == [1] * CALLS
        assert sum(asked.path.startswith("/v1/messages") for asked in wire.asked) <= CALLS + 1  # one was under way
        open_database(server.url).close()
        open_database.cache_clear()
        open_store.cache_clear()
