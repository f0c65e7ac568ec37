"""Measures the throughput and cost of workers on a store: `python -m bench.many workers` or `… queue`.

It uses the database named in the environment. Each worker is a separate process, and the model is scripted.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from bench.database import transactions
from bench.ours import CHAIN, store, write_project
from skillrun.extensions.workers.bundle import pack_project
from skillrun.extensions.workers.commands.open_store import OpenStore, open_database
from skillrun.extensions.workers.dispatch import Dispatcher
from skillrun.extensions.workers.postgres.lease import _CLAIM
from skillrun.extensions.workers.postgres.queue import _DUE, DEFAULT_QUEUE, ORPHAN_PRIORITY, RunSubmission
from skillrun.extensions.workers.worker import MAX_WAKES_PER_SWEEP

JOBS = 100
STARTS = 20
IDLE = 30.0  # seconds
SETTLED = 15.0  # seconds: the server updates its counters up to ten seconds late
QUEUED = 100_000
FINISHED = 1_000_000


def workers(url: str) -> dict[str, float]:
    """Jobs per second, the start time with a warm worker, and the cost of an idle worker."""
    opened = store(url)
    dispatch = Dispatcher(url)
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        write_project(project, "chain", CHAIN, 1)
        bundle = pack_project(project, ())

        def submit(run: str) -> None:
            request = RunSubmission(inputs={"calls": 1, "members": []}, model="scripted:bench")
            opened.queue.submit(run, "bench", request.to_data(), bundle.sha, bundle.content)
            dispatch.wake(run)

        with running_workers(project, 1, 4) as (process,):
            submit("warm-up")
            wait_for_runs(opened, 1)
            starts = []
            for number in range(STARTS):
                submitted = time.time()
                submit(f"start-{number}")
                wait_for_runs(opened, 2 + number)
                starts.append((first_call(url, f"start-{number}") - submitted) * 1e3)
            time.sleep(SETTLED)
            before, started = transactions(url), time.monotonic()
            time.sleep(IDLE)
            queries = (transactions(url) - before) / (time.monotonic() - started)
            memory = resident(process.pid)
        before, started = transactions(url), time.monotonic()
        time.sleep(IDLE)
        queries -= (transactions(url) - before) / (time.monotonic() - started)  # those of the server and of this query
        for number in range(JOBS):
            submit(f"job-{number}")
        with running_workers(project, 2, 5):
            wait_for_runs(opened, STARTS + 2)  # a worker has started
            started = time.monotonic()
            wait_for_runs(opened, STARTS + 1 + JOBS)
            seconds = time.monotonic() - started
    dispatch.close()
    return {
        "jobs": (JOBS - 1) / seconds,
        "start": statistics.median(starts),
        "slowest start": max(starts),
        "memory": memory,
        "queries": queries,
    }


def queue(url: str) -> dict[str, float]:
    """The time to find and to claim a run among very many."""
    store(url)
    database = open_database(url)
    database.rows("INSERT INTO blobs VALUES ('x', '')")
    database.rows(
        "INSERT INTO runs (name, status, workflow, bundle, request, priority, ended_at)"
        " SELECT 'old-' || n, 'completed', 'bench', 'x', '{}', n %% 3, now() FROM generate_series(1, %(many)s) AS n",
        {"many": FINISHED},
    )
    database.rows(
        "INSERT INTO runs (name, status, workflow, bundle, request, priority)"
        " SELECT 'run-' || n, 'queued', 'bench', 'x', '{}', n %% 3 FROM generate_series(1, %(many)s) AS n",
        {"many": QUEUED},
    )
    database.rows(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args)"
        " SELECT 'default', 'skillrun.go_on', n %% 3, NULL, 'run-' || n, jsonb_build_object('run', 'run-' || n)"
        " FROM generate_series(1, %(many)s) AS n",
        {"many": QUEUED},
    )
    for table in ("runs", "procrastinate_jobs"):
        database.rows(f"ANALYZE {table}")
    numbers = iter(database.rows("SELECT id FROM runs WHERE status = 'queued' ORDER BY id LIMIT 100"))
    fetch = "SELECT id FROM procrastinate_fetch_job_v2(NULL, (SELECT min(id) FROM procrastinate_workers))"
    database.rows("SELECT * FROM procrastinate_register_worker_v1()")
    claim = {"owner": "bench", "lease": 30.0}
    due = {"most": MAX_WAKES_PER_SWEEP, "without": [], "queues": [DEFAULT_QUEUE], "begun": ORPHAN_PRIORITY}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")  # the disk's time does not depend on the number of runs
        return {
            "sweep": milliseconds(lambda: connection.execute(_DUE, due).fetchall()),
            "claim": milliseconds(lambda: connection.execute(_CLAIM, {**claim, "run": next(numbers)[0]}).fetchall()),
            "fetch": milliseconds(lambda: connection.execute(fetch).fetchall()),
        }


def milliseconds(work: Callable[[], Any]) -> float:
    """The median of 50 calls."""
    durations = []
    for _ in range(50):
        started = time.perf_counter()
        work()
        durations.append((time.perf_counter() - started) * 1e3)
    return statistics.median(durations)


@contextmanager
def running_workers(folder: Path, number: int, most: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Worker processes, stopped on exit."""
    command = [sys.executable, "-m", "skillrun", "worker", "--runs", str(most)]
    environment = {**os.environ, "SKILLRUN_STORE": os.environ["BENCH_POSTGRES"]}
    processes = [
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL) for _ in range(number)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def wait_for_runs(opened: OpenStore, number: int) -> None:
    """Wait until `number` runs are completed. Polls with one query every 20 ms."""
    deadline = time.monotonic() + 300
    database = open_database(opened.url)
    while database.rows("SELECT count(*) FROM runs WHERE status = 'completed'")[0][0] < number:
        if time.monotonic() > deadline:
            raise SystemExit(f"{number} runs did not end: {database.rows('SELECT name, status, reason FROM runs')}")
        time.sleep(0.02)


def first_call(url: str, run: str) -> float:
    """When the first call of a run was sent, from its transcript, in seconds since 1970."""
    lines = open_database(url).rows(
        "SELECT line FROM events JOIN runs ON runs.id = events.run WHERE runs.name = %(run)s ORDER BY number",
        {"run": run},
    )
    for (line,) in lines:
        event = json.loads(line)
        if event["event"] == "CallStarted":
            return datetime.fromisoformat(event["at"]).timestamp()
    raise SystemExit(f"{run} made no call")


def resident(process: int) -> float:
    """The resident memory of a process in megabytes."""

    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1e3
    raise SystemExit("no such process")


if __name__ == "__main__":
    print(json.dumps({"workers": workers, "queue": queue}[sys.argv[1]](os.environ["BENCH_POSTGRES"])))
