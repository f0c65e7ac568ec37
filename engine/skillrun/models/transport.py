"""Creates the SDK clients of providers, with strict rules for HTTP.

All settings are passed explicitly. Redirects are not followed, and only a fixed set of headers is sent. The size of a
body is limited, before and after decompression.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx2

from skillrun.library.models_yaml import parse_address
from skillrun.models.messages import ModelError
from skillrun.models.redaction import strip_userinfo
from skillrun.models.response_bodies import (
    NoReply,
    ReadBody,
    assemble_claude_stream,
    claude_events,
    parse_events,
    parse_json,
    read_body,
    read_usage,
)
from skillrun.types.records import count_values
from skillrun.types.schemas import quote_value

if TYPE_CHECKING:
    from skillrun.models.entries import ProviderConfig

PLATFORMS: Final = {"linux": "Linux", "darwin": "MacOS"}
PLACEHOLDER_KEY: Final = "no-key"  # the SDKs reject an empty key
MAX_BODY = 32 * 2**20
"""Maximum size of a response in bytes: about twice the size of the longest possible reply as a stream."""
MAX_VALUES = 100_000
"""Most values in a JSON body, or in one event of a stream. Parsing takes up to 500 bytes and 40 µs for each."""
_END_OF_EVENT: Final = re.compile(rb"\n\r?\n")
_CHUNK_SIZE = 64 * 1024
_HEADERS = frozenset(
    {
        "host", "connection", "accept", "accept-encoding", "user-agent", "content-type", "content-length",
        "transfer-encoding", "authorization", "anthropic-version", "anthropic-beta",
    }
)  # fmt: skip
"""The headers that may be sent. The `x-stainless-…` headers with the SDKs' versions are allowed too."""


@dataclass
class WireExchange:
    """One request and its response, as JSON. `adapt` returns the body to send instead of the SDK's body."""

    protocol: str
    adapt: Callable[[dict[str, Any]], dict[str, Any]]
    original: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    response: ReadBody | None = None
    """The response as its protocol prescribes it; None until there is one."""
    reply_size: int | None = None
    """Number of bytes that were received of a reply; None if the server sends no reply, or an error."""
    usage: dict[str, int] = field(default_factory=dict)
    """The tokens that the reply reports."""

    async def read(self, response: httpx2.Response) -> None:
        """Read a response, and give it the body and the status that its protocol prescribes.

        Raises ResponseRejected if it contains neither a reply nor an error, and RemoteProtocolError if a stream ends
        early.
        """
        if response.status_code < 400:
            self.reply_size = 0
        await response.aread()
        self.headers = response.headers
        text = response.content.decode("utf-8-sig", "replace").strip()
        events = text.startswith(("event:", "data:", ":"))
        if response.status_code >= 400:
            body = parse_json(text)
            self.response = ReadBody(text if body is None else body, response.status_code)
            return
        body = None if events else parse_json(text)
        try:
            if events and (body := assemble_claude_stream(parse_events(text))) is None:
                raise httpx2.RemoteProtocolError("the stream ended before the reply was complete")
            self.response = read_body(self.protocol, body)
            self.usage = read_usage(self.response.body)
        except NoReply as error:
            self.usage = read_usage(body)
            reason = str(error) if events or body is not None else f"is not JSON; it begins {quote_value(text[:60])}"
            raise ResponseRejected(reason) from None
        response.status_code = self.response.status
        if self.response.status >= 400:
            self.reply_size = None
        as_events = self.sent.get("stream") and self.response.status < 400
        read = claude_events(self.response.body) if as_events else ()
        whole = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in read)
        response._content = (whole or json.dumps(self.response.body)).encode()  # noqa: SLF001 -- as read above
        response.headers["Content-Type"] = "text/event-stream" if whole else "application/json"


EXCHANGE: Final[ContextVar[WireExchange | None]] = ContextVar("exchange", default=None)
"""The exchange of the current call. Requests outside of calls, such as for a list of models, have none."""


class ResponseRejected(Exception):
    """Raised when a provider's response is rejected before it is read completely. The message gives the reason."""


def sdk_client(provider: ProviderConfig, key: str) -> Any:
    """Return the provider's SDK client. The client reads no settings from the environment. Raises `ModelError`."""
    if not all("!" <= character <= "~" for character in key):  # HTTP does not allow others
        step = f"Set {provider.key} again, in printable ASCII without spaces and line breaks."
        raise ModelError("auth", f"{provider.key} contains a character that is invalid in keys", next_step=step)
    warnings.simplefilter("ignore")  # warnings of the libraries quote a response as it is, with any key in it
    try:
        return _build_client(provider, key)
    except (ValueError, ImportError, httpx2.InvalidURL) as error:  # an invalid or SOCKS proxy is set
        reason = strip_userinfo(str(error)).split(" Make sure")[0]
        message = f"the connection to {provider.name} cannot be set up: {reason}"
        raise ModelError("invalid_request", message, next_step="Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY.") from None


def _build_client(provider: ProviderConfig, key: str) -> Any:
    is_local = parse_address(provider.base_url).is_local
    if provider.kind == "anthropic":
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        # No timeout here: if one is set, the SDK requires streaming for long replies. The gateway enforces the timeout.
        client: Any = AsyncAnthropic(
            api_key=key or PLACEHOLDER_KEY,
            base_url=provider.base_url,
            max_retries=0,
            open_telemetry=False,
            http_client=build_http_client(DefaultAsyncHttpxClient, key or PLACEHOLDER_KEY, is_local=is_local),
        )
    else:
        from openai import AsyncOpenAI
        from openai import DefaultAsyncHttpxClient as OpenAIClient

        client = AsyncOpenAI(
            api_key=key or PLACEHOLDER_KEY,
            admin_api_key="",
            organization="",
            project="",
            webhook_secret="",
            base_url=provider.base_url,
            max_retries=0,
            timeout=provider.timeout,
            http_client=build_http_client(OpenAIClient, key or PLACEHOLDER_KEY, is_local=is_local),
        )
    client._custom_headers = {}  # noqa: SLF001 -- the SDKs take headers from the environment; no option prevents that
    client._platform = PLATFORMS.get(sys.platform, "Unknown")  # noqa: SLF001 -- the SDKs would run `uname`
    return client


def build_http_client(
    kind: Callable[..., httpx2.AsyncClient], key: str, *, is_local: bool = False
) -> httpx2.AsyncClient:
    """Return an HTTP client of the given type for an SDK, with the rules of this module. If `is_local`, the client
    bypasses any proxy."""

    async def set_headers(request: httpx2.Request) -> None:
        for name in list(request.headers):
            if name.lower() not in _HEADERS and not name.lower().startswith("x-stainless-"):
                del request.headers[name]
        request.headers["Accept-Encoding"] = "gzip"
        request.headers["Authorization"] = f"Bearer {key}"
        if (exchange := EXCHANGE.get()) is not None:
            exchange.original = json.loads(request.content)
            exchange.sent = exchange.adapt(exchange.original)
            content = json.dumps(exchange.sent).encode()
            request.headers["Content-Length"] = str(len(content))
            request.stream = httpx2.ByteStream(content)
            request._content = content  # noqa: SLF001 -- the request was read before this hook

    async def limit_response(response: httpx2.Response) -> None:
        if 300 <= response.status_code < 400:
            raise ResponseRejected(f"is a redirect (HTTP {response.status_code}), which is not followed")
        coding = response.headers.pop("Content-Encoding", "identity").strip().lower() or "identity"
        if coding not in {"identity", "gzip", "x-gzip"}:
            raise ResponseRejected("is compressed in a way that was not requested")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        # The SDKs read events only if they have requested a stream. They parse any other response as a whole.
        is_event_stream = b"stream" in response.request.content and json.loads(response.request.content).get("stream")
        response.stream = _LimitedStream(stream, inflated=coding != "identity", is_event_stream=bool(is_event_stream))
        exchange = EXCHANGE.get()
        if exchange is not None:
            await exchange.read(response)

    hooks = {"request": [set_headers], "response": [limit_response]}
    more: dict[str, Any] = {"transport": httpx2.AsyncHTTPTransport()} if is_local else {}
    return kind(follow_redirects=False, event_hooks=hooks, **more)


class _LimitedStream(httpx2.AsyncByteStream):
    """The body of a response, decompressed. Reading more than `MAX_BODY` bytes, before or after decompression, or more
    than `MAX_VALUES` values, raises `ResponseRejected`."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, inflated: bool, is_event_stream: bool) -> None:
        self._stream, self._is_event_stream = stream, is_event_stream
        self._values = 0  # counted before the SDK parses them, since it parses a body as a whole
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if inflated else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        raw = inflated = 0
        async for chunk in self._stream:
            raw += len(chunk)
            if self._inflate is None:
                self._count_values(chunk)
            _check_size(raw)
            if self._inflate is None:
                yield chunk
                continue
            while chunk and not self._inflate.eof:
                try:
                    piece = self._inflate.decompress(chunk, _CHUNK_SIZE)
                except zlib.error:
                    raise ResponseRejected("is declared as compressed but is not") from None
                chunk = self._inflate.unconsumed_tail  # noqa: PLW2901 -- input of the next iteration
                inflated += len(piece)
                self._count_values(piece)
                _check_size(inflated)
                yield piece

    def _count_values(self, piece: bytes) -> None:
        """Add the size and the values of a piece of the body. The values of each event of a stream count from 0."""
        exchange = EXCHANGE.get()
        if exchange is not None and exchange.reply_size is not None:
            exchange.reply_size += len(piece)
        first, *events = _END_OF_EVENT.split(piece) if self._is_event_stream else [piece]
        for number, part in enumerate([first, *events]):
            self._values = count_values(part) + (0 if number else self._values)
            if self._values > MAX_VALUES:
                raise ResponseRejected(f"has more than {MAX_VALUES:,} values and was cut off")

    async def aclose(self) -> None:
        await self._stream.aclose()


def _check_size(size: int) -> None:
    if size > MAX_BODY:
        raise ResponseRejected(f"is longer than {MAX_BODY // 2**20} MB and was cut off")
