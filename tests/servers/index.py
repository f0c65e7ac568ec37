"""A local package index that serves one wheel, whole or in ranges, and can cut the connection or never end."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = "tiny_model-1.0-py3-none-any.whl"
FILE = "tiny_model/tiny.gguf"


def wheel(weights: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(zipfile.ZipInfo(FILE), weights, compression)
        for name, text in (("METADATA", "Name: tiny-model\nVersion: 1.0\n"), ("WHEEL", "Wheel-Version: 1.0\n")):
            archive.writestr(zipfile.ZipInfo(f"tiny_model-1.0.dist-info/{name}"), text)
    return data.getvalue()


@dataclass
class Index:
    """The served data, and the requests: path, `Range`, `Authorization`.

    Each of `cuts` ends one response with the wheel after that many bytes; `ranges` allows range requests. An `endless`
    wheel is sent again and again in one response, until the client disconnects.
    """

    data: bytes
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    hashed: bool = True
    link: str = ""
    endless: bool = False
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def page(self) -> bytes:
        link = self.link or f"../../files/{NAME}"
        fragment = f"#sha256={self.sha256}" if self.hashed else ""
        return f'<html><a href="../x-2.0-py3-none-any.whl">x</a><a href="{link}{fragment}">{NAME}</a></html>'.encode()


@contextmanager
def serve_index(index: Index) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            byte_range = self.headers.get("Range", "")
            index.asked.append((self.path, byte_range, self.headers.get("Authorization", "")))
            if self.path == "/simple/tiny-model/":
                self._send(200, index.page, len(index.page))
            elif self.path == f"/files/{NAME}" and index.endless:
                self._send(200, index.data, 2**40)
                with suppress(ConnectionError):
                    while not index.closing.wait(0.01):
                        self.wfile.write(index.data)
            elif self.path == f"/files/{NAME}":
                start = int(byte_range.removeprefix("bytes=").rstrip("-")) if byte_range and index.ranges else 0
                if start >= len(index.data):
                    self._send(416, b"", 0)
                    return
                rest = index.data[start:]
                sent = rest[: index.cuts.pop(0)] if index.cuts else rest
                part = {"Content-Range": f"bytes {start}-{len(index.data) - 1}/{len(index.data)}"} if start else {}
                self._send(206 if start else 200, sent, len(rest), **part)
                self.close_connection = len(sent) < len(rest)
            else:
                self._send(404, b"", 0)

        def _send(self, status: int, body: bytes, length: int, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "text/html", "Content-Length": str(length), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield index
    finally:
        index.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
