"""What a worker leaves is found by others: what it hands back, what it could not have, what its store was away for."""

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
from skillrun.extensions.workers.postgres.lease import PostgresLease, RunUnavailable
from skillrun.extensions.workers.postgres.queue import DueRun
from skillrun.extensions.workers.postgres.row import RunRow
from skillrun.extensions.workers.worker import Worker
from skillrun.store.lease import LeaseLost
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
def submitted(project: Make, skillrun: Call, store: str) -> str:
    """A store with a run `ada` that nobody has begun."""
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    return store


def test_a_name_that_is_taken_leaves_the_run_that_has_it(submitted: str, skillrun: Call) -> None:
    assert skillrun("submit", "greeting", "Bob", "--name", "ada", *SCRIPTED).code == 2
    assert skillrun("work", "ada").out == "ada: completed\n"


@pytest.mark.parametrize("left", ["new", "interrupted"])
def test_a_submitted_run_that_is_let_go_in_the_middle_waits_for_a_worker_again(submitted: str, left: str) -> None:
    with PostgresLease(row_of(submitted), lambda: left).hold():
        assert status(submitted) == "running"
    assert status(submitted) == "queued"


def test_a_run_that_is_cancelled_while_its_worker_ends_stays_so(submitted: str) -> None:
    row = row_of(submitted)
    with PostgresLease(row, lambda: "interrupted").hold():
        assert open_store(submitted).queue.cancel("ada", "cancelled")
    assert status(submitted) == "cancelled"


def test_an_answer_to_a_run_that_is_about_to_wait_has_it_go_on(submitted: str) -> None:
    queue = open_store(submitted).queue
    for answered, then in ((True, "queued"), (False, "waiting")):
        with PostgresLease(row_of(submitted), lambda: "waiting").hold():
            assert not answered or queue.requeue("ada")
        assert status(submitted) == then


def test_nobody_lets_go_of_a_run_whose_state_could_not_be_read(submitted: str) -> None:
    def away() -> str:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable), PostgresLease(row_of(submitted), away).hold():
        pass
    open_database(submitted).rows(EXPIRE)
    assert [due.name for due in open_store(submitted).queue.due_runs(10)] == ["ada"]


def test_a_store_that_is_away_for_too_long_loses_the_run_and_says_nothing_of_it(submitted: str) -> None:
    row = row_of(submitted)
    row.lease = 0.2

    def away() -> None:
        raise StoreUnavailable("it does not answer")

    with pytest.raises(StoreUnavailable):
        row.retry(away)
    lease = PostgresLease(row, lambda: "failed")
    with pytest.raises(LeaseLost, match="was interrupted: it does not answer"), lease.hold():
        row.retry(away)
    assert status(submitted) == "running"


def test_a_run_that_was_given_up_is_closed_to_a_worker_that_wakes(submitted: str) -> None:
    row = row_of(submitted)
    lease = PostgresLease(row)
    with lease.hold():
        open_database(submitted).rows(
            "UPDATE runs SET takes = 5, lease_until = now() - interval '1 s'"
            ", fruitful_at = now() - interval '11 minutes'"
        )
        assert open_store(submitted).queue.give_up("ada", "it kills its workers")
        with pytest.raises(LeaseLost):
            lease.check()
    assert status(submitted) == "failed"


def test_a_run_that_was_begun_comes_before_all_that_wait_and_what_is_not_for_here_is_left_out(
    submitted: str, skillrun: Call
) -> None:
    for name in ("b", "c"):
        assert skillrun("submit", "greeting", name, "--name", name, "--priority", "9", *SCRIPTED).code == 0
    expired = "UPDATE runs SET status = 'running', lease_until = now() - interval '1 s' WHERE name = 'ada'"
    open_database(submitted).rows(expired)
    due = {each.name: each.priority for each in open_store(submitted).queue.due_runs(1, ["b"])}
    assert list(due) == ["ada", "c"]
    assert due["ada"] > due["c"]


@pytest.mark.slow
def test_runs_of_dead_workers_are_all_told_of_once_before_what_has_not_begun(submitted: str, skillrun: Call) -> None:
    for name in ("b", "c", "d"):
        assert skillrun("submit", "greeting", name, "--name", name, *SCRIPTED).code == 0
    database = open_database(submitted)
    expired = "UPDATE runs SET status = 'running', lease_until = now() - interval '1 s' WHERE name <> 'd'"
    database.rows(expired)
    for _ in range(2):
        with closing(Dispatcher(submitted)) as dispatch:
            dispatch.wake_all(open_store(submitted).queue.due_runs(10))
    told = (
        "SELECT args ->> 'run', priority > 0 FROM procrastinate_jobs WHERE status = 'todo' ORDER BY priority DESC, id"
    )
    jobs = database.rows(told)
    assert {name for name, _ in jobs[:3]} == {"ada", "b", "c"}
    assert [is_first for _, is_first in jobs] == [True] * 3 + [False] * 4  # and once each as they were submitted


def test_a_run_whose_workers_died_five_times_in_little_time_is_not_given_up(submitted: str, skillrun: Call) -> None:
    """What it was beside may have killed them."""
    open_database(submitted).rows("UPDATE runs SET takes = 5")
    assert skillrun("work", "ada").out == "ada: completed\n"


@pytest.fixture
def worker(submitted: str) -> Worker:
    """A worker on that store, with room for two."""
    store = open_store(submitted)
    made = Worker(store.url, store.queue, store.roster, lambda _limited: None, 2, 2.0)  # type: ignore[arg-type]
    made._threads, made._stopping, made._ended = ThreadPoolExecutor(2), asyncio.Event(), asyncio.Event()
    return made


@pytest.mark.parametrize(
    ("error", "later"), [(RunUnavailable("x"), False), (StoreUnavailable("x"), False), (SkillrunError("x"), True)]
)
def test_a_run_that_another_has_or_whose_store_was_away_is_not_put_off(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, error: Exception, later: bool
) -> None:
    def worked(*_: object) -> Outcome:
        raise error

    monkeypatch.setattr(Worker, "_execute_run", worked)

    async def told() -> None:
        await worker._on_job("ada")
        await asyncio.gather(*worker._works)

    asyncio.run(told())
    assert ("ada" in worker._retry_at) is later


def test_a_worker_fetches_no_more_than_it_has_room_for_and_its_sweep_goes_on(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def worked(*_: object) -> None:
        begun.release()
        gate.wait(60)

    monkeypatch.setattr(Worker, "_execute_run", worked)

    async def told() -> None:
        await worker._on_job("a")
        full = asyncio.create_task(worker._on_job("b"))
        for _ in range(2):
            await asyncio.to_thread(begun.acquire)
        assert not full.done()
        assert await asyncio.to_thread(worker.queue.due_runs, 5) == [DueRun("ada", "default", 0)]
        gate.set()
        await full
        await asyncio.gather(*worker._works)

    asyncio.run(told())


@pytest.mark.slow
def test_a_run_killed_at_any_claim_commit_or_publish_is_taken_up_and_ends_the_same(
    submitted: str, skillrun: Call, tmp_path: Path
) -> None:
    """One process after the other dies a point later than the one before it; each goes on with the same run."""
    log = tmp_path / "points"
    for point in range(1, 60):
        environment = {**os.environ, "SKILLRUN_KILL_AT": str(point), "SKILLRUN_KILL_LOG": str(log)}
        done = run_skillrun("work", "ada", env=environment, stdout=DEVNULL, stderr=PIPE)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        open_database(submitted).rows("UPDATE runs SET lease_until = now() - interval '1 s', takes = 0")
    points = set(log.read_text().splitlines())
    assert {"claim: before", "claim: after", "commit: before", "commit: after", "rename greeting.md: before"} <= points
    assert status(submitted) == "completed"
    twice = "SELECT address FROM records WHERE kind = 'reply' GROUP BY run, address HAVING count(*) > 1"
    assert open_database(submitted).rows(twice) == []
