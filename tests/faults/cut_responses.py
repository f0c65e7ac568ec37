"""Provider responses that are cut off at any byte, with any framing. None may be accepted as complete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import ModelError
from tests.faults.speaking import KEYS, PROTOCOLS
from tests.servers.cut import response, serve_cut
from tests.servers.wire import WireRequest
from tests.unit.models.settings import catalogue, ignore_progress, request

FRAMINGS: Final = ("length", "chunks", "close")
STREAMED: Final = 60_000  # tokens; replies with this limit are streamed


def complete_response(name: str, framing: str) -> bytes:
    """All bytes of a response; those of `anthropic-stream` are events."""
    protocol = PROTOCOLS[name.removesuffix("-stream")]
    answer = protocol.answer(WireRequest("", {}, {"stream": name.endswith("-stream"), "messages": name}))
    if isinstance(answer.body, str):
        return response(answer.body.encode(), framing, "text/event-stream")
    return response(json.dumps(answer.body).encode(), framing)


def cases(random: Random) -> Iterator[str]:
    """An endless sequence of cases: a protocol, a framing, and the number of bytes sent."""
    names = (*PROTOCOLS, "anthropic-stream")
    while True:
        name, framing = random.choice(names), random.choice(FRAMINGS)
        size = len(complete_response(name, framing))
        yield f"{name} {framing} {random.randrange(size - _optional_bytes(name))}"


def all_cases(name: str, framing: str = "length") -> list[str]:
    """A case for each byte after which a response may end, except optional bytes at the end."""
    return [f"{name} {framing} {size}" for size in range(len(complete_response(name, framing)) - _optional_bytes(name))]


def _optional_bytes(name: str) -> int:
    return 80 if name.endswith("-stream") else 8  # the last event and its framing, or the framing of the body


def hold(*cases: str) -> None:
    """Check the cases sequentially, with one gateway for all protocols."""
    asyncio.run(_hold(cases))


async def _hold(cases: tuple[str, ...]) -> None:
    sent = b""
    with serve_cut(lambda: sent) as url:
        known = catalogue(
            {"attempts": 1},
            anthropic={"base_url": url},
            openai={"base_url": f"{url}/v1"},
            google={"base_url": f"{url}/v1"},
            local={"kind": "openai", "base_url": f"{url}/v1", "key": ""},
        )
        gateway = ModelGateway(known, KEYS, Path("unused"), ignore_progress)
        try:
            for name in dict.fromkeys(case.split()[0] for case in cases):
                sent = complete_response(name, "length")
                assert await _reply(gateway, name), f"{name}: a complete response is refused"
            for case in cases:
                name, framing, size = case.split()
                sent = complete_response(name, framing)[: int(size)]
                text = await _reply(gateway, name)
                assert text is None, f"{case}: accepted as complete: {text!r}"
        finally:
            await gateway.close()


async def _reply(gateway: ModelGateway, name: str) -> str | None:
    """The text of a reply, or None if the call fails."""
    model = PROTOCOLS[name.removesuffix("-stream")].model
    most = STREAMED if name.endswith("-stream") else 100
    try:
        reply = await gateway.send(request(model, max_tokens=most), "small/gather")
    except ModelError:
        return None
    return reply.text if reply.stop == "end" else None
