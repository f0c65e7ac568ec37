"""Model names are resolved depending on the keys that are set; substitutions are always explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Usage
from skillrun.models.model_lists import ModelList
from skillrun.syntax.diagnostics import SkillrunError
from tests.unit.models.settings import catalogue, shipped

CLAUDE = {"ANTHROPIC_API_KEY": "a"}
GPT = {"OPENAI_API_KEY": "b"}
SHIPPED = Catalogue.from_config(shipped())
SYMBOLS = [*SHIPPED.tiers, *SHIPPED.aliases, *SHIPPED.intents]


@pytest.mark.row("X5")
@pytest.mark.parametrize("name", SYMBOLS)
def test_with_no_key_every_tier_alias_and_intent_is_the_embedded_model(name: str) -> None:
    resolved = SHIPPED.resolve(name, {})
    assert resolved.model == "embedded:smollm2-135m"
    assert resolved.window == 8192
    assert name == "embedded" or "no provider key is set" in resolved.why


@pytest.mark.row("X5")
@pytest.mark.parametrize(
    ("environ", "strong", "fast"),
    [
        (CLAUDE, "anthropic:claude-opus-5-5", "anthropic:claude-haiku-5-5"),
        (GPT, "openai:gpt-6.1-sol", "openai:gpt-6-luna"),
        ({"GEMINI_API_KEY": "c"}, "google:gemini-3.1-pro-preview", "google:gemini-3.8-flash"),
        ({**CLAUDE, **GPT}, "anthropic:claude-opus-5-5", "anthropic:claude-haiku-5-5"),
        ({"ANTHROPIC_API_KEY": ""}, "embedded:smollm2-135m", "embedded:smollm2-135m"),
    ],
)
def test_the_tiers_follow_the_keys_that_are_set(environ: dict[str, str], strong: str, fast: str) -> None:
    assert SHIPPED.resolve("strong", environ).model == strong
    assert SHIPPED.resolve("fast", environ).model == fast


@pytest.mark.row("Q2", "S8")
@pytest.mark.parametrize(
    ("environ", "critic", "explanation"),
    [
        (CLAUDE, "anthropic:claude-opus-5-5", "no key of another provider is set"),
        (GPT, "openai:gpt-6.1-sol", "no key of another provider is set"),
        ({**CLAUDE, **GPT}, "openai:gpt-6.1-sol", "a provider other than anthropic, as OPENAI_API_KEY is set"),
        ({**GPT, "GEMINI_API_KEY": "c"}, "google:gemini-3.1-pro-preview", "a provider other than openai"),
        ({}, "embedded:smollm2-135m", "no provider key is set"),
    ],
)
def test_a_critic_uses_another_provider_if_its_key_is_set(
    environ: dict[str, str], critic: str, explanation: str
) -> None:
    resolved = SHIPPED.resolve("critic", environ)
    assert resolved.model == critic
    assert explanation in resolved.why
    assert SHIPPED.resolve("Critic", environ).model == critic
    assert SHIPPED.resolve("critic", environ, "opus").model == SHIPPED.resolve("opus", environ).model


@pytest.mark.row("Q2")
def test_a_critic_uses_the_same_provider_if_no_other_is_configured_or_allowed() -> None:
    keys = {**CLAUDE, **GPT}
    local = Catalogue.from_config(
        {**shipped(), "tiers": {"strong": "scripted:mine", "fast": "scripted:mine", "critic": "strong"}}
    )
    assert local.resolve("critic", keys).model == "scripted:mine"
    assert replace(SHIPPED, elsewhere=[]).resolve("critic", keys).model == "anthropic:claude-opus-5-5"
    blocked = SHIPPED.block_providers({"openai": "not trusted"})
    assert blocked.resolve("critic", keys).model == "anthropic:claude-opus-5-5"


@pytest.mark.row("S8")
def test_an_intent_without_a_provider_key_is_replaced_with_an_explanation() -> None:
    resolved = SHIPPED.resolve("latest GPT", CLAUDE)
    assert resolved.model == "anthropic:claude-opus-5-5"
    assert resolved.why.startswith("OPENAI_API_KEY is not set, ANTHROPIC_API_KEY is")


@pytest.mark.row("S2")
def test_an_intent_is_the_newest_model_in_the_providers_list() -> None:
    model_list = ModelList(
        ("claude-opus-4-8", "claude-opus-5-5", "claude-opus-6-1-20270101", "claude-opus-6-1", "claude-haiku-9"),
        fetched_at=1_800_000_000,
    )
    resolved = SHIPPED.resolve("strong", CLAUDE, model_list=model_list)
    assert resolved.model == "anthropic:claude-opus-6-1"
    assert resolved.why == "latest Claude Opus; newest in anthropic's list of 2027-01-15"
    assert resolved.price is None


@pytest.mark.row("S2")
@pytest.mark.parametrize(
    ("model_list", "explanation"),
    [
        (ModelList((), 0, "the list of anthropic could not be fetched (HTTP 500)"), "could not be fetched (HTTP 500)"),
        (ModelList(("something-else",), 0), "no name in the list of anthropic matches claude-opus-*"),
    ],
)
def test_without_a_usable_list_the_configured_name_is_used_with_an_explanation(
    model_list: ModelList, explanation: str
) -> None:
    resolved = SHIPPED.resolve("latest Claude Opus", CLAUDE, model_list=model_list)
    assert resolved.model == "anthropic:claude-opus-5-5"
    assert explanation in resolved.why


def test_a_version_is_a_number_but_not_a_date() -> None:
    model_list = ModelList(("gpt-6.1-sol", "gpt-6.10-sol", "gpt-6.9-sol-2027-01-01", "gpt-5.6-sol"), 0)
    assert model_list.newest("gpt-*-sol") == "gpt-6.10-sol"
    for names in (("gpt-6.1-sol", "gpt-6-sol-2026-08-07"), ("gemini-3-pro", "gemini-3-pro-preview-05-06")):
        assert ModelList(names, 0).newest("g*") == names[0]
    assert ModelList(("gemini-3-flash-preview-09-2026", "gemini-3-flash"), 0).newest("g*") == "gemini-3-flash"
    assert model_list.newest("gemini-*") is None


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("anthropic:claude-anything", "anthropic:claude-anything"),
        ("claude-opus-4-8", "anthropic:claude-opus-4-8"),
        ("claude-opus-77", "anthropic:claude-opus-77"),
        ("gpt-77", "openai:gpt-77"),
        ("scripted:strong", "scripted:strong"),
    ],
)
def test_an_exact_name_is_used_whatever_keys_are_set(name: str, model: str) -> None:
    assert SHIPPED.resolve(name, {}).model == model


def test_names_are_case_insensitive() -> None:
    assert SHIPPED.resolve("Latest claude opus", CLAUDE).model == "anthropic:claude-opus-5-5"


@pytest.mark.parametrize("name", ["strong", "fast", "opus", "inherit"])
def test_an_override_replaces_every_tier_and_alias(name: str) -> None:
    resolved = SHIPPED.resolve(name, CLAUDE, override="gpt-6-luna")
    assert resolved.model == "openai:gpt-6-luna"
    assert resolved.why == "gpt-6-luna for everything"


def test_an_override_can_be_a_tier_or_an_alias() -> None:
    assert SHIPPED.resolve("strong", CLAUDE, override="fast").model == "anthropic:claude-haiku-5-5"
    assert SHIPPED.resolve("fast", CLAUDE, override="embedded").model == "embedded:smollm2-135m"


def test_an_override_leaves_exact_names_alone() -> None:
    assert SHIPPED.resolve("gpt-6-luna", CLAUDE, override="embedded").model == "openai:gpt-6-luna"


@pytest.mark.row("X5")
def test_an_endpoint_is_added_with_one_provider_entry() -> None:
    config = shipped()
    config["providers"]["ollama"] = {"kind": "openai", "base_url": "http://localhost:11434/v1", "key": ""}
    config["tiers"] = {"strong": "ollama:llama3", "fast": "ollama:llama3"}
    resolved = Catalogue.from_config(config).resolve("strong", {})
    assert resolved.model == "ollama:llama3"
    assert resolved.price is None
    assert resolved.window == 32_768


@pytest.mark.parametrize(
    ("name", "hint"),
    [("stronk", "did you mean `strong`?"), ("antropic:claude", "did you mean `anthropic`?"), ("latest Cloud", "did")],
)
def test_an_unknown_name_suggests_a_known_one(name: str, hint: str) -> None:
    with pytest.raises(SkillrunError) as caught:
        SHIPPED.resolve(name, CLAUDE)
    assert hint in caught.value.message
    assert name.partition(":")[0] in caught.value.message


def test_a_circular_alias_is_refused() -> None:
    config = shipped()
    config["aliases"] = {"a": "b", "b": "a"}
    with pytest.raises(SkillrunError, match="a -> b -> a"):
        Catalogue.from_config(config).resolve("a", CLAUDE)


def test_prices_come_from_the_table_and_unknown_ones_are_none() -> None:
    million = Usage(1_000_000, 0)
    assert SHIPPED.price("anthropic:claude-opus-5-5", million) == pytest.approx(4)
    assert SHIPPED.price("embedded:smollm2-135m", million) == 0
    assert SHIPPED.price("scripted:strong", million) == 0
    assert SHIPPED.price("openai:gpt-77", million) is None


@pytest.mark.finding("FZ8")
@pytest.mark.parametrize("key", ["HF_TOKEN", "GITHUB_TOKEN", "MY_API_KEYS"])
def test_only_a_key_variable_that_ends_in_api_key_has_a_base_url_variable(key: str) -> None:
    environ = {key: "https://secret", "MY_BASE_URLS": "https://other"}
    models = catalogue(x={"kind": "openai", "base_url": "https://h", "key": key}).apply_base_urls(environ)
    assert models.providers["x"].base_url == "https://h"


def test_the_environment_sets_the_address_of_a_provider_and_is_named_as_its_origin() -> None:
    models = SHIPPED.apply_base_urls(
        {**CLAUDE, "ANTHROPIC_BASE_URL": "http://10.0.0.1/x", "OPENAI_BASE_URL": "nonsense"}
    )
    assert models.providers["anthropic"].location == "http://10.0.0.1/x (ANTHROPIC_BASE_URL)"
    assert models.providers["openai"].base_url == "https://api.openai.com/v1", (
        "its key is not set, so the variable is ignored"
    )


@pytest.mark.finding("FZ2", "FZ6", "FZ10")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("../x", {"kind": "openai", "base_url": "https://h"}),
        ("x", {"kind": "openai", "base_url": "https://u:CANARY@h"}),
        ("x", {"kind": "openai", "base_url": "http://10.0.0.1"}),
        ("x", {"kind": "openai", "base_url": ""}),
        ("x", {"kind": "openai", "base_url": "https://h", "key": "sk-CANARY"}),
        ("x", {"kind": "openai", "base_url": "https://h", "origin": "shipped"}),
        ("x", {"kind": "openai", "base_url": "https://h", "barred": ""}),
        ("embedded", {"base_url": "https://h"}),
    ],
)
def test_the_catalogue_refuses_invalid_providers(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(SkillrunError) as caught:
        catalogue(**{name: change})
    assert "CANARY" not in caught.value.message
