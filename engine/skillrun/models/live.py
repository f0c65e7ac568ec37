"""The lists that providers publish of their models: fetched, kept for a day in the user's cache, searched."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillrun.models.catalogue import Provider

SECONDS = 10
FAILURE_SECONDS = 60
_failed: dict[str, ModelList] = {}  # by address; so that many names do not each wait for the same lost network
_NUMBER = re.compile(r"\d+")
_LONGEST_VERSION = 3  # a longer number is a date


@dataclass(frozen=True)
class ModelList:
    """The names a provider lists, and when it did; `error` says why there are none."""

    names: tuple[str, ...]
    fetched: float
    error: str = ""

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.fetched, UTC).date().isoformat()

    def newest(self, match: str) -> str | None:
        """The name with the highest version that fits the pattern; of one version, the name without a date."""
        fitting = [name for name in self.names if fnmatchcase(name, match)]
        return max(fitting, key=_rank, default=None)


async def fetch(provider: Provider, key: str, cache: Path, hours: float) -> ModelList:
    """The provider's list, from `cache` when it is younger than `hours`. Never raises: a failure is in `error`."""
    from skillrun.models.messages import ModelError

    path = cache / "models" / f"{provider.name}.json"
    kept = _kept(path)
    now = time.time()
    if kept is not None and 0 <= now - kept.fetched < hours * 3600:
        return kept
    failed = _failed.get(provider.base_url)
    if failed is not None and now - failed.fetched < FAILURE_SECONDS:
        return failed
    from skillrun.models.providers import list_models

    try:
        found = ModelList(tuple(await list_models(provider, key, SECONDS)), now)
    except ModelError as error:
        failed = ModelList((), now, f"the list of {provider.name} could not be had ({error.message})")
        _failed[provider.base_url] = failed
        return failed
    _keep(path, found)
    return found


def _rank(name: str) -> tuple[list[int], int, str]:
    version = [int(number) for number in _NUMBER.findall(name) if len(number) <= _LONGEST_VERSION]
    return version, -len(name), name


def _kept(path: Path) -> ModelList | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return ModelList(tuple(map(str, data["names"])), float(data["fetched"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(path: Path, found: ModelList) -> None:
    """Best effort: a cache that cannot be written only means that the list is fetched again."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(asdict(found)), encoding="utf-8")
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
