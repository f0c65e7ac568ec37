"""`skillrun doctor --provider` sends four small requests to a server and prints what works and the entry for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillrun.cli.loading import cache_folder
from tests.acceptance.conftest import Call, Make
from tests.servers import openai
from tests.servers.wire import Answer, Wire, WireRequest, serve

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.finding("FV13"), pytest.mark.row("L11")]

CAT = json.dumps({"kind": "animal", "legs": 4})
REFUSES_SCHEMA = "response_format type json_schema is unavailable"


def reply_well(received: WireRequest) -> Answer:
    """Reply as a capable model of a complete server does."""
    body = received.body
    if not body:
        return openai.models("first", "second")
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    if "reply" in names:
        return openai.completion(None, "tool_calls", [openai.call("reply", CAT)])
    if names and body["messages"][-1]["role"] != "tool":
        return openai.completion(None, "tool_calls", [openai.call(names[0], {"number": 7})])
    return openai.completion(CAT if "response_format" in body else "Hello.")


def refuse_schemas(received: WireRequest) -> Answer:
    return openai.error(400, REFUSES_SCHEMA) if "response_format" in received.body else reply_well(received)


@contextmanager
def server(folder: Path, respond: Callable[[WireRequest], Answer], **entry: Any) -> Iterator[Wire]:
    """Run a server whose entry in the project's config is `local`."""
    with serve(respond) as wire:
        config = {"providers": {"local": {"kind": "openai", "base_url": f"{wire.url}/v1", "key": "", **entry}}}
        (folder / "config").mkdir(exist_ok=True)
        (folder / "config" / "models.yaml").write_text(yaml.safe_dump(config))
        yield wire


def states(report: Any) -> dict[str, str]:
    return {each["what"]: each["state"] for each in report["requests"]}


def test_a_complete_server_gets_four_requests_and_its_entry_works(project: Make, skillrun: Call) -> None:
    folder = project()
    with server(folder, reply_well) as wire:
        done = skillrun("doctor", "--provider", "local:llama3", "--json")
        shown = skillrun("doctor", "--provider", "local:llama3").out
    assert done.code == 0
    assert states(done.json) == dict.fromkeys(("text", "schema", "tool", "conversation"), "ok")
    calls = [request.body for request in wire.asked if request.body]
    assert len(calls) == 8
    assert [message["role"] for message in calls[3]["messages"]] == ["system", "user", "assistant", "tool"]
    entry = yaml.safe_load(done.json["entry"])
    assert entry["providers"] == {"local": {"kind": "openai", "base_url": f"{wire.url}/v1", "key": ""}}
    assert entry["tiers"] == {"strong": "local:llama3", "fast": "local:llama3"}
    assert done.json["entry"] in shown
    (folder / "config" / "models.yaml").write_text(done.json["entry"])
    assert skillrun("models", "strong").out.startswith("strong  local:llama3")


def test_what_was_adapted_is_part_of_the_entry_and_of_the_cache(project: Make, skillrun: Call) -> None:
    with server(project(), refuse_schemas) as wire:
        report = skillrun("doctor", "--provider", "local:llama3", "--json").json
    assert report["adapted"] == {"structured_output": "tool"}
    assert yaml.safe_load(report["entry"])["providers"]["local"]["structured_output"] == "tool"
    assert states(report)["schema"] == "ok"
    assert sum(bool(request.body) for request in wire.asked) == 5
    [cached] = (cache_folder() / "servers").glob("*.json")
    assert json.loads(cached.read_text())["learned"] == {"structured_output": "tool"}


def test_the_cache_is_refreshed(project: Make, skillrun: Call) -> None:
    versions = [refuse_schemas]

    def respond(received: WireRequest) -> Answer:
        return versions[-1](received)

    with server(project(), respond):
        assert skillrun("doctor", "--provider", "local:llama3", "--json").json["adapted"]
        versions.append(reply_well)
        assert skillrun("doctor", "--provider", "local:llama3", "--json").json["adapted"] == {}


def test_without_a_model_the_first_of_the_list_is_used(project: Make, skillrun: Call) -> None:
    with server(project(), reply_well):
        assert skillrun("doctor", "--provider", "local", "--json").json["model"] == "first"


def test_a_model_that_only_writes_text_fails_for_schemas(project: Make, skillrun: Call) -> None:
    with server(project(), lambda received: openai.completion("A mock reply.")):
        done = skillrun("doctor", "--provider", "local:m", "--json")
    assert done.code == 1
    assert states(done.json) == {"text": "ok", "schema": "missing", "tool": "warning", "conversation": "ok"}


def test_nothing_is_sent_after_a_text_that_fails(project: Make, skillrun: Call) -> None:
    with server(project(), lambda received: openai.error(401, "no such key")) as wire:
        done = skillrun("doctor", "--provider", "local:m", "--json")
    assert done.code == 1
    assert states(done.json) == {"text": "missing"}
    assert len(wire.asked) == 1


def test_a_server_without_tools_gets_no_tool(project: Make, skillrun: Call) -> None:
    with server(project(), reply_well, tools=False) as wire:
        report = skillrun("doctor", "--provider", "local:m", "--json").json
    assert states(report) == {"text": "ok", "schema": "ok", "tool": "note", "conversation": "ok"}
    assert not any("tools" in request.body for request in wire.asked)
    assert "tools: false" in report["entry"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("loca", "did you mean `local`?"), ("anthropic", "ANTHROPIC_API_KEY is not set"), ("keyed", "is not trusted")],
)
def test_a_provider_that_cannot_be_used_is_not_called(
    name: str, message: str, project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project()
    with server(folder, reply_well) as wire:
        config = folder / "config" / "models.yaml"
        keyed = {"kind": "openai", "base_url": f"{wire.url}/v1", "key": "KEYED_API_KEY"}
        config.write_text(
            yaml.safe_dump({"providers": {**yaml.safe_load(config.read_text())["providers"], "keyed": keyed}})
        )
        monkeypatch.setenv("KEYED_API_KEY", "secret")
        done = skillrun("doctor", "--provider", name)
    assert done.code != 0
    assert message in done.err
    assert wire.asked == []
