"""The one way to a model: finds the provider of a request, keeps its limit of calls at once, tells of each attempt, and
retries. Nothing else retries: no SDK below, and no step above once this has given up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from skillrun.library.addresses import parse_address
from skillrun.models.catalogue import Catalogue
from skillrun.models.concurrency import ProcessSlots, Slots
from skillrun.models.entries import Provider
from skillrun.models.failures import model_error
from skillrun.models.messages import UNTOLD, AttemptListener, ModelError, Reply, Request
from skillrun.models.redaction import Redactor
from skillrun.models.scripted import ScriptedGateway

if TYPE_CHECKING:
    from skillrun.models.providers import Backend

HERE_SECONDS: Final = 1.5
"""After these nothing is retried where nobody listens on this machine: who starts there again does it at once."""


def open_gateway(
    catalogue: Catalogue,
    environ: Mapping[str, str],
    cache: Path,
    progress: Callable[[str], None],
    slots: Slots | None = None,
) -> ModelGateway:
    """A gateway to every provider of the catalogue; each is set up at its first call.

    `progress` gets a line for the user when something takes time: the embedded model's weights, a retry. Without
    `slots` the calls of this gateway alone are counted.
    """
    return ModelGateway(catalogue, environ, cache, progress, slots or ProcessSlots())


@dataclass
class ModelGateway:
    catalogue: Catalogue
    environ: Mapping[str, str]
    cache: Path
    progress: Callable[[str], None]
    slots: Slots = field(default_factory=ProcessSlots)
    backends: dict[str, Backend] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._scripted = ScriptedGateway()
        self._opening = asyncio.Lock()
        self._failures: dict[str, ModelError] = {}  # by provider: why it could not be opened last
        # Of every provider, whichever is in use: a key may stand in a file that any model is shown.
        self._redactor = Redactor(self.environ.get(p.key, "") for p in self.catalogue.providers.values() if p.key)

    async def send(self, request: Request, address: str, attempts: AttemptListener = UNTOLD) -> Reply:
        """The reply with its price and the seconds it took, waiting and retries included. Raises `ModelError`."""
        if request.model.startswith("scripted:"):
            return await self._scripted.send(request, address, attempts)
        provider = self.catalogue.providers[request.model.partition(":")[0]]
        failure, started = self._failures.get(provider.name), perf_counter()
        for attempt in count(1):
            try:
                async with self.slots.slot(provider):
                    await self._opened(provider, request.model.partition(":")[2], failure)
                    reply = await self._attempt(provider, request, attempts, attempt)
            except ModelError as error:
                passed = perf_counter() - started
                if error.kind == "rate_limit" and error.wait:
                    self.slots.pause(provider, min(error.wait, self.catalogue.retry.seconds))
                wait = self._wait(error, provider, attempt, passed)
                if wait is None:
                    raise _given_up(error, attempt, passed) from None
                self.progress(f"{error.message}; next try in {wait:.0f} s")
                await asyncio.sleep(wait)
            else:
                price = self.catalogue.price(request.model, reply.usage)
                return replace(reply, price=price, seconds=perf_counter() - started)
        raise AssertionError("the loop has no end")

    async def close(self) -> None:
        for backend in self.backends.values():
            await backend.close()
        self.backends.clear()

    async def _attempt(self, provider: Provider, request: Request, attempts: AttemptListener, number: int) -> Reply:
        """One attempt, told before it goes out and when it failed."""
        await attempts.sent(number)
        try:
            async with asyncio.timeout(provider.timeout):
                return await self.backends[provider.name].send(request)
        except TimeoutError:
            late = TimeoutError(f"{provider.timeout:g} seconds")
            error = model_error(late, provider, request.model, self._redactor)
        except ModelError as failure:
            error = failure
        await attempts.failed(number, error)
        raise error from None

    async def _opened(self, provider: Provider, name: str, before: ModelError | None) -> None:
        """Have it open; who has waited while it could not be opened does not try that again. `before`: why it could not
        when the call came."""
        if provider.name in self.backends:
            return
        async with self._opening:
            last = self._failures.get(provider.name)
            if last is not None and last is not before:
                raise last
            try:
                await self._open(provider, name)
            except ModelError as error:
                self._failures[provider.name] = error
                raise

    async def _open(self, provider: Provider, name: str) -> None:
        if provider.name in self.backends:
            return
        if provider.barred:
            message = f"nothing is sent to {provider.name} at {provider.base_url}: {provider.barred}"
            raise ModelError("auth", message, next_step="`skillrun trust` shows what this project wants, and asks.")
        if not provider.ready(self.environ):
            step = f"Set {provider.key}, or choose another model; without any key, the small embedded model is used."
            raise ModelError("auth", f"{provider.key} is not set, and {provider.name} needs it", next_step=step)
        # In threads: the imports alone take a second, for which the other branches of a run need not stand still.
        if provider.kind == "embedded":
            from skillrun.models import embedded

            assert self.catalogue.embedded is not None
            backend: Backend = await embedded.open_backend(
                provider, self.catalogue.embedded, self.cache, self.environ, self.progress, self._redactor
            )
        else:
            from skillrun.models.providers import Backend

            backend = Backend(provider, self.environ.get(provider.key, ""), self._redactor, self.progress)
            await asyncio.to_thread(backend.prepare, name)
        self.backends[provider.name] = backend

    def _wait(self, error: ModelError, provider: Provider, attempt: int, passed: float) -> float | None:
        """Seconds until the next try, or None when there is none."""
        rules = self.catalogue.retry
        here = not provider.base_url or parse_address(provider.base_url).on_this_machine
        seconds = min(rules.seconds, HERE_SECONDS) if error.unreached and here else rules.seconds
        if not error.retryable or attempt >= rules.attempts:
            return None
        wait = error.wait
        if wait is None:
            wait = rules.first * 2 ** (attempt - 1)
            wait *= random.uniform(0.75, 1)  # noqa: S311 -- so that many calls do not come back at the same moment
        return wait if passed + wait <= seconds else None


def _given_up(error: ModelError, attempt: int, passed: float) -> ModelError:
    message = error.message
    if attempt > 1:
        message += f"; given up after {attempt} attempts in {passed:.0f} s"
    if error.retryable and error.wait:
        message += f"; it asks to wait {error.wait:.0f} s"
    return ModelError(error.kind, message, error.retryable, error.next_step, given_up=error.retryable)
