"""Responses of OpenAI's Chat Completions and Responses APIs, with the fields of the real APIs."""

from __future__ import annotations

import json
from typing import Any

from tests.servers.wire import Answer


def completion(
    content: str | None = "Hello.",
    finish_reason: str | None = "stop",
    tool_calls: list[dict[str, Any]] | None = None,
    usage: dict[str, Any] | None = None,
    **message: Any,
) -> Answer:
    reply: dict[str, Any] = {"role": "assistant", "content": content, **message}
    if tool_calls:
        reply["tool_calls"] = tool_calls
    return Answer(
        {
            "id": "chatcmpl-01",
            "object": "chat.completion",
            "created": 1767225600,
            "model": "llama3",
            "choices": [{"index": 0, "message": reply, "finish_reason": finish_reason, "logprobs": None}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **(usage or {})},
        }
    )


def call(name: str, arguments: dict[str, Any] | str, identity: str = "call_01") -> dict[str, Any]:
    sent = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": sent}}


def response(*output: dict[str, Any], status: str = "completed", incomplete: str | None = None, **usage: int) -> Answer:
    return Answer(
        {
            "id": "resp_01",
            "object": "response",
            "created_at": 1767225600,
            "model": "gpt-6.1-sol",
            "status": status,
            "error": None,
            "incomplete_details": {"reason": incomplete} if incomplete else None,
            "instructions": None,
            "output": list(output),
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "metadata": {},
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": usage.get("cached", 0)},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 15,
            },
        }
    )


def output_text(words: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": "message", "id": "msg_01", "role": "assistant", "status": "completed", "content": content}


def refusal(words: str) -> dict[str, Any]:
    content = [{"type": "refusal", "refusal": words}]
    return {"type": "message", "id": "msg_01", "role": "assistant", "status": "completed", "content": content}


def function_call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    sent = json.dumps(arguments)
    return {
        "type": "function_call", "id": "fc_01", "call_id": "call_01", "name": name, "arguments": sent,
        "status": "completed",
    }  # fmt: skip


def error(status: int, words: str, code: str | None = None, **headers: str) -> Answer:
    body = {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": code}}
    return Answer(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def models(*names: str) -> Answer:
    listed = [{"id": name, "object": "model", "created": 1767225600, "owned_by": "system"} for name in names]
    return Answer({"object": "list", "data": listed})
