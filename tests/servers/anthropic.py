"""Responses of Anthropic's Messages API, with the fields of the real API."""

from __future__ import annotations

import json
from typing import Any

from tests.servers.wire import Answer


def message(
    *content: dict[str, Any], stop_reason: str | None = "end_turn", usage: dict[str, int] | None = None, **more: Any
) -> Answer:
    return Answer(
        {
            "id": "msg_01",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": list(content),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                **(usage or {}),
            },
            **more,
        }
    )


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool_use(name: str, arguments: dict[str, Any], call: str = "toolu_01") -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def error(status: int, kind: str, words: str, **headers: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_01"}
    return Answer(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def models(*names: str) -> Answer:
    listed = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
        }
        for name in names
    ]
    return Answer({"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]})


def stream(words: str, usage: dict[str, int] | None = None, **more: Any) -> Answer:
    """A short reply as server-sent events, as for a call with a very large limit."""
    start: dict[str, Any] = message(stop_reason=None, usage=usage, **more).body
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": (usage or {}).get("output_tokens", 7)},
        },
        {"type": "message_stop"},
    ]
    sent = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Answer(sent, headers={"Content-Type": "text/event-stream"})
