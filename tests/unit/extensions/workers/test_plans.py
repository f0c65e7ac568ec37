"""According to their query plans, the queries for work read few rows of large tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from skillrun.extensions.workers.dispatch import install
from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.lease import _CLAIM
from skillrun.extensions.workers.postgres.maintenance import migrate
from skillrun.extensions.workers.postgres.queue import _DUE
from tests.servers.postgres import empty

pytestmark = pytest.mark.row("W4")
MAX_ROWS = 30
FILL = """
    INSERT INTO blobs VALUES ('x', '');
    INSERT INTO runs (name, status, bundle, request, priority, lease_until)
    SELECT n::text, CASE n % 20 WHEN 0 THEN 'queued' WHEN 1 THEN 'running' ELSE 'completed' END, 'x', '{}', n % 3,
           CASE n % 20 WHEN 1 THEN now() + interval '30 s' END
    FROM generate_series(1, 30000) AS n;
    INSERT INTO procrastinate_jobs (queue_name, task_name, priority, queueing_lock, args, status)
    SELECT 'default', 'skillrun.go_on', n % 3, n::text, '{}', 'todo' FROM generate_series(1, 20000) AS n;
    INSERT INTO tickets (provider, holder, is_held, lease_until)
    SELECT 'ada', 'x', n <= 40, now() + interval '30 s' FROM generate_series(1, 3000) AS n;
    INSERT INTO runs (name, status, queue, bundle, request, priority)
    SELECT 'other-' || n::text, 'queued', 'other', 'x', '{}', 100 FROM generate_series(1, 20000) AS n;
    ANALYZE runs; ANALYZE procrastinate_jobs; ANALYZE tickets;
"""


@pytest.fixture(scope="module")
def full_store() -> Iterator[str]:
    """A store with many runs and jobs."""
    with empty() as url:
        database = Database(url)
        migrate(database)
        install(database)
        database.script(FILL)
        database.close()
        yield url


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "values", "indexes"),
    [
        (_DUE, {"most": 10, "without": [], "begun": 9, "queues": ["a", "b"]}, {"runs_queued_in", "runs_running_in"}),
        (_CLAIM, {"run": 20, "owner": "x", "lease": 30.0}, {"runs_pkey"}),
    ],
)
def test_finding_and_claiming_a_run_uses_the_indexes(
    full_store: str, statement: LiteralString, values: dict[str, Any], indexes: set[str]
) -> None:
    with psycopg.connect(full_store) as connection:
        row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode(), values).fetchone()
        connection.rollback()
    assert row is not None
    (plan,) = row[0] if not isinstance(row[0], str) else json.loads(row[0])
    steps = list(nodes(plan["Plan"]))
    assert {step["Index Name"] for step in steps if "Index Name" in step} == indexes
    assert not [step for step in steps if step["Node Type"] in ("Seq Scan", "Sort", "Bitmap Heap Scan")]
    assert max(step["Actual Rows"] for step in steps) <= MAX_ROWS


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        (
            "procrastinate_jobs",
            "SELECT * FROM procrastinate_register_worker_v1() AS me, procrastinate_fetch_job_v2(NULL, me.worker_id)",
        ),
        ("runs", "SELECT 1 FROM runs WHERE name = '77'"),
    ],
)
def test_fetching_a_job_or_run_reads_few_rows(full_store: str, table: str, statement: LiteralString) -> None:
    counters = """
        SELECT seq_tup_read, coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
        WHERE relname = %(table)s AND schemaname = current_schema()
    """
    with psycopg.connect(full_store) as connection:
        assert connection.execute(statement).fetchone() is not None
        row = connection.execute(counters, {"table": table}).fetchone()
        connection.rollback()
    assert row is not None
    assert row[0] == 0
    assert row[1] <= MAX_ROWS
