"""Intents are resolved through a provider's list, which is cached for a day."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import ResolvedModel
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, serve
from tests.unit.models.conversation import KEYS
from tests.unit.models.settings import catalogue

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.row("S2")]


def resolve(models: Catalogue, name: str, cache: Path, override: str = "") -> ResolvedModel:
    return asyncio.run(models.resolve_live(name, KEYS, cache, override))


def test_an_intent_is_resolved_with_the_providers_list(tmp_path: Path) -> None:
    with serve([anthropic.models("claude-opus-7-1", "claude-opus-5-5", "claude-haiku-8")]) as wire:
        models = catalogue(anthropic={"base_url": wire.url})
        assert resolve(models, "strong", tmp_path).model == "anthropic:claude-opus-7-1"
        assert resolve(models, "latest Claude Haiku", tmp_path).model == "anthropic:claude-haiku-8"
    assert len(wire.asked) == 1, "the list is fetched once and then read from the cache"
    assert wire.asked[0].path.startswith("/v1/models")


def test_the_prefix_of_names_of_other_endpoints_is_removed(tmp_path: Path) -> None:
    with serve([openai.models("models/gemini-4-pro", "models/gemini-4.5-flash")]) as wire:
        models = catalogue(google={"base_url": f"{wire.url}/v1"})
        assert resolve(models, "latest Gemini Flash", tmp_path).model == "google:gemini-4.5-flash"


def test_an_old_or_empty_list_is_fetched_again(tmp_path: Path) -> None:
    with serve([anthropic.models("claude-opus-7-1")]) as wire:
        models = catalogue(anthropic={"base_url": wire.url})
        resolve(models, "strong", tmp_path)
        [path] = (tmp_path / "models").iterdir()
        for text, mtime in (("claude-opus-6", 1_000_000_000), ("", time.time()), ("claude-opus-6", time.time())):
            path.write_text(text)
            os.utime(path, (mtime, mtime))
            model = resolve(models, "strong", tmp_path).model
            assert model == f"anthropic:claude-opus-{'6' if text and mtime > 1_000_000_000 else '7-1'}"
    assert len(wire.asked) == 3


def test_a_failed_list_request_is_reported_and_not_cached(tmp_path: Path) -> None:
    with serve([Answer({"error": {"message": "no"}}, 500)]) as wire:
        models = catalogue(anthropic={"base_url": wire.url})
        resolved = [resolve(models, name, tmp_path) for name in ("fast", "strong")][1]
    assert len(wire.asked) == 1, "a failed list request is not repeated immediately"
    assert resolved.model == "anthropic:claude-opus-5-5"
    assert "the list of anthropic could not be fetched" in resolved.why
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    resolved = resolve(catalogue(anthropic={"base_url": "http://127.0.0.1:9"}), "strong", tmp_path)
    assert "could not be fetched (anthropic cannot be reached at http://127.0.0.1:9 (" in resolved.why


@pytest.mark.parametrize("name", ["claude-opus-5-5", "embedded", "scripted:strong"])
def test_an_exact_name_needs_no_list(name: str, tmp_path: Path) -> None:
    models = catalogue(anthropic={"base_url": "http://127.0.0.1:9"})
    assert "could not be fetched" not in resolve(models, name, tmp_path).why


def test_an_unwritable_cache_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder would be")
    with serve([anthropic.models("claude-opus-7-1")]) as wire:
        models = catalogue(anthropic={"base_url": wire.url})
        assert resolve(models, "strong", tmp_path).model == "anthropic:claude-opus-7-1"


@pytest.mark.finding("FL25")
def test_an_empty_list_is_requested_once_for_all_names(tmp_path: Path) -> None:
    with serve([openai.models()]) as wire:
        models = catalogue(google={"base_url": f"{wire.url}/v1"})
        names = ("latest Gemini Pro", "latest Gemini Flash", "latest Gemini")
        resolved = [resolve(models, name, tmp_path) for name in names if name in models.intents]
    assert len(resolved) > 1
    assert len(wire.asked) == 1
    assert "the list of google is empty" in resolved[-1].why
    assert list(tmp_path.iterdir()) == []


@pytest.mark.finding("FZ2")
def test_the_list_of_a_blocked_provider_is_not_requested(tmp_path: Path) -> None:
    with serve([anthropic.models("claude-opus-7-1")]) as wire:
        models = catalogue(anthropic={"base_url": wire.url}).block_providers({"anthropic": "it is not trusted"})
        resolved = resolve(models, "strong", tmp_path)
    assert (resolved.model, wire.asked) == ("anthropic:claude-opus-5-5", [])
    assert "the list of anthropic is not fetched: it is not trusted" in resolved.why


@pytest.mark.finding("FZ6")
def test_lists_are_cached_by_kind_and_address(tmp_path: Path) -> None:
    with serve([anthropic.models("claude-opus-7-1")]) as one, serve([anthropic.models("claude-opus-8")]) as other:
        assert resolve(catalogue(anthropic={"base_url": one.url}), "strong", tmp_path).model.endswith("7-1")
        assert resolve(catalogue(anthropic={"base_url": other.url}), "strong", tmp_path).model.endswith("opus-8")
    names = {path.name for path in (tmp_path / "models").iterdir()}
    assert len(names) == 2
    assert not any("anthropic" in name for name in names)
