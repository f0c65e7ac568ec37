"""How many calls a provider gets at a time: a slot is held for one attempt.

`ProcessLimits` counts those of one gateway; what counts over machines does it behind the same protocol.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from skillrun.models.entries import ProviderConfig


class ConcurrencyLimits(Protocol):
    """Who may ask which provider now."""

    def slot(self, provider: ProviderConfig) -> AbstractAsyncContextManager[object]:
        """Wait for a slot; it is held until the end of the block."""
        ...

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        """The provider has said that its rate is too high, and asks to wait."""
        ...


class ProcessLimits:
    """As many slots for each provider as its `concurrency` says."""

    def __init__(self) -> None:
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    def slot(self, provider: ProviderConfig) -> asyncio.Semaphore:
        return self._semaphores.setdefault(provider.name, asyncio.Semaphore(provider.concurrency))

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        """The call that was refused waits by itself."""
