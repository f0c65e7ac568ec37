"""A stream of events is read in linear time and with limited memory, whatever the server sends."""

from __future__ import annotations

from typing import Any

import pytest

from skillrun.models.response_bodies import NoReply, assemble_claude_stream, parse_events

pytestmark = [pytest.mark.row("Z6"), pytest.mark.finding("FE6")]
START: dict[str, Any] = {"type": "message_start", "message": {"id": "m"}}
STOP: dict[str, Any] = {"type": "message_stop"}


def block(index: Any, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: Any, **part: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": part}


def test_very_many_pieces_of_a_long_text_are_joined_in_linear_time() -> None:
    size, number = 4_000_000, 20_000
    events = [START, block(0, type="text", text="x" * size), *[delta(0, text="a")] * number, STOP]
    message = assemble_claude_stream(events)
    assert message is not None
    assert message["content"] == [{"type": "text", "text": "x" * size + "a" * number}]


def test_the_pieces_of_arguments_replace_an_empty_object() -> None:
    events = [
        START,
        block(0, type="tool_use", input={}),
        delta(0, partial_json='{"a":'),
        delta(0, partial_json="1}"),
        STOP,
    ]
    message = assemble_claude_stream(events)
    assert message is not None
    assert message["content"] == [{"type": "tool_use", "input": '{"a":1}'}]


def test_events_are_parsed_one_at_a_time() -> None:
    events = parse_events('data: {"a": 1}\r\n\r\ndata: [1]\n\nevent: b\ndata: {"b": 2}')
    assert next(events) == {"a": 1}
    assert list(events) == [{"b": 2}]


def test_a_stream_with_too_many_values_is_refused() -> None:
    many = [block(number, type="text", values=[{}] * 1000) for number in range(101)]
    with pytest.raises(NoReply, match="more than 100,000 values"):
        assemble_claude_stream([START, *many, STOP])


@pytest.mark.parametrize("index", [[], {}, None, "a"])
def test_any_index_is_read(index: Any) -> None:
    message = assemble_claude_stream([START, block(index, type="text", text="a"), delta(index, text="b"), STOP])
    assert message is not None
    assert message["content"] == [{"type": "text", "text": "ab"}]
