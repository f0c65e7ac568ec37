"""The HTTP rules for providers. Redirects are not followed, only a fixed set of headers is sent, and the size of a body
is checked while it is read, both as received and decompressed."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

MAX_BODY = 32 * 2**20
"""The maximum bytes of one response: about twice the size of the stream of the longest possible reply."""
_CHUNK_SIZE = 64 * 1024
_HEADERS = frozenset(
    {
        "host", "connection", "accept", "accept-encoding", "user-agent", "content-type", "content-length",
        "transfer-encoding", "authorization", "anthropic-version", "anthropic-beta",
    }
)  # fmt: skip
"""The headers that may be sent. The `x-stainless-…` headers with the SDKs' versions are allowed too."""


class ResponseRejected(Exception):
    """A provider's response is rejected before it is read completely. The message gives the reason."""


def build_http_client(
    kind: Callable[..., httpx2.AsyncClient], key: str, *, is_local: bool = False
) -> httpx2.AsyncClient:
    """Return an HTTP client of the given type for an SDK, with the rules of this module. If `is_local`, it bypasses any
    proxy."""

    async def set_headers(request: httpx2.Request) -> None:
        for name in list(request.headers):
            if name.lower() not in _HEADERS and not name.lower().startswith("x-stainless-"):
                del request.headers[name]
        request.headers["Accept-Encoding"] = "gzip"
        request.headers["Authorization"] = f"Bearer {key}"

    async def reject_redirect(response: httpx2.Response) -> None:
        if 300 <= response.status_code < 400:
            raise ResponseRejected(f"is a redirect (HTTP {response.status_code}), which is not followed")

    hooks = {"request": [set_headers], "response": [reject_redirect, limit_body(MAX_BODY)]}
    more: dict[str, Any] = {"transport": httpx2.AsyncHTTPTransport()} if is_local else {}
    return kind(follow_redirects=False, event_hooks=hooks, **more)


def limit_body(limit: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a response hook that limits the size of bodies. Reading a body that has more bytes, before or after
    decompression, raises `ResponseRejected`."""

    async def hook(response: httpx2.Response) -> None:
        coding = response.headers.pop("Content-Encoding", "identity").strip().lower() or "identity"
        if coding not in {"identity", "gzip", "x-gzip"}:
            raise ResponseRejected("is compressed in a way that was not requested")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        response.stream = _LimitedStream(stream, limit, inflated=coding != "identity")

    return hook


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, *, inflated: bool) -> None:
        self._stream = stream
        self._limit = limit
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if inflated else None
        self._read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        raw = 0
        async for chunk in self._stream:
            raw += len(chunk)
            self._check(raw)
            if self._inflate is None:
                yield chunk
                continue
            while chunk and not self._inflate.eof:
                try:
                    piece = self._inflate.decompress(chunk, _CHUNK_SIZE)
                except zlib.error:
                    raise ResponseRejected("is declared as compressed but is not") from None
                chunk = self._inflate.unconsumed_tail  # noqa: PLW2901 -- input of the next iteration
                self._read += len(piece)
                self._check(self._read)
                yield piece

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise ResponseRejected(f"is longer than {self._limit // 2**20} MB and was cut off")

    async def aclose(self) -> None:
        await self._stream.aclose()
