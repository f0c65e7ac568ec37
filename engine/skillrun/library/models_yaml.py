"""Checks the providers in `config/models.yaml` files: first each file, then each merged provider.

Invalid settings are reported and removed, so that they cannot take effect.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Any, Final

from skillrun import registry
from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import Key, Keys
from skillrun.library.configuration import merge, overlay
from skillrun.library.roots import PROJECT, USER
from skillrun.syntax.diagnostics import Problems, allowed_hint, suggest
from skillrun.syntax.source import Mapping, MappingEntry, Node, Scalar, entries_of, to_plain
from skillrun.types.schemas import quote_value

PROVIDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,59}")  # only capitals, because a pasted key contains other letters
PROVIDER_HINT: Final = "use at most 40 letters, digits, `-`, `_` and `.`, starting with a letter or digit"
VARIABLE_HINT: Final = (
    "use capital letters, digits and `_`, such as `MY_API_KEY`; set the key itself in the environment"
)
HTTP_HINT: Final = "use https, or set exactly this address in your config folder"
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#\\]*)(?P<rest>.*)", re.DOTALL)
_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")
_THIS_MACHINE: Final = IPv4Network("127.0.0.0/8")
PRICE_HINT: Final = "put the price into `config/models.yaml` in your config folder"
USER_ONLY_KEYS: Final = ("embedded",)  # settings for native code and downloads
MAX_NAMES: Final = 1_000  # of tiers, aliases or intents per file
Layers = tuple[tuple[str, Mapping], ...]


def _count(doc: str, least: int = 1) -> Key:
    return Key("integer", doc, least=least, most=10**12)


def _number(doc: str) -> Key:
    return Key("number", doc, least=0, most=10**9)


RATES: Final[Keys] = {
    "input": _number("dollars per million tokens"),
    "output": _number("dollars per million tokens"),
    "cache_read": _number("dollars per million tokens read from a cache"),
    "cache_write": _number("dollars per million tokens written to a cache"),
}
PRICE_KEYS: Final = frozenset({*RATES, "above", "long"})
TABLES: Final[dict[str, Keys]] = {
    "intents": {
        "provider": Key("text", "write the provider whose model list the intent chooses from", True),
        "match": Key("text", "write a pattern for model names in the provider's list", True),
        "fallback": Key("text", "write the model to use if the provider's list is unavailable", True),
        "tier": Key("choice", "the tier to use on another provider", values=("strong", "fast")),
    },
    "providers": {
        "kind": Key("choice", "the API that it provides", True, tuple(registry.BUILT_IN["providers"])),
        "base_url": Key("address", "write its base URL", True),
        "key": Key("variable", 'the environment variable with its key; `""` if it needs no key'),
        "names": Key("text", "a pattern for the bare names of its models"),
        "strong": Key("text", "its model for `strong` if it replaces another provider"),
        "fast": Key("text", "its model for `fast` if it replaces another provider"),
        "window": _count("tokens"),
        "max_output": _count("tokens"),
        "thinking": _count("tokens", 0),
        "concurrency": _count("calls at once"),
        "timeout": _number("seconds for one attempt"),
        "tools": Key("boolean", "whether its models support tools"),
        "records": Key("boolean", "whether its models follow an instruction to end a document with a record"),
        "structured_output": Key(
            "choice", "how a schema is sent", values=("json_schema", "tool", "json_object", "prompt")
        ),
        "tools_with_schema": Key("choice", "how a schema is sent next to tools", values=("native", "tool")),
        "system_prompt": Key("choice", "the turn that holds the system prompt", values=("system", "user")),
        "output_limit": Key(
            "choice",
            "the field that limits the length of a reply",
            values=("max_tokens", "max_completion_tokens", "none"),
        ),
        "omit": Key(
            "list",
            "fields that requests leave out",
            values=(
                "tool_choice",
                "cache_control",
                "store",
                "include",
                "reasoning",
                "reasoning_content",
                "thinking",
                "strict",
                "stream",
                "parallel_tool_calls",
            ),
        ),
    },
    "models": {
        "window": _count("tokens"),
        "max_output": _count("tokens"),
        **RATES,
        "above": _count("input tokens above which the `long` rates apply", 0),
        "long": Key("rates", "the rates of a long call"),
    },
}
RECORDS: Final[dict[str, Keys]] = {
    "embedded": {
        **{name: Key("text", "text") for name in ("package", "version", "wheel", "file", "sha256", "path")},
        "seed": _count("a number", 0),
    },
    "retry": {
        "attempts": _count("attempts of a call in total"),
        "seconds": _number("seconds in total"),
        "first": _number("seconds before the first retry"),
    },
}


def sanitize_layers(layers: Layers, problems: Problems) -> Layers:
    """Return the layers without forbidden settings.

    Each layer comes with the name of its root; the strongest layer is first.
    """
    addresses = user_addresses(layers)
    for _, layer in layers:
        for entry in entries_of(layer.get("providers")).values():
            fields = entries_of(entry.value)
            for key, is_valid in (("base_url", _is_address), ("key", _is_variable)):
                if key in fields and not is_valid(fields[key].value):  # it may be a key or a password
                    span = fields[key].value.span
                    span.source.hide(span.line)
    sanitized = tuple((root, _Layer(root, addresses, problems).sanitize(layer)) for root, layer in layers)
    _check_complete(layers, sanitized, problems)
    others = [layer for root, layer in sanitized if root != PROJECT]
    prices = merge_models(others, Problems()).get("models", {}) if others else {}
    return tuple(
        (root, _keep_prices(layer, prices, problems) if root == PROJECT else layer) for root, layer in sanitized
    )


def user_addresses(layers: Iterable[tuple[str, Mapping]]) -> frozenset[str]:
    """Return the base URLs in the user's file."""
    providers = (entries_of(layer.get("providers")) for root, layer in layers if root == USER)
    written = (entries_of(entry.value).get("base_url") for entries in providers for entry in entries.values())
    return frozenset(str(to_plain(entry.value)) for entry in written if entry is not None)


class _Layer(Reader):
    """Reads the layer of one root."""

    def __init__(self, root: str, addresses: frozenset[str], problems: Problems) -> None:
        super().__init__(problems, literal=True)
        self.root = root
        self.addresses = addresses

    def sanitize(self, layer: Mapping) -> Mapping:
        entries = dict(layer.entries)
        for name in USER_ONLY_KEYS if self.root == PROJECT else ():
            if entry := entries.pop(name, None):
                message = (
                    f"a project cannot set `{name}`: only your user config can define models that run in the process"
                )
                hint = "move it to `config/models.yaml` in your config folder"
                self.report(entry.key.span, "users-only", message, hint)
        for part in ("tiers", "aliases", "intents"):
            if part in entries:
                entries[part] = self.read_aliases(entries[part])
        for part in TABLES.keys() & entries.keys():
            entries[part] = self.read_table(part, entries[part])
        for part in RECORDS.keys() & entries.keys():
            entries[part] = self.read_record(entries[part], RECORDS[part])
        return Mapping(entries, layer.span)

    def read_aliases(self, entry: MappingEntry) -> MappingEntry:
        """Return tiers, aliases or intents. Names that already refer to a model are reported and removed."""
        if not isinstance(entry.value, Mapping):
            return entry
        kept = dict(entry.value.entries)
        if len(kept) > MAX_NAMES:
            message = f"there are {len(kept):,} names; at most {MAX_NAMES:,} are allowed"
            self.report(entry.key.span, "too-many", message)
            return MappingEntry(entry.key, Mapping({}, entry.value.span))
        for name, symbol in entry.value.entries.items():
            if ":" in name or (self.root == PROJECT and name.casefold() == "embedded"):
                hint = "choose another name: `provider:model` is a provider's model, and `embedded` is built in"
                self.report(symbol.key.span, "name", f"`{name}` already refers to a model", hint)
                del kept[name]
        return MappingEntry(entry.key, Mapping(kept, entry.value.span))

    def read_table(self, part: str, entry: MappingEntry) -> MappingEntry:
        """Return the records of a part, keyed by name and reduced to their valid fields."""
        kept = {}
        for name, record in self.mapping_entries(entry.value).items():
            if part == "providers" and (name == "scripted" or not PROVIDER.fullmatch(name)):
                is_reserved = name == "scripted"
                message = "`scripted` is reserved for tests" if is_reserved else "this is not a valid provider name"
                self.report(record.key.span, "name", message, PROVIDER_HINT)
            else:
                kept[name] = self.read_record(record, TABLES[part])
        return MappingEntry(entry.key, Mapping(kept, entry.value.span))

    def read_record(self, entry: MappingEntry, keys: Keys) -> MappingEntry:
        """Return a record, reduced to its valid fields."""
        written = Mapping(self.mapping_entries(entry.value), entry.value.span)
        fields = self.read(written, {name: replace(key, required=False) for name, key in keys.items()})
        kept = {name: entry for name, entry in written.entries.items() if name in fields}
        return MappingEntry(entry.key, written._replace(entries=kept))

    def mapping_entries(self, node: Node) -> dict[str, MappingEntry]:
        """Return the entries of a mapping. For any other value, report it and return no entries."""
        if isinstance(node, Mapping):
            return node.entries
        if to_plain(node) is not None:
            self.report_wrong_type(node, "a mapping")
        return {}

    # single values: None if they are not allowed

    def read_key_value(self, name: str, key: Key, node: Node) -> Any:
        match key.kind:
            case "choice" if name == "kind" and to_plain(node) not in key.values:
                key = replace(key, values=tuple(registry.names("providers")))
            case "address":
                return self.read_base_url(node)
            case "variable" if _is_variable(node):
                return to_plain(node)
            case "variable":
                message = "this is not a valid name of an environment variable"
                self.report(node.span, "variable", message, VARIABLE_HINT)
                return None
            case "list":
                items = to_plain(node)
                wrong = [item for item in items if item not in key.values] if isinstance(items, list) else [items]
                if wrong:
                    message = f"`{name}` cannot have the value {quote_value(wrong[0])}"
                    self.report(node.span, "choice", message, allowed_hint(key.values))
                    return None
                return items
            case "rates":
                problem_count = len(self.problems)
                rates = self.read(node, RATES)
                return rates if len(self.problems) == problem_count else None
            case "integer" | "number" | "boolean" if isinstance(to_plain(node), str):  # possibly a pasted key
                expected = {"integer": "a whole number", "number": "a number"}.get(key.kind, "true or false")
                self.report(node.span, "type", f"`{name}` is text", f"expected {expected}")
                return None
        return super().read_key_value(name, key, node)

    def read_base_url(self, node: Node) -> Any:
        url = to_plain(node)
        if url == "":
            return url
        try:
            address = _parse_base_url(node)
        except AddressError as error:
            hint = "write it as `https://host/v1`; keys belong in the environment"
            self.report(node.span, "address", f"this is not a valid base_url: {error}", hint)
            return None
        if address.is_insecure and self.root != USER and url not in self.addresses:
            message = f"calls to {address.host} would not be encrypted; plain http is allowed only for this machine"
            self.report(node.span, "address", message, HTTP_HINT)
            return None
        return url


def _keep_prices(layer: Mapping, prices: dict[str, Any], problems: Problems) -> Mapping:
    """Return a project's layer without prices below those of the other layers, so that a budget in dollars holds."""
    models = layer.entries.get("models")
    if models is None:
        return layer
    kept = dict(entries_of(models.value))
    for name, entry in kept.items():
        known, fields = prices.get(name, {}), entries_of(entry.value)
        if _is_cheaper(overlay(known, {key: to_plain(each.value) for key, each in fields.items()}), known):
            message = f"a project cannot lower the price of `{name}`; the price of your config is used"
            problems.report(entry.key.span, "users-only", message, PRICE_HINT, "warning")
            others = {key: each for key, each in fields.items() if key not in PRICE_KEYS}
            kept[name] = MappingEntry(entry.key, Mapping(others, entry.value.span))
    table = MappingEntry(models.key, Mapping(kept, models.value.span))
    return layer._replace(entries={**layer.entries, "models": table})


def _is_cheaper(price: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether a call of any size costs less at `price` than at the `known` price. Both are entries of the table."""
    (short, long, above), (known_short, known_long, known_above) = map(_split_price, (price, known))
    if not (known_short and short):
        return bool(known_short)
    pairs = [(short, known_short), (long, known_long)]
    if above != known_above:
        pairs.append((short, known_long) if above > known_above else (long, known_short))
    return any(rate < least for new, old in pairs for rate, least in zip(new, old, strict=False))


def _split_price(entry: dict[str, Any]) -> tuple[list[float], list[float], float]:
    """Return the rates of a call, the rates of a long call, and the number of tokens above which a call is long.

    The rates are empty if the price is unknown. An entry without `long` rates charges every call the same.
    """
    short, long = (
        [part["input"] if part.get(name) is None else part[name] for name in RATES] if is_priced(part) else []
        for part in (entry, entry.get("long") or {})
    )
    return (short, long, entry.get("above") or 0) if long else (short, short, math.inf)


def is_priced(entry: AbstractMapping[str, Any]) -> bool:
    """Whether an entry of the table has the rates of input and output, without which the price is unknown."""
    return entry.get("input") is not None and entry.get("output") is not None


def merge_models(layers: Iterable[Mapping], problems: Problems) -> dict[str, Any]:
    """Return the merged data of sanitized layers, given strongest first.

    Remaining invalid values are reported and omitted.
    """
    checked = TABLES.keys() | RECORDS.keys()
    layers = tuple(layers)
    others = [
        layer._replace(entries={key: e for key, e in layer.entries.items() if key not in checked}) for layer in layers
    ]
    data = merge(others, problems)
    for layer in reversed(layers):
        data = overlay(data, {key: to_plain(e.value) for key, e in layer.entries.items() if key in checked})
    return data


def _parse_base_url(node: Node) -> Address:
    url = to_plain(node)
    return parse_address(url if isinstance(url, str) else "")


def _is_variable(node: Node) -> bool:
    name = to_plain(node)
    return isinstance(name, str) and (not name or VARIABLE.fullmatch(name) is not None)


def _is_address(node: Node) -> bool:
    if to_plain(node) == "":  # the embedded model has no address
        return True
    try:
        _parse_base_url(node)
    except AddressError:
        return False
    return True


def _check_complete(layers: Layers, kept: Layers, problems: Problems) -> None:
    """Report records that lack required keys. Records with other problems are skipped."""
    for part, keys in TABLES.items():
        written = _merge_records(layers, part)
        entries = {name: entry for _, layer in reversed(kept) for name, entry in entries_of(layer.get(part)).items()}
        for name, fields in _merge_records(kept, part).items():
            if fields != written[name]:
                continue
            local = part == "providers" and fields.get("kind") == "embedded"
            lacking = (key for key, rule in keys.items() if rule.required and not fields.get(key))
            lacks = next((key for key in lacking if not (local and key == "base_url")), None)
            if lacks is not None:
                hint = suggest("", keys[lacks].values, keys[lacks].doc)
                problems.report(entries[name].key.span, "missing-key", f"`{name}` has no `{lacks}`", hint)
            elif local and (fields.get("base_url") or fields.get("key")):
                message = f"`{name}` is embedded and cannot have an address or a key"
                problems.report(entries[name].key.span, "address", message)


def _merge_records(layers: Layers, part: str) -> dict[str, dict[str, Any]]:
    """Return the merged records of a table; the strongest layer is first."""
    records: dict[str, dict[str, Any]] = {}
    for _, layer in reversed(layers):
        for name, entry in entries_of(layer.get(part)).items():
            fields = entries_of(entry.value).items()
            values = {key: field.value.value for key, field in fields if isinstance(field.value, Scalar)}
            records.setdefault(name, {}).update({key: value for key, value in values.items() if value is not None})
    return records


# base URLs: stricter than the URL standard, so that requests go to exactly the address that was validated


@dataclass(frozen=True)
class Address:
    """A valid base URL: http or https, with a host and without secrets."""

    scheme: str
    host: str

    @property
    def is_local(self) -> bool:
        """Whether the host is localhost, in 127.0.0.0/8, or ::1; any other spelling counts as remote."""
        host = self.host.strip("[]").lower()
        if host == "localhost":
            return True
        try:
            return IPv6Address(host) == IPv6Address("::1") if ":" in host else IPv4Address(host) in _THIS_MACHINE
        except AddressValueError:
            return False

    @property
    def is_insecure(self) -> bool:
        """Whether requests to this address are sent unencrypted over the network."""
        return self.scheme == "http" and not self.is_local


class AddressError(ValueError):
    """Raised for a text that is not a valid address. The message never contains the text, because it can include a
    password."""


def parse_address(url: str) -> Address:
    """Parse a base URL. Raises AddressError."""
    match = _URL.fullmatch(url)
    if match is None:
        raise AddressError("it is not a URL such as `https://host/v1`")
    if match["scheme"].lower() not in ("http", "https"):
        raise AddressError("its scheme is not http or https")
    if "@" in match["authority"]:
        raise AddressError("it contains a user or a password")
    place = _HOST.fullmatch(match["authority"])
    if place is None:
        raise AddressError("its host is missing or invalid")
    if place["port"] is not None and not 1 <= int(place["port"]) <= 65535:
        raise AddressError("its port is not between 1 and 65535")
    if place["host"].startswith("["):
        try:
            IPv6Address(place["host"][1:-1])
        except AddressValueError:
            raise AddressError("its host is not a valid IPv6 address") from None
    if "?" in match["rest"] or "#" in match["rest"]:
        raise AddressError("it has a query or a fragment; only a path is allowed after the host")
    if not _PATH.fullmatch(match["rest"]):
        raise AddressError("its path contains invalid characters")
    return Address(match["scheme"].lower(), place["host"])
