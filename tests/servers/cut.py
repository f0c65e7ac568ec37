"""A local server whose responses are cut off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def response(body: bytes, framing: str, kind: str = "application/json") -> bytes:
    """A complete HTTP response. `framing` marks its end: its `length`, `chunks`, or the `close` of the connection."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    if framing == "chunks":
        pieces = [body[at : at + 100] for at in range(0, len(body), 100)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head += {"length": f"Content-Length: {len(body)}\r\n", "chunks": "Transfer-Encoding: chunked\r\n"}.get(framing, "")
    return f"{head}\r\n".encode() + body


@contextmanager
def serve_cut(next_bytes: Callable[[], bytes]) -> Iterator[str]:
    """The address of a server that responds with the next bytes and closes the connection."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(next_bytes())
            self.close_connection = True

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
