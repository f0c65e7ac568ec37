"""The table of failures, row by row: HTTP status, body and state of the stream; and the words and waits of each."""

from __future__ import annotations

import email.utils
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillrun.models.catalogue import Catalogue
from skillrun.models.failures import FAILURES, classify_failure
from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import CONFIGURATION_ERRORS, RETRYABLE_ERRORS, ModelError
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, serve
from tests.unit.models.conversation import converse
from tests.unit.models.settings import catalogue, ignore_progress, request, shipped

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.row("L11")]
CHAT, CLAUDE = "ollama:m", "anthropic:claude-opus-5-5"
HTML = "<html><body>Something</body></html>"


def error(words: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": words, **fields}}


ROWS: list[tuple[int, Any, str]] = [
    (400, error("no"), "invalid_request"),
    (400, error("This model's maximum context length is 4096 tokens"), "too_long"),
    (400, error("prompt is too long: 210000 tokens > 200000 maximum"), "too_long"),
    (500, error("the request exceeds the available context size"), "too_long"),
    (413, HTML, "too_long"),
    (429, error("the context length exceeds the quota of this minute: context_length_exceeded"), "rate_limit"),
    (400, error("The response was filtered", code="content_filter"), "refusal"),
    (400, error("triggering Azure OpenAI's content management policy."), "refusal"),
    (400, error("bad", details=[{"reason": "API_KEY_INVALID"}]), "auth"),
    (400, error("Your credit balance is too low to access the API"), "budget"),
    (429, error("You exceeded your quota", code="insufficient_quota"), "budget"),
    (429, error("You exceeded your current quota, please check your plan", status="RESOURCE_EXHAUSTED"), "rate_limit"),
    (402, error("Payment required"), "budget"),
    (401, error("no"), "auth"), (403, HTML, "auth"),
    (404, error("no"), "not_found"), (405, {"detail": "Method Not Allowed"}, "not_found"),
    (408, HTML, "timeout"),
    (409, error("conflict"), "overloaded"), (423, error("locked"), "overloaded"), (425, error("early"), "overloaded"),
    (498, error("Flex tier capacity exceeded"), "overloaded"),
    (418, HTML, "invalid_request"), (422, error("no"), "invalid_request"), (451, HTML, "invalid_request"),
    (429, HTML, "rate_limit"),
    (500, HTML, "overloaded"), (502, "", "overloaded"), (503, error("Loading model"), "overloaded"),
    (504, HTML, "overloaded"), (520, HTML, "overloaded"), (524, HTML, "overloaded"),
    (529, error("Overloaded"), "overloaded"),
    (501, error("not implemented"), "invalid_request"), (505, HTML, "invalid_request"),
]  # fmt: skip


@pytest.mark.finding("FV9", "FV8")
@pytest.mark.parametrize(("status", "body", "kind"), ROWS)
def test_a_failure_is_classified_by_its_row(status: int, body: Any, kind: str) -> None:
    assert classify_failure(status, body) == kind


def test_every_row_of_the_table_is_reached_and_every_status_has_a_row() -> None:
    reached = set()
    for status, body, _ in ROWS:
        matching = [
            number
            for number, rule in enumerate(FAILURES)
            if status in rule.statuses and (rule.words is None or rule.words.search(str(body)))
        ]
        reached.add(matching[0])
    assert reached == set(range(len(FAILURES)))
    assert all(classify_failure(status, "") for status in range(400, 600))


@pytest.mark.finding("FV9", "FV8")
@pytest.mark.parametrize(("status", "body", "kind"), ROWS)
def test_only_what_waiting_can_cure_is_sent_again(status: int, body: Any, kind: str) -> None:
    with serve([Answer(body, status)]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(CHAT), retry={"attempts": 2, "first": 0})
    assert (caught.value.kind, len(wire.asked)) == (kind, 2 if kind in RETRYABLE_ERRORS else 1)


def failure_of(answer: Answer, model: str = CHAT, **changes: Any) -> ModelError:
    with serve([answer]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(model), retry={"attempts": 1}, **changes)
    return caught.value


@pytest.mark.finding("FV7")
@pytest.mark.parametrize(
    "answer",
    [
        Answer("404 page not found", 404, {"Content-Type": "text/plain"}),
        Answer(HTML, 404, {"Content-Type": "text/html"}),
        Answer({"detail": "Not Found"}, 404),
        Answer({"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}, 404),
        Answer({"error": {"message": "Invalid URL (POST /chat/completions)"}}, 404),
        Answer({"detail": "Method Not Allowed"}, 405),
        Answer("", 404),
    ],
)
@pytest.mark.parametrize("model", [CHAT, CLAUDE])
def test_a_wrong_path_is_not_an_unknown_model(answer: Answer, model: str) -> None:
    failure = failure_of(answer, model)
    assert "has nothing at its address http://127.0.0.1:" in failure.message
    assert "often ends in `/v1`" in failure.next_step
    assert failure.kind in CONFIGURATION_ERRORS


@pytest.mark.finding("FV7")
@pytest.mark.parametrize(
    "body",
    [
        error('model "m" not found, try pulling it first', type="api_error"),
        error("The API deployment for this resource does not exist.", code="DeploymentNotFound"),
        error("No endpoints found that support tool use.", code=404),
    ],
)
def test_an_unknown_model_is_told(body: Any) -> None:
    assert "ollama does not know the model `m`" in failure_of(Answer(body, 404)).message


@pytest.mark.finding("FV7")
@pytest.mark.parametrize("status", [401, 403])
def test_a_missing_key_is_not_a_wrong_one(status: int) -> None:
    failure = failure_of(openai.error(status, "Missing bearer authentication in header"))
    assert "ollama requires a key" in failure.message
    assert failure.next_step.startswith("Set `key` of ollama in config/models.yaml")
    wrong = failure_of(anthropic.error(status, "authentication_error", "invalid"), CLAUDE)
    assert "rejects the key in ANTHROPIC_API_KEY" in wrong.message


@pytest.mark.finding("FV12")
def test_a_content_filter_is_a_refusal() -> None:
    failure = failure_of(Answer(ROWS[6][1], 400))
    assert (failure.kind, "the content filter of ollama refuses the prompt" in failure.message) == ("refusal", True)


LATER = email.utils.formatdate(time.time() + 86_400, usegmt=True)


@pytest.mark.finding("FV8")
@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"Retry-After": "2.5"}, None, 2.5),
        ({"Retry-After": "3"}, None, 3),
        ({"retry-after-ms": "3500"}, None, 3.5),
        ({"Retry-After": "0"}, None, 0),
        ({"Retry-After": "-5"}, None, 0),
        ({"Retry-After": "Sat, 01 Jan 2000 00:00:00 GMT"}, None, 0),
        ({"Retry-After": "soon"}, None, None),
        ({"Retry-After": "nan"}, None, None),
        ({}, error("Please try again in 3.2s."), 3.2),
        ({}, error("Please try again in 1m2s."), 62),
        ({}, error("Please try again in 350ms."), 0.35),
        ({}, error("slow down"), None),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], body: Any, wait: float | None) -> None:
    with serve([Answer(body or error("slow down"), 429, headers)]) as wire, pytest.raises(ModelError) as caught:
        converse(wire, request(CHAT), retry={"attempts": 1, "seconds": 1})
    asked = f"; it asks to wait {wait:.0f} s" if wait else None
    assert ("it asks to wait" in caught.value.message) == (asked is not None)
    assert asked is None or asked in caught.value.message


@pytest.mark.finding("FV8")
def test_waits_grow_even_if_the_provider_asks_for_none_and_outlast_a_limit_of_a_minute() -> None:
    limit, elapsed = ModelError("rate_limit", "slow down"), 0.0
    waits: list[float] = []
    limit.wait = 0.0
    models = replace(catalogue(), retry=Catalogue.from_config(shipped()).retry)
    gateway = ModelGateway(models, {}, Path("unused"), ignore_progress)
    provider = models.providers["anthropic"]
    while (wait := gateway._retry_delay(limit, provider, len(waits) + 1, elapsed)) is not None:
        waits.append(wait)
        elapsed += wait
    assert waits == sorted(waits)
    assert 60 < elapsed <= models.retry.seconds


@pytest.mark.finding("FV8")
def test_a_date_to_wait_for_is_read() -> None:
    failure = failure_of(Answer(error("slow down"), 429, {"Retry-After": LATER}))
    assert "it asks to wait 86" in failure.message
