"""A gateway that tells what is sent, where somebody has asked for the texts of prompts in traces."""

from __future__ import annotations

from contextlib import suppress

from skillrun.extensions.workers.telemetry.spans import Spans
from skillrun.models.messages import UNTOLD, AttemptListener, Gateway, Reply, Request


class TellingGateway:
    """What is sent is known to the spans before it goes out; whatever they do with it, it goes out."""

    def __init__(self, inner: Gateway, told: Spans) -> None:
        self._inner, self._told = inner, told

    async def send(self, request: Request, address: str, attempts: AttemptListener = UNTOLD) -> Reply:
        with suppress(Exception):
            self._told.prompt(address, request.to_dict())
        return await self._inner.send(request, address, attempts)

    async def close(self) -> None:
        await self._inner.close()
