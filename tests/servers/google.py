"""Responses of Gemini's OpenAI-compatible API, where they differ from OpenAI's.

Source: https://ai.google.dev/gemini-api/docs/openai, /thought-signatures and google.rpc's error details.
"""

from __future__ import annotations

from typing import Any

from tests.servers import openai
from tests.servers.wire import Answer

SIGNATURE = "EuYDCuMDAXLI2nx+signature=="


def call(
    name: str, arguments: dict[str, Any], identity: str = "function-call-1", signature: str = SIGNATURE
) -> dict[str, Any]:
    """A tool call. Gemini refuses the next request unless it contains the signature."""
    signed = {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}
    return {**openai.call(name, arguments, identity), **signed}


def completion(content: str | None = "Hello.", thoughts: int = 0, **more: Any) -> Answer:
    """A reply. Tokens of thoughts are in the total, but not in the completion tokens."""
    answer = openai.completion(content, usage={"total_tokens": 15 + thoughts}, **more)
    answer.body["model"] = "gemini-3.1-pro-preview"
    return answer


def error(status: int, code: str, words: str, *details: dict[str, Any]) -> Answer:
    """An error, which Gemini sends in a list."""
    inner: dict[str, Any] = {"code": status, "message": words, "status": code}
    return Answer([{"error": {**inner, "details": list(details)} if details else inner}], status)


def limited(delay: str = "") -> Answer:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", *([info] if delay else []))


def wrong_key() -> Answer:
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
    }
    return error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", info)


def unsigned(name: str) -> Answer:
    words = f"Function call is missing a thought_signature in functionCall parts: `{name}`."
    return error(400, "INVALID_ARGUMENT", words)


def models(*names: str) -> Answer:
    return openai.models(*(f"models/{name}" for name in names))
