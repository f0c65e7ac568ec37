"""Fetches the lists of models that providers publish, caches them for a day, and finds the newest match."""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from skillrun import registry

if TYPE_CHECKING:
    from skillrun.models.entries import ProviderConfig

CACHE_SECONDS = 24 * 3600
SECONDS = 10
FAILURE_SECONDS = 60
_failures: dict[str, ModelList] = {}
"""Failed and empty lists, keyed by the provider's kind and address. Keeping them avoids a repeated request for every
name that is resolved."""


@dataclass(frozen=True)
class ModelList:
    """The model names in a provider's list, and the time at which it was fetched. If there are no names, `error` is the
    reason."""

    names: tuple[str, ...]
    fetched_at: float
    error: str = ""

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.fetched_at, UTC).date().isoformat()

    def newest(self, match: str) -> str | None:
        """Return the matching name with the highest version. If several names have the same version, return the
        shortest."""
        return max((name for name in self.names if fnmatchcase(name, match)), key=_version_key, default=None)


async def fetch_model_list(provider: ProviderConfig, key: str, cache: Path) -> ModelList:
    """Return the provider's list, which is cached for a day. Never raises: if fetching fails, the list's `error` says
    why.

    The cache key consists of the provider's kind and address. It leaves out the name, because another project can give
    the same name to another provider.
    """
    from skillrun.models.messages import ModelError

    now = time.time()
    if provider.blocked_reason:
        return ModelList((), now, f"the list of {provider.name} is not fetched: {provider.blocked_reason}")
    if (cached := read_cached_list(provider, cache)) is not None:
        return cached
    if provider.kind not in registry.BUILT_IN["providers"]:
        return ModelList((), now, f"providers of the kind `{provider.kind}` publish no list of models")
    path = _cache_path(provider, cache)
    cache_key = path.stem
    failure = _failures.get(cache_key)
    if failure is not None and now - failure.fetched_at < FAILURE_SECONDS:
        return failure
    from skillrun.models.providers import list_models

    try:
        new_list = ModelList(tuple(await list_models(provider, key, SECONDS)), now)
    except ModelError as error:
        failure = ModelList((), now, f"the list of {provider.name} could not be fetched ({error.message})")
        _failures[cache_key] = failure
        return failure
    if not new_list.names:
        _failures[cache_key] = replace(new_list, error=f"the list of {provider.name} is empty")
        return _failures[cache_key]
    with suppress(OSError):  # if the cache cannot be written, the list is fetched again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text("\n".join(new_list.names), encoding="utf-8")
        partial.replace(path)
    return new_list


def read_cached_list(provider: ProviderConfig, cache: Path) -> ModelList | None:
    """Return the provider's list if it was fetched within the last day, else None."""
    path = _cache_path(provider, cache)
    with suppress(OSError, ValueError):
        fetched_at = path.stat().st_mtime
        names = path.read_text(encoding="utf-8").split()
        if names and 0 <= time.time() - fetched_at < CACHE_SECONDS:
            return ModelList(tuple(names), fetched_at)
    return None


def _cache_path(provider: ProviderConfig, cache: Path) -> Path:
    cache_key = hashlib.sha256(f"{provider.kind} {provider.base_url}".encode()).hexdigest()[:32]
    return cache / "models" / f"{cache_key}.txt"


_DATE = re.compile(r"(?<![\d.])(?:\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d)(?![\d.])")


def _version_key(name: str) -> tuple[list[int], int, str]:
    """Return a key that sorts names by version. Dates are ignored, such as `2026-05-06`, `05-06` or `05-2026`, and so
    is any number of more than three digits."""
    version = [int(number) for number in re.findall(r"\d+", _DATE.sub("", name)) if len(number) <= 3]
    return version, -len(name), name
