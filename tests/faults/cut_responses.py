"""Responses of a provider that end in their middle: at any byte, however their end is told. None is taken for whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from skillrun.models.gateway import ModelGateway, open_gateway
from skillrun.models.messages import ModelError
from tests.faults.speaking import KEYS, PROTOCOLS
from tests.servers.cut import response, serve_cut
from tests.servers.wire import Asked
from tests.unit.models.settings import catalogue, request, unheard

FRAMINGS: Final = ("length", "chunks", "close")
STREAMED: Final = 60_000  # tokens; a reply that may be so long comes as events


def whole(name: str, framing: str) -> bytes:
    """All bytes of a response; those of `anthropic-stream` come as events."""
    protocol = PROTOCOLS[name.removesuffix("-stream")]
    answer = protocol.answer(Asked("", {}, {"stream": name.endswith("-stream"), "messages": name}))
    if isinstance(answer.body, str):
        return response(answer.body.encode(), framing, "text/event-stream")
    return response(json.dumps(answer.body).encode(), framing)


def cases(random: Random) -> Iterator[str]:
    """Without an end: a protocol, how the end is told, and after how many bytes it comes."""
    names = (*PROTOCOLS, "anthropic-stream")
    while True:
        name, framing = random.choice(names), random.choice(FRAMINGS)
        size = len(whole(name, framing))
        yield f"{name} {framing} {random.randrange(size - _needless(name))}"


def every(name: str, framing: str = "length") -> list[str]:
    """A case for each byte of a response after which it may end; what is needless at its end is left out."""
    return [f"{name} {framing} {size}" for size in range(len(whole(name, framing)) - _needless(name))]


def _needless(name: str) -> int:
    return 80 if name.endswith("-stream") else 8  # the last event and what frames it, or what frames the body


def hold(*found: str) -> None:
    """Every case, one after the other, over one gateway of each protocol."""
    asyncio.run(_hold(found))


async def _hold(found: tuple[str, ...]) -> None:
    sent = b""
    with serve_cut(lambda: sent) as url:
        known = catalogue(
            {"attempts": 1},
            anthropic={"base_url": url},
            openai={"base_url": f"{url}/v1"},
            google={"base_url": f"{url}/v1"},
            local={"kind": "openai", "base_url": f"{url}/v1", "key": ""},
        )
        gateway = open_gateway(known, KEYS, Path("unused"), unheard)
        try:
            for name in dict.fromkeys(case.split()[0] for case in found):
                sent = whole(name, "length")
                assert await _reply(gateway, name), f"a whole response of {name} is none"
            for case in found:
                name, framing, size = case.split()
                sent = whole(name, framing)[: int(size)]
                text = await _reply(gateway, name)
                assert text is None, f"{case}: taken for whole: {text!r}"
        finally:
            await gateway.close()


async def _reply(gateway: ModelGateway, name: str) -> str | None:
    """The text of a reply; None where the call has failed."""
    model = PROTOCOLS[name.removesuffix("-stream")].model
    most = STREAMED if name.endswith("-stream") else 100
    try:
        reply = await gateway.send(request(model, max_tokens=most), "small/gather")
    except ModelError:
        return None
    return reply.text if reply.stop == "end" else None
