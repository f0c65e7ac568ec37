"""A local server for the wire protocols of providers, which sends prepared answers and records requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """A response. `body` is sent as JSON, a string unchanged; `hang_up` closes the connection instead."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang_up: bool = False


@dataclass
class WireRequest:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Wire:
    """`answers` are sent in order, the last one repeatedly; `most` is the highest number of concurrent calls.

    Requests without a body, such as those for the list of models, are not calls.
    """

    def __init__(self, answers: list[Answer] | Callable[[WireRequest], Answer]) -> None:
        self.answers = answers
        self.asked: list[WireRequest] = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self.url = ""

    def answer(self, asked: WireRequest) -> Answer:
        with self._lock:
            self.asked.append(asked)
            self._now += bool(asked.body)
            self.most = max(self.most, self._now)
            place = len(self.asked) - 1
        if callable(self.answers):
            return self.answers(asked)
        return self.answers[min(place, len(self.answers) - 1)]

    def done(self, asked: WireRequest) -> None:
        with self._lock:
            self._now -= bool(asked.body)


@contextmanager
def serve(answers: list[Answer] | Callable[[WireRequest], Answer]) -> Iterator[Wire]:
    wire = Wire(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # buffered, because the second half of a split response waits for an acknowledgement

        def handle(self) -> None:
            with suppress(ConnectionResetError):  # a client that was killed
                super().handle()

        def do_POST(self) -> None:
            self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self._respond({})

        def _respond(self, body: dict[str, Any]) -> None:
            asked = WireRequest(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            answer = wire.answer(asked)
            try:
                time.sleep(answer.delay)
                if answer.hang_up:
                    self.close_connection = True
                    return
                text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
                self.send_response(answer.status)
                headers = {"Content-Type": "application/json", **answer.headers}
                for name, value in {**headers, "Content-Length": str(len(text.encode()))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                wire.done(asked)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    wire.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield wire
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
