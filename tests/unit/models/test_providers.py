"""Requests and responses are converted for each provider, against servers that speak the real protocols."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skillrun.models.messages import Block, Message, Reply, ToolCall, ToolSpec, Usage
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, WireRequest, serve
from tests.unit.models.conversation import KEY, converse
from tests.unit.models.settings import request

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

CLAUDE, GPT, LLAMA = "anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "ollama:llama3"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer"}, "why": {"type": "string", "maxLength": 80}},
    "required": ["score", "why"],
    "additionalProperties": False,
}
READ = ToolSpec(
    "Read",
    "Reads a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
DATA = {"score": 3, "why": "é"}


def exchange(answer: Answer, model: str, **options: Any) -> tuple[Reply, WireRequest]:
    """Send one request and return the reply and the request that the server received."""
    with serve([answer]) as wire:
        (reply,) = converse(wire, request(model, **options))
        return reply, wire.asked[0]


# -- requests ------------------------------------------------------------------------------------------------------


def test_a_request_to_claude_uses_the_messages_api() -> None:
    reply, received = exchange(anthropic.message(anthropic.text("Hello.")), CLAUDE)
    assert received.path.startswith("/v1/messages")
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body["model"] == "claude-opus-5-5"
    assert received.body["system"] == "You are brief."
    assert received.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]
    assert "temperature" not in received.body
    assert (reply.text, reply.stop, reply.model) == ("Hello.", "end", CLAUDE)
    assert reply.seconds > 0


def test_a_thinking_model_gets_extra_tokens_and_no_temperature() -> None:
    _, thinking = exchange(anthropic.message(anthropic.text("a")), CLAUDE, temperature=0.5)
    assert thinking.body["max_tokens"] == 8100
    assert "temperature" not in thinking.body
    _, plain = exchange(anthropic.message(anthropic.text("a")), "anthropic:claude-haiku-4-5", temperature=0.5)
    assert plain.body["max_tokens"] == 100
    assert plain.body["temperature"] == 0.5


def test_another_endpoint_gets_extra_tokens_for_thinking_if_configured() -> None:
    _, received = exchange(openai.completion(), "google:gemini-3.8-flash", temperature=0.5)
    assert (received.body["max_tokens"], received.body["temperature"]) == (8100, 0.5)


def test_blocks_marked_for_caching_are_cache_breakpoints() -> None:
    _, received = exchange(
        anthropic.message(anthropic.text("a")),
        CLAUDE,
        messages=(Message("user", (Block("Pack.", cache=True), Block("Task."))),),
    )
    content = received.body["messages"][0]["content"]
    assert [block["text"] for block in content] == ["Pack.", "Task."]
    assert [block.get("cache_control", {}).get("type") for block in content] == ["ephemeral", None]
    assert "cache_control" not in received.body


def test_a_continuing_conversation_is_cached_to_its_end() -> None:
    tool = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {}})
    hello = Message("user", (Block("Hello."),))
    conversation = (hello, Message("assistant", (Block("Yes?"),)), hello)
    cases: tuple[dict[str, Any], ...] = ({"tools": (tool,)}, {"messages": conversation})
    for more in cases:
        _, received = exchange(anthropic.message(anthropic.text("a")), CLAUDE, **more)
        assert received.body["cache_control"]["type"] == "ephemeral"


def test_a_long_session_has_at_most_four_breakpoints() -> None:
    turns = [Message("user", (Block(f"Pack {turn}.", cache=True), Block("Task."))) for turn in range(6)]
    reply = Message("assistant", (Block("Done."),))
    messages = tuple(message for turn in turns for message in (turn, reply))[:-1]
    _, received = exchange(anthropic.message(anthropic.text("a")), CLAUDE, messages=messages)
    blocks = [block for message in received.body["messages"] for block in message["content"]]
    marked = [block["text"] for block in blocks if "cache_control" in block]
    assert marked == ["Pack 3.", "Pack 4.", "Pack 5."]
    assert "cache_control" in received.body


def test_empty_blocks_are_not_sent() -> None:
    _, received = exchange(
        anthropic.message(anthropic.text("a")),
        CLAUDE,
        system=(Block(""), Block("Role.")),
        messages=(Message("user", (Block(""), Block("Task."))),),
    )
    assert received.body["system"] == "Role."
    assert received.body["messages"][0]["content"] == [{"type": "text", "text": "Task."}]


def test_a_conversation_with_tools_keeps_calls_and_results_together() -> None:
    turns = (
        Message("user", (Block("Look."),)),
        Message(
            "assistant", (Block("I read both."),), (ToolCall("t1", "Read", {"path": "a"}), ToolCall("t2", "Read", {}))
        ),
        Message("tool", (Block("A"),), call_id="t1"),
        Message("tool", (Block("B"),), call_id="t2"),
    )
    _, received = exchange(anthropic.message(anthropic.text("a")), CLAUDE, messages=turns, tools=(READ,))
    assert [turn["role"] for turn in received.body["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in received.body["messages"][1]["content"]] == ["text", "tool_use", "tool_use"]
    results = received.body["messages"][2]["content"]
    assert [block["tool_use_id"] for block in results] == ["t1", "t2"]
    assert received.body["tools"][0]["input_schema"]["properties"] == READ.parameters["properties"]


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["text", "shape"])
def test_a_request_that_must_be_answered_now_still_has_the_tools_of_the_conversation(
    schema: dict[str, Any] | None,
) -> None:
    turns = (
        Message("user", (Block("Look."),)),
        Message("assistant", (), (ToolCall("t1", "Read", {"path": "a"}),)),
        Message("tool", (Block("A"),), call_id="t1"),
    )
    more: dict[str, Any] = {"messages": turns, "tools": (READ,), "schema": schema, "answer_now": True}
    for model, answer in ((CLAUDE, anthropic.message(anthropic.text("{}"))), (LLAMA, openai.completion("{}"))):
        _, received = exchange(answer, model, **more)
        assert "Read" in json.dumps(received.body["tools"])
        assert received.body["tool_choice"] in ("none", {"type": "none"})


def test_other_endpoints_get_the_tool_calls_of_a_conversation() -> None:
    turns = (
        Message("user", (Block("Look."),)),
        Message("assistant", (), (ToolCall("t1", "Read", {"path": "a"}),)),
        Message("tool", (Block("A"),), call_id="t1"),
    )
    _, received = exchange(openai.completion(), LLAMA, messages=turns, tools=(READ,))
    assert [turn["role"] for turn in received.body["messages"]] == ["system", "user", "assistant", "tool"]
    assert received.body["messages"][2]["tool_calls"][0]["function"]["name"] == "Read"
    assert received.body["messages"][3] == {"role": "tool", "tool_call_id": "t1", "content": "A"}


def test_another_endpoint_uses_chat_completions_without_a_key() -> None:
    reply, received = exchange(
        openai.completion("Hello."), LLAMA, temperature=0.2, system=(Block("One."), Block("Two.", cache=True))
    )
    assert received.path == "/v1/chat/completions"
    assert KEY not in json.dumps(received.headers)
    assert received.body["messages"][0] == {"role": "system", "content": "One.\n\nTwo."}
    assert (received.body["max_tokens"], received.body["temperature"]) == (100, 0.2)
    assert (reply.text, reply.stop, reply.model, reply.price) == ("Hello.", "end", LLAMA, None)


def test_openai_uses_the_responses_api_and_stores_nothing() -> None:
    reply, received = exchange(openai.response(openai.output_text("Hello.")), GPT)
    assert received.path == "/v1/responses"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body["store"] is False
    assert received.body["max_output_tokens"] == 8100
    assert (reply.text, reply.stop) == ("Hello.", "end")


# -- structured replies --------------------------------------------------------------------------------------------


def test_claude_uses_its_structured_output_format() -> None:
    reply, received = exchange(anthropic.message(anthropic.text(json.dumps(DATA))), CLAUDE, schema=SCHEMA)
    sent = received.body["output_config"]["format"]
    assert sent["type"] == "json_schema"
    assert sent["schema"]["required"] == ["score", "why"]
    assert "tools" not in received.body
    assert json.loads(reply.text) == DATA


def test_an_older_claude_replies_through_a_forced_tool() -> None:
    answer = anthropic.message(anthropic.tool_use("reply", DATA), stop_reason="tool_use")
    reply, received = exchange(answer, "anthropic:claude-opus-4-2", schema=SCHEMA)
    assert "output_config" not in received.body
    assert [tool["name"] for tool in received.body["tools"]] == ["reply"]
    assert received.body["tool_choice"]["type"] in {"any", "tool"}
    assert json.loads(reply.text) == DATA
    assert (reply.stop, reply.calls) == ("end", ())


@pytest.mark.row("B3", "Z4")
def test_two_replies_through_a_tool_are_two_values() -> None:
    parts = [anthropic.tool_use("reply", DATA | {"score": score}, f"t{score}") for score in (1, 2)]
    answer = anthropic.message(*parts, stop_reason="tool_use")
    reply, _ = exchange(answer, "anthropic:claude-opus-4-2", schema=SCHEMA)
    assert [json.loads(text)["score"] for text in reply.text.split("\n\n")] == [1, 2]


def test_a_schema_beyond_the_limits_of_claude_uses_a_tool() -> None:
    optional = {f"field{number}": {"type": "string"} for number in range(40)}
    schema = {"type": "object", "properties": optional, "required": [], "additionalProperties": False}
    answer = anthropic.message(anthropic.tool_use("reply", {"field1": "a"}), stop_reason="tool_use")
    reply, received = exchange(answer, "anthropic:claude-haiku-5-5", schema=schema)
    assert "output_config" not in received.body
    assert json.loads(reply.text) == {"field1": "a"}


def test_another_endpoint_gets_the_unchanged_schema() -> None:
    reply, received = exchange(openai.completion(json.dumps(DATA)), LLAMA, schema=SCHEMA)
    sent = received.body["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"] == {"name": "reply", "schema": SCHEMA}
    assert "tools" not in received.body
    assert json.loads(reply.text) == DATA


def test_openai_uses_its_structured_output_format() -> None:
    reply, received = exchange(openai.response(openai.output_text(json.dumps(DATA))), GPT, schema=SCHEMA)
    assert received.body["text"]["format"]["type"] == "json_schema"
    assert json.loads(reply.text) == DATA


@pytest.mark.parametrize("model", [CLAUDE, LLAMA, GPT])
def test_tools_and_a_schema_can_be_combined(model: str) -> None:
    answers = {
        CLAUDE: anthropic.message(anthropic.tool_use("Read", {"path": "a"}), stop_reason="tool_use"),
        LLAMA: openai.completion(None, "tool_calls", [openai.call("Read", {"path": "a"})]),
        GPT: openai.response(openai.function_call("Read", {"path": "a"})),
    }
    reply, _ = exchange(answers[model], model, schema=SCHEMA, tools=(READ,))
    assert reply.stop == "tool"
    assert [(call.name, call.arguments) for call in reply.calls] == [("Read", {"path": "a"})]


# -- stop reasons -------------------------------------------------------------------------------------------------

READ_CALL = anthropic.tool_use("Read", {"path": "a"})
WHOLE = openai.completion().body
WITHOUT_REASON = Answer(
    {**WHOLE, "choices": [{key: value for key, value in WHOLE["choices"][0].items() if key != "finish_reason"}]}
)
ENDS = [
    (CLAUDE, anthropic.message(anthropic.text("a")), "end"),
    (CLAUDE, anthropic.message(anthropic.text("a"), stop_reason="stop_sequence"), "end"),
    (CLAUDE, anthropic.message(READ_CALL, stop_reason="tool_use"), "tool"),
    (CLAUDE, anthropic.message(anthropic.text("a"), stop_reason="max_tokens"), "length"),
    (CLAUDE, anthropic.message(READ_CALL, stop_reason="max_tokens"), "length"),
    (CLAUDE, anthropic.message(anthropic.text("a"), stop_reason="model_context_window_exceeded"), "length"),
    (CLAUDE, anthropic.message(stop_reason="refusal"), "refusal"),
    (CLAUDE, anthropic.message(anthropic.text("a"), stop_reason="pause_turn"), "other"),
    (CLAUDE, anthropic.message(anthropic.text("a"), stop_reason="a_new_reason"), "other"),
    (LLAMA, openai.completion(), "end"),
    pytest.param(LLAMA, openai.completion(finish_reason=None), "end", marks=pytest.mark.finding("FV4")),
    pytest.param(LLAMA, openai.completion("a", "tool_calls"), "other", marks=pytest.mark.finding("FM8")),
    pytest.param(LLAMA, openai.completion("", None), "other", marks=pytest.mark.finding("FM8")),
    pytest.param(LLAMA, WITHOUT_REASON, "end", marks=pytest.mark.finding("FV4")),
    pytest.param(
        CLAUDE, anthropic.message(anthropic.text("a"), stop_reason=None), "end", marks=pytest.mark.finding("FV4")
    ),
    pytest.param(
        CLAUDE,
        anthropic.message(anthropic.text("a"), stop_reason="tool_use"),
        "other",
        marks=pytest.mark.finding("FM8"),
    ),
    (LLAMA, openai.completion(None, "tool_calls", [openai.call("Read", {"path": "a"})]), "tool"),
    (LLAMA, openai.completion("half a sen", "length"), "length"),
    (LLAMA, openai.completion(None, "length", [openai.call("Read", '{"path": "a')]), "length"),
    (LLAMA, openai.completion("", "content_filter"), "refusal"),
    (LLAMA, openai.completion(None, "stop", refusal="I can't help with that."), "refusal"),
    (LLAMA, openai.completion("a", "guardrail_intervened"), "refusal"),
    (LLAMA, openai.completion("a", "budget_exceeded"), "other"),
    (GPT, openai.response(openai.output_text("a")), "end"),
    (GPT, openai.response(openai.function_call("Read", {"path": "a"})), "tool"),
    (GPT, openai.response(openai.output_text("half"), status="incomplete", incomplete="max_output_tokens"), "length"),
    (GPT, openai.response(status="incomplete", incomplete="content_filter"), "refusal"),
    (GPT, openai.response(openai.refusal("I can't help with that.")), "refusal"),
]


@pytest.mark.parametrize(("model", "answer", "stop"), ENDS)
def test_every_stop_reason_is_converted(model: str, answer: Answer, stop: str) -> None:
    reply, _ = exchange(answer, model, tools=(READ,))
    assert reply.stop == stop
    assert bool(reply.calls) == (stop == "tool")


def test_the_text_of_a_refusal_is_kept() -> None:
    reply, _ = exchange(openai.completion(None, "stop", refusal="I can't help with that."), LLAMA)
    assert reply.text == "I can't help with that."


def test_a_tool_call_with_invalid_arguments_is_kept() -> None:
    reply, _ = exchange(openai.completion(None, "tool_calls", [openai.call("Read", "{path")]), LLAMA, tools=(READ,))
    assert reply.stop == "tool"
    assert reply.calls[0].name == "Read"


# -- usage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "answer", "usage"),
    [
        (
            CLAUDE,
            anthropic.message(
                anthropic.text("a"),
                usage={"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 1000},
            ),
            Usage(input=1110, output=5, cache_read=100, cache_write=1000),
        ),
        (
            LLAMA,
            openai.completion(usage={"prompt_tokens": 110, "prompt_tokens_details": {"cached_tokens": 100}}),
            Usage(input=110, output=5, cache_read=100),
        ),
        (GPT, openai.response(openai.output_text("a"), cached=7), Usage(input=10, output=5, cache_read=7)),
    ],
)
def test_input_tokens_include_cached_tokens(model: str, answer: Answer, usage: Usage) -> None:
    reply, _ = exchange(answer, model)
    assert reply.usage == usage


def test_a_reply_has_a_price() -> None:
    reply, _ = exchange(
        anthropic.message(anthropic.text("a"), usage={"input_tokens": 1000, "output_tokens": 100}), CLAUDE
    )
    assert reply.price == pytest.approx((1000 * 4 + 100 * 20) / 1_000_000)


def test_a_call_for_a_very_long_reply_is_streamed() -> None:
    def answer(received: WireRequest) -> Answer:
        return anthropic.stream("long") if received.body.get("stream") else anthropic.message(anthropic.text("short"))

    with serve(answer) as wire:
        (reply,) = converse(wire, request(CLAUDE, max_tokens=64_000))
    assert (reply.text, reply.stop) == ("long", "end")
