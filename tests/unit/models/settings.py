"""The shipped catalogue, and catalogues that point at a local server."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import Block, Message, Request

ROOT = Path(__file__).parents[3]


def shipped() -> dict[str, Any]:
    """Return a copy of the shipped config/models.yaml as plain data."""
    return deepcopy(_shipped())


@cache
def _shipped() -> dict[str, Any]:
    data: dict[str, Any] = yaml.load((ROOT / "config" / "models.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return data


def catalogue(retry: dict[str, float] | None = None, **providers: dict[str, Any]) -> Catalogue:
    """Return the shipped catalogue with changed provider settings and quick retries."""
    config = shipped()
    for name, changes in providers.items():
        config["providers"][name] = {**config["providers"].get(name, {}), **changes}
    config["retry"] = {"attempts": 3, "seconds": 60, "first": 0.01, **(retry or {})}
    return Catalogue.from_config(config)


def ignore_progress(_line: str) -> None:
    """Ignore progress."""


def request(model: str = "anthropic:claude-opus-5-5", words: str = "Say hello.", **more: Any) -> Request:
    more.setdefault("system", (Block("You are brief."),))
    more.setdefault("messages", (Message("user", (Block(words),)),))
    return Request(model=model, max_tokens=more.pop("max_tokens", 100), **more)
