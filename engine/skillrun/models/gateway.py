"""The only path to a model: selects the provider of a request, limits concurrency, reports attempts, and retries.

Only the gateway retries. The SDKs never retry, and a step does not repeat a call after the gateway has given up.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final

from skillrun import registry
from skillrun.library.models_yaml import parse_address
from skillrun.models.catalogue import Catalogue
from skillrun.models.entries import ClientContext, ConcurrencyLimits, ModelClient, ProviderConfig
from skillrun.models.failures import model_error
from skillrun.models.messages import NULL_LISTENER, AttemptListener, ModelError, Reply, Request
from skillrun.models.redaction import Redactor
from skillrun.models.scripted import ScriptedGateway
from skillrun.syntax.diagnostics import SkillrunError

MAX_ADAPTATIONS: Final = 20
"""How often one call is changed because a server refuses it. The table of capabilities has about as many values."""
LOCAL_RETRY_SECONDS: Final = 1.5
"""Time limit for retries in seconds if no server listens at a local address. A restarting server is back quickly, so
the limit is short."""


PROGRESS_SECONDS: Final = 30


class ProcessLimits:
    """Limits on the calls of one gateway: each provider has `concurrency` slots."""

    def __init__(self) -> None:
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    def slot(self, provider: ProviderConfig) -> asyncio.Semaphore:
        return self._semaphores.setdefault(provider.name, asyncio.Semaphore(provider.concurrency))

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        """Do nothing, because the rejected call itself waits."""


@dataclass
class ModelGateway:
    """The gateway to all providers of the catalogue. Each provider is set up at its first call.

    `progress` shows the user a line about each retry and each slow operation, such as fetching the embedded model's
    weights. By default, `slots` limits only the calls of this gateway.
    """

    catalogue: Catalogue
    environ: Mapping[str, str]
    cache: Path
    progress: Callable[[str], None]
    slots: ConcurrencyLimits = field(default_factory=ProcessLimits)
    clients: dict[str, ModelClient] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._scripted = ScriptedGateway()
        self._open_lock = asyncio.Lock()
        self._failures: dict[str, ModelError] = {}  # the last error that occurred when opening each provider
        # Redact the keys of all providers, even unused ones: a file that is shown to a model may contain any of them.
        self._redactor = Redactor(self.environ.get(p.key, "") for p in self.catalogue.providers.values() if p.key)

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        """Return the reply with its price in dollars and its duration in seconds. The duration includes waits and
        retries. Raises `ModelError`."""
        if request.model.startswith("scripted:"):
            return await self._scripted.send(request, address, attempts)
        provider = self.catalogue.providers[request.model.partition(":")[0]]
        failure, started, adaptations = self._failures.get(provider.name), perf_counter(), set[str]()
        for attempt in count(1):
            try:
                async with self.slots.slot(provider):
                    if provider.name not in self.clients:
                        await self._ensure_open(provider, request.model.partition(":")[2], failure)
                    await attempts.on_sent(attempt)
                    async with self._limit_attempt(provider, request, attempts, attempt):
                        reply = await self.clients[provider.name].send(request)
                        if provider.kind not in registry.BUILT_IN["providers"]:
                            reply = self._complete_reply(reply, request)
            except ModelError as error:
                # A server can refuse what has changed already, or name one limit after the other without end.
                if error.adaptation and error.adaptation not in adaptations and len(adaptations) < MAX_ADAPTATIONS:
                    adaptations.add(error.adaptation)
                    self.progress(f"{error.message}; trying again with {error.adaptation}")
                    continue
                elapsed = perf_counter() - started
                if error.kind == "rate_limit" and error.wait:
                    self.slots.pause(provider, min(error.wait, self.catalogue.retry.seconds))
                wait = self._retry_delay(error, provider, attempt - len(adaptations), elapsed)
                if wait is None:
                    message = error.message
                    if attempt > 1:
                        message += f"; given up after {attempt} attempts in {elapsed:.0f} s"
                    if error.retryable and error.wait:
                        message += f"; it asks to wait {error.wait:.0f} s"
                    is_retryable = error.retryable
                    raise ModelError(
                        error.kind, message, is_retryable, error.next_step, given_up=is_retryable
                    ) from None
                self.progress(f"{error.message}; next try in {wait:.0f} s")
                await asyncio.sleep(wait)
            else:
                price = self.catalogue.price(request.model, reply.usage)
                return replace(reply, price=price, seconds=perf_counter() - started)
        raise AssertionError("the loop has no end")

    async def close(self) -> None:
        for backend in self.clients.values():
            await backend.close()
        self.clients.clear()

    @asynccontextmanager
    async def _limit_attempt(
        self, provider: ProviderConfig, request: Request, attempts: AttemptListener, number: int
    ) -> AsyncIterator[None]:
        """Limit the time of an attempt. If it fails, notify the listener, and raise ModelError."""
        try:
            async with asyncio.timeout(provider.timeout):
                waiting = asyncio.create_task(self._report_progress(provider, request.model))
                try:
                    with self._report_extension(provider):
                        yield
                finally:
                    waiting.cancel()
                return
        except TimeoutError:
            timeout = TimeoutError(f"{provider.timeout:g} seconds")
            error = model_error(timeout, provider, request.model, self._redactor)
        except ModelError as failure:
            error = failure
        await attempts.on_failed(number, error)
        raise error from None

    async def _report_progress(self, provider: ProviderConfig, model: str) -> None:
        """Show a line after `PROGRESS_SECONDS` seconds of an attempt, and after each further time that is twice as
        long."""
        seconds = PROGRESS_SECONDS
        while True:
            await asyncio.sleep(seconds / 2 if seconds > PROGRESS_SECONDS else seconds)
            self.progress(
                f"{model}: no reply after {seconds:g} s; `timeout` of {provider.name} is {provider.timeout:g} s"
            )
            seconds *= 2

    def _complete_reply(self, reply: object, request: Request) -> Reply:
        """Return a reply of a package's client with its model set and keys removed. Raises TypeError if it is not a
        Reply."""
        if not isinstance(reply, Reply):
            raise TypeError(f"its client returned {type(reply).__name__} instead of Reply")
        redactor = self._redactor
        calls = tuple(replace(call, arguments=redactor.redact_value(call.arguments)) for call in reply.calls)
        return replace(reply, text=redactor.redact_text(reply.text), calls=calls, model=reply.model or request.model)

    async def _ensure_open(self, provider: ProviderConfig, name: str, previous_failure: ModelError | None) -> None:
        """Open the provider's client.

        If another call failed to open the client while this call waited, raise the error of the other call.
        `previous_failure` is the error that was known when this call started.
        """
        async with self._open_lock:
            if provider.name in self.clients:
                return
            failure = self._failures.get(provider.name)
            if failure is not None and failure is not previous_failure:
                raise failure
            try:
                self.clients[provider.name] = await self._open_client(provider, name)
            except ModelError as error:
                self._failures[provider.name] = error
                raise

    async def _open_client(self, provider: ProviderConfig, name: str) -> ModelClient:
        if provider.blocked_reason:
            message = f"nothing is sent to {provider.name} at {provider.base_url}: {provider.blocked_reason}"
            raise ModelError("auth", message, next_step="Run `skillrun trust` to review what this project requests.")
        if not provider.is_configured(self.environ):
            step = f"Set {provider.key}, or choose another model; without any key, the small embedded model is used."
            raise ModelError("auth", f"{provider.key} is not set, so {provider.name} cannot be used", next_step=step)
        context = ClientContext(
            provider,
            name,
            self.environ.get(provider.key, ""),
            self.environ,
            self.cache,
            self.progress,
            self._redactor,
            self.catalogue.embedded,
            [model for model, entry in self.catalogue.models.items() if entry.get("max_output")],
        )
        with self._report_extension(provider):
            client = registry.load("providers", provider.kind)(context)
            opened: ModelClient = await client if isawaitable(client) else client
        return opened

    @contextmanager
    def _report_extension(self, provider: ProviderConfig) -> Iterator[None]:
        """Convert any error that a package's client raises to `ModelError`."""
        try:
            with registry.report_failure("providers", provider.kind):
                yield
        except ModelError:
            raise
        except SkillrunError as error:
            message = self._redactor.redact_error(error.message)
            raise ModelError("other", message, next_step=error.next_step) from error

    def _retry_delay(self, error: ModelError, provider: ProviderConfig, attempt: int, elapsed: float) -> float | None:
        """Return the seconds until the next attempt, or None if the gateway gives up."""
        policy = self.catalogue.retry
        is_local = not provider.base_url or parse_address(provider.base_url).is_local
        seconds = min(policy.seconds, LOCAL_RETRY_SECONDS) if error.is_unreachable and is_local else policy.seconds
        if not error.retryable or attempt >= policy.attempts:
            return None
        wait = policy.first * 2 ** (attempt - 1)
        wait *= random.uniform(0.75, 1)  # noqa: S311 -- jitter, so that many calls do not retry at the same moment
        wait = max(wait, error.wait or 0)  # a provider can ask for no wait, again and again
        return wait if elapsed + wait <= seconds else None
