"""The workers and runs of a store are listed on any machine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from skillrun.extensions.workers.commands.open_store import open_database, open_store
from skillrun.extensions.workers.postgres.database import Database, Rows
from skillrun.extensions.workers.postgres.roster import WorkerHeartbeat
from skillrun.extensions.workers.postgres.stored_run import _OVERVIEW
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_workers import SCRIPTED, start, status, wait_until  # noqa: F401 (`start` is a fixture)
from tests.launcher import start_skillrun

Start = Callable[..., Any]


@pytest.mark.slow
@pytest.mark.row("W6")
def test_workers_are_listed_with_their_runs_until_they_end(
    project: Make,
    skillrun: Call,
    store: str,
    start: Start,  # noqa: F811
) -> None:
    assert skillrun("worker", "list").out.splitlines() == [
        "no workers",
        "0 runs queued, 0 running, 0 waiting for a user",
    ]
    worker = start("--runs", "3")
    (listed,) = wait_until(lambda: skillrun("worker", "list", "--json").json["workers"])
    assert (listed["status"], listed["runs"], listed["most"]) == ("there", [], 3)
    assert listed["worker"].endswith(f"-{worker.pid}")
    open_database(store).rows(
        "INSERT INTO runs (name, status, owner, lease_until) SELECT 'mine', 'running', "
        "'process ' || process || ' on ' || host, now() + interval '1 h' FROM workers"
    )
    assert skillrun("worker", "list", "--json").json["workers"][0]["runs"] == ["mine"]
    assert "1 of 3  mine" in skillrun("worker", "list").out
    worker.terminate()
    assert worker.wait(60) == 0
    assert skillrun("worker", "list", "--json").json["workers"] == []


@pytest.mark.slow
@pytest.mark.row("W6")
def test_following_the_log_of_a_submitted_run_waits_for_a_worker(project: Make, skillrun: Call, store: str) -> None:
    folder = project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start_skillrun("logs", "-f", "ada", cwd=folder, text=True, **pipes) as follower:
        assert follower.stderr is not None
        assert "`ada` has not started; it waits for a worker of the queue `default`" in follower.stderr.readline()
        assert skillrun("worker", "once", "ada").code == 0
        out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    assert out.splitlines()[-1].endswith("completed")
    assert skillrun("submit", "greeting", "Bob", *SCRIPTED).code == 0
    assert skillrun("logs", "bob").code == 2
    assert skillrun("cancel", "bob").code == 0
    cancelled = skillrun("logs", "-f", "bob")
    assert (cancelled.code, "`bob` never started and is cancelled" in cancelled.err) == (2, True)


@pytest.mark.row("W6")
def test_a_worker_without_a_heartbeat_for_a_lease_is_listed_as_lost(skillrun: Call, store: str) -> None:
    roster = open_store(store).roster
    roster.record_heartbeat(WorkerHeartbeat("a-1", "a", 1, 10, 30, "1"), begins=True)
    roster.record_heartbeat(WorkerHeartbeat("b-2", "b", 2, 10, 30, "1"), begins=True)
    open_database(store).rows("UPDATE workers SET seen_at = now() - interval '31 s' WHERE name = 'b-2'")
    listing = skillrun("worker", "list")
    assert [line.split()[:2] for line in listing.out.splitlines() if line.startswith(("a-1", "b-2"))] == [
        ["a-1", "there"],
        ["b-2", "lost"],
    ]
    assert (
        listing.err == "no heartbeat from b-2; other workers take over their runs, "
        "and `skillrun worker` starts a worker\n"
    )
    open_database(store).rows("UPDATE workers SET seen_at = now() - interval '8 d' WHERE name = 'b-2'")
    roster.remove_worker("a-1")
    assert roster.list_workers() == []


@pytest.mark.slow
@pytest.mark.row("W6")
def test_listing_runs_takes_one_statement_for_any_number_of_runs(
    project: Make, skillrun: Call, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("greeting")
    for number in range(3):
        assert skillrun("submit", "greeting", "Ada", "--name", f"a{number}", *SCRIPTED).code == 0
    assert skillrun("worker", "once", "a1").code == 0
    assert skillrun("cancel", "a0").code == 0
    open_database(store).rows("UPDATE runs SET status = 'running', lease_until = now() - interval '1 s' WHERE id = 3")
    everything = skillrun("runs", "--json").json
    assert [(run["run"], run["status"]) for run in everything] == [
        ("a2", "interrupted"),
        ("a1", "completed"),
        ("a0", "cancelled"),
    ]
    for status_name in ("interrupted", "completed", "cancelled"):
        assert [run["status"] for run in skillrun("runs", "--status", status_name, "--json").json] == [status_name]
    assert skillrun("runs", "--status", "running", "--json").json == []
    assert [run["run"] for run in skillrun("runs", "--limit", "1", "--json").json] == ["a2"]
    assert skillrun("runs", "--status", "gone").code == 2

    statements: list[object] = []
    rows = Database.rows

    def record(self: Database, *arguments: Any, **options: Any) -> Rows:
        statements.append(arguments)
        return rows(self, *arguments, **options)

    monkeypatch.setattr(Database, "rows", record)
    assert len(open_store(store).runs.overview()) == 3
    assert len(statements) == 1


@pytest.mark.row("W6")
def test_the_newest_runs_of_a_status_are_found_by_an_index(skillrun: Call, store: str) -> None:
    database = open_database(store)
    database.rows(
        "INSERT INTO runs (name, status) SELECT 'r' || n, CASE n % 1000 WHEN 0 THEN 'failed' ELSE 'completed' END "
        "FROM generate_series(1, 20000) AS n"
    )
    database.rows("ANALYZE runs")
    values = {"status": "failed", "among": ["failed"], "most": 5, "largest": 1000}
    assert "runs_by_status" in str(database.rows("EXPLAIN " + _OVERVIEW, values))
    assert len(skillrun("runs", "--status", "failed", "--limit", "5", "--json").json) == 5
    assert len(skillrun("runs", "--json").json) == 100


@pytest.mark.slow
def test_runs_in_a_folder_are_limited_and_filtered(project: Make, skillrun: Call) -> None:
    project("greeting")
    for name in ("one", "two"):
        assert skillrun("greeting", "Ada", "--name", name, *SCRIPTED).code == 0
    assert len(skillrun("runs", "--json").json) == 2
    assert len(skillrun("runs", "--limit", "1", "--json").json) == 1
    assert skillrun("runs", "--status", "failed").out == "there are no failed runs in runs\n"
