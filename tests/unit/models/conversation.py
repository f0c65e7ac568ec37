"""Sends requests through the gateway to a local server and returns the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Reply, Request
from tests.servers.wire import Wire
from tests.unit.models.settings import catalogue

KEY = "sk-test-0123456789"
KEYS = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY}


def converse(
    wire: Wire,
    *requests: Request,
    environ: Mapping[str, str] | None = None,
    retry: dict[str, float] | None = None,
    notices: list[str] | None = None,
    attempts: AttemptListener = NULL_LISTENER,
    **changes: Any,
) -> list[Reply]:
    """Send requests concurrently and return the replies. The server replaces the provider of the first request."""

    async def send_all() -> list[Reply]:
        kind = "chat" if provider == "ollama" else provider
        defaults = {"ollama": {"kind": "openai", "key": ""}}.get(provider, {})
        url = wire.url if kind == "anthropic" else f"{wire.url}/v1"
        models = catalogue(retry, **{provider: {**defaults, "base_url": url, **changes}})
        gateway = ModelGateway(
            models,
            KEYS if environ is None else environ,
            Path(__file__) / "no-cache",
            (notices if notices is not None else []).append,
        )
        try:
            return list(await asyncio.gather(*(gateway.send(request, "plan/a", attempts) for request in requests)))
        finally:
            await gateway.close()

    provider = requests[0].model.partition(":")[0]
    return asyncio.run(send_all())
