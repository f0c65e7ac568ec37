"""Keys are only sent to their provider and never appear in texts: echoed keys, SDK settings, invalid addresses."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from typing import Any

import pytest

from skillrun.models.entries import ProviderConfig
from skillrun.models.messages import ModelError
from skillrun.models.transport import sdk_client
from skillrun.syntax.diagnostics import SkillrunError
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, serve
from tests.unit.models.conversation import converse
from tests.unit.models.settings import request
from tests.unit.models.test_answers import CLAUDE, GPT, KEY, KEYS, LLAMA, OTHER, READ, error_of, reply_to, send

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


# -- keys ----------------------------------------------------------------------------------------------------------


def key_parts(text: str, size: int = 8) -> list[str]:
    """Return the parts of the keys that occur in a text."""
    parts = [key[start : start + size] for key in (KEY, OTHER) for start in range(len(key) - size + 1)]
    return [part for part in parts if part.lower() in text.lower()]


ECHOES = [KEY, KEY.upper(), KEY[:12], KEY[5:17], OTHER, f"{KEY[:10]}\n{KEY[10:]}", KEY.replace("-", "%2D"), f"“{KEY}”",
          f"a{KEY}{OTHER}b"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.finding("FZ10")
@pytest.mark.row("Z5")
@pytest.mark.parametrize("echo", ECHOES)
def test_no_part_of_a_key_is_in_a_reply(echo: str) -> None:
    body = openai.completion(f"It is {echo}, I think.").body
    reply = reply_to(Answer({**body, "model": f"model-{echo}"}))
    assert key_parts(json.dumps(reply.to_dict())) == []
    assert reply.text.startswith("It is ")
    assert reply.text.endswith(", I think.")
    call = openai.call(f"Read{echo}", {"path": [echo, {echo: echo}]}, f"call-{echo}")
    reply = reply_to(openai.completion(None, "tool_calls", [call]), tools=(READ,))
    assert key_parts(json.dumps(reply.to_dict(), ensure_ascii=False)) == []
    refusal = reply_to(openai.completion(None, "stop", refusal=f"Not with {echo}."))
    assert key_parts(refusal.text) == []


@pytest.mark.finding("FZ10")
@pytest.mark.row("Z5")
@pytest.mark.parametrize("status", [400, 401])
@pytest.mark.parametrize("before", range(286, 302))
def test_an_error_is_truncated_after_keys_are_removed(before: int, status: int) -> None:
    error = error_of(openai.error(status, "x" * before + f" {KEY} {OTHER}"))
    assert key_parts(str(error.to_dict()), 5) == []


@pytest.mark.finding("FZ10")
@pytest.mark.parametrize("offset", range(3))
def test_a_key_in_base64_is_removed(offset: int) -> None:
    encoded = b64encode(b"Bearer:"[:offset] + KEY.encode()).decode()
    reply = reply_to(openai.completion(f"I got {encoded}."))
    assert not any(encoded[start : start + 12] in reply.text for start in range(len(encoded) - 11))


@pytest.mark.finding("FZ10")
def test_a_word_after_bearer_and_brackets_are_kept() -> None:
    error = error_of(openai.error(400, f"wrong (Bearer {KEY}) or (Bearer abcdef0123456789) as bearer is missing"))
    assert "wrong (Bearer [key]) or (Bearer [key]) as bearer is missing" in error.message


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}é", "a b", "\x00", "…"])
@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_key_that_is_invalid_in_a_header_is_refused_and_not_shown(model: str, key: str) -> None:
    with serve([openai.completion()]) as wire, pytest.raises(ModelError) as caught:
        send(wire, model, environ=dict.fromkeys(KEYS, key))
    assert caught.value.kind == "auth"
    assert "_API_KEY contains a character that is invalid in keys" in caught.value.message
    assert key.strip() not in str(caught.value.to_dict())
    assert wire.asked == []


@pytest.mark.finding("FM5")
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:notaport", "http://127.0.0.1:99999", "[::bad]", "http://[::zz]", "", "ftp://a", "//a", "http://",
     "http://ada:secret99@127.0.0.1/v1", "http://a\x00b"],
)  # fmt: skip
@pytest.mark.parametrize("model", [CLAUDE, LLAMA])
def test_an_invalid_address_is_reported_without_its_password(model: str, url: str) -> None:
    with pytest.raises(SkillrunError, match="base_url` is invalid") as caught:
        converse(_FixedUrl(url), request(model), environ=KEYS, base_url=url)  # type: ignore[arg-type]
    assert "secret99" not in caught.value.message + caught.value.next_step


class _FixedUrl:
    def __init__(self, url: str) -> None:
        self.url = url


# -- the SDKs' own environment -------------------------------------------------------------------------------------

SDK = {
    "ANTHROPIC_CUSTOM_HEADERS": "X-Corp: canary1\nAnthropic-Beta: canary2\nUser-Agent: canary3\nAuthorization: canary4",
    "OPENAI_CUSTOM_HEADERS": "X-Corp: canary1\nOpenAI-Beta: canary2\nUser-Agent: canary3\nAuthorization: canary4",
    "OPENAI_PROJECT_ID": "canary5",
    "OPENAI_ORG_ID": "canary6",
    "OPENAI_ADMIN_KEY": "canary7",
    "ANTHROPIC_AUTH_TOKEN": "canary8",
    "ANTHROPIC_PROFILE": "canary9",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/canary10",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/canary11",
    "ANTHROPIC_WORKSPACE_ID": "canary12",
    "OPENAI_API_KEY": "canary13",
    "ANTHROPIC_API_KEY": "canary14",
}


@pytest.mark.finding("FZ10")
@pytest.mark.row("Z2")
@pytest.mark.parametrize("model", [CLAUDE, GPT, LLAMA])
@pytest.mark.parametrize("keyless", [False, True])
def test_nothing_from_the_sdk_environment_is_sent(
    model: str, keyless: bool, monkeypatch: pytest.MonkeyPatch, home: Any
) -> None:
    for name, value in SDK.items():
        monkeypatch.setenv(name, value)
    (home / ".netrc").write_text("machine 127.0.0.1 login canary15 password canary16\n")
    (home / ".netrc").chmod(0o600)
    overrides: dict[str, Any] = {"key": "", "kind": {CLAUDE: "anthropic", GPT: "responses"}.get(model, "openai")}
    answers = {CLAUDE: anthropic.message(anthropic.text("a")), GPT: openai.response(openai.output_text("a"))}
    with serve([answers.get(model, openai.completion())]) as wire:
        converse(wire, request(model), environ=KEYS, **(overrides if keyless else {}))
    (received,) = wire.asked
    assert "canary" not in json.dumps([received.path, received.headers, received.body])
    assert not [name for name in received.headers if name.startswith("openai-")]
    expected = "no-key" if keyless or model == LLAMA else KEY
    assert received.headers["authorization"] == f"Bearer {expected}"
    assert os.environ["OPENAI_PROJECT_ID"] == "canary5"


# -- proxies -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.row("Z2")
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("model", [CLAUDE, GPT, LLAMA])
def test_a_local_endpoint_is_called_without_a_proxy(model: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    answers = {CLAUDE: anthropic.message(anthropic.text("a")), GPT: openai.response(openai.output_text("a"))}
    answer = answers.get(model, openai.completion())
    with serve([answer]) as wire, serve([answer]) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        converse(wire, request(model), environ=KEYS)
    assert (len(wire.asked), len(proxy.asked)) == (1, 0)


def test_a_remote_endpoint_is_called_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    provider = ProviderConfig("far", "openai", "http://far.example/v1")
    with serve([openai.completion()]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        asyncio.run(_complete(provider))
    assert [received.path for received in proxy.asked] == ["http://far.example/v1/chat/completions"]


async def _complete(provider: ProviderConfig) -> None:
    client = sdk_client(provider, "")
    try:
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello."}])
    finally:
        await client.close()
