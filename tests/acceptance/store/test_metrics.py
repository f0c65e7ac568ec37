"""A worker tells what it counts, and whether its store answers, at the one address that was typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from prometheus_client import generate_latest

from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.extensions.workers.metrics import CountingGateway, Metrics, _make_app, parse_address
from skillrun.models.messages import NULL_LISTENER, ModelError, Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.syntax.diagnostics import UsageError
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_workers import SCRIPTED, status, until
from tests.launcher import run_python, start_skillrun


@pytest.fixture
def worker(tmp_path: Path, store: str) -> Iterator[tuple[Popen[str], str]]:
    """A worker that tells its metrics, and where."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    typed = ("worker", "--lease", "2", "--metrics", ":0")
    with start_skillrun(*typed, unbuffered=True, cwd=elsewhere, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[1].removesuffix(",")
        process.kill()


def got(url: str) -> str:
    """What is answered there; this process opens no sockets."""
    program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode(), end='')"
    done = run_python("-c", program, url, stdout=PIPE, text=True)
    assert done.returncode == 0
    return str(done.stdout)


@pytest.mark.slow
@pytest.mark.row("W6")
def test_a_worker_counts_runs_calls_tokens_take_overs_and_statements(
    project: Make, skillrun: Call, store: str, worker: tuple[Popen[str], str]
) -> None:
    project("greeting")
    _, url = worker
    assert url.startswith("http://127.0.0.1:")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    until(lambda: status(store, "ada") == "completed")
    told = until(lambda: (text := got(url)).count('skillrun_runs_total{outcome="completed"} 1.0') and text)
    assert 'skillrun_calls_total{model="scripted:x",outcome="answered"} 2.0' in told
    assert 'skillrun_tokens_total{kind="input",model="scripted:x"}' in told
    assert "skillrun_take_overs_total 0.0" in told
    assert "skillrun_lost_leases_total 0.0" in told
    assert "skillrun_runs_most 10.0" in told
    assert "skillrun_statement_seconds_count" in told
    assert "Ada" not in told
    assert got(url.replace("/metrics", "/healthz")).startswith("the store answered ")
    assert skillrun("submit", "greeting", "Beth", "--in", "1h", "--name", "lost", *SCRIPTED).code == 0
    open_database(store).rows("DELETE FROM procrastinate_jobs WHERE args ->> 'run' = 'lost'")
    left = "status = 'running', owner = 'gone', lease_until = now() - interval '1 s'"
    open_database(store).script(f"UPDATE runs SET {left} WHERE name = 'lost'")
    until(lambda: "skillrun_take_overs_total 1.0" in got(url))


def _asked(metrics: Metrics, path: str) -> tuple[str, str]:
    said: list[Any] = []
    answer: Callable[..., Any] = _make_app(metrics, 10)
    body = b"".join(answer({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda status, _headers: said.append(status)))
    return said[0], body.decode()


@pytest.mark.row("W6")
def test_a_store_that_has_not_answered_lately_is_told_as_no_health() -> None:
    metrics = Metrics(1)
    metrics.statement(0.01)
    assert _asked(metrics, "/healthz")[0] == "200 OK"
    metrics._heard_at -= 11
    assert _asked(metrics, "/healthz") == ("503 Service Unavailable", "the store answered 11 s ago\n")
    assert _asked(metrics, "/else")[0] == "404 Not Found"
    metrics.count_outcome("lost")
    assert b"skillrun_lost_leases_total 1.0" in generate_latest(metrics.registry)


@pytest.mark.row("W6")
def test_attempts_without_a_reply_are_counted_by_why() -> None:
    metrics = Metrics(1)

    class Failing(ScriptedGateway):
        async def send(self, request: Any, address: str, attempts: Any = None) -> Any:
            await attempts.on_failed(1, ModelError("overloaded", "later"))

    asyncio.run(CountingGateway(Failing(), metrics).send(Request("scripted:x", (), (), 1), "a", NULL_LISTENER))
    assert b'skillrun_retries_total{kind="overloaded",model="scripted:x"} 1.0' in generate_latest(metrics.registry)


@pytest.mark.row("W6")
def test_without_a_host_it_is_this_machine_alone(skillrun: Call, store: str) -> None:
    assert parse_address(":9464") == parse_address("9464") == ("127.0.0.1", 9464)
    assert parse_address("0.0.0.0:9464") == ("0.0.0.0", 9464)
    assert parse_address("[::1]:9464") == ("::1", 9464)
    with pytest.raises(UsageError):
        parse_address("everywhere")
    refused = skillrun("worker", "--metrics", "everywhere")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "error: `everywhere` is not a valid address")
