"""Providers that send bad responses in each wire protocol, once or permanently."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final, Self

from tests.faults.processes import Forks
from tests.faults.speaking import BAD, PROTOCOLS
from tests.faults.world import BEGIN, World, assert_no_crash, assert_run_finishes, assert_status_is_true, recorded_calls
from tests.servers.wire import Answer, Wire, WireRequest, serve

CLOSED: Final = "closed-port"
MOST_REQUESTS: Final = 6  # of one call, whatever the provider sends


class Providers:
    """A server and a world for each protocol, created on first use."""

    def __init__(self, place: Path, forks: Forks) -> None:
        self.place, self.forks = place, forks
        self.bad: tuple[int, str, bool] | None = None
        self.requests = 0
        self._stack = ExitStack()
        self._worlds: dict[str, tuple[World, Wire]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def world(self, name: str) -> tuple[World, Wire]:
        if name not in self._worlds:
            protocol = PROTOCOLS[name]

            def answer(request: WireRequest) -> Answer:
                self.requests += 1
                if self.bad is not None:
                    number, kind, lasting = self.bad
                    if self.requests == number or (lasting and self.requests > number):
                        return protocol.bad(kind, request)
                return protocol.answer(request)

            wire = self._stack.enter_context(serve(answer))
            folder = self.place / name
            folder.mkdir(parents=True)
            warm = ["small", "A call", "--name", "warm", "--out", str(folder / "warm")]
            options = {"warm": warm, "environment": protocol.environment(wire.url)}
            self._worlds[name] = World(folder, self.forks, protocol.model, options, [local(wire.url)]), wire
        return self._worlds[name]


def local(url: str) -> tuple[str, str]:
    """The name and text of a `models.yaml` with a local endpoint and retries without delay."""
    provider = f'{{kind: openai, base_url: "{url}/v1", key: ""}}'
    text = f"retry: {{attempts: 2, seconds: 5, first: 0}}\nproviders: {{local: {provider}}}\n"
    return "config/models.yaml", text


def cases(_: Providers, random: Random) -> Iterator[str]:
    """Every bad response in every protocol, once and permanently, at the first and at a later request."""
    for kind in (*BAD, CLOSED):
        for name in PROTOCOLS:
            yield f"{name} 1 {kind} lasting"
            yield f"{name} {random.randint(2, 20)} {kind} {random.choice(('once', 'lasting'))}"


def hold(providers: Providers, case: str) -> None:
    name, number, kind, lasting = case.split()
    world, wire = providers.world(name)
    world.start("begin")
    providers.requests = 0
    closed = {}
    if kind == CLOSED:
        closed = _closed(world, name)
    else:
        providers.bad = int(number), kind, lasting == "lasting"
    try:
        result = world.skillrun(*BEGIN, environment=closed)
    finally:
        providers.bad = None
        (world.project / "config" / "models.yaml").write_text(local(wire.url)[1])
    assert_no_crash(result)
    assert result.code in (0, 1, 75), result
    calls = len(world.sent())
    assert providers.requests <= MOST_REQUESTS * max(1, calls), f"{providers.requests} requests for {calls} calls"
    assert_status_is_true(world, result, same=False)
    assert_run_finishes(world, recorded_calls(world), "--yes", same=False)


def _closed(world: World, name: str) -> dict[str, str]:
    """Point the provider to a closed port, by the environment or the project's file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    (world.project / "config" / "models.yaml").write_text(local(url)[1])
    return PROTOCOLS[name].environment(url)
