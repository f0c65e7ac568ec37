"""Limits concurrent calls per provider. Each attempt of a call holds a slot.

`ProcessLimits` applies to one gateway. Limits that apply across machines implement the same protocol.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from skillrun.models.entries import ProviderConfig


class ConcurrencyLimits(Protocol):
    """Limits on concurrent calls to providers."""

    def slot(self, provider: ProviderConfig) -> AbstractAsyncContextManager[object]:
        """Wait for a slot and hold it until the block ends."""
        ...

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        """Handle a provider's request to wait because its rate limit was exceeded."""
        ...


class ProcessLimits:
    """Limits within one process: each provider has `concurrency` slots."""

    def __init__(self) -> None:
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    def slot(self, provider: ProviderConfig) -> asyncio.Semaphore:
        return self._semaphores.setdefault(provider.name, asyncio.Semaphore(provider.concurrency))

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        """Do nothing: the rejected call itself waits."""
