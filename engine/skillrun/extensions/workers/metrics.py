"""Counts a worker's runs and calls, and serves `/metrics` (for Prometheus) and `/healthz`.

The server starts only if an address is given, and listens only at this address. No other module imports
`prometheus_client`.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from skillrun import events
from skillrun.events import Event, Listener
from skillrun.extensions.workers.postgres.queue import SubmittedRun
from skillrun.models.messages import AttemptListener, ModelError
from skillrun.syntax.diagnostics import UsageError
from skillrun.version import __version__

LOOPBACK: Final = "127.0.0.1"
ADDRESS_HINT: Final = "use HOST:PORT, for example 127.0.0.1:9464; 0.0.0.0:9464 accepts connections from other machines"
REQUEST_TIMEOUT: Final = 5  # seconds without data until a connection is closed
MAX_CONNECTIONS: Final = 50  # more are closed at once, because runs need file descriptors too
STATEMENTS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # buckets, in seconds


class Metrics:
    """The metrics of one worker. Only `skillrun_runs_under_way` can decrease."""

    def __init__(self, most: int) -> None:
        self.registry = CollectorRegistry()
        self.runs = Counter("skillrun_runs", "Released runs, by outcome.", ["outcome"], registry=self.registry)
        self.taken_over = Counter("skillrun_take_overs", "Runs taken over from lost workers.", registry=self.registry)
        self.lost = Counter("skillrun_lost_leases", "Runs that another worker took over.", registry=self.registry)
        self.calls = Counter("skillrun_calls", "Model calls, by outcome.", ["model", "outcome"], registry=self.registry)
        self.tokens = Counter("skillrun_tokens", "Tokens of model calls.", ["model", "kind"], registry=self.registry)
        self.price = Counter("skillrun_price", "Price of model calls, if known.", ["model"], registry=self.registry)
        failures = "Failed attempts of model calls, by kind of error."
        self.retries = Counter("skillrun_retries", failures, ["model", "kind"], registry=self.registry)
        seconds = "Duration of store statements."
        self.statements = Histogram("skillrun_statement_seconds", seconds, buckets=STATEMENTS, registry=self.registry)
        self.under_way = Gauge("skillrun_runs_under_way", "Runs in progress.", registry=self.registry)
        Gauge("skillrun_runs_most", "Maximum number of runs at a time.", registry=self.registry).set(most)
        Gauge("skillrun_worker", "Worker version.", ["version"], registry=self.registry).labels(__version__).set(1)
        self.answered_at = time.monotonic()
        """When the store last answered, on the monotonic clock."""

    def statement(self, seconds: float) -> None:
        """Record that the store answered a statement after `seconds`."""
        self.answered_at = time.monotonic()
        self.statements.observe(seconds)

    def count_attempts(self, inner: AttemptListener, model: str) -> AttemptListener:
        """Return a listener that counts the failed attempts of a call, and notifies `inner`."""
        return _CountingListener(inner, self.retries, model)

    def count_outcome(self, outcome: str) -> None:
        """Count a released run: `completed`, `waiting`, `failed`, `interrupted`, `cancelled` or `lost`."""
        self.runs.labels(outcome).inc()
        if outcome == "lost":
            self.lost.inc()

    def listener_for(self, submitted: SubmittedRun) -> Listener:
        """Return a listener that counts the calls of a claimed run when they end. Replayed calls are not counted."""

        def on_event(event: Event) -> None:
            if isinstance(event, events.RunStarted) and submitted.status == "running":
                self.taken_over.inc()
            if not isinstance(event, events.CallEnded) or event.replayed:
                return
            self.calls.labels(event.model, "failed" if event.error else "answered").inc()
            for kind, number in event.usage.items():
                self.tokens.labels(event.model, kind).inc(number)
            if event.price is not None:
                self.price.labels(event.model).inc(event.price)

        return on_event


class _CountingListener(AttemptListener):
    def __init__(self, inner: AttemptListener, counter: Counter, model: str) -> None:
        self._inner, self._counter, self._model = inner, counter, model

    async def on_sent(self, number: int) -> None:
        await self._inner.on_sent(number)

    async def on_failed(self, number: int, error: ModelError) -> None:
        self._counter.labels(self._model, error.kind).inc()
        await self._inner.on_failed(number, error)


class _Quiet(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name in the base class)
        """Do not log requests."""


def start_server(metrics: Metrics, address: tuple[str, int], patience: float) -> WSGIServer:
    """Start a server in a thread, and return it.

    `/healthz` reports a healthy worker if the store answered within the last `patience` seconds. Raises UsageError if
    the address cannot be used.
    """
    host, port = address
    kind = _IPv6Server if ":" in host else _Server
    try:
        server = make_server(host, port, _make_app(metrics, patience), kind, handler_class=_Quiet)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}", ADDRESS_HINT) from error
    threading.Thread(target=server.serve_forever, name="skillrun-metrics", daemon=True).start()
    return server


class _Server(ThreadingWSGIServer):
    """A server with a limited number of connections. A connection that sends no data is closed."""

    request_queue_size = MAX_CONNECTIONS

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a connection that the client closed
            super().handle_error(request, client_address)


class _IPv6Server(_Server):
    address_family = socket.AF_INET6


def _make_app(metrics: Metrics, patience: float) -> Callable[..., Iterable[bytes]]:
    metrics_app = make_wsgi_app(metrics.registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            body: Iterable[bytes] = metrics_app(environ, start)
            return body
        status, text = "404 Not Found", "use /metrics or /healthz\n"
        if path == "/healthz":
            silent = time.monotonic() - metrics.answered_at
            status = "200 OK" if silent <= patience else "503 Service Unavailable"
            text = f"the store answered {silent:.0f} s ago\n"
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    return answer


def parse_address(typed: str) -> tuple[str, int]:
    """Parse a host and a port; the host defaults to loopback. Raises UsageError."""
    host, _, port = typed.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise UsageError(f"`{typed}` is not a valid address", ADDRESS_HINT)
    return host.strip("[]") or LOOPBACK, int(port)
