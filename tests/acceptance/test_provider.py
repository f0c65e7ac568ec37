"""A misbehaving provider, seen from the command line: no key reaches a file, and no reply crashes a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Call, Done, Make
from tests.servers import anthropic
from tests.servers.wire import Answer, WireRequest, serve

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

KEY = "sk-test-A1b2C3d4E5f6G7h8I9j0"
OTHER = "zz9Plural8ZAlphaQwertyuiop"


@pytest.fixture
def run(project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Done, Path]]:
    """Run a workflow on a fake Anthropic server; return what it printed and the project folder."""

    def call(response: Answer, *options: str) -> tuple[Done, Path]:
        def respond(request: WireRequest) -> Answer:
            return anthropic.models("claude-opus-5-5") if request.path.startswith("/v1/models") else response

        folder = project("greeting")
        with serve(respond) as wire:
            monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
            monkeypatch.setenv("GEMINI_API_KEY", OTHER)
            monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
            done = skillrun("greeting", "Ada", "--unattended", *options)
            assert any(request.path.startswith("/v1/messages") for request in wire.asked), done.err
        return done, folder

    return call


def all_text(done: Done, *folders: Path) -> str:
    """What was printed and the content of every file, as Latin-1 text in lower case."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return "\n".join([done.out, done.err, *(path.read_bytes().decode("latin-1") for path in files)]).lower()


@pytest.mark.slow
@pytest.mark.finding("FZ10")
@pytest.mark.row("Z5")
@pytest.mark.parametrize(
    "answer",
    [
        anthropic.stream(f"# Hi\n\nYour key is {KEY}, or {OTHER[:14]}.", model=f"m-{KEY}"),
        anthropic.error(400, "x", "x" * 280 + f" {KEY} {OTHER}"),
    ],
    ids=["reply", "error"],
)
def test_a_key_echoed_by_a_provider_is_not_stored(answer: Answer, run: Any, home: Path) -> None:
    done, folder = run(answer)
    text = all_text(done, folder, home)
    for key in (KEY, OTHER):
        assert [key[at : at + 8] for at in range(len(key) - 7) if key[at : at + 8].lower() in text] == []
    assert "[key]" in text


@pytest.mark.finding("FM5")
@pytest.mark.row("Z6")
@pytest.mark.parametrize(
    "body",
    [
        {**anthropic.message().body, "content": 5},
        "[" * 200_000,
        [],
        "data: " + "[" * 200_000 + "\n\n",
        "data: 5\n\n",
        'event: message_start\ndata: {"type": "message_start", "message": 5}\n\n',
        'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 99, "delta": {}}\n\n',
        'data: {"type": "message_start"' + ', "a": {"b": ' * 1000 + "\n\n",
    ],
    ids=range(8),
)
def test_an_invalid_response_is_a_failed_call_not_an_internal_error(body: Any, run: Any) -> None:
    events = isinstance(body, str) and "data:" in body
    done, _ = run(Answer(body, headers={"Content-Type": "text/event-stream"} if events else {}))
    assert done.code == 1, done.err
    assert "this is a bug" not in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
@pytest.mark.finding("FZ14")
def test_a_reply_of_ten_megabytes_is_not_stored(run: Any) -> None:
    done, folder = run(anthropic.stream("a" * 10_000_000))
    assert done.code == 1
    assert "is longer than 1,000,000 characters" in done.out + done.err
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 2_000_000


@pytest.mark.slow
@pytest.mark.finding("FZ19")
def test_negative_usage_from_a_provider_does_not_refund_the_budget(run: Any) -> None:
    usage = {"input_tokens": -(10**15), "output_tokens": -(10**15)}
    done, _ = run(anthropic.stream("# Hello\n\nAda.", usage=usage), "--json")
    record = json.loads(done.out)
    assert record["usage"]["input"] > 0
    assert record["usage"]["output"] > 0
    assert "anthropic reports no valid usage" in done.err


@pytest.mark.finding("FZ10")
@pytest.mark.parametrize("key", ["schlüssel-9f8e7d6c", "9f8e7d6c\nX-Evil: 1"])
def test_an_invalid_key_is_reported_without_showing_it(
    key: str, project: Make, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("greeting")
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    for arguments in (("greeting", "Ada", "--unattended"), ("models",)):
        done = skillrun(*arguments)
        assert done.code in (0, 1), done.err
        assert "9f8e7d6c" not in done.out + done.err
        assert "ANTHROPIC_API_KEY contains a character that is invalid in keys" in done.out + done.err
