"""Fake Postgres servers: one that accepts every client, reports a version and answers one query, and one of another
protocol."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


@contextmanager
def fake_postgres(version: str, words: str) -> Iterator[str]:
    """The URL of a server with this `server_version`, whose `version()` returns these words."""
    ready = _message(b"Z", b"I")
    greeting = _message(b"R", struct.pack("!i", 0))
    for name, value in (
        ("server_version", version),
        ("client_encoding", "UTF8"),
        ("standard_conforming_strings", "on"),
    ):
        greeting += _message(b"S", f"{name}\0{value}\0".encode())
    column = b"version\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0)
    text = words.encode()
    answer = _message(b"T", struct.pack("!h", 1) + column)
    answer += _message(b"D", struct.pack("!hi", 1, len(text)) + text) + _message(b"C", b"SELECT 1\0")

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.read(struct.unpack("!i", self.rfile.read(4))[0] - 4)
            self.wfile.write(greeting + ready)
            while kind := self.rfile.read(1):
                self.rfile.read(struct.unpack("!i", self.rfile.read(4))[0] - 4)
                if kind == b"Q":
                    self.wfile.write(answer + ready)

    with _served(Handler) as port:
        yield f"postgresql://skillrun@127.0.0.1:{port}/x?sslmode=disable&gssencmode=disable"


@contextmanager
def another_protocol(greeting: bytes = b"HTTP/1.1 400 Bad Request\r\n\r\n") -> Iterator[str]:
    """The URL of a server that does not speak Postgres's protocol."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)
            self.wfile.write(greeting)

    with _served(Handler) as port:
        yield f"postgresql://skillrun@127.0.0.1:{port}/x"


@contextmanager
def _served(handler: Any) -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
