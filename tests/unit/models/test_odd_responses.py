"""Replies are read from whatever servers send: odd fields, odd words for the end, errors with status 200."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from skillrun.models.messages import AttemptListener, ModelError, Reply, ToolSpec, Usage
from skillrun.models.response_bodies import NoReply, read_body
from skillrun.scoring.compaction import estimate_tokens
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, serve
from tests.unit.models.conversation import converse
from tests.unit.models.settings import request

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.row("L11")]

CHAT, RESPONSES, CLAUDE = "ollama:llama3", "openai:gpt-6.1-sol", "anthropic:claude-opus-5-5"
READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
PATH = {"path": "a.py"}
Change = Callable[[dict[str, Any]], object]


def receive(body: Any, model: str, **more: Any) -> tuple[Reply, list[str]]:
    notices: list[str] = []
    with serve([Answer(body)]) as wire:
        (reply,) = converse(wire, request(model, **more), notices=notices)
        assert len(wire.asked) == 1
    return reply, notices


def whole(model: str) -> dict[str, Any]:
    """Return a body with the text `Hello.` in the protocol of a model."""
    bodies = {
        CHAT: openai.completion("Hello."),
        RESPONSES: openai.response(openai.output_text("Hello.")),
        CLAUDE: anthropic.message(anthropic.text("Hello.")),
    }
    copied: dict[str, Any] = json.loads(json.dumps(bodies[model].body))
    return copied


def calling(model: str) -> dict[str, Any]:
    """Return a body with a call of the tool `Read` in the protocol of a model."""
    bodies = {
        CHAT: openai.completion(None, "tool_calls", [openai.call("Read", PATH)]),
        RESPONSES: openai.response(openai.function_call("Read", PATH)),
        CLAUDE: anthropic.message(anthropic.tool_use("Read", PATH), stop_reason="tool_use"),
    }
    copied: dict[str, Any] = json.loads(json.dumps(bodies[model].body))
    return copied


def without(*keys: str) -> Change:
    return lambda body: [body.pop(key, None) for key in keys]


def with_fields(**fields: Any) -> Change:
    return lambda body: body.update(fields)


ODD_FIELDS: dict[str, tuple[tuple[str, ...], Change]] = {
    "no id": ((CHAT, RESPONSES, CLAUDE), without("id")),
    "id is null": ((CHAT, RESPONSES, CLAUDE), with_fields(id=None)),
    "id is a number": ((CHAT, RESPONSES, CLAUDE), with_fields(id=17)),
    "no model": ((CHAT, RESPONSES, CLAUDE), without("model")),
    "model is null": ((CHAT, RESPONSES, CLAUDE), with_fields(model=None)),
    "no object": ((CHAT, RESPONSES, CLAUDE), without("object", "type")),
    "object is empty": ((CHAT, RESPONSES), with_fields(object="")),
    "no role": ((CLAUDE,), without("role")),
    "created is a fraction": ((CHAT, RESPONSES), with_fields(created=1.5, created_at=1.5)),
    "no created": ((CHAT, RESPONSES), without("created", "created_at")),
    "no status": ((RESPONSES,), without("status", "parallel_tool_calls", "tool_choice", "tools")),
    "usage is null": ((CHAT, RESPONSES, CLAUDE), with_fields(usage=None)),
    "no usage": ((CHAT, RESPONSES, CLAUDE), without("usage")),
    "usage is a list": ((CHAT, RESPONSES, CLAUDE), with_fields(usage=[])),
    "tokens are null": (
        (CHAT, RESPONSES, CLAUDE),
        with_fields(usage=dict.fromkeys(("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens"))),
    ),
    "tier is odd": ((CHAT, RESPONSES, CLAUDE), with_fields(service_tier="on_demand", x_new={"a": 1})),
    "no choice index": ((CHAT,), lambda body: body["choices"][0].pop("index")),
    "odd logprobs": ((CHAT,), lambda body: body["choices"][0].update(logprobs={})),
    "no message role": ((CHAT,), lambda body: body["choices"][0]["message"].pop("role")),
    "message role is null": ((CHAT,), lambda body: body["choices"][0]["message"].update(role=None)),
    "empty refusal": ((CHAT,), lambda body: body["choices"][0]["message"].update(refusal="")),
    "null parts": ((CHAT,), lambda body: body["choices"][0]["message"].update(tool_calls=None, annotations={})),
    "content is parts": ((CHAT,), lambda body: body["choices"][0]["message"].update(content=["Hel", {"text": "lo."}])),
    "thinking parts": (
        (CHAT,),
        lambda body: body["choices"][0]["message"].update(
            content=[{"type": "thinking", "thinking": [{"text": "Hm."}]}, {"type": "text", "text": "Hello."}]
        ),
    ),
    "text of a completion": ((CHAT,), lambda body: body.update(choices=[{"text": "Hello."}])),
    "unknown part": ((CLAUDE,), lambda body: body["content"].insert(0, {"type": "future_block", "stuff": 1})),
    "null part": ((CLAUDE, ), lambda body: body["content"].append(None)),
    "text as content": ((CLAUDE,), with_fields(content="Hello.")),
    "unknown item": ((RESPONSES,), lambda body: body["output"].insert(0, {"type": "future_call", "id": None})),
    "only the text": ((RESPONSES,), lambda body: (body.pop("output"), body.update(output_text="Hello."))),
    "thinking without a signature": (
        (CLAUDE,),
        lambda body: body["content"].insert(0, {"type": "thinking", "thinking": "Hm.", "signature": None}),
    ),
}  # fmt: skip


@pytest.mark.finding("FV3")
@pytest.mark.parametrize(
    ("model", "name"), [(model, name) for name, (models, _) in ODD_FIELDS.items() for model in models]
)
def test_a_reply_with_odd_fields_is_read_and_counted(model: str, name: str) -> None:
    body = whole(model)
    ODD_FIELDS[name][1](body)
    reply, _ = receive(body, model)
    assert (reply.text, reply.stop) == ("Hello.", "end")
    assert reply.usage.input > 0
    assert reply.usage.output > 0
    assert reply.model == (model if "model" in name else f"{model.partition(':')[0]}:{whole(model)['model']}")


def chat_call(**fields: Any) -> Change:
    def change(body: dict[str, Any]) -> None:
        call = body["choices"][0]["message"]["tool_calls"][0]
        call["function"].update({key: fields.pop(key) for key in ("arguments",) if key in fields})
        call.update(fields)

    return change


def drop_from_call(*keys: str) -> Change:
    return lambda body: [body["choices"][0]["message"]["tool_calls"][0].pop(key) for key in keys]


ODD_CALLS: dict[str, tuple[str, Change, dict[str, Any]]] = {
    "arguments are an object": (CHAT, chat_call(arguments=PATH), PATH),
    "arguments are null": (CHAT, chat_call(arguments=None), {}),
    "arguments are empty": (CHAT, chat_call(arguments=""), {}),
    "arguments are JSON in JSON": (CHAT, chat_call(arguments=json.dumps(json.dumps(PATH))), PATH),
    "id is empty": (CHAT, chat_call(id=""), PATH),
    "id is null": (CHAT, chat_call(id=None), PATH),
    "id is a number": (CHAT, chat_call(id=7), PATH),
    "no id": (CHAT, drop_from_call("id"), PATH),
    "type is null": (CHAT, chat_call(type=None), PATH),
    "no type": (CHAT, drop_from_call("type"), PATH),
    "the function's fields are the call's": (
        CHAT,
        lambda body: body["choices"][0]["message"].update(tool_calls=[{"name": "Read", "arguments": PATH}]),
        PATH,
    ),
    "one call without a list": (
        CHAT,
        lambda body: body["choices"][0]["message"].update(
            tool_calls=body["choices"][0]["message"]["tool_calls"][0]
        ),
        PATH,
    ),
    "an old function call": (
        CHAT,
        lambda body: body["choices"][0].update(
            message={"function_call": {"name": "Read", "arguments": json.dumps(PATH)}}, finish_reason="function_call"
        ),
        PATH,
    ),
    "Claude: arguments are JSON": (CLAUDE, lambda body: body["content"][0].update(input=json.dumps(PATH)), PATH),
    "Claude: arguments are null": (CLAUDE, lambda body: body["content"][0].update(input=None), {}),
    "Claude: no id": (CLAUDE, lambda body: body["content"][0].pop("id"), PATH),
    "Responses: arguments are an object": (RESPONSES, lambda body: body["output"][0].update(arguments=PATH), PATH),
    "Responses: no ids": (RESPONSES, lambda body: [body["output"][0].pop(key) for key in ("id", "call_id")], PATH),
}  # fmt: skip


@pytest.mark.finding("FV3")
@pytest.mark.parametrize("name", ODD_CALLS)
def test_an_odd_tool_call_is_read(name: str) -> None:
    model, change, arguments = ODD_CALLS[name]
    body = calling(model)
    change(body)
    reply, _ = receive(body, model, tools=(READ,))
    assert (reply.stop, [(call.name, call.arguments) for call in reply.calls]) == ("tool", [("Read", arguments)])
    assert reply.calls[0].id


@pytest.mark.finding("FV12")
@pytest.mark.parametrize("model", [CHAT, RESPONSES, CLAUDE])
def test_two_calls_with_one_id_get_two_ids(model: str) -> None:
    body = calling(model)
    content: list[Any] = body.get("output") or body.get("content") or body["choices"]
    calls = content[0]["message"]["tool_calls"] if model == CHAT else content
    calls.append(json.loads(json.dumps(calls[0])))
    reply, _ = receive(body, model, tools=(READ,))
    assert len({call.id for call in reply.calls}) == 2


# -- why a reply ended ------------------------------------------------------------------------------------------------


@pytest.mark.finding("FV4")
@pytest.mark.parametrize("model", [CHAT, CLAUDE])
@pytest.mark.parametrize(
    ("word", "stop"),
    [
        (None, "end"), ("", "end"), ("eos", "end"), ("eos_token", "end"), ("STOP", "end"), ("end_turn", "end"),
        ("stop_sequence", "end"), ("COMPLETE", "end"), ("FINISH_REASON_STOP", "end"), ("max_new_tokens", "length"),
        ("MAX_TOKENS", "length"), ("model_length", "length"), ("SAFETY", "refusal"), ("sensitive", "refusal"),
        ("budget_exceeded", "other"), ("pause_turn", "other"), (7, "other"),
    ],
)  # fmt: skip
def test_the_word_for_the_end_of_a_reply_has_synonyms(model: str, word: Any, stop: str) -> None:
    body = whole(model)
    (body if model == CLAUDE else body["choices"][0]).update(
        {"stop_reason" if model == CLAUDE else "finish_reason": word}
    )
    reply, _ = receive(body, model)
    assert (reply.text, reply.stop) == ("Hello.", stop)
    assert reply.stop_detail == (str(word) if stop == "other" else "")


@pytest.mark.finding("FV4")
@pytest.mark.parametrize("model", [CHAT, CLAUDE])
@pytest.mark.parametrize("word", [None, "", "stop", "end_turn", "tool", "a_new_word"])
def test_complete_tool_calls_count_whatever_the_reason(model: str, word: Any) -> None:
    body = calling(model)
    (body if model == CLAUDE else body["choices"][0]).update(
        {"stop_reason" if model == CLAUDE else "finish_reason": word}
    )
    reply, _ = receive(body, model, tools=(READ,))
    assert (reply.stop, [call.arguments for call in reply.calls]) == ("tool", [PATH])


# -- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.finding("FV11")
@pytest.mark.parametrize("model", [CHAT, RESPONSES, CLAUDE])
def test_absurd_usage_is_replaced_by_an_estimate(model: str) -> None:
    body = whole(model)
    body["usage"] = {"prompt_tokens": 2**63, "input_tokens": 2**63, "completion_tokens": 2**40, "output_tokens": 2**40}
    reply, notices = receive(body, model)
    assert 1 < reply.usage.input < 100
    assert 0 < reply.usage.output < 10
    assert "implausible usage (input: 1e+18 tokens, output: 1.1e+12 tokens); using an estimate" in notices[0]


@pytest.mark.finding("FV12")
@pytest.mark.parametrize(
    "details", [{"prompt_cache_hit_tokens": 8}, {"prompt_tokens_details": {"cached_tokens": 8}}, {"cached_tokens": 8}]
)
def test_cached_tokens_are_counted_under_each_of_their_names(details: dict[str, Any]) -> None:
    body = whole(CHAT)
    body["usage"] = {"prompt_tokens": 10.0, "completion_tokens": 5.0, "total_tokens": 15.0, **details}
    reply, _ = receive(body, CHAT)
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output) == (10, 8, 5)


@pytest.mark.finding("FV12")
def test_a_reply_that_only_thinks_says_so() -> None:
    body = whole(CHAT)
    body["choices"][0]["message"] = {"role": "assistant", "content": None, "reasoning_content": "Hm."}
    reply, _ = receive(body, CHAT)
    assert (reply.text, reply.stop_detail) == ("", "the reply contains only thoughts")


@pytest.mark.finding("FV12")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_value_among_thoughts_is_taken_if_there_is_no_other_text(field: str) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    body = whole(CHAT)
    body["choices"][0]["message"] = {"role": "assistant", "content": None, field: 'So: {"score": 3}'}
    reply, _ = receive(body, CHAT, schema=schema)
    assert '{"score": 3}' in reply.text


# -- errors with status 200 -------------------------------------------------------------------------------------------

ERRORS: list[tuple[Any, str, str]] = [
    ({"error": {"message": "Rate limit exceeded: free-models-per-min", "code": "429"}}, "rate_limit", "free-models"),
    ({"error": {"message": "Server overloaded", "type": "server_error", "code": None}}, "overloaded", "Server over"),
    ({"error": "model runner has unexpectedly stopped"}, "overloaded", "model runner has unexpectedly stopped"),
    ({"error": {"message": "slow down", "code": 429}}, "rate_limit", "slow down"),
    ([{"error": {"message": "slow down", "code": 429}}], "rate_limit", "slow down"),
    ({"error": {"message": "model 'm' not found"}}, "not_found", "model 'm' not found"),
    ({"error": {"message": "Invalid API key"}}, "auth", "Invalid API key"),
    ({"error": {"message": "insufficient_quota"}}, "budget", "insufficient_quota"),
    ({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate_limit", "rate limit"),
    ({"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "budget", "balance"),
    ({"object": "error", "message": "worker timed out", "code": 50001}, "overloaded", "worker timed out"),
    ({"choices": [{"message": {"content": ""}, "error": {"message": "It broke"}}]}, "overloaded", "It broke"),
    ({"choices": [{"message": {"content": "A cat is"}, "finish_reason": "error"}]}, "overloaded", "ended with `error`"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded", "Overloaded"),
]  # fmt: skip


@pytest.mark.finding("FV9")
@pytest.mark.parametrize(("body", "kind", "words"), ERRORS)
def test_an_error_with_status_200_keeps_its_words_and_is_classified(body: Any, kind: str, words: str) -> None:
    with serve([Answer(body)]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(CHAT), retry={"attempts": 1})
    assert (caught.value.kind, words in caught.value.message) == (kind, True), caught.value.message


@pytest.mark.finding("FV9")
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("overloaded_error", "overloaded"), ("rate_limit_error", "rate_limit"), ("authentication_error", "auth")],
)
def test_an_error_of_anthropic_with_status_200_is_classified(streams: bool, kind: str, expected: str) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "Not now"}}
    start = {"type": "message_start", "message": anthropic.message().body}
    text = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in (start, event))
    answer = Answer(text, headers={"Content-Type": "text/event-stream"}) if streams else Answer(event)
    with serve([answer]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(CLAUDE, max_tokens=60_000 if streams else 100), retry={"attempts": 1})
    assert (caught.value.kind, "Not now" in caught.value.message) == (expected, True), caught.value.message


@pytest.mark.finding("FV9")
def test_a_stream_that_ends_early_is_a_lost_connection() -> None:
    events = str(anthropic.stream("Hello.").body).partition("event: message_delta")[0]
    cut = Answer(events, headers={"Content-Type": "text/event-stream"})
    with serve([cut, anthropic.stream("Hello.")]) as wire:
        (reply,) = converse(wire, request(CLAUDE, max_tokens=60_000))
        assert (reply.text, len(wire.asked)) == ("Hello.", 2)
    with serve([cut]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(CLAUDE, max_tokens=60_000), retry={"attempts": 1})
    assert caught.value.kind == "connection"


@pytest.mark.finding("FV9")
def test_a_whole_reply_to_a_request_for_a_stream_is_read() -> None:
    body = anthropic.message(anthropic.tool_use("Read", PATH), stop_reason="tool_use").body
    reply, _ = receive(body, CLAUDE, max_tokens=60_000, tools=(READ,))
    assert [call.arguments for call in reply.calls] == [PATH]


@pytest.mark.finding("FV9", "FV12")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "is not JSON; it begins ``"),
        ("<!doctype html><html>Log in</html>", "is not JSON; it begins `<!doctype html>"),
        ({"choices": []}, "contains no reply"),
        ({"choices": None}, "contains no reply"),
        ([1, 2], "is not a JSON object"),
        ({"content": [], "stop_reason": "end_turn"}, "follows another protocol; try `kind: anthropic`"),
        ("data: 5\n\n", "contains no reply"),
        ('data: {"type": "message_start", "message": 5}\n\n', "contains no reply"),
        (": ping\n\n", "contains no reply"),
    ],
)
def test_a_response_without_a_reply_is_described_in_words(body: Any, words: str) -> None:
    with serve([Answer(body)]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(CHAT))
    assert words in caught.value.message
    assert len(wire.asked) == 1


class UsageRecorder(AttemptListener):
    """Notes the usage of every failed attempt."""

    def __init__(self) -> None:
        self.usages: list[Usage | None] = []

    async def on_failed(self, number: int, error: ModelError) -> None:
        self.usages.append(error.usage)


def usage_of_failure(answer: Answer, model: str = CHAT) -> tuple[Usage | None, int]:
    """Return the usage of a reply that cannot be used, and the estimate of the tokens of its request."""
    recorder, sent = UsageRecorder(), request(model, words="word " * 100, max_tokens=500)
    with serve([answer]) as wire, pytest.raises(ModelError):
        converse(wire, sent, attempts=recorder, retry={"attempts": 1})
    assert len(recorder.usages) == 1
    return recorder.usages[0], sum(estimate_tokens(block.text) for block in sent.blocks)


@pytest.mark.finding("FV3")
@pytest.mark.parametrize("model", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("The reply is 32 characters long.", 8),
        ("", 0),
        ({"choices": [], "a": "12345678"}, 8),
        ("data: {", 2),
        ([1, 2], 2),
    ],
)
def test_a_reply_that_cannot_be_read_is_counted_by_its_length(model: str, body: Any, output: int) -> None:
    usage, prompt = usage_of_failure(Answer(body), model)
    assert usage is not None
    assert prompt <= usage.input <= prompt + 20
    assert usage.output == output


@pytest.mark.finding("FV3")
def test_a_reply_that_cannot_be_read_counts_at_most_the_limit_of_output() -> None:
    usage, _ = usage_of_failure(Answer("x" * 9000))
    assert usage is not None
    assert usage.output == 500


@pytest.mark.finding("FV3")
def test_a_reply_that_cannot_be_read_is_counted_as_it_reports() -> None:
    body = {"choices": [], "usage": {"prompt_tokens": 130, "completion_tokens": 77}}
    assert usage_of_failure(Answer(body))[0] == Usage(130, 77)


@pytest.mark.finding("FV3")
def test_a_reply_that_is_too_long_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillrun.models.transport.MAX_BODY", 1000)
    usage, _ = usage_of_failure(Answer("x" * 1600))
    assert usage is not None
    assert 0 < usage.output <= 500
    monkeypatch.undo()
    monkeypatch.setattr("skillrun.models.providers.MAX_REPLY", 1000)
    usage, _ = usage_of_failure(openai.completion("x" * 1600))
    assert usage is not None
    assert usage.output > 0


@pytest.mark.finding("FV3")
@pytest.mark.parametrize(
    "answer",
    [Answer("No.", 500), Answer("", 302), Answer("", hang_up=True), Answer({"error": "no"}), openai.error(400, "no")],
    ids=["500", "redirect", "no response", "an error with status 200", "400"],
)
def test_a_response_without_a_reply_costs_nothing(answer: Answer) -> None:
    assert usage_of_failure(answer)[0] is None


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "responses"])
@pytest.mark.parametrize("field", ["choices", "content", "output", "error", "usage", "base_resp"])
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [None], [1], {"a": None}, [{}], [{"message": []}]])
def test_no_body_breaks_the_reader(protocol: str, field: str, value: Any) -> None:
    body = {"choices": [{}], "content": [{}], "output": [{}], field: value}
    with suppress(NoReply):
        assert json.dumps(read_body(protocol, body).body)
