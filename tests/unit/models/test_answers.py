"""Any response of a provider results in a reply or an error: redirects, sizes, structure, usage."""

from __future__ import annotations

import json
import re
import tracemalloc
import warnings
from functools import partial
from typing import Any

import httpx2
import pytest

from skillrun.models import transport
from skillrun.models.messages import ModelError, Reply, ToolSpec, Usage
from skillrun.structured_output.values import MAX_REPLY
from tests.servers import anthropic, openai
from tests.servers.raw import Raw, bomb, endless, serve_raw
from tests.servers.wire import Answer, serve
from tests.unit.models.conversation import converse
from tests.unit.models.settings import request

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

CLAUDE, GPT, LLAMA = "anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "ollama:llama3"
KEY = "sk-test-A1b2C3d4E5f6G7h8I9j0"
OTHER = "zz9Plural8ZAlphaQwertyuiop"
KEYS = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": OTHER}
READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def send(wire: Any, model: str = LLAMA, **more: Any) -> Reply:
    environ = more.pop("environ", KEYS)
    (reply,) = converse(wire, request(model, **more), environ=environ, retry={"attempts": 2})
    return reply


def reply_to(answer: Answer, model: str = LLAMA, **more: Any) -> Reply:
    with serve([answer]) as wire:
        return send(wire, model, **more)


def error_of(answer: Answer, model: str = LLAMA, **more: Any) -> ModelError:
    with serve([answer]) as wire, pytest.raises(ModelError) as caught:
        send(wire, model, **more)
    return caught.value


def outcome(answer: Answer, model: str = LLAMA, **more: Any) -> Reply | ModelError:
    """Return the reply or the `ModelError` of a call; any other exception is a bug and is raised."""
    with serve([answer]) as wire:
        try:
            return send(wire, model, **more)
        except ModelError as error:
            return error


# -- redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FZ19")
@pytest.mark.row("Z2")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("model", [CLAUDE, GPT, LLAMA])
def test_no_redirect_is_followed(model: str, status: int) -> None:
    with serve([openai.completion()]) as other:
        redirect = Answer({}, status, {"Location": f"{other.url}/v1?key={KEY}"})
        error = error_of(redirect, model)
    assert other.asked == []
    assert f"is a redirect (HTTP {status}), which is not followed" in error.message
    assert not error.retryable
    assert KEY not in str(error.to_dict())


@pytest.mark.finding("FM8")
@pytest.mark.parametrize("model", [CLAUDE, GPT, LLAMA])
def test_a_redirect_to_itself_is_requested_once(model: str) -> None:
    with serve(lambda asked: Answer({}, 307, {"Location": asked.path})) as wire, pytest.raises(ModelError):
        send(wire, model)
    assert len(wire.asked) == 1


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.finding("FZ14")
@pytest.mark.row("Z6")
@pytest.mark.parametrize(
    ("pieces", "headers"),
    [
        (endless, {}),
        (lambda: bomb(300 * 2**20), {"Content-Encoding": "gzip"}),
        (lambda: endless(b'data: {"text": "%s"}\n\n' % (b"x" * 60_000)), {"Content-Type": "text/event-stream"}),
    ],
    ids=["endless", "bomb", "events"],
)
@pytest.mark.parametrize("model", [CLAUDE, LLAMA])
def test_a_response_is_read_up_to_a_limit(
    model: str, pieces: Any, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_BODY", 4 * 2**20)
    with serve_raw(Raw(pieces, headers=headers)) as raw:
        tracemalloc.start()
        try:
            with pytest.raises(ModelError, match="is longer than 4 MB and was cut off") as caught:
                send(raw, model)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (caught.value.kind, caught.value.retryable, len(raw.asked)) == ("other", False, 1)
    assert peak < 120 * 2**20  # including imports
    assert raw.sent < 40 * 2**20


MANY = 120_000
FRAME = json.dumps(openai.completion("TEXT").body).encode()


@pytest.mark.finding("FS16")
@pytest.mark.row("Z6", "Z7")
@pytest.mark.parametrize(
    "values",
    [b"[" + b"1," * MANY + b"1]", b"[" * MANY, b"[" + b"{}," * MANY + b"{}]", b'{"a":' * MANY, b'"",' * MANY],
    ids=["numbers", "nested", "records", "nested-records", "texts"],
)
@pytest.mark.parametrize("event", [False, True])
@pytest.mark.parametrize("model", [CLAUDE, LLAMA])
def test_a_response_with_too_many_values_is_not_parsed(model: str, values: bytes, event: bool) -> None:
    body = FRAME.replace(b'"TEXT"', values)
    pieces = [b"data: {}\n\ndata: ", body[: len(body) // 2], body[len(body) // 2 :], b"\n\n"] if event else [body]
    headers = {"Content-Type": "text/event-stream"} if event else {}
    too_many = pytest.raises(ModelError, match="has more than 100,000 values and was cut off")
    with serve_raw(Raw(lambda: pieces, headers=headers)) as raw, too_many as caught:
        send(raw, model)
    assert (caught.value.kind, caught.value.retryable, len(raw.asked)) == ("other", False, 1)


@pytest.mark.finding("FB5")
def test_the_values_of_a_response_that_only_claims_to_be_a_stream_are_counted_as_a_whole() -> None:
    body = FRAME.replace(b'"TEXT"', b"[" + b"1,\n\n" * MANY + b"1]")
    error = error_of(Answer(body.decode(), headers={"Content-Type": "text/event-stream"}))
    assert "has more than 100,000 values and was cut off" in error.message


@pytest.mark.finding("FS16")
def test_the_values_of_a_stream_are_counted_for_each_event() -> None:
    """A long reply has more values in all, but few in each of its events."""
    counted = transport._LimitedStream(httpx2.ByteStream(b""), inflated=False, is_event_stream=True)
    for _ in range(30):
        counted._count_values((b'data: {"choices": [{"delta": {"content": "a, b"}}], "id": "x"}\n\n') * 10_000)


@pytest.mark.finding("FS16")
def test_long_arguments_of_a_tool_call_are_not_parsed() -> None:
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "Read", "arguments": '{"path": "a"' + " " * MAX_REPLY + "}"},
    }
    error = error_of(openai.completion(None, "tool_calls", [call]), LLAMA)
    assert "is longer than 1,000,000 characters and was discarded" in error.message


@pytest.mark.finding("FZ14")
@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "deflate"])
def test_an_unrequested_compression_is_refused(coding: str) -> None:
    with (
        serve_raw(Raw(lambda: [b"{}"], headers={"Content-Encoding": coding})) as raw,
        pytest.raises(ModelError) as caught,
    ):
        send(raw)
    assert "compressed in a way that was not requested" in caught.value.message


@pytest.mark.slow
def test_a_compressed_response_is_read() -> None:
    import gzip

    body = gzip.compress(json.dumps(openai.completion("Hello.").body).encode())
    for size in (1, 100, len(body)):
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        with serve_raw(Raw(partial(list, pieces), headers={"Content-Encoding": "gzip"})) as raw:
            assert send(raw).text == "Hello."
    with (
        serve_raw(Raw(lambda: [b"plain"], headers={"Content-Encoding": "gzip"})) as raw,
        pytest.raises(ModelError) as caught,
    ):
        send(raw)
    assert "is declared as compressed but is not" in caught.value.message


@pytest.mark.finding("FZ14")
@pytest.mark.parametrize("size", [MAX_REPLY, MAX_REPLY + 1, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_a_reply_that_is_too_long_is_refused_on_arrival(size: int) -> None:
    if size == MAX_REPLY:
        assert len(reply_to(openai.completion("a" * size)).text) == size
        return
    error = error_of(openai.completion("a" * size))
    assert (error.kind, error.retryable) == ("other", False)
    assert "is longer than 1,000,000 characters" in error.message


@pytest.mark.slow
@pytest.mark.finding("FZ14")
@pytest.mark.parametrize(
    "call",
    [
        openai.call("Read", {"path": "c/" * 600_000}),
        openai.call("R" * 1_000_001, {}),
        openai.call("Read", {}, "c" * 1_000_001),
        openai.call("Read", {"path": [["a"] * 300_000]}),
        openai.call("Read", '{"path": ' + "[" * 500 + "]" * 500 + "}"),
        openai.call("Read", '{"path": ' + "[" * 200_000 + "]" * 200_000 + "}"),
    ],
    ids=["path", "name", "id", "list", "deep", "deeper"],
)
def test_tool_calls_are_bounded_too(call: dict[str, Any]) -> None:
    result = outcome(openai.completion(None, "tool_calls", [call]), tools=(READ,))
    assert len(str(result.to_dict())) < 1_500_000


# -- structure -----------------------------------------------------------------------------------------------------

INVALID_FIELDS: list[Any] = [
    {"choices": []},
    {"choices": "text"},
    {"choices": {}},
    {"choices": [None]},
    {"choices": [{"message": None}]},
    {"choices": [{"message": {"content": 5}}]},
    {"choices": [{"message": {"content": {"a": 1}}}]},
    {"choices": [{"message": {"content": "a", "tool_calls": "b"}}]},
    {"choices": [{"message": {"content": "a", "tool_calls": [{"id": 1, "function": {"name": 2, "arguments": 3}}]}}]},
    {"created": 10**30},
    {"created": "soon"},
    {"created": -(10**18)},
    {"model": 5},
    {"model": ["a"]},
    {"usage": "much"},
    {"usage": {"prompt_tokens": "many", "completion_tokens": []}},
    {"usage": {"prompt_tokens": 1e300, "completion_tokens": 1.5}},
]
BODIES: list[Any] = [
    *({**openai.completion().body, **fields} for fields in INVALID_FIELDS),
    None, [], 5, "text", {}, "[" * 200_000, '{"choices":' + "[" * 200_000, '{"a":' * 100_000, "\x00", '{"choices": [',
]  # fmt: skip


PYTHON_DETAILS = re.compile("object has no|index out of range|not iterable|validation error|pydantic|recursion|<class")


@pytest.mark.finding("FM5")
@pytest.mark.row("Z6")
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("model", [CLAUDE, GPT, LLAMA])
def test_any_response_is_a_reply_or_a_provider_error(model: str, body: Any) -> None:
    result = outcome(Answer(body), model, tools=(READ,))
    json.dumps(result.to_dict())
    if isinstance(result, ModelError):
        assert model.partition(":")[0] in result.message or model.partition(":")[2] in result.message
        assert len(result.message) < 1000
        assert not PYTHON_DETAILS.search(result.message), result.message


@pytest.mark.finding("FM5")
@pytest.mark.parametrize(
    "content",
    ["text", [None], [5], [{"type": "text"}], [{"type": "text", "text": 5}], [{"type": "new"}], {"a": 1}],
)
def test_invalid_content_from_claude_is_not_a_bug(content: Any) -> None:
    result = outcome(Answer({**anthropic.message().body, "content": content}), CLAUDE)
    assert isinstance(result, Reply) or "anthropic" in result.message or "claude" in result.message


# -- usage ---------------------------------------------------------------------------------------------------------


def usage(words: str = "Hello.", notes: list[str] | None = None, **reported: Any) -> Usage:
    with serve([openai.completion(words, usage=reported)]) as wire:
        (reply,) = converse(wire, request(LLAMA), environ=KEYS, notices=notes)
    return reply.usage


@pytest.mark.slow
@pytest.mark.finding("FZ19")
def test_implausible_usage_is_replaced_by_an_estimate() -> None:
    notes: list[str] = []
    counted = usage(notes=notes, prompt_tokens=-(10**15), completion_tokens=-(10**15))
    assert 1 < counted.input < 100
    assert 0 < counted.output < 10
    assert "ollama reports no valid usage" in notes[0]
    counted = usage(prompt_tokens=10**30, completion_tokens=10**400)
    assert (counted.input, counted.output) < (25_000, 25_000)
    counted = usage(prompt_tokens=10, prompt_tokens_details={"cached_tokens": 10**9})
    assert counted == Usage(10, 5, cache_read=10)
    counted = usage(prompt_tokens=10, prompt_tokens_details={"cached_tokens": -5})
    assert 1 < counted.input < 100
    assert counted.cache_read == 0


@pytest.mark.finding("FB3")
@pytest.mark.parametrize("model", [CLAUDE, GPT, LLAMA])
def test_no_library_prints_a_value_of_a_response_in_a_warning(model: str) -> None:
    def respond(usage: Any) -> Answer:
        base = {CLAUDE: anthropic.message(anthropic.text("Hi.")), GPT: openai.response(openai.output_text("Hi."))}
        return Answer({**base.get(model, openai.completion()).body, "usage": usage})

    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        for name in ("output_tokens", "completion_tokens", "output_tokens_details"):
            outcome(respond({"input_tokens": 1, "output_tokens": 1, "prompt_tokens": 1, name: KEY}), model)
        outcome(respond(KEY), model)
    assert caught == []


@pytest.mark.finding("FM8")
def test_a_reply_without_usage_is_not_free() -> None:
    body = {key: value for key, value in openai.completion("word " * 1000).body.items() if key != "usage"}
    notes: list[str] = []
    with serve([Answer(body)]) as wire:
        (reply,) = converse(wire, request(LLAMA, words="text " * 2000), environ=KEYS, notices=notes)
    assert 2000 < reply.usage.input < 3000
    assert 1000 <= reply.usage.output < 1500
    assert len(notes) == 1


def test_plausible_usage_is_used_without_a_notice() -> None:
    notes: list[str] = []
    assert usage(notes=notes, prompt_tokens=20, completion_tokens=900) == Usage(20, 900)
    assert notes == []
