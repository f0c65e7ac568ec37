"""Resolves model names with the merged `config/models.yaml`, for the checker and the command line.

Does not read the environment: `models.catalogue` knows which keys are set and which models a provider lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from skillrun.syntax.diagnostics import Problems, suggest
from skillrun.syntax.source import Mapping as Layer
from skillrun.syntax.source import Node, Scalar, entries_of, items_of, to_plain

MAX_ALIAS_STEPS: Final = 20  # from a name to its model
SCRIPTED: Final = "scripted"


class InvalidName(NamedTuple):
    """Why a name is invalid: code, message and hint."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True)
class ModelNames:
    """The model names by kind. Letter case does not matter in tiers, aliases and intents."""

    aliases: Mapping[str, str]  # tiers and aliases with their targets
    intents: Mapping[str, str]  # the provider whose list an intent chooses from
    provider_by_name: Mapping[str, str]  # for bare names that only one provider has
    patterns: tuple[tuple[str, str], ...]  # patterns of bare names, with the provider
    providers: tuple[str, ...]
    suggested: tuple[str, ...]
    tiers: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> ModelNames:
        def part(name: str) -> dict[str, Any]:
            entries = data.get(name)
            return entries if isinstance(entries, dict) else {}

        def records(name: str) -> dict[str, dict[str, Any]]:
            return {key: record for key, record in part(name).items() if isinstance(record, dict)}

        tiers, aliases, intents, providers = part("tiers"), part("aliases"), records("intents"), records("providers")
        names = [full.partition(":") for full in part("models")]
        bare = Counter(name for _, _, name in names)
        return cls(
            aliases={name.casefold(): str(model) for name, model in {**aliases, **tiers}.items()},
            intents={name.casefold(): str(intent.get("provider")) for name, intent in intents.items()},
            provider_by_name={name: provider for provider, _, name in names if bare[name] == 1},
            patterns=tuple((str(of["names"]), name) for name, of in providers.items() if of.get("names")),
            providers=tuple(part("providers")),
            suggested=(*tiers, *aliases, *intents, *bare, *(f"{provider}:" for provider in providers)),
            tiers=tuple(tiers),
        )

    def check_model(self, name: str) -> InvalidName | None:
        """Return an error if no model is named `name`. Without configured providers, return None."""
        folded, (provider, colon, model) = name.casefold(), name.partition(":")
        if not self.providers or folded in self.aliases or folded in self.intents:
            return None
        if colon and model:
            return self.check_provider(provider, scripted=True)
        if name in self.provider_by_name or any(fnmatchcase(name, pattern) for pattern, _ in self.patterns):
            return None
        suggestion = suggest(name, (*self.suggested, f"{SCRIPTED}:default"))
        return InvalidName("unknown-model", f"there is no model `{name}`", suggestion)

    def check_provider(self, name: str, *, scripted: bool = False) -> InvalidName | None:
        if name in self.providers or (scripted and name == SCRIPTED):
            return None
        suggestion = suggest(name, [*self.providers, *([SCRIPTED] if scripted else [])])
        return InvalidName("unknown-provider", f"there is no provider `{name}`", suggestion)

    def alias_chain(self, name: str) -> list[str]:
        """Return the chain of tiers and aliases that starts at a name; a cycle ends with its first repeated name."""
        chain = [name]
        while (target := self.aliases.get(chain[-1].casefold())) is not None and len(chain) <= MAX_ALIAS_STEPS:
            is_cycle = target.casefold() in map(str.casefold, chain)
            chain.append(target)
            if is_cycle:
                break
        return chain

    def check_cycle(self, name: str) -> InvalidName | None:
        """Return the error if the tiers and aliases that start at a name form a cycle or a chain that is too long."""
        chain = self.alias_chain(name)
        if chain[-1].casefold() not in self.aliases:
            return None
        if len(chain) > MAX_ALIAS_STEPS:
            message = f"`{name}` resolves through more than {MAX_ALIAS_STEPS} other names"
            return InvalidName("cycle", message, "name the model directly")
        return InvalidName("cycle", f"`{name}` refers to itself: {' -> '.join(chain)}", "name a model")

    def provider_of(self, name: str) -> str | None:
        """Return the provider of the model with this name; None if unknown."""
        last = self.alias_chain(name)[-1]
        provider, colon, _ = last.partition(":")
        if (of := self.intents.get(last.casefold())) is not None:
            return of
        if colon:
            return provider
        matching = (owner for pattern, owner in self.patterns if fnmatchcase(last, pattern))
        return self.provider_by_name.get(last) or next(matching, None)


def check_names(layers: Iterable[Layer], data: Mapping[str, Any], problems: Problems) -> None:
    """Report each name that does not resolve to a model or provider, in all `config/models.yaml` files."""
    names = ModelNames.of(data)
    for layer in layers:
        for node, wrong in _checked_names(layer, names):
            if wrong is not None:
                problems.report(node.span, *wrong)


def _checked_names(layer: Layer, names: ModelNames) -> Iterator[tuple[Node, InvalidName | None]]:
    """Yield each name in a file with its error, or None if it is valid."""
    for part in ("tiers", "aliases"):
        for name, entry in entries_of(layer.get(part)).items():
            if (written := _text(entry.value)) is not None:
                yield entry.value, names.check_model(written) or names.check_cycle(name)
    for item in items_of(layer.get("prefer")):
        yield item, names.check_provider(str(to_plain(item)))
    for item in items_of(layer.get("elsewhere")):
        name = str(to_plain(item))
        if name.casefold() not in map(str.casefold, names.tiers):
            yield item, InvalidName("unknown-tier", f"there is no tier `{name}`", suggest(name, names.tiers))
    for entry in entries_of(layer.get("intents")).values():
        for key, inner in entries_of(entry.value).items():
            if key == "provider":
                yield inner.value, names.check_provider(str(to_plain(inner.value)))
    for name, entry in entries_of(layer.get("providers")).items():
        for key, inner in entries_of(entry.value).items():
            if key in ("strong", "fast") and (written := _text(inner.value)):
                yield inner.value, names.check_model(written) or _check_owner(names, name, written)
    for name, entry in entries_of(layer.get("models")).items():
        provider, _, model = name.partition(":")
        no_name = InvalidName("name", f"`{name}` has no provider", "write `provider:model`")
        yield entry.key, names.check_provider(provider, scripted=True) if model else no_name


def _check_owner(names: ModelNames, provider: str, name: str) -> InvalidName | None:
    owner = names.provider_of(name)
    if owner in (None, provider):
        return None
    return InvalidName("provider", f"`{name}` is a model of `{owner}`", f"use a model of `{provider}`")


def _text(node: Node) -> str | None:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None
