"""A worker serves its metrics and the health of its store at the configured address only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from prometheus_client import generate_latest

from skillrun.extensions.workers.commands.open_store import open_database
from skillrun.extensions.workers.metrics import Metrics, _make_app, parse_address
from skillrun.extensions.workers.work import Drain, DrainingGateway
from skillrun.models.messages import NULL_LISTENER, ModelError, Request
from skillrun.models.scripted import ScriptedGateway
from skillrun.syntax.diagnostics import UsageError
from tests.acceptance.conftest import Call, Make
from tests.acceptance.store.test_workers import SCRIPTED, status, wait_until
from tests.launcher import run_python, start_skillrun


@pytest.fixture
def worker(tmp_path: Path, store: str) -> Iterator[tuple[Popen[str], str]]:
    """A worker that serves metrics, and their URL."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    command = ("worker", "--lease", "2", "--metrics", ":0")
    with start_skillrun(*command, unbuffered=True, cwd=folder, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[1].removesuffix(",")
        process.kill()


def fetch(url: str) -> str:
    """Get a URL in a separate process, because this one opens no sockets."""
    program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode(), end='')"
    done = run_python("-c", program, url, stdout=PIPE, text=True)
    assert done.returncode == 0
    return str(done.stdout)


@pytest.mark.slow
@pytest.mark.row("W6")
def test_a_worker_counts_runs_calls_tokens_takeovers_and_statements(
    project: Make, skillrun: Call, store: str, worker: tuple[Popen[str], str]
) -> None:
    project("greeting")
    _, url = worker
    assert url.startswith("http://127.0.0.1:")
    assert skillrun("submit", "greeting", "Ada", *SCRIPTED).code == 0
    wait_until(lambda: status(store, "ada") == "completed")
    metrics = wait_until(lambda: (text := fetch(url)).count('skillrun_runs_total{outcome="completed"} 1.0') and text)
    assert 'skillrun_calls_total{model="scripted:x",outcome="answered"} 2.0' in metrics
    assert 'skillrun_tokens_total{kind="input",model="scripted:x"}' in metrics
    assert "skillrun_take_overs_total 0.0" in metrics
    assert "skillrun_lost_leases_total 0.0" in metrics
    assert "skillrun_runs_most 10.0" in metrics
    assert "skillrun_statement_seconds_count" in metrics
    assert "Ada" not in metrics
    assert fetch(url.replace("/metrics", "/healthz")).startswith("the store answered ")
    assert skillrun("submit", "greeting", "Beth", "--in", "1h", "--name", "lost", *SCRIPTED).code == 0
    open_database(store).rows("DELETE FROM procrastinate_jobs WHERE args ->> 'run' = 'lost'")
    expire = "status = 'running', owner = 'gone', lease_until = now() - interval '1 s'"
    open_database(store).script(f"UPDATE runs SET {expire} WHERE name = 'lost'")
    wait_until(lambda: "skillrun_take_overs_total 1.0" in fetch(url))


def _get(metrics: Metrics, path: str) -> tuple[str, str]:
    statuses: list[Any] = []
    app: Callable[..., Any] = _make_app(metrics, 10)
    body = b"".join(app({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda status, _headers: statuses.append(status)))
    return statuses[0], body.decode()


@pytest.mark.row("W6")
def test_a_store_that_has_not_answered_recently_is_unhealthy() -> None:
    metrics = Metrics(1)
    metrics.statement(0.01)
    assert _get(metrics, "/healthz")[0] == "200 OK"
    metrics.answered_at -= 11
    assert _get(metrics, "/healthz") == ("503 Service Unavailable", "the store answered 11 s ago\n")
    assert _get(metrics, "/else")[0] == "404 Not Found"
    metrics.count_outcome("lost")
    assert b"skillrun_lost_leases_total 1.0" in generate_latest(metrics.registry)


@pytest.mark.row("W6")
def test_failed_attempts_are_counted_by_kind() -> None:
    metrics = Metrics(1)

    class Failing(ScriptedGateway):
        async def send(self, request: Any, address: str, attempts: Any = None) -> Any:
            await attempts.on_failed(1, ModelError("overloaded", "later"))

    gateway = DrainingGateway(Failing(), Drain(), metrics)
    asyncio.run(gateway.send(Request("scripted:x", (), (), 1), "a", NULL_LISTENER))
    assert b'skillrun_retries_total{kind="overloaded",model="scripted:x"} 1.0' in generate_latest(metrics.registry)


@pytest.mark.row("W6")
def test_an_address_without_a_host_is_local(skillrun: Call, store: str) -> None:
    assert parse_address(":9464") == parse_address("9464") == ("127.0.0.1", 9464)
    assert parse_address("0.0.0.0:9464") == ("0.0.0.0", 9464)
    assert parse_address("[::1]:9464") == ("::1", 9464)
    with pytest.raises(UsageError):
        parse_address("everywhere")
    refused = skillrun("worker", "--metrics", "everywhere")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "error: `everywhere` is not a valid address")


IDLE_CLIENTS = """
import socket, threading
from skillrun.extensions.workers import metrics
metrics._Quiet.timeout = 1.0
server = metrics.start_server(metrics.Metrics(1), ("127.0.0.1", 0), 10)
def ask(text):
    client = socket.create_connection(server.server_address, 10)
    client.sendall(text)
    return client
idle = [ask(b"GET /healthz HTTP/1.1\\r\\nX: ") for _ in range(metrics.MAX_CONNECTIONS)]
def is_closed(client):
    try:
        return client.recv(10) == b""
    except ConnectionResetError:
        return True
print(is_closed(ask(b"GET /healthz HTTP/1.1\\r\\nX: ")))
print(threading.active_count() <= metrics.MAX_CONNECTIONS + 2)
print(all(is_closed(client) for client in idle))
while not (found := ask(b"GET /healthz HTTP/1.0\\r\\n\\r\\n").recv(100)):
    pass
print(found.split()[1])
"""


@pytest.mark.finding("FA3")
def test_clients_that_send_nothing_take_no_file_descriptor_for_long() -> None:
    done = run_python("-c", IDLE_CLIENTS, stdout=PIPE, text=True)
    assert done.stdout.split() == ["True", "True", "True", "b'200'"]
