"""Runs that a worker leaves are found by others: released runs, runs of dead workers, and runs after an outage."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from skillrun.extensions.workers.commands.open_store import open_database, open_store
from skillrun.extensions.workers.dispatch import Dispatcher
from skillrun.extensions.workers.postgres.database import StoreUnavailable
from skillrun.extensions.workers.postgres.lease import PostgresLease, RunRow, RunUnavailable
from skillrun.extensions.workers.postgres.queue import DueRun
from skillrun.extensions.workers.worker import Worker
from skillrun.store.files import LeaseLost
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError
from tests.acceptance.conftest import Call, Make
from tests.launcher import run_skillrun

pytestmark = pytest.mark.row("W2")
SCRIPTED = ("--model", "scripted:x")
EXPIRE = "UPDATE runs SET lease_until = now() - interval '1 s' WHERE status = 'running'"


def status(store: str, run: str = "ada") -> str:
    ((found,),) = open_database(store).rows("SELECT status FROM runs WHERE name = %(run)s", {"run": run})
    return str(found)


def row_of(store: str, run: str = "ada") -> RunRow:
    found = RunRow.find(open_database(store), run)
    assert found is not None
    return found


@pytest.fixture
def store_with_run(project: Make, skillrun: Call, store: str) -> str:
    """A store with a submitted run `ada` that has not started."""
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    return store


def test_submitting_a_taken_name_keeps_the_existing_run(store_with_run: str, skillrun: Call) -> None:
    assert skillrun("submit", "greeting", "Bob", "--name", "ada", *SCRIPTED).code == 2
    assert skillrun("worker", "once", "ada").out == "ada: completed\n"


@pytest.mark.parametrize("state", ["new", "interrupted"])
def test_a_submitted_run_that_is_released_early_is_queued_again(store_with_run: str, state: str) -> None:
    with PostgresLease(row_of(store_with_run), lambda: state).hold():
        assert status(store_with_run) == "running"
    assert status(store_with_run) == "queued"


def test_a_run_that_is_cancelled_while_its_worker_ends_stays_cancelled(store_with_run: str) -> None:
    row = row_of(store_with_run)
    with PostgresLease(row, lambda: "interrupted").hold():
        assert open_store(store_with_run).queue.cancel("ada", "cancelled")
    assert status(store_with_run) == "cancelled"


def test_an_answer_to_a_run_that_is_about_to_wait_queues_it(store_with_run: str) -> None:
    queue = open_store(store_with_run).queue
    for is_answered, expected in ((True, "queued"), (False, "waiting")):
        with PostgresLease(row_of(store_with_run), lambda: "waiting").hold():
            assert not is_answered or queue.requeue("ada")
        assert status(store_with_run) == expected


def test_a_run_whose_state_cannot_be_read_is_not_released(store_with_run: str) -> None:
    def fail() -> str:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable), PostgresLease(row_of(store_with_run), fail).hold():
        pass
    open_database(store_with_run).rows(EXPIRE)
    assert [due.name for due in open_store(store_with_run).queue.due_runs(10)] == ["ada"]


def test_a_long_store_outage_loses_the_lease_and_keeps_the_status(store_with_run: str) -> None:
    row = row_of(store_with_run)
    row.lease = 0.2

    def fail() -> None:
        raise StoreUnavailable("it does not answer")

    with pytest.raises(StoreUnavailable):
        row.retry(fail)
    lease = PostgresLease(row, lambda: "failed")
    with pytest.raises(LeaseLost, match="was interrupted: it does not answer"), lease.hold():
        row.retry(fail)
    assert status(store_with_run) == "running"


def test_a_worker_that_wakes_loses_a_run_that_was_given_up(store_with_run: str) -> None:
    row = row_of(store_with_run)
    lease = PostgresLease(row)
    with lease.hold():
        open_database(store_with_run).rows(
            "UPDATE runs SET takes = 5, lease_until = now() - interval '1 s'"
            ", fruitful_at = now() - interval '11 minutes'"
        )
        assert open_store(store_with_run).queue.give_up("ada", "it kills its workers")
        with pytest.raises(LeaseLost):
            lease.check()
    assert status(store_with_run) == "failed"


def test_started_runs_are_due_first_and_excluded_runs_are_omitted(store_with_run: str, skillrun: Call) -> None:
    for name in ("b", "c"):
        assert skillrun("submit", "greeting", name, "--name", name, "--priority", "9", *SCRIPTED).code == 0
    expired = "UPDATE runs SET status = 'running', lease_until = now() - interval '1 s' WHERE name = 'ada'"
    open_database(store_with_run).rows(expired)
    due = {each.name: each.priority for each in open_store(store_with_run).queue.due_runs(1, ["b"])}
    assert list(due) == ["ada", "c"]
    assert due["ada"] > due["c"]


@pytest.mark.slow
def test_runs_of_dead_workers_are_queued_once_and_before_new_runs(store_with_run: str, skillrun: Call) -> None:
    for name in ("b", "c", "d"):
        assert skillrun("submit", "greeting", name, "--name", name, *SCRIPTED).code == 0
    database = open_database(store_with_run)
    expired = "UPDATE runs SET status = 'running', lease_until = now() - interval '1 s' WHERE name <> 'd'"
    database.rows(expired)
    for _ in range(2):
        with closing(Dispatcher(store_with_run)) as dispatch:
            dispatch.wake_all(open_store(store_with_run).queue.due_runs(10))
    waiting_jobs = (
        "SELECT args ->> 'run', priority > 0 FROM procrastinate_jobs WHERE status = 'todo' ORDER BY priority DESC, id"
    )
    jobs = database.rows(waiting_jobs)
    assert {name for name, _ in jobs[:3]} == {"ada", "b", "c"}
    assert [is_first for _, is_first in jobs] == [True] * 3 + [False] * 4  # and one job each from the submission


def test_a_run_whose_workers_die_five_times_quickly_is_not_given_up(store_with_run: str, skillrun: Call) -> None:
    """Another run of the same workers may have killed them."""
    open_database(store_with_run).rows("UPDATE runs SET takes = 5")
    assert skillrun("worker", "once", "ada").out == "ada: completed\n"


@pytest.fixture
def worker(store_with_run: str) -> Worker:
    """A worker of that store with room for two runs."""
    store = open_store(store_with_run)
    instance = Worker(store.url, store.queue, store.roster, lambda _limited: None, 2, 2.0)  # type: ignore[arg-type]
    instance._threads, instance._stopping, instance._ended = ThreadPoolExecutor(2), asyncio.Event(), asyncio.Event()
    return instance


@pytest.mark.parametrize(
    ("error", "is_postponed"),
    [(RunUnavailable("x"), False), (StoreUnavailable("x"), False), (SkillrunError("x"), True)],
)
def test_a_run_of_another_worker_or_an_unavailable_store_is_not_postponed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, error: Exception, is_postponed: bool
) -> None:
    def fail(*_: object) -> Outcome:
        raise error

    monkeypatch.setattr(Worker, "_execute_run", fail)

    async def execute() -> None:
        await worker._on_job("ada")
        await asyncio.gather(*worker._works)

    asyncio.run(execute())
    assert ("ada" in worker._retry_at) is is_postponed


def test_a_full_worker_fetches_no_more_runs_and_keeps_sweeping(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, started = threading.Event(), threading.Semaphore(0)

    def block(*_: object) -> None:
        started.release()
        gate.wait(60)

    monkeypatch.setattr(Worker, "_execute_run", block)

    async def execute() -> None:
        await worker._on_job("a")
        full = asyncio.create_task(worker._on_job("b"))
        for _ in range(2):
            await asyncio.to_thread(started.acquire)
        assert not full.done()
        assert await asyncio.to_thread(worker.queue.due_runs, 5) == [DueRun("ada", "default", 0)]
        gate.set()
        await full
        await asyncio.gather(*worker._works)

    asyncio.run(execute())


@pytest.mark.slow
def test_a_run_killed_at_any_claim_commit_or_publish_is_taken_over_and_completes(
    store_with_run: str, skillrun: Call, tmp_path: Path
) -> None:
    """Each process dies one point later than the previous one, and resumes the same run."""
    log = tmp_path / "points"
    for point in range(1, 60):
        environment = {**os.environ, "SKILLRUN_KILL_AT": str(point), "SKILLRUN_KILL_LOG": str(log)}
        done = run_skillrun("worker", "once", "ada", env=environment, stdout=DEVNULL, stderr=PIPE)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        open_database(store_with_run).rows("UPDATE runs SET lease_until = now() - interval '1 s', takes = 0")
    points = set(log.read_text().splitlines())
    assert {"claim: before", "claim: after", "commit: before", "commit: after", "rename greeting.md: before"} <= points
    assert status(store_with_run) == "completed"
    duplicates = "SELECT address FROM records WHERE kind = 'reply' GROUP BY run, address HAVING count(*) > 1"
    assert open_database(store_with_run).rows(duplicates) == []
