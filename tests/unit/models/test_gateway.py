"""The gateway: retries in one place, concurrency limits, user-friendly errors without keys."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from skillrun.models import gateway
from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import AttemptListener, ModelError
from skillrun.models.redaction import Redactor
from skillrun.syntax.diagnostics import SkillrunError
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, WireRequest, serve
from tests.unit.models.conversation import KEY, converse
from tests.unit.models.settings import catalogue, ignore_progress, request

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

HELLO = anthropic.message(anthropic.text("Hello."))
OVERLOADED = anthropic.error(529, "overloaded_error", "Overloaded")
LIMITED = anthropic.error(429, "rate_limit_error", "Too many requests")


def error_of(answer: Answer, model: str = "anthropic:claude-opus-5-5", **more: Any) -> tuple[ModelError, int]:
    """Return the error of one call and the number of requests to the server."""
    with serve([answer]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(model), **more)
    return caught.value, len(wire.asked)


@pytest.mark.parametrize(
    "first",
    [
        OVERLOADED,
        LIMITED,
        anthropic.error(500, "api_error", "Internal server error"),
        anthropic.error(503, "api_error", "Unavailable"),
        Answer({}, hang_up=True),
        Answer("<html>bad gateway</html>", 502),
    ],
)
def test_a_temporary_error_is_retried(first: Answer) -> None:
    with serve([first, HELLO]) as wire:
        (reply,) = converse(wire, request())
    assert reply.text == "Hello."
    assert len(wire.asked) == 2


def test_the_number_of_attempts_is_limited() -> None:
    error, request_count = error_of(OVERLOADED, retry={"attempts": 4})
    assert request_count == 4
    assert error.kind == "overloaded"
    assert "given up after 4 attempts" in error.message


def test_the_wait_that_the_provider_requests_is_observed() -> None:
    notices: list[str] = []
    with serve([anthropic.error(429, "rate_limit_error", "Slow down", retry_after_ms="300"), HELLO]) as wire:
        (reply,) = converse(wire, request(), notices=notices)
    assert reply.seconds >= 0.3
    assert notices == ["anthropic limits the rate of calls (HTTP 429: Slow down); next try in 0 s"]


def test_a_wait_that_is_too_long_fails_the_call() -> None:
    error, request_count = error_of(anthropic.error(429, "rate_limit_error", "Slow down", retry_after="3600"))
    assert request_count == 1
    assert error.kind == "rate_limit"
    assert "it asks to wait 3600 s" in error.message
    assert error.retryable


def test_no_attempt_starts_after_the_time_for_retries() -> None:
    error, request_count = error_of(OVERLOADED, retry={"attempts": 50, "seconds": 0.3, "first": 0.1})
    assert request_count < 6
    assert error.kind == "overloaded"


@pytest.mark.parametrize(
    ("answer", "model", "kind"),
    [
        (anthropic.error(401, "authentication_error", "invalid x-api-key"), "anthropic:claude-opus-5-5", "auth"),
        (anthropic.error(403, "permission_error", "not yours"), "anthropic:claude-opus-5-5", "auth"),
        (anthropic.error(404, "not_found_error", "model: claude-x"), "anthropic:claude-x", "not_found"),
        (
            anthropic.error(400, "invalid_request_error", "messages: wrong"),
            "anthropic:claude-opus-5-5",
            "invalid_request",
        ),
        (
            anthropic.error(400, "invalid_request_error", "prompt is too long: 2000000 tokens > 1000000 maximum"),
            "anthropic:claude-opus-5-5",
            "too_long",
        ),
        (
            anthropic.error(400, "invalid_request_error", "Your credit balance is too low"),
            "anthropic:claude-opus-5-5",
            "budget",
        ),
        (openai.error(401, "Incorrect API key", "invalid_api_key"), "openai:gpt-6.1-sol", "auth"),
        (openai.error(429, "You exceeded your current quota", "insufficient_quota"), "openai:gpt-6.1-sol", "budget"),
        (openai.error(400, "too long", "context_length_exceeded"), "openai:gpt-6.1-sol", "too_long"),
        (openai.error(404, "no such model", "model_not_found"), "ollama:llama9", "not_found"),
        (Answer("<html>hello</html>", headers={"Content-Type": "text/html"}), "ollama:llama3", "other"),
    ],
)
def test_any_other_error_is_not_retried(answer: Answer, model: str, kind: str) -> None:
    error, request_count = error_of(answer, model)
    assert (error.kind, error.retryable, request_count) == (kind, False, 1)
    assert error.message.startswith(("anthropic", "openai", "ollama", "the "))


def test_an_unreachable_server_is_named_with_its_address() -> None:
    with serve([HELLO]) as wire:
        pass
    with pytest.raises(ModelError) as caught:
        converse(wire, request(), retry={"attempts": 1})
    assert caught.value.kind == "connection"
    assert wire.url in caught.value.message


@pytest.mark.finding("FM7")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_closed_local_port_is_given_up_soon(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "LOCAL_RETRY_SECONDS", 0.2)
    recorder = AttemptRecorder()
    with serve([HELLO]) as wire:
        pass
    wire.url = wire.url.replace("127.0.0.1", host)
    with pytest.raises(ModelError) as caught:
        converse(wire, request("ollama:llama3"), retry={"attempts": 9, "first": 0.05}, attempts=recorder)
    assert (caught.value.kind, caught.value.given_up) == ("connection", True)
    assert len(recorder.events) < 2 * 5  # the fifth wait alone exceeds the limit


@pytest.mark.finding("FM7")
def test_the_retry_time_for_local_servers_is_short() -> None:
    assert gateway.LOCAL_RETRY_SECONDS < 5


class AttemptRecorder(AttemptListener):
    """Records every attempt; allows at most `most` attempts."""

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.events: list[str] = []

    async def on_sent(self, number: int) -> None:
        if number > self.most:
            raise SkillrunError("enough")
        self.events.append(f"sent {number}")

    async def on_failed(self, number: int, error: ModelError) -> None:
        self.events.append(f"failed {number} {error.kind}")


@pytest.mark.finding("FM6")
def test_each_attempt_is_announced_before_it_is_sent_and_can_be_refused() -> None:
    recorder, limited_recorder = AttemptRecorder(), AttemptRecorder(1)
    with serve([OVERLOADED, LIMITED, HELLO]) as wire:
        converse(wire, request(), attempts=recorder)
    assert recorder.events == ["sent 1", "failed 1 overloaded", "sent 2", "failed 2 rate_limit", "sent 3"]
    with serve([OVERLOADED, HELLO]) as wire, pytest.raises(SkillrunError, match="enough"):
        converse(wire, request(), attempts=limited_recorder)
    assert len(wire.asked) == 1
    assert limited_recorder.events == ["sent 1", "failed 1 overloaded"]


@pytest.mark.finding("FM6")
def test_a_call_without_a_slot_or_key_is_not_announced() -> None:
    recorder = AttemptRecorder()
    with serve([HELLO]) as wire, pytest.raises(ModelError):
        converse(wire, request(), environ={}, attempts=recorder)
    with serve([Answer(HELLO.body, delay=0.05)]) as wire:
        converse(wire, *(request(words=f"{number}") for number in range(5)), concurrency=2, attempts=recorder)
    assert recorder.events == ["sent 1"] * 5
    assert wire.most == 2


def test_a_call_that_takes_too_long_times_out() -> None:
    slow = Answer(HELLO.body, delay=1.0)
    error, _ = error_of(slow, timeout=0.1, retry={"attempts": 1})
    assert error.kind == "timeout"
    assert "0.1 seconds" in error.message


@pytest.mark.parametrize(
    "answer",
    [
        anthropic.error(401, "authentication_error", f"invalid key {KEY} in header Bearer {KEY}"),
        anthropic.error(400, "invalid_request_error", "bad: sk-ant-api03-abcdefghijkl"),
        Answer(f"key {KEY}", 400),
    ],
)
def test_no_key_is_in_an_error(answer: Answer) -> None:
    error, _ = error_of(answer)
    assert KEY not in str(error.to_dict())
    assert "abcdefghijkl" not in str(error.to_dict())
    assert "[key]" in error.message


@pytest.mark.parametrize(
    "secret", ["sk-ant-api03-Ab_c-123456", "AIzaSyA1234567890abc", "gsk_abcdefghij", "sk-abc***xyz"]
)
def test_text_that_looks_like_a_key_is_redacted(secret: str) -> None:
    assert secret not in Redactor().redact_error(f"wrong key: {secret}!")


def test_ordinary_words_stay_in_an_error() -> None:
    text = "the key-value store asks for a task-list, risk-free"
    assert Redactor().redact_error(text) == text


def test_a_missing_key_is_reported_before_anything_is_sent() -> None:
    with serve([HELLO]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(), environ={})
    assert caught.value.kind == "auth"
    assert "ANTHROPIC_API_KEY is not set" in caught.value.message
    assert wire.asked == []


def test_concurrent_calls_are_limited_to_those_the_provider_allows() -> None:
    with serve([Answer(HELLO.body, delay=0.05)]) as wire:
        converse(wire, *(request(words=f"{number}") for number in range(9)), concurrency=3)
    assert len(wire.asked) == 9
    assert wire.most == 3


def test_a_call_that_waits_for_a_retry_releases_its_slot() -> None:
    def answer(asked: WireRequest) -> Answer:
        is_first_call = "0" in str(asked.body["messages"])
        return (
            anthropic.error(529, "overloaded_error", "Overloaded", retry_after_ms="400")
            if is_first_call and is_first_attempt()
            else HELLO
        )

    def is_first_attempt() -> bool:
        attempts.append(1)
        return len(attempts) == 1

    attempts: list[int] = []
    with serve(answer) as wire:
        replies = converse(wire, request(words="0"), request(words="1"), concurrency=1)
    assert replies[1].seconds < replies[0].seconds


def test_the_scripted_model_is_available_by_name() -> None:
    async def send() -> str:
        scripted_gateway = ModelGateway(catalogue(), {}, Path("unused"), ignore_progress)
        reply = await scripted_gateway.send(request("scripted:strong"), "plan/a")
        await scripted_gateway.close()
        return reply.text

    assert asyncio.run(send()).startswith("# ")


@pytest.mark.finding("FZ2")
def test_nothing_is_sent_to_a_blocked_provider(tmp_path: Path) -> None:
    with serve([anthropic.message(anthropic.text("Hello."))]) as wire:
        models = catalogue(anthropic={"base_url": wire.url}).block_providers({"anthropic": "it is not trusted"})
        blocked_gateway = ModelGateway(models, {"ANTHROPIC_API_KEY": KEY}, tmp_path, ignore_progress)
        with pytest.raises(ModelError, match=r"nothing is sent to anthropic at .*: it is not trusted") as caught:
            asyncio.run(blocked_gateway.send(request(), "a/b"))
    assert wire.asked == []
    assert not caught.value.retryable
    assert "`skillrun trust`" in caught.value.next_step


@pytest.mark.finding("FV6")
def test_a_call_without_a_reply_shows_how_long_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "PROGRESS_SECONDS", 0.1)
    notices: list[str] = []
    slow = Answer(HELLO.body, delay=0.5)
    with serve([slow]) as wire:
        converse(wire, request(), notices=notices)
    assert "anthropic:claude-opus-5-5: no reply after 0.1 s; `timeout` of anthropic is 600 s" in notices[0]
    assert "no reply after 0.2 s" in notices[1]
    assert len(notices) <= 4
