"""The wire protocols of the project: a good response in each, and bad responses of each kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from skillrun.types.samples import DEFAULT_LIMITS, sample
from tests.servers import anthropic, google, openai
from tests.servers.wire import Answer, WireRequest

KEYS: Final = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "sk-test-0123456789")
HALF: Final = "A smile \ud83d in half"  # a lone surrogate


@dataclass(frozen=True)
class Protocol:
    """A provider's model, the variable of its address, and its responses with a text."""

    model: str
    say: Callable[[str], Answer]
    address: str = ""  # the variable
    stream: Callable[[str], Answer] | None = None  # if long replies are streamed

    def environment(self, url: str) -> dict[str, str]:
        return {**KEYS, self.address: url} if self.address else {}

    def answer(self, request: WireRequest) -> Answer:
        """A good response, which depends only on the request."""
        seed = sha256(json.dumps([request.body.get(key) for key in ("messages", "input")]).encode()).hexdigest()
        schema = schema_of(request.body)
        return self._respond(
            request, json.dumps(sample(schema, seed, DEFAULT_LIMITS)) if schema else f"Note {seed[:12]}, and more."
        )

    def bad(self, kind: str, request: WireRequest) -> Answer:
        """A bad response of a kind."""
        if kind in COMMON:
            return COMMON[kind]
        answer = self._respond(request, HALF if kind == "half-a-pair" else "Some words that must not be used.")
        if kind in CHANGES:
            change = CHANGES[kind]
            answer.body = _change_events(answer.body, change) if isinstance(answer.body, str) else change(answer.body)
        return answer

    def _respond(self, request: WireRequest, words: str) -> Answer:
        return self.stream(words) if self.stream is not None and request.body.get("stream") else self.say(words)


def _change_events(events: str, change: Callable[[Any], Any]) -> str:
    """Server-sent events whose message is changed, at its start and at its end."""
    lines = []
    for line in events.splitlines():
        event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
        for key in ("message", "delta"):
            if key in event and event["type"] in ("message_start", "message_delta"):
                event[key] = change(event[key])
        lines.append(f"data: {json.dumps(event)}" if event else line)
    return "\n".join(lines) + "\n\n"


def schema_of(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in a request of any protocol."""
    schema: Any = (
        ((body.get("output_config") or {}).get("format") or {}).get("schema")
        or ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        or ((body.get("text") or {}).get("format") or {}).get("schema")
    )
    return dict(schema) if schema else None


def _without(*names: str) -> Callable[[Any], Any]:
    return lambda body: {key: value for key, value in body.items() if key not in names}


def _with(**more: Any) -> Callable[[Any], Any]:
    return lambda body: {**body, **more}


def _with_content(value: Any) -> Callable[[Any], Any]:
    """Replace the content of a response, in each protocol's field."""
    return lambda body: {**body, **{key: value for key in ("choices", "content", "output") if key in body}}


def _with_end(reason: str | None, *, missing: bool = False) -> Callable[[Any], Any]:
    """Replace or remove the reason why a reply ended, in each protocol's field."""

    def change(body: Any) -> Any:
        if "choices" in body:
            choice = {**body["choices"][0], "finish_reason": reason}
            if missing:
                del choice["finish_reason"]
            return {**body, "choices": [choice]}
        key = "stop_reason" if "stop_reason" in body else "status"
        return _without(key)(body) if missing else {**body, key: reason}

    return change


def _nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


COMMON: Final[Mapping[str, Answer]] = {
    "http-500": Answer({"error": {"message": "broken"}}, 500),
    "http-401": Answer({"error": {"message": "no such key", "type": "authentication_error"}}, 401),
    "http-404": Answer({"error": {"message": "no such model", "type": "not_found_error"}}, 404),
    "http-400": Answer({"error": {"message": "no", "type": "invalid_request_error"}}, 400),
    "http-429": Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "3600"}),
    "http-204": Answer("", 204),
    "redirects": Answer("", 307, {"Location": "/v1/messages"}),
    "hang-up": Answer({}, hang_up=True),
    "nothing": Answer(""),
    "null": Answer("null"),
    "a-list": Answer("[]"),
    "a-number": Answer("1e999"),
    "html": Answer("<html>It works!</html>", headers={"Content-Type": "text/html"}),
    "half-json": Answer('{"id": "x", "choices": [{"message": {"content": "Some words'),
    "deep": Answer(_nested(20_000)),
    "deep-list": Answer("[" * 200_000),
    "not-utf8": Answer('{"id": "\udcff"}'.encode("utf-8", "replace").decode("latin-1")),
}
CHANGES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "no-choices": _with_content([]),
    "choices-are-none": _with_content(None),
    "choices-are-a-record": _with_content({}),
    "choices-are-text": _with_content("x"),
    "huge-created": _with(created=10**30, created_at=10**30),
    "created-is-text": _with(created="yesterday", created_at="yesterday"),
    "no-usage": _without("usage"),
    "usage-is-none": _with(usage=None),
    "usage-is-text": _with(usage="much"),
    "usage-is-huge": _with(usage=dict.fromkeys(("input_tokens", "output_tokens", "prompt_tokens"), 10 ** 30)),
    "usage-is-negative": _with(usage=dict.fromkeys(("input_tokens", "output_tokens", "prompt_tokens"), -5)),
    "no-model": _without("model"),
    "model-is-a-list": _with(model=["x"]),
    "no-id": _without("id"),
    "end-is-none": _with_end(None),
    "end-is-missing": _with_end(None, missing=True),
    "end-is-unknown": _with_end("moonlight"),
    "tools-without-calls": lambda body: _with_end("tool_calls" if "choices" in body else "tool_use")(body),
}  # fmt: skip
BAD: Final = (*COMMON, *CHANGES, "half-a-pair")
PROTOCOLS: Final[Mapping[str, Protocol]] = {
    "anthropic": Protocol(
        "anthropic:claude-opus-5-5",
        lambda words: anthropic.message(anthropic.text(words)),
        "ANTHROPIC_BASE_URL",
        anthropic.stream,
    ),
    "responses": Protocol(
        "openai:gpt-6.1-sol",
        lambda words: openai.response(openai.output_text(words)),
        "OPENAI_BASE_URL",
    ),
    "google": Protocol(
        "google:gemini-3.1-pro-preview",
        google.completion,
        "GEMINI_BASE_URL",
    ),
    "chat": Protocol(
        "local:llama3",
        openai.completion,
    ),
}
