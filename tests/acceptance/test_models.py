"""The same files on Claude, on an OpenAI-compatible endpoint and on the embedded model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.language.samples import sample
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, Asked, serve

Call = Callable[..., Any]
REQUEST = "Add dark mode to the settings page"
LOOPBACK = pytest.mark.allow_hosts(["127.0.0.1"])


DOCUMENT = "# A document\n\nIt says what was asked for."


def claude(asked: Asked) -> Answer:
    """Claude's side: its list of models, and replies of the shape asked for, streamed when they may be long."""
    if asked.path.startswith("/v1/models"):
        return anthropic.models("claude-opus-5-5", "claude-haiku-5-5")
    schema = asked.body.get("output_config", {}).get("format", {}).get("schema")
    words = DOCUMENT if schema is None else json.dumps(sample(schema, "claude"))
    return anthropic.stream(words) if asked.body.get("stream") else anthropic.message(anthropic.text(words))


@LOOPBACK
@pytest.mark.row("X5")
def test_a_plan_runs_on_claude_when_the_key_is_set(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = project()
    with serve(claude) as wire:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        done = skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--name", "claude")
    assert done.code == 0, done.out + done.err
    assert "strong = anthropic:claude-opus-5-5, fast = anthropic:claude-haiku-5-5" in done.out
    calls = [asked for asked in wire.asked if asked.path.startswith("/v1/messages")]
    assert {asked.body["model"] for asked in calls} == {"claude-opus-5-5", "claude-haiku-5-5"}
    marked = [[block for block in _blocks(asked.body) if "cache_control" in block] for asked in calls]
    assert {len(blocks) for blocks in marked} == {2}, "behind the documents, and behind what the phase shares"
    openings = [
        _blocks(asked.body)[: _blocks(asked.body).index(blocks[0])] for asked, blocks in zip(calls, marked, strict=True)
    ]
    assert openings[-1] == openings[-3], "the documents of the last phases are the same blocks"
    run = folder / "runs" / "claude"
    assert "It says what was asked for." in (run / "tasks.md").read_text(encoding="utf-8")
    kept = [path for path in run.rglob("*") if path.is_file() and b"sk-ant-secret" in path.read_bytes()]
    assert not kept
    assert "sk-ant-secret" not in done.out + done.err


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"]]


@LOOPBACK
@pytest.mark.row("X5")
def test_a_wrong_key_ends_the_run_at_once_and_it_goes_on_with_the_right_one(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    project()

    def refused(asked: Asked) -> Answer:
        if asked.path.startswith("/v1/models"):
            return anthropic.models("claude-opus-5-5", "claude-haiku-5-5")
        return anthropic.error(401, "authentication_error", "invalid x-api-key")

    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong")
    with serve(refused) as wire:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        done = skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--name", "key")
        asked = len([one for one in wire.asked if one.path.startswith("/v1/messages")])
    assert done.code == 1
    assert asked == 1
    assert "ANTHROPIC_API_KEY" in done.out + done.err
    assert "sk-ant-wrong" not in done.out + done.err
    with serve(claude) as wire:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        again = skillrun("resume", "key", "--unattended")
    assert again.code == 0, again.out + again.err


@LOOPBACK
@pytest.mark.row("X5")
def test_any_openai_compatible_endpoint_is_two_lines_of_config(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = project()

    def endpoint(asked: Asked) -> Answer:
        schema = (asked.body.get("response_format") or {}).get("json_schema", {}).get("schema")
        return openai.completion(DOCUMENT if schema is None else json.dumps(sample(schema, "endpoint")))

    with serve(endpoint) as wire:
        (folder / "config").mkdir()
        (folder / "config" / "models.yaml").write_text(
            f'providers: {{own: {{kind: openai, base_url: "{wire.url}/v1", key: ""}}}}\n'
            'tiers: {strong: "own:some-model", fast: "own:some-model"}\n',
            encoding="utf-8",
        )
        done = skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--name", "own")
    assert done.code == 0, done.out + done.err
    assert {asked.body["model"] for asked in wire.asked} == {"some-model"}
    assert "price unknown" in done.out
    assert (folder / "runs" / "own" / "tasks.md").is_file()


@pytest.mark.embedded
@pytest.mark.row("X5")
def test_a_workflow_runs_on_the_embedded_model_from_start_to_finish(project: Call, skillrun: Call) -> None:
    folder: Path = project("greeting")
    done = skillrun("greeting", "Ada", "--unattended", "--name", "real")
    assert done.code == 0, done.out + done.err
    assert "embedded:" in done.out
    told = skillrun("show", "real", "--json").json
    assert told["status"] == "completed"
    assert told["usage"]["output"] > 0
    assert any((folder / "runs" / "real").glob("*.md"))
