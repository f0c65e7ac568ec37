"""Resolves model names to a provider, model, context window and price, using the data in `config/models.yaml`.

Only `model_lists` uses the network: it fetches the lists of models that providers publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from skillrun import registry
from skillrun.library.model_names import MAX_ALIAS_STEPS, SCRIPTED
from skillrun.library.models_yaml import (
    HTTP_HINT,
    PROVIDER,
    PROVIDER_HINT,
    TABLES,
    VARIABLE,
    VARIABLE_HINT,
    AddressError,
    is_priced,
    parse_address,
)
from skillrun.library.privileged_settings import Origin
from skillrun.models import model_lists
from skillrun.models.entries import (
    DEFAULT_OUTPUT,
    DEFAULT_WINDOW,
    EmbeddedConfig,
    Intent,
    Price,
    ProviderConfig,
    ResolvedModel,
    RetryPolicy,
)
from skillrun.models.messages import Usage
from skillrun.syntax.diagnostics import SkillrunError, allowed_hint, did_you_mean

NO_KEY_REASON: Final = "no provider key is set, using the small embedded model"
KEY_SUFFIX, URL_SUFFIX = "_API_KEY", "_BASE_URL"  # suffixes of the variables that hold a provider's key and its address


@dataclass(frozen=True)
class Catalogue:
    tiers: Mapping[str, str]
    prefer: Sequence[str]
    aliases: Mapping[str, str]
    intents: Mapping[str, Intent]
    providers: Mapping[str, ProviderConfig]
    models: Mapping[str, Mapping[str, Any]]
    embedded: EmbeddedConfig | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    elsewhere: Sequence[str] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], origins: Mapping[str, Origin] = MappingProxyType({})) -> Catalogue:
        """Build the catalogue from the merged `models.yaml`, which `library.models_yaml` has checked.

        `origins` maps each provider to the file that sets its address. An address without an origin does not count as
        set by the user.
        """

        def build_entries(kind: type[Any], part: str) -> dict[str, Any]:
            entries = {}
            for name, entry in config.get(part, {}).items():
                if not entry.keys() <= TABLES[part].keys():
                    raise SkillrunError(f"models.yaml: `{part}.{name}` has an unknown key")
                entries[name] = kind(name=name, **entry)
            return entries

        providers, intents = build_entries(ProviderConfig, "providers"), build_entries(Intent, "intents")
        for name, provider in providers.items():
            _check_provider(provider, origins.get(name, Origin("")))
            providers[name] = replace(provider, origin=origins[name].location) if name in origins else provider
        return cls(
            tiers=config.get("tiers", {}),
            prefer=config.get("prefer", ()),
            aliases=config.get("aliases", {}),
            intents=intents,
            providers=providers,
            models=config.get("models", {}),
            embedded=EmbeddedConfig(**config["embedded"]) if config.get("embedded") else None,
            retry=RetryPolicy(**config.get("retry", {})),
            elsewhere=config.get("elsewhere", ()),
        )

    def apply_base_urls(self, environ: Mapping[str, str]) -> Catalogue:
        """Return the catalogue with base URLs replaced by those in `environ`. The SDKs read the same variables, such as
        `ANTHROPIC_BASE_URL`.

        Only providers whose key is set are changed. Raises `SkillrunError` for an invalid URL, without showing the URL.
        """
        providers = {}
        for name, provider in self.providers.items():
            variable = (
                f"{provider.key.removesuffix(KEY_SUFFIX)}{URL_SUFFIX}" if provider.key.endswith(KEY_SUFFIX) else ""
            )
            url = environ.get(variable, "") if variable and provider.is_configured(environ) else ""
            if url:
                try:
                    parse_address(url)
                except AddressError as error:
                    step = f"Write it as `https://host/v1`, or unset {variable}."
                    raise SkillrunError(f"{variable} is not a valid address for {name}: {error}", step) from None
            providers[name] = replace(provider, base_url=url, origin=variable) if url else provider
        return replace(self, providers=providers)

    def block_providers(self, reasons: Mapping[str, str]) -> Catalogue:
        """Return the catalogue with each provider in `reasons` blocked for its reason."""
        blocked = {name: replace(of, blocked_reason=reasons.get(name, "")) for name, of in self.providers.items()}
        return replace(self, providers=blocked)

    def provider_locations(self, models: Iterable[str]) -> dict[str, str]:
        """Return the locations of the providers of `models`, for display, keyed by provider. The embedded model has no
        location."""
        names = dict.fromkeys(model.partition(":")[0] for model in models)
        return {
            name: self.providers[name].location
            for name in names
            if name in self.providers and self.providers[name].location
        }

    def resolve(
        self,
        name: str,
        environ: Mapping[str, str],
        override: str = "",
        model_list: model_lists.ModelList | None = None,
        cache: Path | None = None,
    ) -> ResolvedModel:
        """Resolve `name`, which is a tier, an alias, an intent, `provider:model`, or the bare name of a model.

        `override` replaces every tier and alias. `model_list` lists the models of the intent's provider; without it,
        the list in `cache` is used, if it is less than a day old. Without a list, an intent resolves to its `fallback`.
        Sends no request. Raises `SkillrunError` for an unknown name.
        """
        target, why = self._resolve_name(name, environ, override)
        if isinstance(target, Intent):
            listing = self.providers[target.provider]
            if model_list is None and cache is not None and not listing.blocked_reason:
                model_list = model_lists.read_cached_list(listing, cache)
            newest = model_list.newest(target.match) if model_list else None
            model = f"{target.provider}:{newest or target.fallback}"
            if model_list is None:
                why.append("the name in models.yaml")
            elif newest:
                why.append(f"newest in {target.provider}'s list of {model_list.day}")
            else:
                missing = model_list.error or f"no name in the list of {target.provider} matches {target.match}"
                why.append(f"the name in models.yaml, as {missing}")
        else:
            model = target
        provider = self.providers.get(model.partition(":")[0]) or ProviderConfig(SCRIPTED, SCRIPTED)
        entry = self.models.get(model, {})
        short_name, bare_name = model, model.partition(":")[2]
        with suppress(SkillrunError):  # the bare name is ambiguous
            if provider.name == SCRIPTED or self._qualify_name(bare_name) == model:
                short_name = bare_name
        return ResolvedModel(
            name=name,
            model=model,
            provider=provider.name,
            window=entry.get("window") or provider.window or DEFAULT_WINDOW,
            max_output=entry.get("max_output") or provider.max_output or DEFAULT_OUTPUT,
            price=_price(entry),
            why="; ".join(why),
            short_name=short_name,
            tools=provider.tools,
            records=provider.records,
            is_embedded_fallback=NO_KEY_REASON in why,
        )

    async def resolve_live(
        self, name: str, environ: Mapping[str, str], cache: Path, override: str = ""
    ) -> ResolvedModel:
        """Resolve `name` as `resolve` does, using the provider's list of models. The list is cached for a day and can
        change later, so callers store the result."""
        target, _ = self._resolve_name(name, environ, override)
        model_list = None
        if isinstance(target, Intent):
            provider = self.providers[target.provider]
            model_list = await model_lists.fetch_model_list(provider, environ.get(provider.key, ""), cache)
        return self.resolve(name, environ, override, model_list)

    def can_resolve_to(self, name: str, model: str, environ: Mapping[str, str], override: str = "") -> bool:
        """Whether `name` can resolve to `model`, either directly or through an intent that the model matches."""
        target, _ = self._resolve_name(name, environ, override)
        if isinstance(target, Intent):
            provider, _, listed_name = model.partition(":")
            return provider == target.provider and (
                fnmatchcase(listed_name, target.match) or listed_name == target.fallback
            )
        return target == model

    def price(self, model: str, usage: Usage) -> float | None:
        """Return the price of a call to `provider:model` in dollars, or None if the price is unknown. The scripted
        model is free."""
        rates = _price(self.models.get(model, {}))
        return 0.0 if model.startswith("scripted:") else rates.cost(usage) if rates else None

    def _resolve_name(self, name: str, environ: Mapping[str, str], override: str) -> tuple[str | Intent, list[str]]:
        """Return the exact model or the intent that `name` resolves to, and an explanation of each step."""
        target, why = self._follow_aliases(name, environ, override)
        if override or name.casefold() not in map(str.casefold, self.elsewhere):
            return target, why
        own_provider = target.provider if isinstance(target, Intent) else target.partition(":")[0]
        if own_provider not in self.prefer:
            return target, why
        other = self._substitute_provider(environ, excluding=own_provider)
        if other is None:
            return target, [*why, "no key of another provider is set"]
        tier = other.fast if isinstance(target, Intent) and target.tier == "fast" and other.fast else other.strong
        target, way = self._follow_aliases(tier, environ, "")
        return target, [f"a provider other than {own_provider}, as {other.key} is set", tier, *way]

    def _follow_aliases(self, name: str, environ: Mapping[str, str], override: str) -> tuple[str | Intent, list[str]]:
        """Resolve a name through tiers, aliases and intents. If the key of an intent's provider is missing, use another
        provider."""
        symbols = {**self.tiers, **self.aliases}
        why: list[str] = []
        seen = [name]
        while True:
            if symbol := _match_key(name, symbols):
                if override and override not in seen:
                    name, override = override, ""
                    why.append(f"{name} for everything")
                else:
                    name = symbols[symbol]
                    why.append(name)
            elif key := _match_key(name, self.intents):
                intent = self.intents[key]
                provider = self.providers[intent.provider]
                if provider.is_configured(environ):
                    return intent, why
                other = self._substitute_provider(environ)
                if other is None:
                    embedded = [provider for provider in self.providers.values() if provider.kind == "embedded"]
                    if not embedded:
                        keys = ", ".join(provider.key for provider in self.providers.values() if provider.key)
                        message = "no provider key is set and no embedded model is configured"
                        raise SkillrunError(message, f"Set one of {keys}.")
                    return embedded[0].strong, [*why, NO_KEY_REASON]
                name = other.fast if intent.tier == "fast" and other.fast else other.strong
                why.append(f"{provider.key} is not set, {other.key} is: {name}")
            else:
                return self._qualify_name(name), why
            if len(seen) > MAX_ALIAS_STEPS:
                raise SkillrunError(f"the model name `{seen[0]}` goes through more than {MAX_ALIAS_STEPS} other names")
            if name in seen:
                raise SkillrunError(f"the model name `{name}` leads back to itself: {' -> '.join((*seen, name))}")
            seen.append(name)

    def _substitute_provider(self, environ: Mapping[str, str], excluding: str = "") -> ProviderConfig | None:
        others = (self.providers[name] for name in self.prefer if name in self.providers and name != excluding)
        available = (
            other for other in others if other.strong and other.key and not (excluding and other.blocked_reason)
        )
        return next((other for other in available if other.is_configured(environ)), None)

    def _qualify_name(self, name: str) -> str:
        provider, colon, model = name.partition(":")
        if colon and model:
            _require_option(f"the provider of the model `{name}`", provider, [*self.providers, SCRIPTED])
            return name
        listed = [full for full in self.models if full.partition(":")[2] == name]
        if len(listed) == 1:
            return listed[0]
        for candidate in self.providers.values():
            if candidate.names and fnmatchcase(name, candidate.names):
                return f"{candidate.name}:{name}"
        _require_option("the model name", name, [*self.tiers, *self.aliases, *self.intents, *self.models])
        return name


def _price(entry: Mapping[str, Any]) -> Price | None:
    """Return the price in an entry of the model table, or None if the entry lacks the input rate or the output rate."""
    if not is_priced(entry):
        return None
    rates = {name: entry[name] for name in ("input", "output", "cache_read", "cache_write", "above") if name in entry}
    return Price(**rates, long=_price(entry.get("long", {})))


def _check_provider(provider: ProviderConfig, origin: Origin) -> None:
    """Raise an error for an invalid provider. This is a safeguard, because the check of the config files already
    reports invalid providers."""
    where = f"models.yaml: `providers.{provider.name}"
    if not PROVIDER.fullmatch(provider.name):
        raise SkillrunError("models.yaml: a provider's name is invalid", PROVIDER_HINT)
    if not registry.is_registered("providers", provider.kind):
        _require_option(f"providers.{provider.name}.kind", provider.kind, registry.names("providers"))
    if provider.key and not VARIABLE.fullmatch(str(provider.key)):
        raise SkillrunError(f"{where}.key` is not the name of an environment variable", VARIABLE_HINT)
    if provider.kind == "embedded":
        if provider.base_url or provider.key:
            raise SkillrunError(f"{where}` is embedded and cannot have an address or a key")
        return
    try:
        address = parse_address(str(provider.base_url))
    except AddressError as error:
        raise SkillrunError(f"{where}.base_url` is invalid: {error}") from None
    if address.is_insecure and not origin.is_user_address:
        raise SkillrunError(f"{where}.base_url` is plain http to another machine", HTTP_HINT)


def _match_key(name: str, table: Mapping[str, Any]) -> str | None:
    return next((key for key in table if key.casefold() == name.casefold()), None)


def _require_option(what: str, value: str, options: Iterable[str]) -> None:
    names = list(options)
    if value not in names:
        hint = did_you_mean(value, names) or allowed_hint(names)
        raise SkillrunError(f"{what} is `{value}`, which is unknown; {hint}", "`skillrun models` lists the names.")
