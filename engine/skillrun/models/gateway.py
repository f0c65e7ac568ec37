"""The one way to a model: finds the provider of a request, keeps its limit of calls at once, and retries here only."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from skillrun.language.diagnostics import allowed, did_you_mean
from skillrun.models import failures
from skillrun.models.catalogue import Catalogue, Provider
from skillrun.models.messages import ModelError, Reply, Request
from skillrun.models.scripted import ScriptedGateway

if TYPE_CHECKING:
    from skillrun.models.providers import Backend


def unheard(_line: str) -> None:
    """For callers that show no progress."""


def open_gateway(
    catalogue: Catalogue, environ: Mapping[str, str], cache: Path, progress: Callable[[str], None] = unheard
) -> ModelGateway:
    """A gateway to every provider of the catalogue; each is set up at its first call.

    `progress` gets a line for the user when something takes time: the embedded model's weights, a retry.
    """
    return ModelGateway(catalogue, environ, cache, progress)


class ModelGateway:
    def __init__(
        self, catalogue: Catalogue, environ: Mapping[str, str], cache: Path, progress: Callable[[str], None]
    ) -> None:
        self._catalogue = catalogue
        self._environ = environ
        self._cache = cache
        self._progress = progress
        self._scripted = ScriptedGateway()
        self._backends: dict[str, Backend] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._opening = asyncio.Lock()

    async def send(self, request: Request, address: str) -> Reply:
        """The reply with its price and the seconds it took, waiting and retries included. Raises `ModelError`."""
        if request.model.startswith("scripted:"):
            return await self._scripted.send(request, address)
        provider = self._provider(request.model)
        started = perf_counter()
        for attempt in count(1):
            try:
                reply = await self._attempt(provider, request)
            except ModelError as error:
                passed = perf_counter() - started
                wait = self._wait(error, attempt, passed)
                if wait is None:
                    raise _given_up(error, attempt, passed) from None
                self._progress(f"{error.message}; next try in {wait:.0f} s")
                await asyncio.sleep(wait)
            else:
                price = self._catalogue.price(request.model, reply.usage)
                return replace(reply, price=price, seconds=perf_counter() - started)
        raise AssertionError("the loop has no end")

    async def close(self) -> None:
        backends, self._backends = self._backends, {}
        for backend in backends.values():
            await backend.close()

    def _provider(self, model: str) -> Provider:
        name = model.partition(":")[0]
        provider = self._catalogue.providers.get(name)
        if provider is None:
            known = self._catalogue.providers
            hint = did_you_mean(name, known) or allowed(known)
            raise ModelError("not_found", f"`{model}` names the provider `{name}`, which is not known; {hint}")
        return provider

    async def _attempt(self, provider: Provider, request: Request) -> Reply:
        slots = self._slots.setdefault(provider.name, asyncio.Semaphore(provider.concurrency))
        async with slots:
            backend = await self._backend(provider, request.model)
            try:
                async with asyncio.timeout(provider.timeout):
                    return await backend.send(request)
            except TimeoutError:
                raise failures.out_of_time(provider, provider.timeout) from None

    async def _backend(self, provider: Provider, model: str) -> Backend:
        if provider.name in self._backends:
            return self._backends[provider.name]
        async with self._opening:
            if provider.name not in self._backends:
                self._backends[provider.name] = await self._open(provider, model.partition(":")[2])
            return self._backends[provider.name]

    async def _open(self, provider: Provider, name: str) -> Backend:
        if not provider.ready(self._environ):
            raise failures.no_key(provider)
        if provider.kind == "embedded":
            from skillrun.models import embedded

            settings = self._catalogue.embedded
            if settings is None:
                raise ModelError("not_found", "models.yaml has no `embedded` entry")
            return await embedded.open_backend(provider, settings, self._cache, self._progress)
        # Imported in a thread: it takes a second, for which the other branches of a run need not stand still.
        return await asyncio.to_thread(_prepared, provider, self._environ.get(provider.key, ""), name)

    def _wait(self, error: ModelError, attempt: int, passed: float) -> float | None:
        """Seconds until the next try, or None when there is none."""
        rules = self._catalogue.retry
        if not error.retryable or attempt >= rules.attempts:
            return None
        longest = min(rules.longest, rules.seconds - passed)
        if error.wait is not None:
            return error.wait if error.wait <= longest else None
        wait = min(rules.first * 2 ** (attempt - 1), rules.longest)
        wait *= random.uniform(0.75, 1)  # noqa: S311 -- so that many calls do not come back at the same moment
        return wait if passed + wait <= rules.seconds else None


def _prepared(provider: Provider, key: str, name: str) -> Backend:
    from skillrun.models.providers import Backend

    backend = Backend(provider, key)
    backend.prepare(name)
    return backend


def _given_up(error: ModelError, attempt: int, passed: float) -> ModelError:
    said = []
    if attempt > 1:
        said.append(f"given up after {attempt} attempts in {passed:.0f} s")
    if error.retryable and error.wait:
        said.append(f"it asks to wait {error.wait:.0f} s")
    message = "; ".join([error.message, *said])
    return ModelError(error.kind, message, error.retryable, error.next_step)
