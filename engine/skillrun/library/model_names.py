"""Which names mean a model, by what the merged `config/models.yaml` says: for the checker, and for what is typed.

Knows no environment: which provider's key is set, and what its list holds, is `models.catalogue`'s concern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from skillrun.syntax.diagnostics import Problems, suggest
from skillrun.syntax.source import Mapping as Layer
from skillrun.syntax.source import MappingEntry, Node, Scalar, Sequence, Span, plain

MOST_STEPS: Final = 20  # from a name to the model that it means
SCRIPTED: Final = "scripted"


class Wrong(NamedTuple):
    """Why a name cannot be used, as a problem has it."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True)
class ModelNames:
    """The names by their kinds; whatever the case, a tier, alias or intent is the same one."""

    symbols: Mapping[str, str]  # tiers and aliases: what they stand for
    intents: Mapping[str, str]  # whose list they choose from
    listed: Mapping[str, str]  # bare names of the table that only one provider has
    patterns: tuple[tuple[str, str], ...]  # of bare names
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
            symbols={name.casefold(): str(model) for name, model in symbols.items()},
            intents={name.casefold(): str(intent.get("provider")) for name, intent in intents.items()},
            listed={name: provider for provider, _, name in names if bare[name] == 1},
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

    def wrong(self, name: str) -> Wrong | None:
        """Why no model is called so; None where one is, or where nobody says which there are."""
        folded, (provider, colon, model) = name.casefold(), name.partition(":")
        if not self.providers or folded in self.symbols or folded in self.intents:
            return None
        if colon and model:
            return self.no_provider(provider, scripted=True)
        if name in self.listed or any(fnmatchcase(name, pattern) for pattern, _ in self.patterns):
            return None
        suggestion = suggest(name, (*self.suggested, f"{SCRIPTED}:default"))
        return Wrong("unknown-model", f"there is no model `{name}`", suggestion)

    def no_provider(self, name: str, *, scripted: bool = False) -> Wrong | None:
        if name in self.providers or (scripted and name == SCRIPTED):
            return None
        return Wrong(
            "unknown-provider",
            f"there is no provider `{name}`",
            suggest(name, [*self.providers, *([SCRIPTED] if scripted else [])]),
        )

    def no_tier(self, name: str) -> Wrong | None:
        if name.casefold() in map(str.casefold, self.tiers):
            return None
        return Wrong("unknown-tier", f"there is no tier `{name}`", suggest(name, self.tiers))

    def way(self, name: str) -> list[str]:
        """The names through which tiers and aliases lead; the last one is there twice where they never end."""
        way = [name]
        while (after := self.symbols.get(way[-1].casefold())) is not None and len(way) <= MOST_STEPS:
            known = after.casefold() in map(str.casefold, way)
            way.append(after)
            if known:
                break
        return way

    def endless(self, name: str) -> Wrong | None:
        """Why tiers and aliases lead nowhere from a name."""
        way = self.way(name)
        if way[-1].casefold() not in self.symbols:
            return None
        if len(way) > MOST_STEPS:
            return Wrong("cycle", f"`{name}` leads through more than {MOST_STEPS} other names", "name the model")
        return Wrong("cycle", f"`{name}` leads back to itself: {' -> '.join(way)}", "name a model")

    def provider_of(self, name: str) -> str | None:
        """Whose model a name means; None where nobody knows."""
        last = self.way(name)[-1]
        provider, colon, _ = last.partition(":")
        if (of := self.intents.get(last.casefold())) is not None:
            return of
        if colon:
            return provider
        matching = (owner for pattern, owner in self.patterns if fnmatchcase(last, pattern))
        return self.listed.get(last) or next(matching, None)


def check_names(layers: Iterable[Layer], data: Mapping[str, Any], problems: Problems) -> None:
    """Report each name in the files `config/models.yaml` that leads to no model or provider, where it stands."""
    names = ModelNames.of(data)
    for layer in layers:
        for span, wrong in _wrong(layer, names):
            problems.report(span, *wrong)


def _wrong(layer: Layer, names: ModelNames) -> Iterator[tuple[Span, Wrong]]:
    for part in ("tiers", "aliases"):
        for name, entry in _entries(layer.get(part)):
            if (node := _text(entry.value)) is not None:
                yield from _at(node, names.wrong(str(node.value)) or names.endless(name))
    prefer = layer.get("prefer")
    for item in prefer.items if isinstance(prefer, Sequence) else ():
        yield from _at(item, names.no_provider(str(plain(item))))
    elsewhere = layer.get("elsewhere")
    for item in elsewhere.items if isinstance(elsewhere, Sequence) else ():
        yield from _at(item, names.no_tier(str(plain(item))))
    for _, entry in _entries(layer.get("intents")):
        for key, inner in _entries(entry.value):
            if key == "provider":
                yield from _at(inner.value, names.no_provider(str(plain(inner.value))))
    for name, entry in _entries(layer.get("providers")):
        for key, inner in _entries(entry.value):
            if key in ("strong", "fast") and (node := _text(inner.value)) is not None and node.value:
                yield from _at(node, names.wrong(str(node.value)) or _others(names, name, str(node.value)))
    for name, entry in _entries(layer.get("models")):
        provider, _, model = name.partition(":")
        no_name = Wrong("name", f"`{name}` names no provider", "write `provider:model`")
        wrong = names.no_provider(provider, scripted=True) if model else no_name
        yield from _at(entry.key, wrong)


def _others(names: ModelNames, provider: str, name: str) -> Wrong | None:
    """Why a provider cannot stand in with this model: it is not its own."""
    owner = names.provider_of(name)
    if owner in (None, provider):
        return None
    return Wrong("provider", f"`{name}` is a model of `{owner}`", f"`{provider}` stands in with models of its own")


def _at(node: Node, wrong: Wrong | None) -> Iterator[tuple[Span, Wrong]]:
    if wrong is not None:
        yield node.span, wrong


def _text(node: Node) -> Scalar | None:
    return node if isinstance(node, Scalar) and isinstance(node.value, str) else None


def _entries(node: Node | None) -> Iterator[tuple[str, MappingEntry]]:
    if isinstance(node, Layer):
        yield from node.entries.items()
