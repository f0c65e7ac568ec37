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
from skillrun.syntax.source import MappingEntry, Node, Scalar, Sequence, Span, to_plain

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

        intents, providers = records("intents"), records("providers")
        symbols = {**part("aliases"), **part("tiers")}
        names = [full.partition(":") for full in part("models")]
        bare = Counter(name for _, _, name in names)
        return cls(
            aliases={name.casefold(): str(model) for name, model in symbols.items()},
            intents={name.casefold(): str(intent.get("provider")) for name, intent in intents.items()},
            provider_by_name={name: provider for provider, _, name in names if bare[name] == 1},
            patterns=tuple(
                (str(provider["names"]), name) for name, provider in providers.items() if provider.get("names")
            ),
            providers=tuple(part("providers")),
            suggested=(
                *part("tiers"),
                *part("aliases"),
                *intents,
                *dict.fromkeys(bare),
                *(f"{provider}:" for provider in providers),
            ),
            tiers=tuple(part("tiers")),
        )

    def check_model(self, name: str) -> InvalidName | None:
        """Return the error if no model has this name; None if a model has it or no providers are configured."""
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
        return InvalidName(
            "unknown-provider",
            f"there is no provider `{name}`",
            suggest(name, [*self.providers, *([SCRIPTED] if scripted else [])]),
        )

    def check_tier(self, name: str) -> InvalidName | None:
        if name.casefold() in map(str.casefold, self.tiers):
            return None
        return InvalidName("unknown-tier", f"there is no tier `{name}`", suggest(name, self.tiers))

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
        """Return the error if the tiers and aliases that start at a name form a cycle or too long a chain."""
        chain = self.alias_chain(name)
        if chain[-1].casefold() not in self.aliases:
            return None
        if len(chain) > MAX_ALIAS_STEPS:
            return InvalidName(
                "cycle", f"`{name}` resolves through more than {MAX_ALIAS_STEPS} other names", "name the model directly"
            )
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
    """Report each name in `config/models.yaml` files that does not resolve to a model or provider."""
    names = ModelNames.of(data)
    for layer in layers:
        for span, wrong in _invalid_names(layer, names):
            problems.report(span, *wrong)


def _invalid_names(layer: Layer, names: ModelNames) -> Iterator[tuple[Span, InvalidName]]:
    for part in ("tiers", "aliases"):
        for name, entry in _entries(layer.get(part)):
            if (node := _text_scalar(entry.value)) is not None:
                yield from _with_span(node, names.check_model(str(node.value)) or names.check_cycle(name))
    prefer = layer.get("prefer")
    for item in prefer.items if isinstance(prefer, Sequence) else ():
        yield from _with_span(item, names.check_provider(str(to_plain(item))))
    elsewhere = layer.get("elsewhere")
    for item in elsewhere.items if isinstance(elsewhere, Sequence) else ():
        yield from _with_span(item, names.check_tier(str(to_plain(item))))
    for _, entry in _entries(layer.get("intents")):
        for key, inner in _entries(entry.value):
            if key == "provider":
                yield from _with_span(inner.value, names.check_provider(str(to_plain(inner.value))))
    for name, entry in _entries(layer.get("providers")):
        for key, inner in _entries(entry.value):
            if key in ("strong", "fast") and (node := _text_scalar(inner.value)) is not None and node.value:
                yield from _with_span(
                    node, names.check_model(str(node.value)) or _check_owner(names, name, str(node.value))
                )
    for name, entry in _entries(layer.get("models")):
        provider, _, model = name.partition(":")
        no_name = InvalidName("name", f"`{name}` has no provider", "write `provider:model`")
        wrong = names.check_provider(provider, scripted=True) if model else no_name
        yield from _with_span(entry.key, wrong)


def _check_owner(names: ModelNames, provider: str, name: str) -> InvalidName | None:
    """Return the error if the model belongs to another provider."""
    owner = names.provider_of(name)
    if owner in (None, provider):
        return None
    return InvalidName("provider", f"`{name}` is a model of `{owner}`", f"use a model of `{provider}`")


def _with_span(node: Node, wrong: InvalidName | None) -> Iterator[tuple[Span, InvalidName]]:
    if wrong is not None:
        yield node.span, wrong


def _text_scalar(node: Node) -> Scalar | None:
    return node if isinstance(node, Scalar) and isinstance(node.value, str) else None


def _entries(node: Node | None) -> Iterator[tuple[str, MappingEntry]]:
    if isinstance(node, Layer):
        yield from node.entries.items()
