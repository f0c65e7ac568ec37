"""The scripted model: rules by address in order, otherwise generated replies, always deterministic."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from skillrun.models.messages import ModelError, Reply, ToolCall
from skillrun.models.scripted import Rule, ScriptedGateway, read_script
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.document import read_yaml
from tests.unit.models.settings import request

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 0, "maximum": 100}, "why": {"type": "string"}},
    "required": ["score", "why"],
    "additionalProperties": False,
}


def send(gateway: ScriptedGateway, address: str = "plan/research/a", **more: Any) -> Reply:
    return asyncio.run(gateway.send(request("scripted:strong", **more), address))


def test_the_first_rule_that_matches_the_address_answers() -> None:
    gateway = ScriptedGateway(
        [
            Rule("plan/architecture/*/software-architect*", text="a design"),
            Rule("plan/*", text="something"),
        ]
    )
    assert send(gateway, "plan/architecture/proposals/software-architect:clean/1").text == "a design"
    assert send(gateway, "plan/research/a").text == "something"


def test_the_next_rule_applies_after_a_used_up_rule() -> None:
    gateway = ScriptedGateway([Rule(text="first", times=2), Rule(text="then")])
    assert [send(gateway).text for _ in range(3)] == ["first", "first", "then"]


def test_a_replayed_call_counts_once_for_the_rule_that_produced_it() -> None:
    first_request = request("scripted:strong")
    first_gateway = ScriptedGateway([Rule(text="first", times=1), Rule(text="then")])
    reply = asyncio.run(first_gateway.send(first_request, "plan/a"))
    gateway = ScriptedGateway([Rule(text="mended", times=1), Rule(text="first", times=1), Rule(text="then")])
    for _ in range(2):
        gateway.on_replayed("plan/a", first_request, [reply])
    assert [send(gateway).text for _ in range(2)] == ["mended", "then"]


def test_a_call_answered_by_this_script_is_not_counted_again() -> None:
    first_request = request("scripted:strong")
    gateway = ScriptedGateway([Rule(text="first", times=2), Rule(text="then")])
    reply = asyncio.run(gateway.send(first_request, "plan/a"))
    gateway.on_replayed("plan/a", first_request, [reply])
    assert [send(gateway).text for _ in range(2)] == ["first", "then"]


@pytest.mark.parametrize(
    "rule",
    [
        {"data": {"a": "é"}},
        {"text": "a text"},
        {"text": ""},
        {"fail": "timeout"},
        {"calls": (ToolCall("1", "Read", {"path": "a.py"}),)},
        {},
    ],
)
def test_the_outcome_of_a_rule_is_recognized(rule: dict[str, Any]) -> None:
    gateway = ScriptedGateway([Rule(**rule)])
    try:
        outcome: Any = send(gateway)
    except ModelError as error:
        outcome = error
    assert Rule(**rule).could_produce(outcome)
    other = ModelError("other", "no") if "fail" not in rule else Reply("another")
    assert not Rule(**rule).could_produce(other)


def test_a_rule_can_apply_to_one_model() -> None:
    gateway = ScriptedGateway([Rule(model="scripted:fast", text="quick"), Rule(text="slow")])
    assert send(gateway).text == "slow"


def test_data_is_returned_as_json() -> None:
    gateway = ScriptedGateway([Rule(data={"score": 3, "why": "é"})])
    assert json.loads(send(gateway, schema=SCHEMA).text) == {"score": 3, "why": "é"}


def test_a_reply_with_calls_stops_for_tools(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("- calls: [{name: Read, arguments: {path: a.py}}]\n", encoding="utf-8")
    reply = send(ScriptedGateway(read_yaml(path, Problems(), read_script) or []))
    assert reply.stop == "tool"
    assert reply.calls == (ToolCall("call-1", "Read", {"path": "a.py"}),)


def test_a_reply_can_be_cut_off() -> None:
    assert send(ScriptedGateway([Rule(text="half a sen", stop="length")])).stop == "length"


def test_a_call_can_fail() -> None:
    with pytest.raises(ModelError, match="rate_limit") as caught:
        send(ScriptedGateway([Rule(fail="rate_limit")]))
    assert caught.value.retryable


def test_an_unscripted_reply_is_valid_and_the_same_every_time() -> None:
    replies = {send(ScriptedGateway(), schema=SCHEMA).text for _ in range(3)}
    assert len(replies) == 1
    jsonschema.validate(json.loads(replies.pop()), SCHEMA)


def test_an_unscripted_text_depends_only_on_the_request() -> None:
    assert send(ScriptedGateway(), "a").text == send(ScriptedGateway(), "b").text
    assert send(ScriptedGateway()).text != send(ScriptedGateway(), words="Say goodbye.").text


def test_replies_are_free_and_their_tokens_estimated() -> None:
    reply = send(ScriptedGateway())
    assert reply.price == 0.0
    assert reply.usage.input > 0
    assert reply.usage.output > 0


def test_a_dry_run_can_price_the_calls_it_makes() -> None:
    gateway = ScriptedGateway(price=lambda model, usage: 1.5 if model == "scripted:strong" else None)
    assert send(gateway).price == 1.5


def test_the_gateway_records_calls() -> None:
    gateway = ScriptedGateway()
    send(gateway, "plan/a")
    assert [address for address, _ in gateway.calls] == ["plan/a"]


@pytest.mark.finding("FL1")
@pytest.mark.parametrize(
    ("rule", "column", "message"),
    [
        ("{txt: a}", 4, "unknown key `txt`"),
        ("{fail: sadly}", 10, "`fail` is `sadly`"),
        ("{stop: never}", 10, "`stop` is `never`"),
        ("{times: twice}", 11, "`times` is `twice`"),
        ("{times: true}", 11, "`times` is `true`"),
        ("{times: -1}", 11, "`times` is `-1`"),
        ("{delay: 1e300}", 11, "`delay` is `1e+300`"),
        ("{address: 3}", 13, "`address` is `3`"),
        ("{text: }", 10, "`text` has no value"),
        ("{text: a, data: b}", 13, "a reply has `text` or `data`, not both"),
        ("{calls: 5}", 11, "expected a list of calls"),
        ("{calls: [{}]}", 12, "`name` is missing"),
        ("{calls: [{nmae: Read, name: Read}]}", 13, "unknown key `nmae`"),
        ("{calls: [{name: Read, arguments: a}]}", 36, "expected a mapping of names to values for `arguments`"),
        ("a", 3, "this is not a reply of a script"),
    ],
)
def test_an_invalid_rule_is_reported_with_its_position(tmp_path: Path, rule: str, column: int, message: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(f"- {{text: a}}\n- {rule}\n", encoding="utf-8")
    problems = Problems()
    read_yaml(path, problems, read_script)
    [problem] = problems
    assert (problem.path, problem.line, problem.column) == (str(path), 2, column)
    assert message in problem.message
    assert problem.source_line == f"- {rule}"
