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
from tests.servers.wire import Answer, Asked, serve
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
class Speaker:
    """How one provider responds in each situation; `own` are its settings in the catalogue."""

    model: str
    text: Callable[[str], Answer]
    tool: Answer
    cut: Answer
    refused: Answer
    error: Callable[[int], Answer]
    wait: Answer
    models: Callable[..., Answer]
    own: Mapping[str, Any] = field(default_factory=dict)


def _openai_error(status: int) -> Answer:
    return openai.error(status, "it failed")


CALLED = {"path": "a.py"}
CHAT: dict[str, Any] = {
    "text": openai.completion,
    "tool": openai.completion(None, "tool_calls", [openai.call("Read", CALLED)]),
    "cut": openai.completion("half a sen", "length"),
    "refused": openai.completion("", "content_filter"),
    "error": _openai_error,
    "wait": openai.error(429, "slow down", retry_after_ms="20"),
    "models": openai.models,
}
BY_URL = {"kind": "openai", "key": ""}
SPEAKERS = {
    "anthropic": Speaker(
        "anthropic:claude-opus-5-5",
        lambda words: anthropic.message(anthropic.text(words)),
        anthropic.message(anthropic.tool_use("Read", CALLED), stop_reason="tool_use"),
        anthropic.message(anthropic.text("half a sen"), stop_reason="max_tokens"),
        anthropic.message(stop_reason="refusal"),
        lambda status: anthropic.error(status, "api_error", "it failed"),
        anthropic.error(429, "rate_limit_error", "slow down", retry_after_ms="20"),
        anthropic.models,
    ),
    "openai": Speaker(
        "openai:gpt-6.1-sol",
        lambda words: openai.response(openai.said(words)),
        openai.response(openai.function_call("Read", CALLED)),
        openai.response(openai.said("half a sen"), status="incomplete", incomplete="max_output_tokens"),
        openai.response(openai.refused("No.")),
        _openai_error,
        openai.error(429, "slow down", retry_after_ms="20"),
        openai.models,
    ),
    "google": Speaker(
        "google:gemini-3.1-pro-preview",
        google.completion,
        google.completion(None, finish_reason="tool_calls", tool_calls=[google.call("Read", CALLED)]),
        google.completion("half a sen", finish_reason="length"),
        google.completion("", finish_reason="content_filter"),
        lambda status: google.error(status, "INTERNAL", "it failed"),
        google.limited("0.02s"),
        google.models,
    ),
    "ollama": Speaker("ollama:llama3:8b", **CHAT, own=BY_URL),
    "openrouter": Speaker(
        "openrouter:anthropic/claude-opus-5.5", **CHAT, own={"kind": "openai", "key": "OPENROUTER_API_KEY"}
    ),
}
ENVIRON = {**KEYS, "OPENROUTER_API_KEY": "sk-or-test-0123456789"}


@pytest.fixture(params=SPEAKERS)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return SPEAKERS[request.param]


def said(speaker: Speaker, *answers: Answer, told: list[str] | None = None, **more: Any) -> tuple[Reply, list[Asked]]:
    with serve(list(answers)) as wire:
        retry = more.pop("retry", {})
        (reply,) = converse(
            wire, request(speaker.model, **more), environ=ENVIRON, retry={"first": 0, **retry}, said=told, **speaker.own
        )
        return reply, wire.asked


def failed(speaker: Speaker, *answers: Answer, **more: Any) -> tuple[ModelError, int]:
    retry = {"first": 0, "attempts": 3, **more.pop("retry", {})}
    with serve(list(answers)) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(speaker.model, **more), environ=ENVIRON, retry=retry, **speaker.own)
    return caught.value, len(wire.asked)


def test_a_text_and_a_structured_reply_arrive(speaker: Speaker) -> None:
    reply, asked = said(speaker, speaker.text("Hello."))
    assert (reply.text, reply.stop) == ("Hello.", "end")
    assert asked[0].body["model"] == speaker.model.partition(":")[2]
    assert (reply.usage.input, reply.usage.output) == (10, 5)
    reply, asked = said(speaker, speaker.text('{"score": 3}'), schema=SCHEMA)
    assert json.loads(reply.text) == {"score": 3}
    assert '"score"' in json.dumps(asked[0].body)


def test_a_conversation_with_tools_goes_on(speaker: Speaker) -> None:
    first, asked = said(speaker, speaker.tool, tools=(READ,))
    assert first.stop == "tool"
    assert [(one.name, one.arguments) for one in first.calls] == [("Read", CALLED)]
    turns = (
        Message("user", (Block("Look."),)),
        Message("assistant", (), first.calls),
        Message("tool", (Block("print(1)"),), call_id=first.calls[0].id),
    )
    last, asked = said(speaker, speaker.text("It prints."), tools=(READ,), messages=turns)
    assert last.text == "It prints."
    assert "print(1)" in json.dumps(asked[0].body)


def test_what_is_cut_off_or_refused_is_no_whole_reply(speaker: Speaker) -> None:
    assert said(speaker, speaker.cut)[0].stop == "length"
    assert said(speaker, speaker.refused)[0].stop == "refusal"


@pytest.mark.slow
def test_the_wait_that_a_provider_asks_for_is_kept_and_without_one_it_is_tried_again_too(speaker: Speaker) -> None:
    told: list[str] = []
    reply, asked = said(speaker, speaker.wait, speaker.text("Hello."), told=told)
    assert (reply.text, len(asked)) == ("Hello.", 2)
    assert reply.seconds >= 0.02
    assert "limits the rate of calls" in told[0]
    for status in (429, 500, 503, 529):
        reply, asked = said(speaker, speaker.error(status), speaker.text("Hello."))
        assert (reply.text, len(asked)) == ("Hello.", 2), status


@pytest.mark.slow
def test_what_will_not_pass_is_told_at_once(speaker: Speaker) -> None:
    kinds = {401: "auth", 403: "auth", 404: "not_found", 400: "invalid_request"}
    for status, kind in kinds.items():
        error, asked = failed(speaker, speaker.error(status))
        assert (error.kind, asked) == (kind, 1), status
        assert "it failed" in error.message


def test_a_list_of_models_is_read(speaker: Speaker, tmp_path: Path) -> None:
    provider = speaker.model.partition(":")[0]
    with serve([speaker.models("some-model-1", "some-model-2")]) as wire:
        url = wire.url if provider == "anthropic" else f"{wire.url}/v1"
        config = catalogue(**{provider: {**speaker.own, "base_url": url}})
        from skillrun.models import model_lists

        found = asyncio.run(model_lists.fetch_model_list(config.providers[provider], "sk-test-0123456789", tmp_path))
    assert found.names == ("some-model-1", "some-model-2")


# -- features of single providers ------------------------------------------------------------------------------------


@pytest.mark.row("S2")
def test_claudes_list_has_pages(tmp_path: Path) -> None:
    names = [f"claude-opus-{number}" for number in range(1, 8)]

    def pages(asked: Asked) -> Answer:
        start = next((at + 1 for at, name in enumerate(names) if f"after_id={name}" in asked.path), 0)
        page = anthropic.models(*names[start : start + 3])
        page.body["has_more"] = start + 3 < len(names)
        return page

    with serve(pages) as wire:
        config = catalogue(anthropic={"base_url": wire.url})
        resolved = asyncio.run(config.resolve_live("latest Claude Opus", KEYS, tmp_path))
    assert resolved.model == "anthropic:claude-opus-7"
    assert len(wire.asked) == 3


def test_claude_streams_a_reply_that_may_be_long() -> None:
    speaker = SPEAKERS["anthropic"]
    reply, asked = said(speaker, anthropic.stream("A long story."), max_tokens=LONG)
    assert asked[0].body["stream"] is True
    assert (reply.text, reply.stop) == ("A long story.", "end")


@pytest.mark.slow
def test_gemini_gets_back_the_signature_of_its_calls_and_nobody_else_does() -> None:
    """Without it, Gemini 3 rejects the next turn (HTTP 400)."""

    def answer(asked: Asked) -> Answer:
        if len(asked.body["messages"]) == 2:
            return SPEAKERS["google"].tool
        (call,) = asked.body["messages"][2]["tool_calls"]
        signed = call.get("extra_content") == {"google": {"thought_signature": google.SIGNATURE}}
        return google.completion("It prints.") if signed else google.unsigned("Read")

    with serve(answer) as wire:
        (first,) = converse(wire, request(SPEAKERS["google"].model, tools=(READ,)), environ=ENVIRON)
        kept = Reply.from_dict(json.loads(json.dumps(first.to_dict())))
        turns = (
            Message("user", (Block("Look."),)),
            Message("assistant", (), kept.calls),
            Message("tool", (Block("print(1)"),), call_id=kept.calls[0].id),
        )
        going_on = request(SPEAKERS["google"].model, tools=(READ,), messages=turns)
        (last,) = converse(wire, going_on, environ=ENVIRON)
    assert last.text == "It prints."
    for name in ("anthropic", "openai"):
        _, asked = said(SPEAKERS[name], SPEAKERS[name].text("a"), tools=(READ,), messages=turns)
        assert "signature" not in json.dumps(asked[0].body)


def test_a_signature_is_no_part_of_what_is_asked() -> None:
    def fingerprint(signature: str) -> str:
        with serve(
            [
                google.completion(
                    None, finish_reason="tool_calls", tool_calls=[google.call("Read", CALLED, signature=signature)]
                )
            ]
        ) as wire:
            (reply,) = converse(wire, request(SPEAKERS["google"].model, tools=(READ,)), environ=ENVIRON)
        return request(messages=(Message("assistant", (), reply.calls),)).fingerprint()

    assert fingerprint("one") == fingerprint("two") == fingerprint("")


def test_geminis_thoughts_are_paid_for() -> None:
    reply, _ = said(SPEAKERS["google"], google.completion("Hello.", thoughts=400))
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
def test_googles_errors_are_read_as_they_are_meant(answer: Answer, kind: str, words: str) -> None:
    error, asked = failed(SPEAKERS["google"], answer)
    assert (error.kind, asked) == (kind, 1)
    assert words in error.message
    assert "[{" not in error.message


@pytest.mark.parametrize(
    ("code", "kind"),
    [(502, "overloaded"), (429, "rate_limit"), (401, "auth"), (402, "budget"), (404, "not_found"), (7, "other")],
)
def test_an_error_inside_a_good_answer_is_what_it_says(code: int, kind: str) -> None:
    """OpenRouter and other gateways send one with status 200 if the upstream provider fails."""
    inside = Answer({"error": {"code": code, "message": "Upstream is gone"}})
    error, asked = failed(SPEAKERS["openrouter"], inside)
    assert (error.kind, asked) == (kind, 3 if error.retryable else 1)
    assert ("Upstream is gone" in error.message) == (kind != "other")
    if error.retryable:
        reply, _ = said(SPEAKERS["openrouter"], inside, SPEAKERS["openrouter"].text("Hello."))
        assert reply.text == "Hello."


@pytest.mark.row("S2")
def test_intents_of_three_providers_are_the_newest_of_their_lists(tmp_path: Path) -> None:
    lists = {
        "anthropic": ("claude-opus-7-1", "claude-opus-6", "claude-haiku-9"),
        "openai": ("gpt-7-sol", "gpt-6.1-sol", "gpt-8-luna"),
        "google": ("gemini-4-pro", "gemini-3.9-pro", "gemini-5-flash"),
    }

    def listed(asked: Asked) -> Answer:
        name = asked.path.split("/")[1]
        return SPEAKERS[name].models(*lists[name])

    with serve(listed) as wire:
        urls = {name: f"{wire.url}/{name}" + ("" if name == "anthropic" else "/v1") for name in lists}
        config = catalogue(None, **{name: {"base_url": url} for name, url in urls.items()})
        for _ in range(2):
            found = [
                asyncio.run(config.resolve_live(name, KEYS, tmp_path)).model
                for name in ("latest GPT", "latest Gemini", "latest Claude Opus")
            ]
            assert found == ["openai:gpt-7-sol", "google:gemini-4-pro", "anthropic:claude-opus-7-1"]
    assert len(wire.asked) == len(lists), "each list is fetched once and cached"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROTOCOLS, "anthropic-stream"])
def test_a_response_that_ends_at_any_byte_is_never_taken_for_whole(name: str) -> None:
    cut_responses.hold(*cut_responses.every(name)[:: max(1, 16 // TIMES)])
