"""Finds the settings of a project that need the user's consent, and the file that sets each provider's address.

Settings that cannot send a key or prompt anywhere need no consent: tiers, names, prices, numbers, and the project's
providers that run on this machine and have no key. This module stores the consent, but does not ask for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillrun import registry
from skillrun.library.library import Config, Library
from skillrun.library.models_yaml import AddressError, merge_models, parse_address, user_addresses
from skillrun.library.roots import PROJECT
from skillrun.repository.paths import is_user_owned
from skillrun.syntax.diagnostics import Problems, SkillrunError
from skillrun.syntax.reading import open_file
from skillrun.syntax.source import Span, entries_of, to_plain

LARGEST: Final = 100_000  # bytes; a larger file is not a consent file
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


# the consent, which is kept outside the project, and is valid only for exactly what the user has seen


def has_consent(project: Path, digest: str) -> bool:
    """Whether the user has consented to this digest in this project. A damaged file counts as no consent."""
    consent = _read_consent(_consent_path(project))
    return consent.get("project") == os.path.realpath(project) and consent.get("digest") == digest


def save_consent(project: Path, digest: str, lines: list[str]) -> Path:
    """Save a consent, which replaces the previous one. `lines` is what was shown to the user. Raises SkillrunError."""
    path = _consent_path(project)
    if not path.is_absolute():
        raise SkillrunError(f"the consent cannot be saved in {path.parent}", "set XDG_DATA_HOME to an absolute path")
    record = {"project": os.path.realpath(project), "digest": digest, "told": lines}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".partial")  # the file's mode is 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SkillrunError(f"the consent cannot be saved: {error}", "check the permissions of its folder") from None
    if not has_consent(project, digest):
        path.unlink(missing_ok=True)
        raise SkillrunError(
            f"the consent cannot be saved in {path.parent}: other users could write to it",
            "set XDG_DATA_HOME to a folder that supports file modes, or use --trust-project for one command",
        )
    return path


def revoke_consent(project: Path) -> bool:
    """Revoke the consent for a project, and return whether there was one. Raises SkillrunError."""
    try:
        _consent_path(project).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SkillrunError(f"the consent cannot be revoked: {error}", "check the permissions of its folder") from None
    return True


def _consent_path(project: Path) -> Path:
    from platformdirs import user_data_path

    name = hashlib.sha256(os.fsencode(os.path.realpath(project))).hexdigest()[:32]
    return user_data_path("skillrun") / "trust" / f"{name}.json"


def _read_consent(path: Path) -> dict[str, Any]:
    """Return the content of the consent file. Empty if it is damaged, or if another user may have written it."""
    if not path.is_absolute():  # a relative path would depend on the current directory
        return {}
    with suppress(OSError, ValueError, RecursionError):
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            content = file.read(LARGEST + 1)
        is_untrusted = status.st_mode & 0o022 or not is_user_owned(status, path.parent)
        consent = json.loads(content) if len(content) <= LARGEST and not is_untrusted else {}
        return consent if isinstance(consent, dict) else {}
    return {}
