"""The wire protocols that the project speaks: a good answer in each, a bad one of each kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from skillrun.types.samples import DEFAULT_LIMITS, sample
from tests.servers import anthropic, google, openai
from tests.servers.wire import Answer, Asked

KEYS: Final = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "sk-test-0123456789")
HALF: Final = "A smile \ud83d in half"  # of a surrogate pair


@dataclass(frozen=True)
class Protocol:
    """How a provider is asked and answers: the model, where its address is said, a reply with a text."""

    model: str
    say: Callable[[str], Answer]
    address: str = ""  # the variable
    stream: Callable[[str], Answer] | None = None  # where long replies are asked for as events

    def environment(self, url: str) -> dict[str, str]:
        return {**KEYS, self.address: url} if self.address else {}

    def answer(self, asked: Asked) -> Answer:
        """A good answer, decided by the request alone."""
        seed = sha256(json.dumps([asked.body.get(key) for key in ("messages", "input")]).encode()).hexdigest()
        schema = schema_of(asked.body)
        return self._said(
            asked, json.dumps(sample(schema, seed, DEFAULT_LIMITS)) if schema else f"Note {seed[:12]}, and more."
        )

    def bad(self, kind: str, asked: Asked) -> Answer:
        """What no provider should send."""
        if kind in COMMON:
            return COMMON[kind]
        answer = self._said(asked, HALF if kind == "half-a-pair" else "Some words that nobody is to use.")
        if kind in CHANGES:
            change = CHANGES[kind]
            answer.body = _changed(answer.body, change) if isinstance(answer.body, str) else change(answer.body)
        return answer

    def _said(self, asked: Asked, words: str) -> Answer:
        return self.stream(words) if self.stream is not None and asked.body.get("stream") else self.say(words)


def _changed(events: str, change: Callable[[Any], Any]) -> str:
    """Server-sent events, with the message that they carry changed, at its start and at its end."""
    lines = []
    for line in events.splitlines():
        event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
        for key in ("message", "delta"):
            if key in event and event["type"] in ("message_start", "message_delta"):
                event[key] = change(event[key])
        lines.append(f"data: {json.dumps(event)}" if event else line)
    return "\n".join(lines) + "\n\n"


def schema_of(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema that a request wants its reply to fit, wherever the protocol has it."""
    found: Any = (
        ((body.get("output_config") or {}).get("format") or {}).get("schema")
        or ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        or ((body.get("text") or {}).get("format") or {}).get("schema")
    )
    return dict(found) if found else None


def _without(*names: str) -> Callable[[Any], Any]:
    return lambda body: {key: value for key, value in body.items() if key not in names}


def _with(**more: Any) -> Callable[[Any], Any]:
    return lambda body: {**body, **more}


def _said_as(value: Any) -> Callable[[Any], Any]:
    """Another value where what was said stands, in each protocol's place."""
    return lambda body: {**body, **{key: value for key in ("choices", "content", "output") if key in body}}


def _ended(reason: str | None, *, missing: bool = False) -> Callable[[Any], Any]:
    """A reply that says so of its end, in each protocol's place."""

    def changed(body: Any) -> Any:
        if "choices" in body:
            choice = {**body["choices"][0], "finish_reason": reason}
            if missing:
                del choice["finish_reason"]
            return {**body, "choices": [choice]}
        key = "stop_reason" if "stop_reason" in body else "status"
        return _without(key)(body) if missing else {**body, key: reason}

    return changed


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
    "no-choices": _said_as([]),
    "choices-are-none": _said_as(None),
    "choices-are-a-record": _said_as({}),
    "choices-are-text": _said_as("x"),
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
    "end-is-none": _ended(None),
    "end-is-missing": _ended(None, missing=True),
    "end-is-unknown": _ended("moonlight"),
    "tools-without-calls": lambda body: _ended("tool_calls" if "choices" in body else "tool_use")(body),
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
        lambda words: openai.response(openai.said(words)),
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
