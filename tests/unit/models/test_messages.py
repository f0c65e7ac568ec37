"""Messages round-trip through JSON, and a fingerprint only changes with the content of the request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.models.messages import Block, Message, ModelError, Reply, Request, ToolCall, ToolSpec, Usage

words = st.text(max_size=30)
arguments = st.dictionaries(words, st.integers() | words | st.none(), max_size=3)
blocks = st.lists(st.builds(Block, text=words, cache=st.booleans()), max_size=3).map(tuple)
calls = st.lists(st.builds(ToolCall, id=words, name=words, arguments=arguments), max_size=2).map(tuple)
messages = st.builds(
    Message, role=st.sampled_from(["user", "assistant", "tool"]), blocks=blocks, calls=calls, call_id=words
)
requests = st.builds(
    Request,
    model=words,
    system=blocks,
    messages=st.lists(messages, max_size=3).map(tuple),
    max_tokens=st.integers(1, 9999),
    tools=st.lists(st.builds(ToolSpec, name=words, description=words, parameters=arguments), max_size=2).map(tuple),
    schema=st.none() | arguments,
    temperature=st.none() | st.floats(0, 1),
)

REQUEST = Request(
    model="anthropic:claude-opus-5-5",
    system=(Block("You are brief.", cache=True),),
    messages=(Message("user", (Block("Hello."),)),),
    max_tokens=100,
)


@pytest.mark.slow
@given(requests)
def test_a_request_is_converted_to_json(request: Request) -> None:
    data = json.loads(json.dumps(request.to_dict()))
    assert (data["model"], data["schema"], len(data["messages"])) == (
        request.model,
        request.schema,
        len(request.messages),
    )
    assert replace(request).fingerprint() == request.fingerprint()


@given(
    st.builds(
        Reply,
        text=words,
        calls=calls,
        usage=st.builds(Usage, input=st.integers(0, 9), output=st.integers(0, 9)),
        stop=st.sampled_from(["end", "tool", "length", "refusal", "other"]),
        model=words,
        seconds=st.floats(0, 9),
        price=st.none() | st.floats(0, 9),
    )
)
def test_a_reply_survives_json(reply: Reply) -> None:
    assert Reply.from_dict(json.loads(json.dumps(reply.to_dict()))) == reply


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "anthropic:claude-haiku-5-5"},
        {"system": (Block("You are brief. "),)},
        {"messages": (Message("assistant", (Block("Hello."),)),)},
        {"max_tokens": 101},
        {"tools": (ToolSpec("Read", "Reads.", {}),)},
        {"schema": {"type": "object"}},
        {"temperature": 0.0},
    ],
)
def test_every_part_of_a_request_changes_the_fingerprint(changes: dict[str, Any]) -> None:
    assert replace(REQUEST, **changes).fingerprint() != REQUEST.fingerprint()


def test_a_cache_breakpoint_does_not_change_the_fingerprint() -> None:
    assert replace(REQUEST, system=(Block("You are brief."),)).fingerprint() == REQUEST.fingerprint()


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    one = replace(REQUEST, schema={"type": "object", "title": "a"})
    other = replace(REQUEST, schema={"title": "a", "type": "object"})
    assert one.fingerprint() == other.fingerprint()


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)


def test_an_error_survives_json() -> None:
    error = ModelError("rate_limit", "too many calls", next_step="Wait.")
    restored = ModelError.from_dict(json.loads(json.dumps(error.to_dict())))
    assert restored.to_dict() == error.to_dict()
    assert restored.retryable


@pytest.mark.finding("FM3", "FZ9")
def test_lone_surrogates_are_replaced_in_stored_replies_too() -> None:
    call = {"id": "c\ud800", "name": "Read", "arguments": {"k\udfff": ["a\ud83d\ude00"]}}
    stored = {"text": "cut \ud83d", "calls": [call], "usage": {}, "stop": "end", "model": "m\ud800", "seconds": 0.0}
    reply = Reply.from_dict({**stored, "price": None})
    assert (reply.text, reply.model) == ("cut \ufffd", "m\ufffd")
    assert reply.calls == (ToolCall("c\ufffd", "Read", {"k\ufffd": ["a\N{GRINNING FACE}"]}),)
    assert ModelError("other", "cut \ud83d").message == "cut \ufffd"
