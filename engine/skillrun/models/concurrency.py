"""How many calls a provider gets at a time: a slot is held for one attempt.

`ProcessSlots` counts those of one gateway; what counts over machines does it behind the same protocol.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from skillrun.models.entries import Provider


class Slots(Protocol):
    """Who may ask which provider now."""

    def slot(self, provider: Provider) -> AbstractAsyncContextManager[object]:
        """Wait for a slot; it is held until the end of the block."""
        ...

    def pause(self, provider: Provider, seconds: float) -> None:
        """The provider has said that its rate is too high, and asks to wait."""
        ...


class ProcessSlots:
    """As many slots for each provider as its `concurrency` says."""

    def __init__(self) -> None:
        self._free: dict[str, asyncio.Semaphore] = {}

    def slot(self, provider: Provider) -> asyncio.Semaphore:
        return self._free.setdefault(provider.name, asyncio.Semaphore(provider.concurrency))

    def pause(self, provider: Provider, seconds: float) -> None:
        """The call that was refused waits by itself."""
