"""Reads the bodies of responses: whatever has a readable reply becomes the body that its protocol prescribes.

Servers leave out ids and roles, send numbers as text, and have their own words for the end of a reply. Only what the
program needs is read. An error in a response with status 200 gets the status that it deserves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from skillrun.models.messages import StopReason
from skillrun.types.records import count_values

Body = dict[str, Any]
_STOP_WORDS: Final[Mapping[StopReason, str]] = {
    "end": "stop stopped eos eos_token end_turn end complete completed stop_sequence stop_token done finished normal",
    "tool": "tool_calls tool_call tool_use function_call function_calls call_tool",
    "length": "length max_tokens max_output_tokens max_length max_new_tokens max_completion_tokens token_limit"
    " model_length model_context_window_exceeded context_length truncated limit max_token_limit",
    "refusal": "content_filter content_filtered refusal safety blocklist prohibited_content recitation spii sensitive"
    " moderation guardrail_intervened",
}
STOPS: Final[Mapping[str, StopReason]] = {word: stop for stop, words in _STOP_WORDS.items() for word in words.split()}
"""The words with which servers say why a reply ended, in lower case and without the prefix `finish_reason_`."""
_FAILED_STOPS: Final = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "failed", "insufficient_system_resource", "network_error"}
)
"""Words for a reply that was not completed, because the server failed."""
_ERROR_STATUSES: Final = tuple(
    (status, re.compile(words, re.IGNORECASE))
    for status, words in (
        (402, r"insufficient[_ ](?:quota|balance|funds)|credit balance|billing"),
        (429, r"rate[_ ]?limit|too many requests|\b429\b|requests per|tokens per|per[_ -]min"),
        (529, r"overload"),
        (504, r"time[d_ -]*out"),
        (401, r"authenticat|unauthori[sz]ed|api[_ ]?key"),
        (404, r"\bmodel\b.{0,80}(?:not found|not exist|unknown)|not_found"),
        (400, r"invalid_request|invalid (?:request|param)|bad request|context length|too long|content_filter"),
        (403, r"permission|forbidden"),
    )
)
"""The status of an error in a response with status 200, by its words. All others count as a failed server."""


MAX_STREAM_VALUES: Final = 100_000
_END_OF_EVENT: Final = re.compile(r"\r?\n\r?\n")
_DELTAS: Final = {"text": "text", "thinking": "thinking", "signature": "signature", "partial_json": "input"}
"""The parts of a stream's deltas, and the keys of the block that they add to."""


class NoReply(ValueError):
    """Raised if a body contains no reply. The message continues `the response of NAME …`."""


@dataclass(frozen=True)
class ReadBody:
    """A body as its protocol prescribes it. `stop` is why the reply ended, and `word` is the server's own word for
    it."""

    body: Any
    status: int = 200
    stop: StopReason = "end"
    word: str = ""


def read_body(protocol: str, body: Any) -> ReadBody:
    """Read the JSON of a response with status 200. Raises NoReply if it contains neither a reply nor an error."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict):
        raise NoReply("is not a JSON object")
    return _READERS[protocol](body)


def find_error(body: Body) -> ReadBody | None:
    """Return the error in a body, with the HTTP status that fits it, or None."""
    error = body.get("error") or body.get("errors")
    result = body.get("base_resp")
    if not error and isinstance(result, dict) and result.get("status_code"):
        error = {"message": str(result.get("status_msg", "")), "code": f"base_resp {result['status_code']}"}
    if (not error and body.get("type") == "error") or body.get("object") == "error" or body.get("success") is False:
        error = body.get("message") or body
    if not error:
        return None
    fields = error if isinstance(error, dict) else {"message": error if isinstance(error, str) else json.dumps(error)}
    return ReadBody({"error": fields}, _error_status(fields))


def _error_status(error: Body) -> int:
    for key in ("code", "status", "status_code", "http_code"):
        code = error.get(key)
        if isinstance(code, str):
            code = int(code[:4]) if code.isdecimal() else None
        if (number := _as_count(code)) in range(400, 600):
            return number or 0
    words = " ".join(str(error.get(key, "")) for key in ("type", "code", "status", "message"))
    return next((status for status, pattern in _ERROR_STATUSES if pattern.search(words)), 502)


def _report_failure(word: str) -> ReadBody:
    return ReadBody({"error": {"message": f"the reply ended with `{word}`"}}, 502)


def _classify_stop(word: Any, *, has_calls: bool, has_text: bool) -> tuple[StopReason, str]:
    """Return why a reply ended, and the server's word. A missing word counts as the end of a reply that has something
    in it. An unknown word counts as the end of tool calls, because those are complete if they can be parsed."""
    text = str(word or "")
    known = STOPS.get(text.lower().removeprefix("finish_reason_"))
    if known in ("length", "refusal"):
        return known, text
    if has_calls:
        return "tool", text
    if known == "end" or (has_text and not text):
        return "end", text
    return "other", text or "no reason"


def _as_count(value: Any) -> int | None:
    """Return a number of tokens; None if the value is no whole number of at least 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _first_count(usage: Body, *names: str) -> int | None:
    for name in names:
        value: Any = usage
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if (number := _as_count(value)) is not None:
            return number
    return None


def read_usage(body: Any) -> dict[str, int]:
    """Return the tokens that a body reports: `input`, `output`, `total`, `read` and `written`, each if it is there."""
    usage = body.get("usage") if isinstance(body, dict) else None
    found = {} if not isinstance(usage, dict) else {
        "input": _first_count(usage, "prompt_tokens", "input_tokens"),
        "output": _first_count(usage, "completion_tokens", "output_tokens"),
        "total": _first_count(usage, "total_tokens"),
        "read": _first_count(
            usage,
            "prompt_tokens_details.cached_tokens",
            "input_tokens_details.cached_tokens",
            "cache_read_input_tokens",
            "prompt_cache_hit_tokens",
            "cached_tokens",
        ),
        "written": _first_count(usage, "cache_creation_input_tokens"),
        "thinking": _first_count(
            usage, "completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"
        ),
    }  # fmt: skip
    return {name: number for name, number in found.items() if number is not None}


def _text_of(content: Any) -> str:
    """Return the text of a content: a text, or a list of parts. Parts that hold thoughts are left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    parts = content if isinstance(content, list) else []
    return "".join(
        part if isinstance(part, str) else part["text"]
        for part in parts
        if isinstance(part, str)
        or (isinstance(part, dict) and isinstance(part.get("text"), str) and "think" not in str(part.get("type")))
    )


def _thoughts_of(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    held = (part.get("thinking") for part in parts if isinstance(part, dict))
    return "".join(thoughts if isinstance(thoughts, str) else _text_of(thoughts) for thoughts in held)


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_arguments(arguments: Any) -> str:
    """Return the arguments of a tool call as JSON. They may be missing, an object, or JSON in JSON."""
    if arguments is None or arguments == "":
        return "{}"
    if not isinstance(arguments, str):
        return json.dumps(arguments, ensure_ascii=False)
    inner = parse_json(arguments)
    return inner if isinstance(inner, str) and inner.lstrip().startswith("{") else arguments


def _call_ids() -> Callable[[Any], str]:
    """Return a function that returns an id, or a new one if the id is missing or was there before."""
    seen: set[str] = set()

    def identify(value: Any) -> str:
        is_usable = isinstance(value, str) and value and value not in seen
        identity = value if is_usable else uuid4().hex[:9]  # Mistral accepts only nine letters and digits
        seen.add(identity)
        return identity

    return identify


def _chat_calls(message: Body) -> Iterator[Body]:
    identify = _call_ids()
    listed = message.get("tool_calls")
    calls: list[Any] = [listed] if isinstance(listed, dict) else list(listed) if isinstance(listed, list) else []
    if not calls and isinstance(message.get("function_call"), dict):
        calls = [{"function": message["function_call"]}]
    for call in calls:
        if not isinstance(call, dict):
            continue
        function: Body = call["function"] if isinstance(call.get("function"), dict) else call
        if isinstance(name := function.get("name"), str) and name:
            arguments = _read_arguments(function.get("arguments", function.get("parameters")))
            more = {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
            spec = {"name": name, "arguments": arguments}
            yield {"id": identify(call.get("id")), "type": "function", "function": spec, **more}


def _read_chat(body: Body) -> ReadBody:
    choices = body.get("choices")
    choice = next((each for each in choices if isinstance(each, dict)), {}) if isinstance(choices, list) else {}
    found = choice.get("message") or choice.get("delta")
    source: Body = found if isinstance(found, dict) else {"content": choice.get("text")}
    content = source.get("content")
    text, calls = _text_of(content), list(_chat_calls(source))
    word = choice.get("finish_reason") or choice.get("stop_reason")
    error = find_error(body) or find_error(choice)
    if error is not None and not (STOPS.get(str(word).lower()) and (text or calls)):
        return error
    if not choice:
        raise NoReply(_describe_other_protocol(body) or "contains no reply")
    if str(word).lower() in _FAILED_STOPS:
        return _report_failure(str(word))
    stop, word = _classify_stop(word, has_calls=bool(calls), has_text=bool(text))
    if isinstance(source.get("refusal"), str) and source["refusal"]:
        stop, text = "refusal", source["refusal"]
    message: Body = {"role": "assistant", "content": text or None}
    thoughts = {
        name: value
        for name in ("reasoning_content", "reasoning", "reasoning_details")
        if (value := source.get(name)) and isinstance(value, list if name == "reasoning_details" else str)
    }
    if not thoughts and (parts := _thoughts_of(content)):
        thoughts = {"reasoning_content": parts}
    message |= thoughts
    if calls:
        message["tool_calls"] = calls
    tokens = read_usage(body)
    usage: Body | None = None
    if "input" in tokens or "output" in tokens:
        usage = {"prompt_tokens": tokens.get("input", 0), "completion_tokens": tokens.get("output", 0)}
        usage["total_tokens"] = tokens.get("total", usage["prompt_tokens"] + usage["completion_tokens"])
        if "read" in tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": tokens["read"]}
        if "thinking" in tokens:
            usage["completion_tokens_details"] = {"reasoning_tokens": tokens["thinking"]}
    reason = {"tool": "tool_calls", "length": "length", "refusal": "content_filter"}.get(stop, "stop")
    return ReadBody(
        {
            "id": _text_id(body.get("id")),
            "object": "chat.completion",
            "created": 0,
            "model": body["model"] if isinstance(body.get("model"), str) else "",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": usage,
        },
        stop=stop,
        word=word,
    )


def _text_id(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value else "response"


def _read_anthropic(body: Body) -> ReadBody:
    if (error := find_error(body)) is not None:
        return error
    content = body.get("content")
    if not isinstance(content, str | list):
        raise NoReply(_describe_other_protocol(body) or "contains no reply")
    if str(body.get("stop_reason")) in _FAILED_STOPS:
        return _report_failure(str(body["stop_reason"]))
    blocks = list(_claude_blocks([{"type": "text", "text": content}] if isinstance(content, str) else content))
    kinds = [block["type"] for block in blocks]
    has_text = any(block.get("text") for block in blocks)
    stop, word = _classify_stop(body.get("stop_reason"), has_calls="tool_use" in kinds, has_text=has_text)
    tokens = read_usage(body)
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "read": "cache_read_input_tokens",
        "written": "cache_creation_input_tokens",
    }
    usage = {"input_tokens": 0, "output_tokens": 0} | {names[key]: n for key, n in tokens.items() if key in names}
    reason = {"tool": "tool_use", "length": "max_tokens", "refusal": "refusal"}.get(stop, "end_turn")
    return ReadBody(
        {
            "id": _text_id(body.get("id")),
            "type": "message",
            "role": "assistant",
            "model": body["model"] if isinstance(body.get("model"), str) else "",
            "content": blocks,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        },
        stop=stop,
        word=word,
    )


def _claude_blocks(content: Iterable[Any]) -> Iterator[Body]:
    identify = _call_ids()
    for block in content:
        match block:
            case str():
                yield {"type": "text", "text": block}
            case {"type": "tool_use", "name": str(name)} if name:
                arguments = block.get("input")
                if not isinstance(arguments, dict):
                    arguments = _read_arguments(arguments)
                    parsed = parse_json(arguments)
                    arguments = parsed if isinstance(parsed, dict) else arguments
                yield {"type": "tool_use", "id": identify(block.get("id")), "name": name, "input": arguments}
            case {"type": "thinking", "thinking": str(thoughts)}:
                signature = block.get("signature")
                yield {**block, "thinking": thoughts, "signature": signature if isinstance(signature, str) else ""}
            case {"type": "redacted_thinking", "data": str()}:
                yield block
            case {"text": str(text)}:
                yield {"type": "text", "text": text}


def _read_responses(body: Body) -> ReadBody:
    output = body.get("output")
    error = find_error(body)
    if error is not None and not (isinstance(output, list) and output and body.get("status") == "completed"):
        return error
    if not isinstance(output, list):
        if not isinstance(body.get("output_text"), str):
            raise NoReply(_describe_other_protocol(body) or "contains no reply")
        output = [{"type": "message", "content": body["output_text"]}]
    identify, refusal = _call_ids(), ""
    items: list[Body] = []
    for number, item in enumerate(output):
        identity = item.get("id") if isinstance(item, dict) and isinstance(item.get("id"), str) else f"item_{number}"
        match item:
            case {"type": "message"} | {"role": "assistant"}:
                parts = item.get("content")
                refusals = (
                    [part.get("refusal") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
                )
                refusal = refusal or "".join(text for text in refusals if isinstance(text, str))
                text = {"type": "output_text", "text": _text_of(parts) or refusal, "annotations": []}
                items.append(
                    {"type": "message", "id": identity, "role": "assistant", "status": "completed", "content": [text]}
                )
            case {"type": "function_call", "name": str(name)} if name:
                call = {"call_id": identify(item.get("call_id") or item.get("id")), "name": name}
                call["arguments"] = _read_arguments(item.get("arguments"))
                items.append({"type": "function_call", "id": identity, "status": "completed", **call})
            case {"type": "reasoning"}:
                summary = item.get("summary") if isinstance(item.get("summary"), list) else []
                items.append({**item, "id": identity, "summary": summary})
    details = body.get("incomplete_details")
    word = (details.get("reason") if isinstance(details, dict) else None) or body.get("status")
    if str(word) in _FAILED_STOPS:
        return _report_failure(str(word))
    has_calls = any(item["type"] == "function_call" for item in items)
    has_text = any(item["content"][0]["text"] for item in items if item["type"] == "message")
    stop, word = _classify_stop(word, has_calls=has_calls, has_text=has_text)
    if refusal:
        stop = "refusal"
    tokens = read_usage(body)
    usage = None
    if "input" in tokens or "output" in tokens:
        given, taken = tokens.get("input", 0), tokens.get("output", 0)
        usage = {
            "input_tokens": given,
            "output_tokens": taken,
            "total_tokens": tokens.get("total", given + taken),
            "input_tokens_details": {"cached_tokens": tokens.get("read", 0)},
            "output_tokens_details": {"reasoning_tokens": tokens.get("thinking", 0)},
        }
    fields: Body = {"error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "tools": []}
    return ReadBody(
        {
            "id": _text_id(body.get("id")),
            "object": "response",
            "created_at": 0,
            "model": body["model"] if isinstance(body.get("model"), str) else "",
            "output": items,
            "status": "completed",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "usage": usage,
            **fields,
        },
        stop=stop,
        word=word,
    )


_READERS: Final[Mapping[str, Callable[[Body], ReadBody]]] = {
    "openai": _read_chat,
    "anthropic": _read_anthropic,
    "responses": _read_responses,
}


def _describe_other_protocol(body: Body) -> str:
    """Return which other protocol a body follows, and the `kind` of its provider; empty if none."""
    kinds = {"choices": "openai", "stop_reason": "anthropic", "output": "responses"}
    return next((f"follows another protocol; try `kind: {kind}`" for key, kind in kinds.items() if body.get(key)), "")


# -- streams ----------------------------------------------------------------------------------------------------------


def parse_events(text: str) -> Iterator[Body]:
    """Yield the data of the server-sent events in a text. Data that is not a JSON object is left out.

    Only one event is in memory at a time, because each can have very many values.
    """
    start = 0
    while start < len(text):
        match = _END_OF_EVENT.search(text, start)
        block, start = text[start : match.start() if match else len(text)], match.end() if match else len(text)
        data = "\n".join(line[5:].strip() for line in block.splitlines() if line.startswith("data:"))
        value = parse_json(data)
        if isinstance(value, dict):
            yield value


def assemble_claude_stream(events: Iterable[Body]) -> Body | None:
    """Return the message that the events of Anthropic's stream add up to, or an error event; None if the stream ended
    early, and an empty one if no message began. Raises NoReply if it has too many values."""
    message: Body = {"content": [], "usage": {}}
    blocks: dict[str, Body] = {}
    pieces: dict[tuple[str, str], list[str]] = {}  # joined at the end, because joining is linear
    values, has_begun = 0, False
    for event in events:
        if event.get("type") not in ("content_block_delta", "ping"):
            values += count_values(json.dumps(event).encode())
        if values > MAX_STREAM_VALUES:
            raise NoReply(f"has more than {MAX_STREAM_VALUES:,} values outside of its texts")
        index = str(event.get("index"))
        delta: Body = event["delta"] if isinstance(event.get("delta"), dict) else {}
        match event.get("type"):
            case "error":
                return event
            case "message_start" if isinstance(event.get("message"), dict):
                message |= event["message"]
                has_begun = True
                message["usage"] = dict(message["usage"]) if isinstance(message.get("usage"), dict) else {}
            case "content_block_start" if isinstance(event.get("content_block"), dict):
                blocks[index] = dict(event["content_block"])
            case "content_block_delta" if index in blocks:
                for name, key in _DELTAS.items():
                    if isinstance(delta.get(name), str):
                        before = blocks[index].get(key)
                        first = [before] if isinstance(before, str) else []
                        pieces.setdefault((index, key), first).append(delta[name])
            case "message_delta":
                message["stop_reason"] = delta.get("stop_reason") or message.get("stop_reason")
                if isinstance(event.get("usage"), dict):
                    message["usage"] |= {key: n for key, n in event["usage"].items() if n is not None}
            case "message_stop":
                for (index, key), texts in pieces.items():
                    blocks[index][key] = "".join(texts)
                return {**message, "content": list(blocks.values())}
    return None if has_begun else {}


def claude_events(message: Body) -> Iterator[Body]:
    """Yield the events of Anthropic's stream for a message that is complete."""
    start = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        empty, deltas = dict(block), []
        for key, kind in (("text", "text_delta"), ("thinking", "thinking_delta"), ("signature", "signature_delta")):
            if block.get(key) and block["type"] != "redacted_thinking":
                empty[key] = ""
                deltas.append({"type": kind, key: block[key]})
        if block["type"] == "tool_use":
            empty["input"] = {}
            given = block["input"]
            sent = given if isinstance(given, str) else json.dumps(given)
            deltas.append({"type": "input_json_delta", "partial_json": sent})
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}
