"""The small embedded model: a llama.cpp server in this process, reached over the loopback interface.

Its replies are meaningless. It exists so that workflows can be tried out and tested without a key or a network.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillrun.installation import extra_hint
from skillrun.models.entries import DEFAULT_WINDOW
from skillrun.models.messages import Reply, Request
from skillrun.models.providers import ProviderClient
from skillrun.models.weights import KEY_HINT, fetch_weights, weights_error

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

    from skillrun.models.entries import ClientContext

STEPS = [(items, characters) for items in (4, 3, 2, 1) for characters in (400, 270, 180, 120, 80, 40)]
"""Pairs of limits: items per list and characters per text. Wherever the schema sets no limit, the first pair that makes
the reply short enough is used."""
_OVERHEAD = 8  # characters of punctuation and white space per value


def limit_schema(schema: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """Return `schema` with `maxItems` and `maxLength` added where they are missing, so that the longest reply fits into
    `max_tokens`. A character counts as one token, the worst case for a small model."""
    smaller = schema
    for items, characters in STEPS:
        smaller = _apply_limits(schema, items, characters)
        if max_reply_length(smaller) <= max_tokens:
            break
    return smaller


def max_reply_length(schema: Any) -> int:
    """Return an estimate of the longest reply's length in characters. A text without a limit counts as 100
    characters."""
    if not isinstance(schema, Mapping):
        return _OVERHEAD
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if branches:
        return max(map(max_reply_length, branches))
    if "enum" in schema:
        return max((len(str(value)) for value in schema["enum"]), default=0) + _OVERHEAD
    if schema.get("type") == "array":
        return _OVERHEAD + int(schema.get("maxItems", 100)) * max_reply_length(schema.get("items", {}))
    if schema.get("type") == "string":
        return _OVERHEAD + int(schema.get("maxLength", 100))
    properties: Mapping[str, Any] = schema.get("properties", {})
    return _OVERHEAD + sum(len(name) + _OVERHEAD + max_reply_length(value) for name, value in properties.items())


def _apply_limits(schema: Any, items: int, characters: int) -> Any:
    if isinstance(schema, list):
        return [_apply_limits(item, items, characters) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    smaller: dict[str, Any] = {}
    for key, inner in schema.items():
        if key in {"properties", "$defs"}:
            smaller[key] = {name: _apply_limits(value, items, characters) for name, value in inner.items()}
        else:
            values = key in {"enum", "const", "default", "examples", "required"}
            smaller[key] = inner if values else _apply_limits(inner, items, characters)
    if schema.get("type") == "array":
        smaller.setdefault("maxItems", max(items, schema.get("minItems", 0)))
    elif schema.get("type") == "string":
        smaller.setdefault("maxLength", max(characters, schema.get("minLength", 0)))
    return smaller


LONGEST_REPLY = 320  # characters of a text reply: a model this small often does not stop by itself
LONGEST_RECORD = 400  # characters of a structured reply


async def open_client(context: ClientContext) -> EmbeddedClient:
    """Fetch the weights if they are missing, start the server, and return a client for it. Raises `ModelError`."""
    settings = context.embedded
    assert settings is not None
    try:
        await asyncio.to_thread(import_module, "xllamacpp")
    except ImportError:
        step = f"Install it: {extra_hint('local')}. {KEY_HINT}"
        raise weights_error("the small local model needs xllamacpp, which is not installed", step) from None
    path = await fetch_weights(settings, context.cache, context.environ, context.progress)
    return await asyncio.to_thread(_start_server, context, path, settings.seed)


def _start_server(context: ClientContext, path: Path, seed: int) -> EmbeddedClient:
    import xllamacpp

    provider = context.provider
    key = secrets.token_hex(16)  # prevents other programs on this machine from using the server
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {path.stem}
    params.n_parallel = provider.concurrency
    params.n_ctx = (provider.window or DEFAULT_WINDOW) * provider.concurrency  # divided among the slots
    for cores in (params.cpuparams, params.cpuparams_batch):
        # llama.cpp's threads busy-wait for each other. On a busy machine, using more threads than there are free cores
        # is many times slower than using fewer.
        cores.n_threads = max(1, min(4, (os.cpu_count() or 2) // 2))
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.cache_ram_mib = 512  # for prompt prefixes evicted from a slot
    params.warmup = False
    params.verbosity = 0
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise weights_error(f"the small local model does not start from {path}: {error}", KEY_HINT) from None
    # A server that is stopped before its loop starts deadlocks, and blocks the interpreter (xllamacpp 2026.10). Once
    # this request returns, the loop has started, even if the caller is cancelled now.
    server.handle_completions({"prompt": "a", "n_predict": 1})
    local = replace(provider, base_url=f"{server.listening_address}/v1")
    client = EmbeddedClient(replace(context, provider=local, key=key), server, seed)
    client.prepare_model(path.stem)
    return client


class EmbeddedClient(ProviderClient):
    def __init__(self, context: ClientContext, server: Any, seed: int) -> None:
        super().__init__(context)
        self._server = server
        self._seed = seed

    async def send(self, request: Request) -> Reply:
        if request.schema is not None:
            request = replace(request, schema=limit_schema(request.schema, min(LONGEST_RECORD, request.max_tokens)))
        return await super().send(request)

    def build_settings(self, request: Request, profile: ModelProfile) -> dict[str, Any]:
        structured = request.schema is not None
        extra: dict[str, Any] = {
            "seed": self._seed,
            "repeat_penalty": 1.05 if structured else 1.1,
            "repeat_last_n": 256,
        }
        if not structured:
            extra["grammar"] = f"root ::= [^\\x00]{{1,{min(LONGEST_REPLY, request.max_tokens)}}}"
        return {"temperature": 0.3, **super().build_settings(request, profile), "extra_body": extra}

    async def close(self) -> None:
        await super().close()
        last, self._server = [self._server], None
        await asyncio.to_thread(last.clear)  # dropping the last reference stops the server
