"""Checks what the files `config/models.yaml` say of providers: each file by itself, then each provider as they make it.

What must not stand there is reported and left out, so that nobody can use it who overlooks the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from skillrun.language.addresses import (
    HTTP_HINT,
    KINDS,
    PROVIDER,
    PROVIDER_HINT,
    VARIABLE,
    VARIABLE_HINT,
    Address,
    AddressError,
    parse_address,
)
from skillrun.language.diagnostics import Problems, suggest
from skillrun.language.source import Entry, Mapping, Node, Scalar, plain

PROJECT: Final = "project"
USER: Final = "user"
USERS_ONLY: Final = ("embedded",)  # what native code reads, and what is fetched
MOST_NAMES: Final = 1_000  # of tiers, aliases or intents in one file
Layers = tuple[tuple[str, Mapping], ...]


def vetted(layers: Layers, problems: Problems) -> Layers:
    """The layers, each with the name of its root and the strongest first, without what they must not say."""
    addresses = users_addresses(layers)
    for _, layer in layers:
        _hide_secrets(layer)
    kept = tuple((root, _Layer(root, addresses, problems).vetted(layer)) for root, layer in layers)
    _check_complete(layers, kept, problems)
    return kept


def users_addresses(layers: Iterable[tuple[str, Mapping]]) -> frozenset[str]:
    """The addresses that the user's own file names."""
    entries = (entry for root, layer in layers if root == USER for _, entry in providers_of(layer))
    written = (entry.value.get("base_url") for entry in entries if isinstance(entry.value, Mapping))
    return frozenset(str(plain(node)) for node in written if node is not None)


def providers_of(layer: Mapping) -> Iterator[tuple[str, Entry]]:
    """The providers that a layer says something of, by name."""
    node = layer.get("providers")
    if isinstance(node, Mapping):
        yield from node.entries.items()


class _Layer:
    """One file; `root` says whose it is."""

    def __init__(self, root: str, addresses: frozenset[str], problems: Problems) -> None:
        self.root = root
        self.addresses = addresses
        self.problems = problems
        self.checks: dict[str, Callable[[Node], bool]] = {
            "kind": self.kind,
            "base_url": self.base_url,
            "key": self.key,
        }

    def vetted(self, layer: Mapping) -> Mapping:
        entries = dict(layer.entries)
        for name in USERS_ONLY if self.root == PROJECT else ():
            if entry := entries.pop(name, None):
                message = f"a project has no `{name}`: only your own config says what runs in the process"
                hint = "put it into `config/models.yaml` of your own config folder"
                self.problems.report(entry.key.span, "users-only", message, hint)
        for section in ("tiers", "aliases", "intents"):
            if section in entries:
                entries[section] = self.symbols(entries[section])
        providers = entries.get("providers")
        if providers is not None and isinstance(providers.value, Mapping):
            kept = {name: self.provider(entry) for name, entry in providers.value.entries.items() if self.named(entry)}
            entries["providers"] = Entry(providers.key, Mapping(kept, providers.value.span))
        return Mapping(entries, layer.span)

    def symbols(self, entry: Entry) -> Entry:
        """Names that stand for models, without those that mean one already: whoever types it is to get that one."""
        if not isinstance(entry.value, Mapping):
            return entry
        kept = dict(entry.value.entries)
        if len(kept) > MOST_NAMES:
            message = f"there are {len(kept):,} names, and at most {MOST_NAMES:,} are looked at"
            self.problems.report(entry.key.span, "too-many", message)
            return Entry(entry.key, Mapping({}, entry.value.span))
        for name, one in entry.value.entries.items():
            if ":" in name or (self.root == PROJECT and name.casefold() == "embedded"):
                hint = "choose another name; one with a `:` is a provider's model, and `embedded` the small model"
                self.problems.report(one.key.span, "name", f"`{name}` means a model already", hint)
                del kept[name]
        return Entry(entry.key, Mapping(kept, entry.value.span))

    def named(self, entry: Entry) -> bool:
        name = str(entry.key.value)
        if PROVIDER.fullmatch(name) and name != "scripted":
            return True
        message = "`scripted` is the model of tests" if name == "scripted" else "this cannot be a provider's name"
        self.problems.report(entry.key.span, "name", message, PROVIDER_HINT)
        return False

    def provider(self, entry: Entry) -> Entry:
        if not isinstance(entry.value, Mapping):
            return entry
        kept = {
            name: one
            for name, one in entry.value.entries.items()
            if name not in self.checks or self.checks[name](one.value)
        }
        return Entry(entry.key, Mapping(kept, entry.value.span))

    # each says whether the value may stand

    def kind(self, node: Node) -> bool:
        value = plain(node)
        if value in KINDS:
            return True
        written = value if isinstance(value, str) else ""
        self.problems.report(node.span, "choice", f"`kind` is `{written}`", suggest(written, KINDS))
        return False

    def base_url(self, node: Node) -> bool:
        url = plain(node)
        if url == "":
            return True
        try:
            address = _address(node)
        except AddressError as error:
            hint = "write it as `https://host/v1`; keys belong into the environment"
            self.problems.report(node.span, "address", f"this cannot be a base_url: {error}", hint)
            return False
        if address.is_open and self.root != USER and url not in self.addresses:
            message = f"calls to {address.host} could be read on their way: plain http is for this machine"
            self.problems.report(node.span, "address", message, HTTP_HINT)
            return False
        return True

    def key(self, node: Node) -> bool:
        if _is_variable(node):
            return True
        message = "this cannot be the name of an environment variable"
        self.problems.report(node.span, "variable", message, VARIABLE_HINT)
        return False


def _address(node: Node) -> Address:
    url = plain(node)
    return parse_address(url if isinstance(url, str) else "")


def _is_variable(node: Node) -> bool:
    name = plain(node)
    return isinstance(name, str) and (not name or VARIABLE.fullmatch(name) is not None)


def _hide_secrets(layer: Mapping) -> None:
    """Keep every problem from quoting a line where a key or a password may stand in place of what belongs there."""
    for _, entry in providers_of(layer):
        found = entry.value.entries if isinstance(entry.value, Mapping) else {}
        for node in (one.value for key, one in found.items() if key in ("base_url", "key")):
            if not (_is_variable(node) or _is_address(node)):
                node.span.source.hide(node.span.line)


def _is_address(node: Node) -> bool:
    try:
        _address(node)
    except AddressError:
        return False
    return True


def _check_complete(layers: Layers, kept: Layers, problems: Problems) -> None:
    """Each provider has a kind, and an address where its kind needs one. One that has a problem already is let be."""
    written = _together(layers)
    spans = {name: entry.key.span for _, layer in reversed(kept) for name, entry in providers_of(layer)}
    for name, found in _together(kept).items():
        if found == written[name]:
            span = spans[name]
            local = found.get("kind") == "embedded"
            if not found.get("kind"):
                problems.report(span, "missing-key", f"`{name}` has no `kind`", suggest("", KINDS))
            elif local and (found.get("base_url") or found.get("key")):
                problems.report(span, "address", f"`{name}` is embedded, and has neither an address nor a key")
            elif not local and not found.get("base_url"):
                problems.report(span, "missing-key", f"`{name}` has no `base_url`", "write where it is reached")


def _together(layers: Layers) -> dict[str, dict[str, Any]]:
    """What the layers say of each provider, the strongest first."""
    found: dict[str, dict[str, Any]] = {}
    for _, layer in reversed(layers):
        for name, entry in providers_of(layer):
            said = entry.value.entries.items() if isinstance(entry.value, Mapping) else ()
            values = {key: one.value.value for key, one in said if isinstance(one.value, Scalar)}
            found.setdefault(name, {}).update({key: value for key, value in values.items() if value is not None})
    return found
