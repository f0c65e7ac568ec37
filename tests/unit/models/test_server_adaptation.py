"""A server that refuses a field which skillrun adds by itself gets the request without it, in each protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skillrun.models.capabilities import CAPABILITIES, OMITTABLE, ServerProfile, find_lower_limit
from skillrun.models.failures import describe_refusal
from skillrun.models.gateway import MAX_ADAPTATIONS
from skillrun.models.messages import Block, Message, ModelError, Reply, ToolCall, ToolSpec
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, WireRequest, serve
from tests.unit.models.conversation import converse
from tests.unit.models.settings import catalogue, request

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.row("L11")]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}
READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
NOTE = "Reply with JSON like this: {score}"
CHAT, RESPONSES, CLAUDE = "ollama:llama3", "openai:gpt-6.1-sol", "anthropic:claude-opus-5-5"
MODELS = [CHAT, RESPONSES, CLAUDE]
VALUE = '{"score": 3}'


def answer_in_kind(received: WireRequest) -> Answer:
    """Answer a request in its protocol: through the tool `reply` if it is offered, otherwise as text."""
    offers_reply = '"name": "reply"' in json.dumps(received.body.get("tools", []))
    data = json.loads(VALUE)
    if received.path.endswith("/messages") or "/messages?" in received.path:
        if offers_reply:
            return anthropic.message(anthropic.tool_use("reply", data), stop_reason="tool_use")
        return anthropic.stream(VALUE) if received.body.get("stream") else anthropic.message(anthropic.text(VALUE))
    if received.path.endswith("/responses"):
        return openai.response(openai.function_call("reply", data) if offers_reply else openai.output_text(VALUE))
    if offers_reply:
        return openai.completion(None, "tool_calls", [openai.call("reply", data)])
    return openai.completion(VALUE)


def refuse(received: WireRequest, message: str, status: int = 400) -> Answer:
    if "/messages" in received.path:
        return anthropic.error(status, "invalid_request_error", message)
    return openai.error(status, message)


def send_to(
    refuses: Callable[[dict[str, Any]], bool], message: str, model: str, status: int = 400, **more: Any
) -> tuple[Reply, list[dict[str, Any]], list[str]]:
    """Send a request to a server that refuses some requests. Return the reply, the bodies and the lines shown."""
    notices: list[str] = []
    changes = more.pop("changes", {})

    def answer(received: WireRequest) -> Answer:
        return refuse(received, message, status) if refuses(received.body) else answer_in_kind(received)

    with serve(answer) as wire:
        (reply,) = converse(wire, request(model, schema_note=NOTE, **more), notices=notices, **changes)
        return reply, [received.body for received in wire.asked], notices


def form_of(body: dict[str, Any]) -> str:
    """Return how a request body asks for a structured reply."""
    form = (
        body.get("response_format") or body.get("text", {}).get("format") or body.get("output_config", {}).get("format")
    )
    if form:
        return str(form["type"])
    if '"name": "reply"' in json.dumps(body.get("tools", [])):
        return "tool"
    return "prompt" if NOTE in json.dumps(body) else ""


@dataclass(frozen=True)
class SchemaRefusal:
    message: str
    status: int = 400


@pytest.mark.finding("FV1")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("refused", "message", "forms"),
    [
        (("json_schema",), "This response_format type is unavailable now", ["json_schema", "tool"]),
        (
            ("json_schema", "tool"),
            "json_schema and tools are not supported",
            {"anthropic": ["json_schema", "tool", "prompt"], "": ["json_schema", "tool", "json_object"]},
        ),
        (
            ("json_schema", "tool", "json_object"),
            "response_format and tools are not supported",
            {
                "anthropic": ["json_schema", "tool", "prompt"],
                "": ["json_schema", "tool", "json_object", "prompt"],
            },
        ),
    ],
)
def test_structured_output_falls_back_to_what_the_server_supports(
    model: str, refused: tuple[str, ...], message: str, forms: Any
) -> None:
    reply, bodies, notices = send_to(lambda body: form_of(body) in refused, message, model, schema=SCHEMA)
    expected = forms if isinstance(forms, list) else forms.get(model.partition(":")[0], forms[""])
    assert [form_of(body) for body in bodies] == expected
    assert json.loads(reply.text) == {"score": 3}
    assert all("trying again with `structured_output: " in line for line in notices)
    assert (NOTE in json.dumps(bodies[-1])) == (expected[-1] in ("json_object", "prompt"))


@pytest.mark.finding("FV1")
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "[{'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\"}]"),
        (422, "response_format.type: Input should be 'text' or 'json_object'"),
        (400, "Invalid schema for response_format 'reply': unsupported keyword"),
        (400, "Structured outputs are not supported for this model"),
        (501, "json_schema is not supported by this engine"),
        (400, "failed to parse grammar"),
    ],
)
def test_a_refused_schema_is_recognized_in_many_words(status: int, message: str) -> None:
    reply, bodies, _ = send_to(lambda body: "response_format" in body, message, CHAT, status, schema=SCHEMA)
    assert [form_of(body) for body in bodies] == ["json_schema", "tool"]
    assert json.loads(reply.text) == {"score": 3}


@pytest.mark.finding("FV1")
def test_what_a_server_supports_is_remembered_for_its_model(tmp_path: Path) -> None:
    profile = ServerProfile.read(catalogue().providers["openai"], "m", tmp_path)
    body = {"input": [], "text": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    assert profile.learn(body, "text.format is not supported") == "`structured_output: tool`"
    again = ServerProfile.read(catalogue().providers["openai"], "m", tmp_path)
    assert (again.value("structured_output"), again.source("structured_output")) == ("tool", "learned")
    assert (
        ServerProfile.read(catalogue().providers["openai"], "other", tmp_path).source("structured_output") == "default"
    )
    again.forget()
    assert ServerProfile.read(catalogue().providers["openai"], "m", tmp_path).learned == {}


@pytest.mark.finding("FV1")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"learned": {"structured_output": "magic"}}', '{"window": "x"}'])
def test_a_damaged_cache_file_counts_as_empty(tmp_path: Path, text: str) -> None:
    profile = ServerProfile.read(catalogue().providers["openai"], "m", tmp_path)
    profile.save()
    assert profile.path is not None
    profile.path.write_text(text, encoding="utf-8")
    assert ServerProfile.read(catalogue().providers["openai"], "m", tmp_path).learned == {}


@pytest.mark.finding("FV1")
@pytest.mark.parametrize("value", ["tool", "json_object", "prompt"])
def test_a_provider_key_sets_how_a_schema_is_sent(value: str) -> None:
    changes = {"structured_output": value}
    reply, bodies, _ = send_to(lambda _: False, "", CHAT, schema=SCHEMA, changes=changes)
    assert [form_of(body) for body in bodies] == [value]
    assert json.loads(reply.text) == {"score": 3}


@pytest.mark.finding("FV1")
def test_a_value_that_the_author_sets_is_not_replaced() -> None:
    with pytest.raises(ModelError, match="response_format"):
        send_to(
            lambda body: "response_format" in body,
            "response_format is not supported",
            CHAT,
            schema=SCHEMA,
            changes={"structured_output": "json_schema"},
        )


TURNS = (
    Message("user", (Block("Look."),)),
    Message("assistant", (), (ToolCall("t1", "Read", {"path": "a"}),)),
    Message("tool", (Block("A"),), call_id="t1"),
)


@pytest.mark.finding("FV10")
@pytest.mark.parametrize("model", MODELS)
def test_the_default_tool_choice_is_never_sent(model: str) -> None:
    _, bodies, _ = send_to(lambda body: "tool_choice" in body, "no tool_choice", model, tools=(READ,))
    assert len(bodies) == 1


@pytest.mark.finding("FV10")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "message",
    ["`tool_choice` is not supported", '"none" tool choice requires --tool-call-parser', "Unknown field: tool_choice"],
)
def test_a_refused_tool_choice_is_left_out(model: str, message: str) -> None:
    more: dict[str, Any] = {"messages": TURNS, "tools": (READ,), "answer_now": True}
    _, bodies, notices = send_to(lambda body: "tool_choice" in body, message, model, **more)
    assert ["tool_choice" in body for body in bodies] == [True, False]
    assert "trying again with `omit: [tool_choice]`" in notices[0]


@pytest.mark.finding("FV10")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "message",
    [
        "System role not supported",
        "system: Extra inputs are not permitted",
        "messages.0.role: must be 'user' or 'assistant'",
    ],
)
def test_a_refused_system_prompt_goes_into_the_first_turn_of_the_user(model: str, message: str) -> None:
    def has_system(body: dict[str, Any]) -> bool:
        turns = body.get("messages") or body["input"]
        return "system" in body or any(turn.get("role") in ("system", "developer") for turn in turns)

    _, bodies, _ = send_to(has_system, message, model)
    assert [has_system(body) for body in bodies] == [True, False]
    (turn,) = bodies[1].get("messages") or bodies[1]["input"]
    assert json.dumps(turn).index("You are brief.") < json.dumps(turn).index("Say hello.")


@pytest.mark.finding("FV10")
def test_refused_cache_marks_are_left_out() -> None:
    blocks = (Message("user", (Block("Pack.", cache=True), Block("Task."))),)
    message = "messages.0.content.0.cache_control: Extra inputs are not permitted"
    _, bodies, _ = send_to(lambda body: "cache_control" in json.dumps(body), message, CLAUDE, messages=blocks)
    assert len(bodies) == 2
    assert [part["text"] for part in bodies[1]["messages"][0]["content"]] == ["Pack.", "Task."]


@pytest.mark.finding("FV10")
@pytest.mark.parametrize("model", MODELS)
def test_a_schema_next_to_tools_becomes_a_tool_where_the_server_takes_only_one(model: str) -> None:
    message = "Function calling with a response mime type: 'application/json' is unsupported"
    _, bodies, _ = send_to(
        lambda body: bool(body.get("tools")) and form_of(body) == "json_schema",
        message,
        model,
        schema=SCHEMA,
        tools=(READ,),
    )
    assert [form_of(body) for body in bodies] == ["json_schema", "tool"]
    assert '"Read"' in json.dumps(bodies[1]["tools"])


@pytest.mark.finding("FV10")
@pytest.mark.parametrize("field", ["store", "include", "reasoning", "strict"])
def test_other_fields_that_skillrun_adds_are_left_out_after_a_refusal(field: str) -> None:
    def has_field(body: dict[str, Any]) -> bool:
        return f'"{field}":' in json.dumps(body)

    _, bodies, _ = send_to(has_field, f"Unknown parameter: '{field}'.", RESPONSES, schema=SCHEMA)
    assert [has_field(body) for body in bodies] == [True, False]


@pytest.mark.finding("FV10")
@pytest.mark.parametrize("model", MODELS)
def test_refused_tools_of_the_author_are_an_error(model: str) -> None:
    with pytest.raises(ModelError, match="does not support tools"):
        send_to(lambda body: "tools" in body, "m does not support tools", model, tools=(READ,))


@pytest.mark.finding("FV6")
@pytest.mark.parametrize("value", ["max_completion_tokens", "none"])
def test_a_refused_limit_field_is_replaced(value: str) -> None:
    def is_refused(body: dict[str, Any]) -> bool:
        return "max_tokens" in body or (value == "none" and "max_completion_tokens" in body)

    message = "Unsupported parameter: 'max_tokens', 'max_completion_tokens' is not supported with this model."
    _, bodies, _ = send_to(is_refused, message, CHAT)
    assert bodies[-1].get("max_completion_tokens") == (100 if value == "max_completion_tokens" else None)
    assert "max_tokens" not in bodies[-1]


@pytest.mark.finding("FV6")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("max_tokens: 24384 > 8,192, which is the maximum allowed number of output tokens", 8192),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is "
                "8192 tokens and your request has 412 input tokens (16384 > 8192 - 412)."
            ),
            7780,
        ),
        (
            (
                "This model's maximum context length is 8192 tokens. However, you requested 16796 tokens (412 in the "
                "messages, 16384 in the completion)."
            ),
            7780,
        ),
        ("input length and `max_tokens` exceed context limit: 412 + 16384 > 8192, decrease `max_tokens`", 7780),
    ],
)
def test_a_limit_that_is_too_high_is_lowered_to_what_the_server_names(model: str, message: str, limit: int) -> None:
    fields = ("max_tokens", "max_output_tokens")
    _, bodies, _ = send_to(
        lambda body: next(body[name] for name in fields if name in body) > limit,
        message,
        f"{model.partition(':')[0]}:a-new-model",
        max_tokens=16384,
        changes={"max_output": None},
    )
    assert [next(body[name] for name in fields if name in body) for body in bodies][1:] == [limit]


@pytest.mark.finding("FV6")
def test_a_limit_that_the_author_sets_is_not_lowered() -> None:
    message = "max_tokens is too large: 700. This model supports at most 512"
    with pytest.raises(ModelError, match="at most 512"):
        send_to(lambda body: body["max_tokens"] > 512, message, CHAT, max_tokens=700, changes={"max_output": 700})


@pytest.mark.finding("FV6")
@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the server is busy; only 12 requests are allowed",
    ],
)
def test_a_prompt_that_is_too_long_is_not_sent_again(message: str) -> None:
    assert find_lower_limit(16384, message)[0] == 0
    with pytest.raises(ModelError):
        send_to(lambda body: True, message, CHAT)


def test_every_value_of_a_capability_is_a_provider_key() -> None:
    for name, capability in CAPABILITIES.items():
        assert capability.name == name
        assert set(capability.refused) < set(capability.values)
    assert "tool_choice" in OMITTABLE


@pytest.mark.finding("FV10")
@pytest.mark.parametrize("model", MODELS)
def test_a_server_that_refuses_everything_gets_each_request_once(model: str) -> None:
    message = "response_format, json_schema, tools, tool_choice, system role, max_tokens, strict: not supported"
    sent: list[str] = []

    def answer(received: WireRequest) -> Answer:
        sent.append(json.dumps(received.body, sort_keys=True))
        return refuse(received, message)

    with serve(answer) as wire, pytest.raises(ModelError):
        converse(wire, request(model, schema_note=NOTE, schema=SCHEMA, tools=(READ,)))
    assert len(sent) == len(set(sent)) < 12


@pytest.mark.row("Z6")
@pytest.mark.finding("FE3")
def test_a_server_that_names_one_limit_after_the_other_is_not_asked_without_end() -> None:
    asked: list[int] = []

    def answer(received: WireRequest) -> Answer:
        asked.append(received.body["max_tokens"])
        return openai.error(400, f"max_tokens is too large: at most {asked[-1] - 1}")

    with serve(answer) as wire, pytest.raises(ModelError, match="too large"):
        converse(wire, request(CHAT, max_tokens=16384), max_output=None)
    assert len(asked) == MAX_ADAPTATIONS + 1


@pytest.mark.finding("FE3")
def test_a_server_that_refuses_every_form_is_not_asked_without_end() -> None:
    asked: list[str] = []

    def answer(received: WireRequest) -> Answer:
        asked.append(form_of(received.body))
        return openai.error(400, "response_format with tools is not supported; no function calling")

    with serve(answer) as wire, pytest.raises(ModelError, match="not supported"):
        converse(wire, request(CHAT, schema=SCHEMA, schema_note=NOTE, tools=(READ,)))
    assert len(asked) <= MAX_ADAPTATIONS


@pytest.mark.row("Z6")
@pytest.mark.finding("FE4")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"error":' * 700 + '"no tools"' + "}" * 700, id="deep"),
        pytest.param(json.dumps({"errors": [[{"message": "not " + "x" * 20_000}] * 10] * 10}), id="long"),
        pytest.param(json.dumps({"error": {"message": "context exceeds " + "9" * 20_000}}), id="digits"),
        pytest.param(
            json.dumps({"error": {"message": f"maximum context length is {'9' * 5000}, max_tokens too large"}}),
            id="number",
        ),
        pytest.param(json.dumps({"detail": [{"loc": [[["tools"] * 9] * 9, None], "msg": "not allowed"}]}), id="loc"),
    ],
)
def test_any_refusal_is_an_error_of_the_call(body: str) -> None:
    with serve(lambda _: Answer(body, 400)) as wire, pytest.raises(ModelError):
        converse(wire, request(CHAT, schema=SCHEMA, schema_note=NOTE, tools=(READ,)))


@pytest.mark.finding("FE4")
def test_a_number_in_a_refusal_is_bounded() -> None:
    assert find_lower_limit(16384, f"max_tokens: maximum context length is {'9' * 5000} tokens") == (0, 0)
    assert describe_refusal({"error": {"message": "x" * 100_000}}) == "x" * 4000
