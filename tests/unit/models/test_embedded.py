"""The real embedded model replies, follows a schema, stops, uses its cache, and rejects a prompt that is too long."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import jsonschema
import platformdirs
import pytest

from skillrun.models import embedded
from skillrun.models.embedded import EmbeddedClient
from skillrun.models.entries import ClientContext
from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import Block, Message, ModelError, Request
from skillrun.models.redaction import Redactor
from tests.unit.models.settings import catalogue, ignore_progress

pytestmark = [pytest.mark.embedded, pytest.mark.row("X5")]

STRING = {"type": "string"}
FINDING = {
    "type": "object",
    "properties": {"title": STRING, "severity": {"enum": ["LOW", "HIGH"]}, "score": {"type": "integer", "minimum": 0}},
    "required": ["title", "severity", "score"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"summary": STRING, "findings": {"type": "array", "items": FINDING}},
    "required": ["summary", "findings"],
    "additionalProperties": False,
}
SHARED = (Block("You are a software architect. " + "The web shop has an API. " * 20, cache=True),)


def make_request(words: str, schema: dict[str, Any] | None = None, max_tokens: int = 400) -> Request:
    return Request("embedded:smollm2-135m", SHARED, (Message("user", (Block(words),)),), max_tokens, schema=schema)


@pytest.mark.slow
def test_the_embedded_model_behaves_like_a_provider() -> None:
    async def converse() -> str:
        gateway = ModelGateway(catalogue(), {}, Path(platformdirs.user_cache_dir("skillrun")), ignore_progress)
        try:
            text = await gateway.send(make_request("What is a rate limiter? One sentence."), "plan/a")
            assert text.stop == "end"
            assert text.text
            assert text.price == 0
            assert text.model == "embedded:SmolLM2-135M-Instruct.Q4_1"

            requests = [make_request(f"Review design {number} and list findings.", SCHEMA) for number in range(2)]
            replies = await asyncio.gather(*(gateway.send(request, "plan/b") for request in requests))
            for reply in replies:
                assert reply.stop == "end"
                jsonschema.validate(json.loads(reply.text), SCHEMA)
            assert max(reply.usage.cache_read for reply in replies) > 100

            repeated = [await gateway.send(make_request("Name a risk.", max_tokens=40), "plan/c") for _ in range(2)]
            assert repeated[0].text == repeated[1].text

            with pytest.raises(ModelError, match=r"available context size \(8192 tokens\)") as caught:
                await gateway.send(make_request("word " * 9000), "plan/d")
            assert caught.value.kind == "too_long"
            backend = gateway.clients["embedded"]
            assert isinstance(backend, EmbeddedClient)
            return backend.provider.base_url
        finally:
            await gateway.close()

    address = asyncio.run(converse())
    with pytest.raises(URLError):
        urlopen(f"{address}/models", timeout=5)


@pytest.mark.slow
def test_the_seed_determines_the_replies() -> None:
    async def replies_with(seed: int) -> list[str]:
        models = catalogue()
        assert models.embedded is not None
        seeded = replace(models, embedded=replace(models.embedded, seed=seed))
        gateway = ModelGateway(seeded, {}, Path(platformdirs.user_cache_dir("skillrun")), ignore_progress)
        try:
            requests = (
                make_request("Name three risks.", max_tokens=16),
                make_request("Review the design.", SCHEMA, max_tokens=16),
            )
            return [(await gateway.send(request, "plan/a")).text for request in requests]
        finally:
            await gateway.close()

    first, repeated, other = (asyncio.run(replies_with(seed)) for seed in (1, 1, 2))
    assert first == repeated
    assert all(text != other_text for text, other_text in zip(first, other, strict=True))


@pytest.mark.slow
def test_an_unfinished_call_does_not_prevent_closing_the_model() -> None:
    async def cancel_and_close() -> None:
        gateway = ModelGateway(catalogue(), {}, Path(platformdirs.user_cache_dir("skillrun")), ignore_progress)
        call = asyncio.create_task(gateway.send(make_request("Write a very long story.", max_tokens=1000), "plan/a"))
        await asyncio.sleep(2)
        call.cancel()
        async with asyncio.timeout(20):
            await gateway.close()

    asyncio.run(cancel_and_close())


@pytest.mark.slow
def test_an_unused_server_can_be_closed() -> None:
    async def open_and_close() -> None:
        models = catalogue()
        settings = models.embedded
        assert settings is not None
        cache = Path(platformdirs.user_cache_dir("skillrun"))
        for _ in range(3):
            provider = models.providers["embedded"]
            context = ClientContext(provider, "", "", os.environ, cache, ignore_progress, Redactor(), settings)
            backend = await embedded.open_client(context)
            await backend.close()

    asyncio.run(open_and_close())


@pytest.mark.slow
def test_the_server_prints_nothing_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    async def send_and_close() -> None:
        gateway = ModelGateway(catalogue(), {}, Path(platformdirs.user_cache_dir("skillrun")), ignore_progress)
        await gateway.send(make_request("Hello.", max_tokens=20), "plan/a")
        await gateway.close()

    asyncio.run(send_and_close())
    assert capfd.readouterr() == ("", "")
