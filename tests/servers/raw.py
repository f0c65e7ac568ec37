"""A local server that generates raw responses: endless, slow, highly compressed, or redirects."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Raw:
    """A response with the pieces of its chunked body, and the requests: path, headers, body."""

    pieces: Callable[[], Iterable[bytes]]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    sent: int = 0
    url: str = ""


def endless(piece: bytes = b" " * 65536) -> Iterator[bytes]:
    while True:
        yield piece


def bomb(size: int, coding: int = zlib.MAX_WBITS | 16) -> Iterator[bytes]:
    """`size` blanks, compressed piece by piece."""
    packer = zlib.compressobj(9, wbits=coding)
    for _ in range(size // 2**20):
        yield packer.compress(b" " * 2**20)
    yield packer.flush()


@contextmanager
def serve_raw(raw: Raw) -> Iterator[Raw]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            raw.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(raw.status)
            headers = {"Content-Type": "application/json", **raw.headers, "Transfer-Encoding": "chunked"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for piece in raw.pieces():
                    if piece:
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                        raw.sent += len(piece)
                self.wfile.write(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    raw.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield raw
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
