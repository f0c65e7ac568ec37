"""Finds the settings of a project that need the user's consent, and the file that sets each provider's address.

Settings that cannot send a key or prompt anywhere need no consent: tiers, names, prices, numbers, and the project's
providers that run on this machine and have no key. This module does not ask for consent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from skillrun import registry
from skillrun.library.addresses import AddressError, parse_address
from skillrun.library.library import Config, Library
from skillrun.library.models_yaml import merge_models, user_addresses
from skillrun.library.roots import PROJECT
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Span, entries_of, to_plain

ENDPOINT_KEYS: Final = ("kind", "base_url", "key")  # these decide where a call goes, and with which key


@dataclass(frozen=True)
class Endpoint:
    """The API kind and base URL of a provider, and the variable with the key that is sent to it."""

    kind: str = ""
    base_url: str = ""
    key: str = ""

    @property
    def is_built_in(self) -> bool:
        return self.kind in registry.BUILT_IN["providers"]

    @property
    def is_free(self) -> bool:
        """Whether the endpoint needs no consent: it has no key, is on this machine, and its kind is built in.

        A kind from a package needs consent, because its client can send requests to any address.
        """
        if self.key or not self.is_built_in:
            return False
        try:
            return parse_address(self.base_url).is_local if self.base_url else self.kind == "embedded"
        except AddressError:
            return False


@dataclass(frozen=True)
class PrivilegedSetting:
    """A project setting that needs consent.

    `endpoint` is the provider's endpoint with the project's settings; `baseline` is the endpoint without the project's
    settings.
    """

    provider: str
    key: str
    value: str
    span: Span
    endpoint: Endpoint
    baseline: Endpoint | None

    @property
    def location(self) -> str:
        """The file and line of the setting."""
        return f"{self.span.path}:{self.span.line}"


@dataclass(frozen=True)
class Origin:
    """The file that sets a provider's address. `is_user_address` tells whether the user's config has this address."""

    location: str
    is_user_address: bool = False


def find_privileged_settings(library: Library) -> tuple[PrivilegedSetting, ...]:
    """Return the settings of the project that need consent, in file order."""
    models, layers = library.config("models"), library.layers("models")
    if models is None or PROJECT not in models.roots:
        return ()
    project_layer = dict(layers)[PROJECT]
    others = [layer for root, layer in layers if root != PROJECT]
    baseline_endpoints = _endpoints(merge_models(others, Problems()) if others else {})
    settings = []
    for name, endpoint in _endpoints(models.data).items():
        baseline = baseline_endpoints.get(name)
        is_complete = endpoint.kind and endpoint.base_url  # an incomplete endpoint is reported as a problem
        if not is_complete or endpoint == baseline or (baseline is None and endpoint.is_free):
            continue
        wishes = []
        for key in ENDPOINT_KEYS:
            value: str = getattr(endpoint, key)
            span = project_layer.value_span("providers", name, key)
            is_new = baseline is None and (key != "kind" or not endpoint.is_built_in)
            is_changed = baseline is not None and value != getattr(baseline, key)
            if span is not None and (is_new or is_changed):
                wishes.append(PrivilegedSetting(name, f"providers.{name}.{key}", value, span, endpoint, baseline))
        settings += sorted(wishes, key=lambda wish: wish.span.offset)
    return tuple(settings)


def consent_digest(settings: Iterable[PrivilegedSetting]) -> str:
    """Return a digest of the settings to which the user consents.

    It covers files, keys, values and resulting endpoints, but not line numbers.
    """
    entries = [
        [wish.span.path, wish.key, wish.value, *(getattr(wish.endpoint, key) for key in ENDPOINT_KEYS)]
        for wish in settings
    ]
    return hashlib.sha256(json.dumps(sorted(entries)).encode()).hexdigest()


def origins(models: Config) -> dict[str, Origin]:
    """Return which file sets the address of each provider.

    If several files have the effective address, the weakest file counts.
    """
    layers = tuple(zip(models.roots, models.layers, strict=True))
    addresses = user_addresses(layers)
    origins: dict[str, Origin] = {}
    values: dict[str, Any] = {}
    for root, layer in reversed(layers):
        for name in entries_of(layer.get("providers")):
            entry = layer.entry("providers", name, "base_url")
            url = to_plain(entry.value) if entry is not None else None
            if entry is not None and url is not None and url != values.get(name):
                place = "shipped" if root == "library" else f"{entry.value.span.path}:{entry.value.span.line}"
                origins[name], values[name] = Origin(place, is_user_address=url in addresses), url
    return origins


def _endpoints(data: dict[str, Any]) -> dict[str, Endpoint]:
    entries = data.get("providers") or {}
    return {
        name: Endpoint(*(str(entry.get(key) or "") for key in ENDPOINT_KEYS))
        for name, entry in entries.items()
        if isinstance(entry, dict)
    }
