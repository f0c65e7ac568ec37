"""Requests and responses are converted for each provider, against servers that speak the real protocols."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skillrun.models.messages import Block, Message, Reply, ToolCall, ToolSpec, Usage
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, Asked, serve
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


def ask(answer: Answer, model: str, **more: Any) -> tuple[Reply, Asked]:
    """The reply to one request, and the request that the server received."""
    with serve([answer]) as wire:
        (reply,) = converse(wire, request(model, **more))
        return reply, wire.asked[0]


# -- requests ------------------------------------------------------------------------------------------------------


def test_claude_is_asked_in_its_own_terms() -> None:
    reply, asked = ask(anthropic.message(anthropic.text("Hello.")), CLAUDE)
    assert asked.path.startswith("/v1/messages")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["model"] == "claude-opus-5-5"
    assert asked.body["system"] == "You are brief."
    assert asked.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]
    assert "temperature" not in asked.body
    assert (reply.text, reply.stop, reply.model) == ("Hello.", "end", CLAUDE)
    assert reply.seconds > 0


def test_a_model_that_thinks_gets_room_for_it_and_no_temperature() -> None:
    _, thinking = ask(anthropic.message(anthropic.text("a")), CLAUDE, temperature=0.5)
    assert thinking.body["max_tokens"] == 8100
    assert "temperature" not in thinking.body
    _, plain = ask(anthropic.message(anthropic.text("a")), "anthropic:claude-haiku-4-5", temperature=0.5)
    assert plain.body["max_tokens"] == 100
    assert plain.body["temperature"] == 0.5


def test_another_endpoint_gives_room_for_thinking_where_the_configuration_says_so() -> None:
    _, asked = ask(openai.completion(), "google:gemini-3.8-flash", temperature=0.5)
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (8100, 0.5)


def test_blocks_that_are_worth_it_are_breakpoints_of_the_prompt_cache() -> None:
    _, asked = ask(
        anthropic.message(anthropic.text("a")),
        CLAUDE,
        messages=(Message("user", (Block("Pack.", cache=True), Block("Task."))),),
    )
    content = asked.body["messages"][0]["content"]
    assert [block["text"] for block in content] == ["Pack.", "Task."]
    assert [block.get("cache_control", {}).get("type") for block in content] == ["ephemeral", None]
    assert "cache_control" not in asked.body


def test_what_goes_on_is_cached_up_to_its_end() -> None:
    tool = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {}})
    hello = Message("user", (Block("Hello."),))
    going_on = (hello, Message("assistant", (Block("Yes?"),)), hello)
    cases: tuple[dict[str, Any], ...] = ({"tools": (tool,)}, {"messages": going_on})
    for more in cases:
        _, asked = ask(anthropic.message(anthropic.text("a")), CLAUDE, **more)
        assert asked.body["cache_control"]["type"] == "ephemeral"


def test_a_long_session_has_no_more_than_four_breakpoints() -> None:
    turns = [Message("user", (Block(f"Pack {turn}.", cache=True), Block("Task."))) for turn in range(6)]
    said = Message("assistant", (Block("Done."),))
    whole = tuple(message for turn in turns for message in (turn, said))[:-1]
    _, asked = ask(anthropic.message(anthropic.text("a")), CLAUDE, messages=whole)
    blocks = [block for message in asked.body["messages"] for block in message["content"]]
    marked = [block["text"] for block in blocks if "cache_control" in block]
    assert marked == ["Pack 3.", "Pack 4.", "Pack 5."]
    assert "cache_control" in asked.body


def test_empty_blocks_are_not_sent() -> None:
    _, asked = ask(
        anthropic.message(anthropic.text("a")),
        CLAUDE,
        system=(Block(""), Block("Role.")),
        messages=(Message("user", (Block(""), Block("Task."))),),
    )
    assert asked.body["system"] == "Role."
    assert asked.body["messages"][0]["content"] == [{"type": "text", "text": "Task."}]


def test_a_conversation_with_tools_keeps_calls_and_results_together() -> None:
    turns = (
        Message("user", (Block("Look."),)),
        Message(
            "assistant", (Block("I read both."),), (ToolCall("t1", "Read", {"path": "a"}), ToolCall("t2", "Read", {}))
        ),
        Message("tool", (Block("A"),), call_id="t1"),
        Message("tool", (Block("B"),), call_id="t2"),
    )
    _, asked = ask(anthropic.message(anthropic.text("a")), CLAUDE, messages=turns, tools=(READ,))
    assert [turn["role"] for turn in asked.body["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in asked.body["messages"][1]["content"]] == ["text", "tool_use", "tool_use"]
    results = asked.body["messages"][2]["content"]
    assert [block["tool_use_id"] for block in results] == ["t1", "t2"]
    assert asked.body["tools"][0]["input_schema"]["properties"] == READ.parameters["properties"]


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["text", "shape"])
def test_who_has_to_answer_now_still_gets_the_tools_that_the_conversation_speaks_of(
    schema: dict[str, Any] | None,
) -> None:
    turns = (
        Message("user", (Block("Look."),)),
        Message("assistant", (), (ToolCall("t1", "Read", {"path": "a"}),)),
        Message("tool", (Block("A"),), call_id="t1"),
    )
    more: dict[str, Any] = {"messages": turns, "tools": (READ,), "schema": schema, "answer_now": True}
    for model, answer in ((CLAUDE, anthropic.message(anthropic.text("{}"))), (LLAMA, openai.completion("{}"))):
        _, asked = ask(answer, model, **more)
        assert "Read" in json.dumps(asked.body["tools"])
        assert asked.body["tool_choice"] in ("none", {"type": "none"})


def test_a_conversation_with_tools_is_told_to_other_endpoints_too() -> None:
    turns = (
        Message("user", (Block("Look."),)),
        Message("assistant", (), (ToolCall("t1", "Read", {"path": "a"}),)),
        Message("tool", (Block("A"),), call_id="t1"),
    )
    _, asked = ask(openai.completion(), LLAMA, messages=turns, tools=(READ,))
    assert [turn["role"] for turn in asked.body["messages"]] == ["system", "user", "assistant", "tool"]
    assert asked.body["messages"][2]["tool_calls"][0]["function"]["name"] == "Read"
    assert asked.body["messages"][3] == {"role": "tool", "tool_call_id": "t1", "content": "A"}


def test_another_endpoint_is_asked_for_chat_completions_without_a_key() -> None:
    reply, asked = ask(
        openai.completion("Hello."), LLAMA, temperature=0.2, system=(Block("One."), Block("Two.", cache=True))
    )
    assert asked.path == "/v1/chat/completions"
    assert KEY not in json.dumps(asked.headers)
    assert asked.body["messages"][0] == {"role": "system", "content": "One.\n\nTwo."}
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (100, 0.2)
    assert (reply.text, reply.stop, reply.model, reply.price) == ("Hello.", "end", LLAMA, None)


def test_openai_is_asked_through_its_responses_and_stores_nothing() -> None:
    reply, asked = ask(openai.response(openai.said("Hello.")), GPT)
    assert asked.path == "/v1/responses"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["store"] is False
    assert asked.body["max_output_tokens"] == 8100
    assert (reply.text, reply.stop) == ("Hello.", "end")


# -- structured replies --------------------------------------------------------------------------------------------


def test_claude_gives_structured_replies_by_its_own_means() -> None:
    reply, asked = ask(anthropic.message(anthropic.text(json.dumps(DATA))), CLAUDE, schema=SCHEMA)
    sent = asked.body["output_config"]["format"]
    assert sent["type"] == "json_schema"
    assert sent["schema"]["required"] == ["score", "why"]
    assert "tools" not in asked.body
    assert json.loads(reply.text) == DATA


def test_an_older_claude_gives_structured_replies_through_a_forced_tool() -> None:
    answer = anthropic.message(anthropic.tool_use("reply", DATA), stop_reason="tool_use")
    reply, asked = ask(answer, "anthropic:claude-opus-4-2", schema=SCHEMA)
    assert "output_config" not in asked.body
    assert [tool["name"] for tool in asked.body["tools"]] == ["reply"]
    assert asked.body["tool_choice"]["type"] in {"any", "tool"}
    assert json.loads(reply.text) == DATA
    assert (reply.stop, reply.calls) == ("end", ())


@pytest.mark.row("B3", "Z4")
def test_a_reply_that_is_given_twice_through_a_tool_is_two_values() -> None:
    parts = [anthropic.tool_use("reply", DATA | {"score": score}, f"t{score}") for score in (1, 2)]
    answer = anthropic.message(*parts, stop_reason="tool_use")
    reply, _ = ask(answer, "anthropic:claude-opus-4-2", schema=SCHEMA)
    assert [json.loads(one)["score"] for one in reply.text.split("\n\n")] == [1, 2]


def test_a_schema_beyond_claudes_limits_goes_through_a_tool() -> None:
    optional = {f"field{number}": {"type": "string"} for number in range(40)}
    schema = {"type": "object", "properties": optional, "required": [], "additionalProperties": False}
    answer = anthropic.message(anthropic.tool_use("reply", {"field1": "a"}), stop_reason="tool_use")
    reply, asked = ask(answer, "anthropic:claude-haiku-5-5", schema=schema)
    assert "output_config" not in asked.body
    assert json.loads(reply.text) == {"field1": "a"}


def test_another_endpoint_gets_the_schema_as_it_is() -> None:
    reply, asked = ask(openai.completion(json.dumps(DATA)), LLAMA, schema=SCHEMA)
    sent = asked.body["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"] == {"name": "reply", "schema": SCHEMA}
    assert "tools" not in asked.body
    assert json.loads(reply.text) == DATA


def test_openai_gives_structured_replies_by_its_own_means() -> None:
    reply, asked = ask(openai.response(openai.said(json.dumps(DATA))), GPT, schema=SCHEMA)
    assert asked.body["text"]["format"]["type"] == "json_schema"
    assert json.loads(reply.text) == DATA


@pytest.mark.parametrize("model", [CLAUDE, LLAMA, GPT])
def test_tools_and_a_schema_go_together(model: str) -> None:
    answers = {
        CLAUDE: anthropic.message(anthropic.tool_use("Read", {"path": "a"}), stop_reason="tool_use"),
        LLAMA: openai.completion(None, "tool_calls", [openai.call("Read", {"path": "a"})]),
        GPT: openai.response(openai.function_call("Read", {"path": "a"})),
    }
    reply, _ = ask(answers[model], model, schema=SCHEMA, tools=(READ,))
    assert reply.stop == "tool"
    assert [(call.name, call.arguments) for call in reply.calls] == [("Read", {"path": "a"})]


# -- why a reply ended ---------------------------------------------------------------------------------------------

READ_CALL = anthropic.tool_use("Read", {"path": "a"})
WHOLE = openai.completion().body
UNSAID = Answer(
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
    pytest.param(LLAMA, openai.completion(finish_reason=None), "other", marks=pytest.mark.finding("FM8")),
    pytest.param(LLAMA, openai.completion("a", "tool_calls"), "other", marks=pytest.mark.finding("FM8")),
    pytest.param(LLAMA, UNSAID, "other", marks=pytest.mark.finding("FM8")),
    pytest.param(
        CLAUDE, anthropic.message(anthropic.text("a"), stop_reason=None), "other", marks=pytest.mark.finding("FM8")
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
    (LLAMA, openai.completion("a", "guardrail_intervened"), "other"),
    (GPT, openai.response(openai.said("a")), "end"),
    (GPT, openai.response(openai.function_call("Read", {"path": "a"})), "tool"),
    (GPT, openai.response(openai.said("half"), status="incomplete", incomplete="max_output_tokens"), "length"),
    (GPT, openai.response(status="incomplete", incomplete="content_filter"), "refusal"),
    (GPT, openai.response(openai.refused("I can't help with that.")), "refusal"),
]


@pytest.mark.parametrize(("model", "answer", "stop"), ENDS)
def test_every_reason_to_stop_is_told(model: str, answer: Answer, stop: str) -> None:
    reply, _ = ask(answer, model, tools=(READ,))
    assert reply.stop == stop
    assert bool(reply.calls) == (stop == "tool")


def test_what_a_provider_says_about_its_refusal_is_kept() -> None:
    reply, _ = ask(openai.completion(None, "stop", refusal="I can't help with that."), LLAMA)
    assert reply.text == "I can't help with that."


def test_a_call_with_broken_arguments_is_still_a_call() -> None:
    reply, _ = ask(openai.completion(None, "tool_calls", [openai.call("Read", "{path")]), LLAMA, tools=(READ,))
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
        (GPT, openai.response(openai.said("a"), cached=7), Usage(input=10, output=5, cache_read=7)),
    ],
)
def test_input_counts_every_token_those_of_the_cache_included(model: str, answer: Answer, usage: Usage) -> None:
    reply, _ = ask(answer, model)
    assert reply.usage == usage


def test_a_reply_is_priced() -> None:
    reply, _ = ask(anthropic.message(anthropic.text("a"), usage={"input_tokens": 1000, "output_tokens": 100}), CLAUDE)
    assert reply.price == pytest.approx((1000 * 4 + 100 * 20) / 1_000_000)


def test_a_call_for_a_very_long_reply_is_streamed() -> None:
    def answer(asked: Asked) -> Answer:
        return anthropic.stream("long") if asked.body.get("stream") else anthropic.message(anthropic.text("short"))

    with serve(answer) as wire:
        (reply,) = converse(wire, request(CLAUDE, max_tokens=64_000))
    assert (reply.text, reply.stop) == ("long", "end")
