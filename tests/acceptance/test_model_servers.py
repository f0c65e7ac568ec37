"""Runs on model servers that are not OpenAI: what they refuse, how they write, and what they want back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.conftest import Call, Done, Make
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, WireRequest, serve

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.row("L11")]

FILES = {
    "roles/clerk.md": "---\nname: clerk\ndescription: A clerk.\ntools: []\n---\nYou write.\n",
    "roles/finder.md": "---\nname: finder\ndescription: A finder.\ntools: [Read, Grep]\n---\nYou look things up.\n",
    "code/a.py": "LIMIT = 42\n",
    "workflows/w.md": (
        "---\nname: w\ndescription: A test.\ninputs: {request: string, repo: {type: path, default: code}}\n"
        'repository: "{{ inputs.repo }}"\nphases:\n  one:\n---\n'
    ),
}
STEPS = {
    "text": "- {id: talk, agent: clerk, writes: out.md}",
    "shape": "- {id: talk, agent: clerk, output: {kind: string, count: integer}}\n  - {id: out, write: out.md}",
    "tools": "- {id: talk, agent: finder, writes: out.md}",
}
MODELS = """
providers: {{srv: {{kind: {kind}, base_url: "{url}", key: ""}}}}
tiers: {{strong: "srv:m", fast: "srv:m"}}
retry: {{first: 0.01, attempts: 3}}
"""
GREP = openai.completion(None, "tool_calls", [openai.call("Grep", {"pattern": "LIMIT"})])
ANSWER = "The limit is 42."
RunOn = Callable[..., tuple[Done, list[dict[str, Any]], str]]


@pytest.fixture
def run_on(project: Make, skillrun: Call) -> RunOn:
    """Return a function that runs a workflow on a server. It returns the result, the bodies sent, and `out.md`."""
    folder = project()

    def run(answer: Callable[[WireRequest], Answer], steps: str, *options: str, kind: str = "openai") -> Any:
        with serve(answer) as wire:
            url = wire.url if kind == "anthropic" else f"{wire.url}/v1"
            sections = "## talk\nSay what it is.\n" + ("## out\n{{ talk.data.kind }} {{ talk.data.count }}\n")
            if steps != "shape":
                sections = sections.partition("## out")[0]
            texts = {
                **FILES,
                "skills/w/one.md": f"---\nkind: phase\nsteps:\n  {STEPS[steps]}\n---\n{sections}",
                "config/models.yaml": MODELS.format(url=url, kind=kind),
            }
            for name, text in texts.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = skillrun("w", "it", "--unattended", "--trust-project", "--name", "r", *options)
        out = folder / "runs/r/out.md"
        bodies = [asked.body for asked in wire.asked if asked.body]
        return done, bodies, out.read_text(encoding="utf-8") if out.exists() else ""

    return run


def has_results(received: WireRequest) -> bool:
    text = json.dumps(received.body["messages"])
    return '"tool"' in text or "tool_result" in text


@pytest.mark.finding("FV1")
def test_a_run_with_structured_replies_completes_where_json_schema_is_refused(run_on: RunOn) -> None:
    def answer(received: WireRequest) -> Answer:
        if received.body.get("response_format", {}).get("type") == "json_schema" or '"reply"' in json.dumps(
            received.body.get("tools")
        ):
            return openai.error(400, "This response_format type is unavailable now; tools are not supported")
        return openai.completion('{"kind": "animal", "count": 2}')

    done, bodies, out = run_on(answer, "shape")
    assert (done.code, out) == (0, "animal 2\n"), done.out + done.err
    forms = [body.get("response_format", {}).get("type") for body in bodies]
    assert forms == ["json_schema", None, "json_object"]
    assert "matches this JSON schema" in json.dumps(bodies[-1]["messages"][-1])
    assert "trying again with `structured_output: json_object`" in done.out + done.err


TEXTS = {
    "thoughts": f"Hm, one two.\n</think>\n\n{ANSWER}",
    "channels": f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}",
    "tokens": f"{ANSWER}<|im_end|>",
}


@pytest.mark.finding("FV2")
@pytest.mark.parametrize("name", TEXTS)
def test_the_machinery_of_a_model_does_not_reach_an_artifact(name: str, run_on: RunOn) -> None:
    done, bodies, out = run_on(lambda _: openai.completion(TEXTS[name]), "text")
    assert (done.code, len(bodies), out.strip()) == (0, 1, ANSWER), done.out + done.err


@pytest.mark.finding("FV2")
@pytest.mark.parametrize(
    "call",
    [
        '<tool_call>\n{"name": "Grep", "arguments": {"pattern": "LIMIT"}}\n</tool_call>',
        '[TOOL_CALLS][{"name": "Grep", "arguments": {"pattern": "LIMIT"}}]',
        '{"name": "Grep", "parameters": {"pattern": "LIMIT"}}',
    ],
)
def test_a_tool_call_in_the_text_is_carried_out(call: str, run_on: RunOn) -> None:
    done, bodies, out = run_on(lambda received: openai.completion(ANSWER if has_results(received) else call), "tools")
    assert (done.code, len(bodies), out.strip()) == (0, 2, ANSWER), done.out + done.err
    assistant, result = bodies[1]["messages"][-2:]
    assert assistant["tool_calls"][0]["function"]["name"] == "Grep"
    assert result["tool_call_id"] == assistant["tool_calls"][0]["id"]
    assert "a.py" in result["content"]


@pytest.mark.finding("FV2")
@pytest.mark.parametrize("steps", ["text", "tools"])
def test_a_tool_call_that_cannot_be_carried_out_is_asked_for_again(steps: str, run_on: RunOn) -> None:
    answers = iter([openai.completion('<tool_call>{"name": "Grep", "argu'), openai.completion(ANSWER)])
    done, bodies, out = run_on(lambda _: next(answers), steps)
    assert (done.code, len(bodies), out.strip()) == (0, 2, ANSWER), done.out + done.err


@pytest.mark.finding("FV5")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_the_reasoning_of_a_turn_with_tools_goes_back_to_the_server(field: str, run_on: RunOn) -> None:
    def answer(received: WireRequest) -> Answer:
        for turn in received.body["messages"]:
            if turn.get("tool_calls") and turn.get(field) != "I look.":
                return openai.error(400, f"Missing `{field}` field in the assistant message")
        if has_results(received):
            return openai.completion(ANSWER)
        return openai.completion(
            "", "tool_calls", [openai.call("Grep", {"pattern": "LIMIT"})], None, **{field: "I look."}
        )

    done, bodies, out = run_on(answer, "tools")
    assert (done.code, len(bodies), out.strip()) == (0, 2, ANSWER), done.out + done.err


@pytest.mark.finding("FV5")
def test_the_thinking_blocks_of_a_turn_with_tools_go_back_to_the_server(run_on: RunOn) -> None:
    thoughts = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "abc"},
    ]

    def answer(received: WireRequest) -> Answer:
        for turn in received.body["messages"]:
            if turn["role"] == "assistant" and turn["content"][:2] != thoughts:
                return anthropic.error(400, "invalid_request_error", "Expected `thinking`, but found `tool_use`.")
        if has_results(received):
            return anthropic.message(anthropic.text(ANSWER))
        return anthropic.message(*thoughts, anthropic.tool_use("Grep", {"pattern": "LIMIT"}), stop_reason="tool_use")

    done, bodies, out = run_on(answer, "tools", kind="anthropic")
    assert (done.code, len(bodies), out.strip()) == (0, 2, ANSWER), done.out + done.err


@pytest.mark.finding("FV5")
def test_reasoning_that_a_server_refuses_is_left_out(run_on: RunOn) -> None:
    def answer(received: WireRequest) -> Answer:
        if "reasoning_content" in json.dumps(received.body):
            return openai.error(400, "reasoning_content is not allowed in the input")
        if has_results(received):
            return openai.completion(ANSWER)
        call = openai.call("Grep", {"pattern": "LIMIT"})
        return openai.completion("", "tool_calls", [call], reasoning_content="I look.")

    done, bodies, out = run_on(answer, "tools")
    assert (done.code, len(bodies), out.strip()) == (0, 3, ANSWER), done.out + done.err


@pytest.mark.finding("FV4")
@pytest.mark.parametrize("steps", ["shape", "text"])
def test_an_unknown_reason_for_the_end_is_named_and_a_complete_value_counts(steps: str, run_on: RunOn) -> None:
    reply = openai.completion('{"kind": "animal", "count": 2}', "budget_exceeded")
    done, _, out = run_on(lambda _: reply, steps)
    if steps == "shape":
        assert (done.code, out) == (0, "animal 2\n"), done.out + done.err
    else:
        assert (done.code, out) == (1, "")
        assert "the model stopped for an unknown reason: `budget_exceeded`" in done.out + done.err
