"""A run stays in its queue, and a queue that no worker serves is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from subprocess import Popen

import pytest

from skillrun.extensions.workers.commands.open_store import open_database, open_store
from skillrun.extensions.workers.dispatch import Dispatcher, serve
from skillrun.extensions.workers.postgres.lease import PostgresLease, RunRow
from skillrun.extensions.workers.postgres.queue import DueRun
from skillrun.extensions.workers.postgres.roster import WorkerHeartbeat
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_workers import SCRIPTED, start, status, wait_until  # noqa: F401 (`start` is a fixture)

pytestmark = pytest.mark.row("W2")
Start = Callable[..., Popen[bytes]]


def queue_of(store: str, run: str) -> str:
    ((found,),) = open_database(store).rows("SELECT queue FROM runs WHERE name = %(run)s", {"run": run})
    return str(found)


@pytest.mark.slow
@pytest.mark.row("W4")
def test_a_worker_takes_only_runs_of_its_queues_or_of_the_default_queue(
    project: Make,
    skillrun: Call,
    store: str,
    start: Start,  # noqa: F811
) -> None:
    project("greeting")
    for run, queue in (("plain", ()), ("big", ("--queue", "gpu")), ("far", ("--queue", "eu"))):
        assert skillrun("submit", "greeting", "Ada", "--name", run, *queue, *SCRIPTED).code == 0
    first = start()
    wait_until(lambda: status(store, "plain") == "completed")
    assert (status(store, "big"), status(store, "far")) == ("queued", "queued")
    start("--queue", "gpu", "--queue", "other")
    wait_until(lambda: status(store, "big") == "completed")
    first.terminate()
    assert first.wait(60) == 0
    assert skillrun("submit", "greeting", "Ada", "--name", "next", *SCRIPTED).code == 0
    assert skillrun("submit", "greeting", "Ada", "--name", "more", "--queue", "other", *SCRIPTED).code == 0
    wait_until(lambda: status(store, "more") == "completed")
    assert (status(store, "next"), status(store, "far")) == ("queued", "queued")


@pytest.mark.slow
def test_the_row_of_a_run_overrides_its_job(
    project: Make,
    skillrun: Call,
    store: str,
    start: Start,  # noqa: F811
) -> None:
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", "--queue", "gpu", *SCRIPTED).code == 0
    assert skillrun("submit", "greeting", "Bob", "--in", "1h", *SCRIPTED).code == 0
    open_database(store).rows("DELETE FROM procrastinate_jobs")
    dispatch = Dispatcher(store)
    for run in ("ada", "bob"):
        dispatch.wake(run)
    dispatch.close()
    start()
    wait_until(lambda: open_database(store).rows("SELECT count(*) FROM procrastinate_jobs") == [(0,)])
    assert skillrun("submit", "greeting", "Cid", *SCRIPTED).code == 0
    wait_until(lambda: status(store, "cid") == "completed")
    assert open_database(store).rows("SELECT name, epoch FROM runs WHERE status = 'queued' ORDER BY name") == [
        ("ada", 0),
        ("bob", 0),
    ]


def test_a_run_keeps_its_queue_through_a_pause_an_answer_a_failure_and_a_cancellation(
    project: Make, skillrun: Call, store: str
) -> None:
    folder = project("visit")
    assert skillrun("submit", "visit", "--name", "trip", "--queue", "gpu", "--priority", "3", *SCRIPTED).code == 0
    opened = open_store(store)
    row = RunRow.find(open_database(store), "trip")
    assert row is not None
    with PostgresLease(row, lambda: "interrupted").hold():
        open_database(store).rows("UPDATE runs SET lease_until = now() - interval '1 s'")
        assert opened.queue.due_runs(5) == []
        assert [(due.name, due.queue) for due in opened.queue.due_runs(5, queues=("eu", "gpu"))] == [("trip", "gpu")]
    assert opened.queue.due_runs(5, queues=("gpu",)) == [DueRun("trip", "gpu", 3)]
    assert skillrun("worker", "once", "trip").code == 75
    open_database(store).rows("DELETE FROM procrastinate_jobs")
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    done = skillrun("answers", "trip", "--answers", "answers.yaml")
    assert done.out.splitlines()[-1] == "a worker will resume the run"
    jobs = "SELECT queue_name, priority, args FROM procrastinate_jobs"
    assert open_database(store).rows(jobs) == [("gpu", 3, {"run": "trip"})]
    assert opened.queue.fail("trip", "for a test")
    assert opened.queue.requeue("trip") == DueRun("trip", "gpu", 3)
    assert opened.queue.cancel("trip", "cancelled")
    assert opened.queue.requeue("trip") is None
    assert queue_of(store, "trip") == "gpu"


@pytest.mark.row("W6")
def test_runs_in_a_queue_that_no_worker_serves_are_reported(project: Make, skillrun: Call, store: str) -> None:
    project("greeting")
    roster = open_store(store).roster
    roster.record_heartbeat(WorkerHeartbeat("a-1", "a", 1, 10, 30, "1"), begins=True)
    roster.record_heartbeat(WorkerHeartbeat("b-2", "b", 2, 10, 30, "1", ("gpu", "eu")), begins=True)
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).err == ""
    assert skillrun("submit", "greeting", "Bob", "--queue", "gpu", *SCRIPTED).err == ""
    unserved = skillrun("submit", "greeting", "Cid", "--queue", "gpus", *SCRIPTED)
    assert unserved.err == "no worker serves the queue `gpus` now; `skillrun worker --queue gpus` starts one\n"
    workers = skillrun("worker", "list")
    assert [" ".join(line.split()[:-9]) for line in workers.out.splitlines()[1:3]] == [
        "a-1 there default",
        "b-2 there gpu, eu",
    ]
    notice = "1 run waits in the queue `gpus`, which no worker serves; `skillrun worker --queue gpus` starts one\n"
    assert workers.err == notice
    for change in ("draining = true", "draining = false, seen_at = now() - interval '31 s'"):
        open_database(store).rows(f"UPDATE workers SET {change} WHERE name = 'b-2'")
        listed = skillrun("worker", "list", "--json").json
        assert (listed["unserved"], listed["workers"][1]["queues"]) == ({"gpu": 1, "gpus": 1}, ["gpu", "eu"])


@pytest.mark.parametrize("name", ["", "GPU", "a b", "-gpu", "g" * 41, "gpu,eu"])
def test_an_invalid_queue_name_is_refused(project: Make, skillrun: Call, store: str, name: str) -> None:
    project("greeting")
    for command in (("submit", "greeting", "Ada"), ("worker",)):
        done = skillrun(*command, "--queue", name)
        assert (done.code, f"`{name}` is not a valid queue name" in done.err) == (2, True)
    assert open_database(store).rows("SELECT count(*) FROM runs") == [(0,)]


def test_an_input_named_like_a_submit_option_gets_a_prefix(project: Make, skillrun: Call, store: str) -> None:
    file = project("greeting") / "workflows/greeting.md"
    before, phases, after = file.read_text().partition("\nphases:")
    file.write_text(f"{before}\n  queue?: string, where to stand{phases}{after}")
    submitted = skillrun("submit", "greeting", "Ada", "--queue", "gpu", "--input-queue", "in front", *SCRIPTED)
    assert submitted.code == 0, submitted.err
    ((queue, request),) = open_database(store).rows("SELECT queue, request FROM runs")
    assert (queue, request["inputs"]["queue"]) == ("gpu", "in front")


@pytest.mark.slow
def test_unfinished_jobs_of_dead_workers_are_removed_and_others_stay(
    store: str,
    start: Start,  # noqa: F811
) -> None:
    open_database(store).script("""
        INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 h'), (now() + interval '1 h');
        INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, worker_id)
        SELECT 'gpu', 'skillrun.go_on', jsonb_build_object('run', id::text), 'doing', id FROM procrastinate_workers;
        INSERT INTO procrastinate_jobs (queue_name, task_name, args, status)
        VALUES ('gpu', 'skillrun.go_on', '{"run": "unknown"}', 'doing'), ('gpu', 'another.task', '{}', 'doing')
    """)
    start()
    left = "SELECT task_name, args FROM procrastinate_jobs WHERE status = 'doing' ORDER BY task_name DESC"
    wait_until(lambda: open_database(store).rows(left) == [("skillrun.go_on", {"run": "2"}), ("another.task", {})])


@pytest.mark.finding("FA11")
@pytest.mark.row("W4")
def test_a_job_with_invalid_arguments_is_removed_without_a_traceback(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = ['"text"', "[1]", "7", "null", "{}", '{"run": 1}', '{"runs": "x"}', "9" * 5000, "[" * 2000 + "]" * 2000]
    for text in (*arguments, '{"run": "ada"}'):
        insert = "INSERT INTO procrastinate_jobs (queue_name, task_name, args) VALUES ('q', 'skillrun.go_on', %(text)s)"
        open_database(store).rows(insert, {"text": text})
    runs: list[str] = []

    async def serve_jobs() -> None:
        stopping = asyncio.Event()

        async def on_job(run: str) -> None:
            runs.append(run)
            stopping.set()

        await serve(store, on_job, "worker", ["q"], stopping, runs.append)

    asyncio.run(asyncio.wait_for(serve_jobs(), 20))
    assert runs == ["ada"]
    assert open_database(store).rows("SELECT args FROM procrastinate_jobs WHERE NOT args ? 'run'") == []
    assert caplog.text == ""


@pytest.mark.slow
@pytest.mark.row("W4")
@pytest.mark.parametrize("job", ["lost", "late"])
def test_the_sweep_starts_a_scheduled_run_whose_job_is_lost_or_late(
    project: Make,
    skillrun: Call,
    store: str,
    start: Start,  # noqa: F811
    job: str,
) -> None:
    """The server's clock decides whether a run is due; a job is late if the submitting clock was ahead."""
    project("greeting")
    assert skillrun("submit", "greeting", "Ada", "--in", "1h", *SCRIPTED).code == 0
    is_scheduled = "SELECT not_before - now() BETWEEN interval '59 minutes' AND interval '1 h' FROM runs"
    assert open_database(store).rows(is_scheduled) == [(True,)]
    if job == "lost":
        open_database(store).rows("DELETE FROM procrastinate_jobs")
    start()
    assert skillrun("submit", "greeting", "Bob", *SCRIPTED).code == 0
    wait_until(lambda: status(store, "bob") == "completed")
    assert status(store, "ada") == "queued"
    open_database(store).rows("UPDATE runs SET not_before = now() WHERE name = 'ada'")
    wait_until(lambda: status(store, "ada") == "completed")
