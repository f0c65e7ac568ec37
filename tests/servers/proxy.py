"""A small TCP proxy for a Unix socket that can cut connections, even during a commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

SIZE: Final = 1 << 16
COMMITTED: Final = b"reply"  # is in every statement that commits a reply


class Proxy:
    """Controls the connections through the proxy, from any thread."""

    def __init__(self, target: Path) -> None:
        self.port, self.cuts = 0, {"all": 0, "before": 0, "after": 0}
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._next: list[str] = []
        self._loop: asyncio.AbstractEventLoop

    def cut(self) -> None:
        """Cut every connection now."""
        self.cuts["all"] += 1
        self._loop.call_soon_threadsafe(self._abort)

    def cut_next_commit(self, when: str) -> None:
        """Cut the connection of the next commit of a reply, `before` the server receives it or `after` it commits."""
        self._next.append(when)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._handle_connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        self._abort()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, outer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, outer}
        self._writers |= pair
        mute = asyncio.Event()

        async def forward_requests() -> None:
            while data := await reader.read(SIZE):
                if self._next and COMMITTED in data:
                    when = self._next.pop()
                    self.cuts[when] += 1
                    if when == "before":
                        return
                    mute.set()
                outer.write(data)
                await outer.drain()

        async def forward_responses() -> None:
            while data := await inner.read(SIZE):
                if mute.is_set():  # committed, but not acknowledged
                    return
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.create_task(forward_requests()), asyncio.create_task(forward_responses())]
        with suppress(OSError):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in pair:
            each.transport.abort()
        self._writers -= pair


@contextmanager
def proxy(target: Path) -> Iterator[Proxy]:
    """A proxy on a port of 127.0.0.1."""
    result, ready = Proxy(target), threading.Event()
    stop = asyncio.Event()

    async def run() -> None:
        result._loop = asyncio.get_running_loop()
        await result._serve(ready, stop)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield result
    finally:
        result._loop.call_soon_threadsafe(stop.set)
        thread.join()
