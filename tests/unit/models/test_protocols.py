"""Every protocol against a local server: the same situations for Claude, GPT, Gemini and other endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from skillrun.models.messages import Block, Message, ModelError, Reply, ToolSpec
from tests.conftest import TIMES
from tests.faults import cut_responses
from tests.faults.speaking import PROTOCOLS
from tests.servers import anthropic, google, openai
from tests.servers.wire import Answer, WireRequest, serve
from tests.unit.models.conversation import KEYS, converse
from tests.unit.models.settings import catalogue, request

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.row("X5")]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}
READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
LONG = 60_000  # tokens; with this limit, Claude's replies are streamed


@dataclass(frozen=True)
class ProviderResponses:
    """The responses of one provider in each situation; `settings` configure it in the catalogue."""

    model: str
    text: Callable[[str], Answer]
    tool: Answer
    cut: Answer
    refused: Answer
    error: Callable[[int], Answer]
    wait: Answer
    models: Callable[..., Answer]
    settings: Mapping[str, Any] = field(default_factory=dict)


def _openai_error(status: int) -> Answer:
    return openai.error(status, "it failed")


ARGUMENTS = {"path": "a.py"}
CHAT: dict[str, Any] = {
    "text": openai.completion,
    "tool": openai.completion(None, "tool_calls", [openai.call("Read", ARGUMENTS)]),
    "cut": openai.completion("half a sen", "length"),
    "refused": openai.completion("", "content_filter"),
    "error": _openai_error,
    "wait": openai.error(429, "slow down", retry_after_ms="20"),
    "models": openai.models,
}
KEYLESS = {"kind": "openai", "key": ""}
PROVIDERS = {
    "anthropic": ProviderResponses(
        "anthropic:claude-opus-5-5",
        lambda words: anthropic.message(anthropic.text(words)),
        anthropic.message(anthropic.tool_use("Read", ARGUMENTS), stop_reason="tool_use"),
        anthropic.message(anthropic.text("half a sen"), stop_reason="max_tokens"),
        anthropic.message(stop_reason="refusal"),
        lambda status: anthropic.error(status, "api_error", "it failed"),
        anthropic.error(429, "rate_limit_error", "slow down", retry_after_ms="20"),
        anthropic.models,
    ),
    "openai": ProviderResponses(
        "openai:gpt-6.1-sol",
        lambda words: openai.response(openai.output_text(words)),
        openai.response(openai.function_call("Read", ARGUMENTS)),
        openai.response(openai.output_text("half a sen"), status="incomplete", incomplete="max_output_tokens"),
        openai.response(openai.refusal("No.")),
        _openai_error,
        openai.error(429, "slow down", retry_after_ms="20"),
        openai.models,
    ),
    "google": ProviderResponses(
        "google:gemini-3.1-pro-preview",
        google.completion,
        google.completion(None, finish_reason="tool_calls", tool_calls=[google.call("Read", ARGUMENTS)]),
        google.completion("half a sen", finish_reason="length"),
        google.completion("", finish_reason="content_filter"),
        lambda status: google.error(status, "INTERNAL", "it failed"),
        google.limited("0.02s"),
        google.models,
    ),
    "ollama": ProviderResponses("ollama:llama3:8b", **CHAT, settings=KEYLESS),
    "openrouter": ProviderResponses(
        "openrouter:anthropic/claude-opus-5.5", **CHAT, settings={"kind": "openai", "key": "OPENROUTER_API_KEY"}
    ),
}
ENVIRON = {**KEYS, "OPENROUTER_API_KEY": "sk-or-test-0123456789"}


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> ProviderResponses:
    return PROVIDERS[request.param]


def send(
    provider: ProviderResponses, *answers: Answer, notices: list[str] | None = None, **more: Any
) -> tuple[Reply, list[WireRequest]]:
    with serve(list(answers)) as wire:
        retry = more.pop("retry", {})
        (reply,) = converse(
            wire,
            request(provider.model, **more),
            environ=ENVIRON,
            retry={"first": 0, **retry},
            notices=notices,
            **provider.settings,
        )
        return reply, wire.asked


def error_of(provider: ProviderResponses, *answers: Answer, **more: Any) -> tuple[ModelError, int]:
    retry = {"first": 0, "attempts": 3, **more.pop("retry", {})}
    with serve(list(answers)) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(provider.model, **more), environ=ENVIRON, retry=retry, **provider.settings)
    return caught.value, len(wire.asked)


def test_text_and_structured_replies_are_received(provider: ProviderResponses) -> None:
    reply, asked = send(provider, provider.text("Hello."))
    assert (reply.text, reply.stop) == ("Hello.", "end")
    assert asked[0].body["model"] == provider.model.partition(":")[2]
    assert (reply.usage.input, reply.usage.output) == (10, 5)
    reply, asked = send(provider, provider.text('{"score": 3}'), schema=SCHEMA)
    assert json.loads(reply.text) == {"score": 3}
    assert '"score"' in json.dumps(asked[0].body)


def test_a_conversation_continues_after_a_tool_call(provider: ProviderResponses) -> None:
    first, asked = send(provider, provider.tool, tools=(READ,))
    assert first.stop == "tool"
    assert [(call.name, call.arguments) for call in first.calls] == [("Read", ARGUMENTS)]
    turns = (
        Message("user", (Block("Look."),)),
        Message("assistant", (), first.calls),
        Message("tool", (Block("print(1)"),), call_id=first.calls[0].id),
    )
    last, asked = send(provider, provider.text("It prints."), tools=(READ,), messages=turns)
    assert last.text == "It prints."
    assert "print(1)" in json.dumps(asked[0].body)


def test_a_truncated_or_refused_reply_has_its_stop_reason(provider: ProviderResponses) -> None:
    assert send(provider, provider.cut)[0].stop == "length"
    assert send(provider, provider.refused)[0].stop == "refusal"


@pytest.mark.slow
def test_calls_are_retried_with_and_without_a_requested_wait(provider: ProviderResponses) -> None:
    notices: list[str] = []
    reply, asked = send(provider, provider.wait, provider.text("Hello."), notices=notices)
    assert (reply.text, len(asked)) == ("Hello.", 2)
    assert reply.seconds >= 0.02
    assert "limits the rate of calls" in notices[0]
    for status in (429, 500, 503, 529):
        reply, asked = send(provider, provider.error(status), provider.text("Hello."))
        assert (reply.text, len(asked)) == ("Hello.", 2), status


@pytest.mark.slow
def test_a_permanent_error_is_not_retried(provider: ProviderResponses) -> None:
    kinds = {401: "auth", 403: "auth", 404: "not_found", 400: "invalid_request"}
    for status, kind in kinds.items():
        error, request_count = error_of(provider, provider.error(status))
        assert (error.kind, request_count) == (kind, 1), status
        assert "it failed" in error.message


def test_a_model_list_is_read(provider: ProviderResponses, tmp_path: Path) -> None:
    name = provider.model.partition(":")[0]
    with serve([provider.models("some-model-1", "some-model-2")]) as wire:
        url = wire.url if name == "anthropic" else f"{wire.url}/v1"
        config = catalogue(**{name: {**provider.settings, "base_url": url}})
        from skillrun.models import model_lists

        model_list = asyncio.run(model_lists.fetch_model_list(config.providers[name], "sk-test-0123456789", tmp_path))
    assert model_list.names == ("some-model-1", "some-model-2")


# -- features of individual providers ---------------------------------------------------------------------------------


@pytest.mark.row("S2")
def test_the_model_list_of_claude_is_paginated(tmp_path: Path) -> None:
    names = [f"claude-opus-{number}" for number in range(1, 8)]

    def list_page(asked: WireRequest) -> Answer:
        start = next((index + 1 for index, name in enumerate(names) if f"after_id={name}" in asked.path), 0)
        page = anthropic.models(*names[start : start + 3])
        page.body["has_more"] = start + 3 < len(names)
        return page

    with serve(list_page) as wire:
        config = catalogue(anthropic={"base_url": wire.url})
        resolved = asyncio.run(config.resolve_live("latest Claude Opus", KEYS, tmp_path))
    assert resolved.model == "anthropic:claude-opus-7"
    assert len(wire.asked) == 3


def test_a_potentially_long_reply_of_claude_is_streamed() -> None:
    provider = PROVIDERS["anthropic"]
    reply, asked = send(provider, anthropic.stream("A long story."), max_tokens=LONG)
    assert asked[0].body["stream"] is True
    assert (reply.text, reply.stop) == ("A long story.", "end")


@pytest.mark.slow
def test_only_gemini_gets_back_the_signature_of_its_calls() -> None:
    """Without it, Gemini 3 rejects the next turn (HTTP 400)."""

    def answer(asked: WireRequest) -> Answer:
        if len(asked.body["messages"]) == 2:
            return PROVIDERS["google"].tool
        (call,) = asked.body["messages"][2]["tool_calls"]
        is_signed = call.get("extra_content") == {"google": {"thought_signature": google.SIGNATURE}}
        return google.completion("It prints.") if is_signed else google.unsigned("Read")

    with serve(answer) as wire:
        (first,) = converse(wire, request(PROVIDERS["google"].model, tools=(READ,)), environ=ENVIRON)
        restored = Reply.from_dict(json.loads(json.dumps(first.to_dict())))
        turns = (
            Message("user", (Block("Look."),)),
            Message("assistant", (), restored.calls),
            Message("tool", (Block("print(1)"),), call_id=restored.calls[0].id),
        )
        next_request = request(PROVIDERS["google"].model, tools=(READ,), messages=turns)
        (last,) = converse(wire, next_request, environ=ENVIRON)
    assert last.text == "It prints."
    for name in ("anthropic", "openai"):
        _, asked = send(PROVIDERS[name], PROVIDERS[name].text("a"), tools=(READ,), messages=turns)
        assert "signature" not in json.dumps(asked[0].body)


def test_a_signature_does_not_change_the_fingerprint() -> None:
    def fingerprint(signature: str) -> str:
        with serve(
            [
                google.completion(
                    None, finish_reason="tool_calls", tool_calls=[google.call("Read", ARGUMENTS, signature=signature)]
                )
            ]
        ) as wire:
            (reply,) = converse(wire, request(PROVIDERS["google"].model, tools=(READ,)), environ=ENVIRON)
        return request(messages=(Message("assistant", (), reply.calls),)).fingerprint()

    assert fingerprint("one") == fingerprint("two") == fingerprint("")


def test_thinking_tokens_of_gemini_count_as_output() -> None:
    reply, _ = send(PROVIDERS["google"], google.completion("Hello.", thoughts=400))
    assert (reply.usage.input, reply.usage.output) == (10, 405)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (google.wrong_key(), "auth", "API key not valid"),
        (
            google.error(
                400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."
            ),
            "too_long",
            "The input token count",
        ),
        (google.limited("3600s"), "rate_limit", "it asks to wait 3600 s"),
        (google.unsigned("Read"), "invalid_request", "missing a thought_signature"),
    ],
)
def test_errors_of_google_are_classified(answer: Answer, kind: str, words: str) -> None:
    error, request_count = error_of(PROVIDERS["google"], answer)
    assert (error.kind, request_count) == (kind, 1)
    assert words in error.message
    assert "[{" not in error.message


@pytest.mark.parametrize(
    ("code", "kind"),
    [(502, "overloaded"), (429, "rate_limit"), (401, "auth"), (402, "budget"), (404, "not_found"), (7, "overloaded")],
)
def test_an_error_in_a_successful_response_is_classified_by_its_code(code: int, kind: str) -> None:
    """OpenRouter and other gateways send one with status 200 if the upstream provider fails."""
    response = Answer({"error": {"code": code, "message": "Upstream is gone"}})
    error, request_count = error_of(PROVIDERS["openrouter"], response)
    assert (error.kind, request_count) == (kind, 3 if error.retryable else 1)
    assert "Upstream is gone" in error.message
    if error.retryable:
        reply, _ = send(PROVIDERS["openrouter"], response, PROVIDERS["openrouter"].text("Hello."))
        assert reply.text == "Hello."


@pytest.mark.row("S2")
def test_intents_of_three_providers_resolve_to_the_newest_models(tmp_path: Path) -> None:
    lists = {
        "anthropic": ("claude-opus-7-1", "claude-opus-6", "claude-haiku-9"),
        "openai": ("gpt-7-sol", "gpt-6.1-sol", "gpt-8-luna"),
        "google": ("gemini-4-pro", "gemini-3.9-pro", "gemini-5-flash"),
    }

    def list_models(asked: WireRequest) -> Answer:
        name = asked.path.split("/")[1]
        return PROVIDERS[name].models(*lists[name])

    with serve(list_models) as wire:
        urls = {name: f"{wire.url}/{name}" + ("" if name == "anthropic" else "/v1") for name in lists}
        config = catalogue(None, **{name: {"base_url": url} for name, url in urls.items()})
        for _ in range(2):
            models = [
                asyncio.run(config.resolve_live(name, KEYS, tmp_path)).model
                for name in ("latest GPT", "latest Gemini", "latest Claude Opus")
            ]
            assert models == ["openai:gpt-7-sol", "google:gemini-4-pro", "anthropic:claude-opus-7-1"]
    assert len(wire.asked) == len(lists), "each list is fetched once and cached"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROTOCOLS, "anthropic-stream"])
def test_a_response_cut_at_any_byte_is_never_accepted_as_complete(name: str) -> None:
    cut_responses.hold(*cut_responses.all_cases(name)[:: max(1, 16 // TIMES)])
