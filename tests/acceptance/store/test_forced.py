"""Failures between workers: concurrent claims, expired leases, missing keys, withdrawn questions and outages."""

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
from tests.acceptance.store.test_fair import CALLS, notes, reply_with_note, serve_anthropic, workers  # noqa: F401 (`notes` is a fixture)
from tests.acceptance.store.test_workers import SCRIPTED, start, status, wait_until  # noqa: F401 (`start` is a fixture)
from tests.launcher import run_skillrun, start_skillrun
from tests.servers.postgres import started
from tests.servers.wire import Answer, WireRequest

pytestmark = [pytest.mark.row("W2"), pytest.mark.allow_hosts(["127.0.0.1"])]
EXPIRE = "UPDATE runs SET lease_until = now() - interval '1 s' WHERE status = 'running'"


def start_work(run: str, folder: Path) -> Popen[str]:
    return start_skillrun("worker", "once", run, cwd=folder, stdout=PIPE, stderr=PIPE, text=True)


def count_replies(store: str) -> list[tuple[str, int]]:
    """The number of recorded replies to each call."""
    return open_database(store).rows("SELECT address, count(*) FROM records WHERE kind = 'reply' GROUP BY address")


@pytest.mark.slow
def test_only_one_of_four_concurrent_workers_executes_a_run(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve_anthropic(monkeypatch, reply_with_note) as wire:
        assert skillrun("submit", "notes", "Ada").code == 0
        processes = [start_work("ada", notes) for _ in range(4)]
        outputs = [process.communicate(timeout=60) for process in processes]
    assert sum(out.endswith("ada: completed\n") for out, _ in outputs) == 1
    for out, err in outputs:
        is_refused = out == "ada: nothing to do\n" or "ada is being run by process" in err
        assert is_refused or out.endswith("ada: completed\n"), (out, err)
    assert sorted(number for _, number in count_replies(store)) == [1] * CALLS
    assert sum(request.path.startswith("/v1/messages") for request in wire.asked) == CALLS


@pytest.mark.slow
def test_a_worker_whose_lease_expires_during_a_call_writes_nothing_after_a_takeover(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first worker stops during its first call; before it continues, the second makes all calls."""
    is_called, can_reply = threading.Event(), threading.Event()

    def hold_the_first_call(request: WireRequest) -> Answer:
        if not is_called.is_set():
            is_called.set()
            can_reply.wait(60)
        return reply_with_note(request)

    with serve_anthropic(monkeypatch, hold_the_first_call):
        assert skillrun("submit", "notes", "Ada").code == 0
        first = start_work("ada", notes)
        assert is_called.wait(60)
        os.kill(first.pid, signal.SIGSTOP)
        open_database(store).rows(EXPIRE)
        assert skillrun("worker", "once", "ada").out.endswith("ada: completed\n")
        records = open_database(store).rows("SELECT seq, chain, epoch FROM records ORDER BY seq")
        can_reply.set()
        os.kill(first.pid, signal.SIGCONT)
        out, err = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "ada: failed: the run `ada` was taken over by" in out, (out, err)
    assert open_database(store).rows("SELECT seq, chain, epoch FROM records ORDER BY seq") == records
    assert sorted(number for _, number in count_replies(store)) == [1] * CALLS
    assert status(store, "ada") == "completed"


@pytest.mark.slow
@pytest.mark.row("W5")
def test_a_worker_without_a_key_reports_it_and_leaves_the_run_to_others(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    start: object,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert skillrun("submit", "notes", "Ada").code == 0
    refused = skillrun("worker", "once", "ada")
    assert refused.code == 1
    assert "would be embedded:" in refused.err
    assert "because no provider key is set" in refused.err
    start()  # type: ignore[operator]
    declined = wait_until(lambda: skillrun("worker", "list", "--json").json["left"])
    assert "because no provider key is set" in declined["ada"]
    assert (status(store, "ada"), open_database(store).rows("SELECT epoch FROM runs")) == ("queued", [(0,)])
    with serve_anthropic(monkeypatch, reply_with_note):
        assert skillrun("worker", "once", "ada").out.endswith("ada: completed\n")


@pytest.mark.slow
@pytest.mark.row("W5")
def test_a_resumed_run_keeps_its_provider(
    notes: Path,  # noqa: F811
    skillrun: Call,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve_anthropic(monkeypatch, reply_with_note):
        assert skillrun("submit", "notes", "Ada").code == 0
        worker = run_skillrun(
            "worker", "once", "ada", cwd=notes, env={**os.environ, "SKILLRUN_KILL_AT": "20"}, stdout=DEVNULL
        )
        assert worker.returncode == -signal.SIGKILL
        open_database(store).rows(EXPIRE)
        assert 0 < len(count_replies(store)) < CALLS
        with monkeypatch.context() as other:
            other.delenv("ANTHROPIC_API_KEY")
            other.setenv("OPENAI_API_KEY", "sk-other")
            refused = skillrun("worker", "once", "ada")
        assert refused.code == 1
        assert "ANTHROPIC_API_KEY is not set" in refused.err
        assert skillrun("worker", "once", "ada").out.endswith("ada: completed\n")
    assert sorted(number for _, number in count_replies(store)) == [1] * CALLS


@pytest.mark.slow
@pytest.mark.row("W3")
def test_answering_a_withdrawn_or_answered_question_changes_nothing(project: Make, skillrun: Call, store: str) -> None:
    (project("visit") / "answers.yaml").write_text("choose/where: the lake\n")
    for run in ("gone", "there"):
        assert skillrun("submit", "visit", "--name", run, *SCRIPTED).code == 0
        assert skillrun("worker", "once", run).code == 75
    assert skillrun("cancel", "gone").code == 0
    refused = skillrun("answers", "gone", "--answers", "answers.yaml")
    assert refused.code == 1
    assert "`gone` has no open questions (it is cancelled)" in refused.err
    assert skillrun("answers", "gone", "--json").json["questions"] == []
    assert status(store, "gone") == "cancelled"
    assert skillrun("worker", "once", "gone").out == "gone: nothing to do\n"
    assert skillrun("answers", "there", "--answers", "answers.yaml").code == 0
    again = skillrun("answers", "there", "--answers", "answers.yaml")
    assert (again.code, "are already answered" in again.err) == (1, True)
    assert skillrun("worker", "once", "there").out == "there: completed\n"
    late = skillrun("answers", "there", "--answers", "answers.yaml")
    assert (late.code, "`there` has no open questions (it is completed)" in late.err) == (1, True)


@pytest.mark.slow
@pytest.mark.row("W5")
def test_a_push_resumes_the_run_only_with_the_option(
    project: Make,
    skillrun: Call,
    store: str,
    start: object,  # noqa: F811
) -> None:
    folder = project("visit")
    assert skillrun("submit", "visit", "--name", "trip", *SCRIPTED).code == 0
    assert skillrun("worker", "once", "trip").code == 75
    open_database(store).rows("DELETE FROM procrastinate_jobs")
    assert skillrun("store", "pull", "trip", "here").code == 0
    (folder / "here/notes.md").write_text("Mine.\n")
    assert skillrun("store", "push", "trip", "here").out.endswith("pushed 1 file to trip\n")
    assert status(store, "trip") == "waiting"
    (folder / "here/more.md").write_text("Mine too.\n")
    assert skillrun("store", "push", "trip", "here", "--go-on").out.endswith("queued the run for a worker\n")
    ((before,),) = open_database(store).rows("SELECT epoch FROM runs")
    assert status(store, "trip") == "queued"
    start()  # type: ignore[operator]
    wait_until(lambda: status(store, "trip") == "waiting")
    assert open_database(store).rows("SELECT epoch > %(before)s FROM runs", {"before": before}) == [(True,)]
    assert skillrun("cancel", "trip").code == 0
    (folder / "here/last.md").write_text("And this.\n")
    late = skillrun("store", "push", "trip", "here", "--go-on")
    assert "it is already queued, has ended, or was not submitted" in late.err
    assert status(store, "trip") == "cancelled"


def test_a_run_that_another_worker_starts_concurrently_is_not_postponed(
    project: Make, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run seems not to have started, but has started by the time it is claimed."""
    project("visit")
    assert skillrun("submit", "visit", "--name", "trip", *SCRIPTED).code == 0
    assert skillrun("worker", "once", "trip").code == 75
    open_database(store).rows("UPDATE runs SET status = 'queued'")
    runs = open_store(store).runs
    results = [False, False]
    has = type(runs).has
    monkeypatch.setattr(type(runs), "has", lambda self, name: results.pop() if results else has(self, name))
    assert skillrun("worker", "once", "trip").code == 75


@pytest.mark.slow
@pytest.mark.parametrize("outage", [0.0, 3.0])
def test_a_store_outage_during_a_run_loses_no_run_and_no_reply(
    notes: Path,  # noqa: F811
    skillrun: Call,
    monkeypatch: pytest.MonkeyPatch,
    outage: float,
) -> None:
    """The server crashes during a call: briefly, and for longer than its worker waits."""
    with started() as server, serve_anthropic(monkeypatch, reply_with_note) as wire:
        monkeypatch.setenv(STORE_VARIABLE, server.url)
        assert skillrun("store", "migrate").code == 0
        assert skillrun("submit", "notes", "Ada").code == 0
        with workers(notes):
            wait_until(lambda: len(count_replies(server.url)) > 1)
            server.again(signal.SIGQUIT, outage)
            open_database(server.url).retry(lambda: wait_until(lambda: status(server.url, "ada") == "completed"), 60)
        assert sorted(number for _, number in count_replies(server.url)) == [1] * CALLS
        assert sum(request.path.startswith("/v1/messages") for request in wire.asked) <= CALLS + 1  # one was in flight
        open_database(server.url).close()
        open_database.cache_clear()
        open_store.cache_clear()
