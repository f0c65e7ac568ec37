"""The real small model replies, follows a schema, stops, uses its cache, and rejects a prompt that is too long."""

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
from skillrun.models.gateway import open_gateway
from skillrun.models.messages import Block, Message, ModelError, Request
from skillrun.models.redaction import Redactor
from tests.unit.models.settings import catalogue, unheard

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


def ask(words: str, schema: dict[str, Any] | None = None, max_tokens: int = 400) -> Request:
    return Request("embedded:smollm2-135m", SHARED, (Message("user", (Block(words),)),), max_tokens, schema=schema)


@pytest.mark.slow
def test_the_small_model_does_what_a_provider_does() -> None:
    async def conversation() -> str:
        gateway = open_gateway(catalogue(), {}, Path(platformdirs.user_cache_dir("skillrun")), unheard)
        try:
            text = await gateway.send(ask("What is a rate limiter? One sentence."), "plan/a")
            assert text.stop == "end"
            assert text.text
            assert text.price == 0
            assert text.model == "embedded:SmolLM2-135M-Instruct.Q4_1"

            requests = [ask(f"Review design {number} and list findings.", SCHEMA) for number in range(2)]
            replies = await asyncio.gather(*(gateway.send(request, "plan/b") for request in requests))
            for reply in replies:
                assert reply.stop == "end"
                jsonschema.validate(json.loads(reply.text), SCHEMA)
            assert max(reply.usage.cache_read for reply in replies) > 100

            again = [await gateway.send(ask("Name a risk.", max_tokens=40), "plan/c") for _ in range(2)]
            assert again[0].text == again[1].text

            with pytest.raises(ModelError, match=r"available context size \(8192 tokens\)") as caught:
                await gateway.send(ask("word " * 9000), "plan/d")
            assert caught.value.kind == "too_long"
            backend = gateway.clients["embedded"]
            assert isinstance(backend, EmbeddedClient)
            return backend.provider.base_url
        finally:
            await gateway.close()

    address = asyncio.run(conversation())
    with pytest.raises(URLError):
        urlopen(f"{address}/models", timeout=5)


@pytest.mark.slow
def test_the_seed_decides_the_replies() -> None:
    async def said(seed: int) -> list[str]:
        known = catalogue()
        assert known.embedded is not None
        seeded = replace(known, embedded=replace(known.embedded, seed=seed))
        gateway = open_gateway(seeded, {}, Path(platformdirs.user_cache_dir("skillrun")), unheard)
        try:
            asked = (ask("Name three risks.", max_tokens=16), ask("Review the design.", SCHEMA, max_tokens=16))
            return [(await gateway.send(one, "plan/a")).text for one in asked]
        finally:
            await gateway.close()

    first, again, other = (asyncio.run(said(seed)) for seed in (1, 1, 2))
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


@pytest.mark.slow
def test_an_unfinished_call_does_not_keep_the_model_from_closing() -> None:
    async def interrupted() -> None:
        gateway = open_gateway(catalogue(), {}, Path(platformdirs.user_cache_dir("skillrun")), unheard)
        call = asyncio.create_task(gateway.send(ask("Write a very long story.", max_tokens=1000), "plan/a"))
        await asyncio.sleep(2)
        call.cancel()
        async with asyncio.timeout(20):
            await gateway.close()

    asyncio.run(interrupted())


@pytest.mark.slow
def test_a_server_that_was_never_asked_can_be_closed() -> None:
    async def opened_and_closed() -> None:
        known = catalogue()
        settings = known.embedded
        assert settings is not None
        cache = Path(platformdirs.user_cache_dir("skillrun"))
        for _ in range(3):
            backend = await embedded.open_embedded_client(
                known.providers["embedded"], settings, cache, os.environ, unheard, Redactor()
            )
            await backend.close()

    asyncio.run(opened_and_closed())


@pytest.mark.slow
def test_nothing_of_the_server_reaches_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    async def once() -> None:
        gateway = open_gateway(catalogue(), {}, Path(platformdirs.user_cache_dir("skillrun")), unheard)
        await gateway.send(ask("Hello.", max_tokens=20), "plan/a")
        await gateway.close()

    asyncio.run(once())
    assert capfd.readouterr() == ("", "")
