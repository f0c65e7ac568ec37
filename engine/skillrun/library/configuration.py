"""Merges the layers of a config file, resolves feature switches, and checks the parts that the engine reads.

A layer may change keys of the shipped file. It may add entries only to a collection: a mapping whose values are all
mappings, all lists, all texts or all whole numbers (presets, features, categories, limits by mode). Any other new key
is a problem.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import BREAKER_CHOICES, BREAKER_KEYS, FEATURE_KEYS, Keys
from skillrun.syntax.diagnostics import Problems, Suggestion, near_miss, suggest
from skillrun.syntax.source import (
    Mapping,
    MappingEntry,
    Node,
    Scalar,
    Sequence,
    Span,
    entries_of,
    items_of,
    to_plain,
    walk,
)

MODES: Final = "modes"
FEATURES: Final = "features"  # the key of a mode that lists the features that are on


Data = dict[str, Any]


def merge_by_mode(layers: Iterable[Mapping], problems: Problems) -> tuple[Data, dict[str, Data]]:
    """Merge `layers`, given strongest first. Return the merged data, and the data of each mode.

    In a file, a mode overrides the other settings. A stronger file overrides a weaker file, including its modes. If any
    mode sets a key of the config, the returned `modes` have the key in every mode; a mode that does not set it has the
    value of the config. Without modes, the second result is empty.
    """
    layers = tuple(layers)
    shipped = layers[-1]
    known = to_plain(shipped).get(MODES)
    if not known or not isinstance(known, dict) or not all(isinstance(entry, dict) for entry in known.values()):
        return merge(layers, problems), {}
    parts = [to_plain(without_key(shipped, MODES))]
    data = dict(parts[0])
    for layer in reversed(layers[:-1]):
        parts.append(filter_layer(data, without_key(layer, MODES), problems))
        data = overlay(data, parts[-1])
    mode_only = {name: value for entry in known.values() for name, value in entry.items() if name not in data}
    sample = {**data, **mode_only, FEATURES: [""]}
    listed = [_modes_entries(layer, known, sample, problems) for layer in reversed(layers)]
    names = dict.fromkeys(name for entries in listed for name in entries)
    modes: dict[str, Data] = {name: reduce(overlay, (entries.get(name, {}) for entries in listed)) for name in names}
    by_mode = {}
    for name in modes:
        mode_layers: list[Data] = []
        for part, entries in zip(parts, listed, strict=True):
            mode_layers += [part, _shared_values(entries.get(name, {}), data)]
        by_mode[name] = reduce(overlay, mode_layers)
    shared = dict.fromkeys(key for entry in modes.values() for key in _shared_values(entry, data))
    complete = {name: {**entry, **{key: by_mode[name][key] for key in shared}} for name, entry in modes.items()}
    return {**data, MODES: complete}, {name: {**data, MODES: complete} for name, data in by_mode.items()}


def mode_dependent_keys(
    data: AbstractMapping[str, Any], modes: AbstractMapping[str, AbstractMapping[str, Any]]
) -> frozenset[str]:
    """Return the config keys whose value differs in at least one mode."""
    return frozenset(name for values in modes.values() for name in values if values[name] != data.get(name))


def _modes_entries(layer: Mapping, known: Data, sample: Data, problems: Problems) -> dict[str, Data]:
    """Return the modes of a layer, reduced to their valid keys. `sample` has every valid key."""
    node = layer.get(MODES)
    entries = {}
    for name, entry in entries_of(node).items():
        where = f"{MODES}.{name}"
        if name not in known:
            check_entry(known, name, entry, problems, where, is_open=True)
        elif not isinstance(entry.value, Mapping):
            check_entry(known, name, entry, problems, where, is_open=is_collection(known))
        if isinstance(entry.value, Mapping):
            entries[name] = filter_layer(sample, entry.value, problems, where)
    if node is not None and not isinstance(node, Mapping):
        filter_layer({MODES: known}, Mapping({MODES: layer.entries[MODES]}, layer.span), problems)
    return entries


def _shared_values(entry: Data, data: Data) -> Data:
    """Return the values of a mode whose keys the config has too. Other keys exist only in modes."""
    return {key: value for key, value in entry.items() if key in data and key != FEATURES}


ENGINE_KEYS: Final = {"features": FEATURE_KEYS, "breakers": BREAKER_KEYS}  # optional keys of their entries

_TYPES: Final = {  # bool is a subclass of int
    bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a mapping",
}  # fmt: skip


def merge(layers: Iterable[Mapping], problems: Problems) -> dict[str, Any]:
    """Return the merged data of `layers`, given strongest first.

    Unknown keys and wrong types are reported and omitted.
    """
    shipped, *others = reversed(tuple(layers))
    merged: dict[str, Any] = to_plain(shipped)
    for layer in others:
        merged = overlay(merged, filter_layer(merged, layer, problems))
    return merged


def overlay(base: dict[str, Any], layer: dict[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by `layer`. Mappings are merged key by key; any other value is replaced."""
    merged = dict(base)
    for name, value in layer.items():
        both = isinstance(value, dict) and isinstance(base.get(name), dict)
        merged[name] = overlay(base[name], value) if both else value
    return merged


def without_key(layer: Mapping, name: str) -> Mapping:
    """Return a layer without the key `name`."""
    return layer._replace(entries={other: entry for other, entry in layer.entries.items() if other != name})


def filter_layer(
    base: dict[str, Any], layer: Mapping, problems: Problems, path: str = "", *, is_open: bool = False
) -> dict[str, Any]:
    """Return the valid parts of a layer and report the rest.

    `is_open` tells whether the mapping allows new keys.
    """
    accepted: dict[str, Any] = {}
    for name, entry in layer.entries.items():
        key_path, base_value = f"{path}.{name}" if path else name, base.get(name)
        if isinstance(base_value, dict) and isinstance(entry.value, Mapping):
            accepted[name] = filter_layer(
                base_value, entry.value, problems, key_path, is_open=is_collection(base_value)
            )
        elif name in ENGINE_KEYS.get(path.rpartition(".")[0], ()) and name not in base:
            accepted[name] = to_plain(entry.value)  # checked by `check_switches`
        elif check_entry(base, name, entry, problems, key_path, is_open=is_open):
            accepted[name] = to_plain(entry.value)
    return accepted


def check_entry(
    base: dict[str, Any], name: str, entry: MappingEntry, problems: Problems, key_path: str, *, is_open: bool
) -> bool:
    """Return whether an entry changes an existing key or can be added to a collection. Report an entry that does
    neither."""
    if name in base:
        return _check_value(base[name], entry.value, problems, key_path)
    near = near_miss(name, base)
    if not is_open or (near and isinstance(base[near], int)):
        message = f"the shipped config has no `{key_path}`"
        problems.report(entry.key.span, "unknown-key", message, suggest(name, base))
        return False
    if to_plain(entry.value) is None:
        problems.report(entry.key.span, "empty", f"`{key_path}` has no value")
    elif near:
        message, hint = f"the shipped config has no `{key_path}`", Suggestion.of(name, near)
        problems.report(entry.key.span, "unknown-key", message, hint, "warning")
    return _check_value(next(iter(base.values())), entry.value, problems, key_path)


def is_collection(mapping: dict[str, Any]) -> bool:
    """Whether entries can be added: all values are mappings, all are lists, all are texts, or there are several
    numbers."""
    kinds = {_type(value) for value in mapping.values()}
    return kinds in ({"a mapping"}, {"a list"}, {"text"}) or (kinds == {"a whole number"} and len(mapping) > 1)


def _check_value(old: Any, new: Node, problems: Problems, key_path: str) -> bool:
    """Return whether `new` can replace `old`, and report an invalid type. An empty value is not accepted, because it
    changes nothing."""
    value = to_plain(new)
    if value is None:
        return False
    if old is not None and _type(old) != _type(value) and not (isinstance(old, float) and _type(value) == _TYPES[int]):
        problems.report(new.span, "type", f"`{key_path}` is {_type(value)}; the shipped config has {_type(old)}")
        return False
    is_valid = True
    if isinstance(old, list) and isinstance(new, Sequence):  # its records have the fields of the shipped list's records
        fields = {name: value for record in old if isinstance(record, dict) for name, value in record.items()}
        records = [item for item in new.items if fields and isinstance(item, Mapping)]
        for name, entry in (entry for record in records for entry in record.entries.items()):
            is_valid &= check_entry(fields, name, entry, problems, f"{key_path}[].{name}", is_open=False)
    return is_valid


def _type(value: Any) -> str:
    return next((name for kind, name in _TYPES.items() if isinstance(value, kind)), "nothing")


@dataclass(frozen=True)
class Feature:
    """The state of a feature switch in a run: on, or off with the reason."""

    name: str
    on: bool
    because: str = ""


MAX_FEATURES: Final = 200
MAX_REQUIREMENTS: Final = 1_000


def resolve_features(
    features: dict[str, Any], mode: str | None, modes: AbstractMapping[str, Any] = MappingProxyType({})
) -> dict[str, Feature]:
    """Resolve each switch: it is on if it is enabled, matches the mode, and all required features are on.

    A feature matches the modes that it lists. If a feature lists no modes, it matches the modes that list the feature.
    If no mode lists it, it matches all modes. Features in a cycle are off.
    """
    listing: dict[str, set[str]] = {}
    for known, entry in modes.items():
        for name in entry.get("features", ()) if isinstance(entry, dict) else ():
            listing.setdefault(name, set()).add(known)
    resolved: dict[str, Feature] = {}

    def resolve(name: str, path: tuple[str, ...]) -> Feature:
        if name in resolved:
            return resolved[name]
        if name in path:
            return Feature(name, on=False, because="it requires itself")
        entry = features.get(name) or {}
        active_modes = entry["modes"] if "modes" in entry else listing.get(name)
        if not entry.get("enabled", False):
            because = "not enabled"
        elif active_modes and mode is not None and mode not in active_modes:
            because = f"not in {mode} mode"
        else:
            off = [need for need in entry.get("requires") or [] if not resolve(need, (*path, name)).on]
            because = f"needs {', '.join(off)}" if off else ""
        resolved[name] = Feature(name, on=not because, because=because)
        return resolved[name]

    return {name: resolve(name, ()) for name in features}


def check_switches(layer: Mapping, data: dict[str, Any], problems: Problems) -> None:
    """Check the features and breakers of a layer: keys, types, unknown names in `requires`, and cycles."""
    check_breakers(layer, data, problems)
    known = data.get("features") or {}
    needs = sum(len(feature.get("requires") or ()) for feature in known.values() if isinstance(feature, dict))
    if (len(known) > MAX_FEATURES or needs > MAX_REQUIREMENTS) and (span := layer.key_span("features")):
        message = f"there are {len(known):,} features and {needs:,} requirements"
        hint = f"at most {MAX_FEATURES} features and {MAX_REQUIREMENTS} requirements are allowed"
        problems.report(span, "too-many", message, hint)
        data["features"] = {}
        return
    for name, _, feature in _read_entries(layer, "features", FEATURE_KEYS, data, problems):
        for need, span in feature.get("requires", {}).items():
            if need not in known:
                problems.report(span, "unknown-feature", f"there is no feature `{need}`", suggest(need, known))
            elif _reaches(known, need, name):
                problems.report(span, "cycle", f"`{name}` requires itself through `{need}`")
    for mode, entry in entries_of(layer.get("modes")).items():
        if isinstance(entry.value, Mapping):
            check_breakers(entry.value, (data["modes"].get(mode) or {}), problems)
            _report_unknown_items(entry.value.get("features"), "feature", known, problems)


def check_breakers(layer: Mapping, data: dict[str, Any], problems: Problems) -> None:
    """Check the breakers of a layer or of one of its modes: keys, types, and the texts of their questions."""
    for name, node, breaker in _read_entries(layer, "breakers", BREAKER_KEYS, data, problems):
        merged = (data.get("breakers") or {}).get(name)
        if isinstance(node, Mapping) and isinstance(merged, dict):
            _check_question(node, breaker, merged, problems)


def _read_entries(
    layer: Mapping, part: str, keys: Keys, data: dict[str, Any], problems: Problems
) -> Iterator[tuple[str, Node, dict[str, Any]]]:
    """Yield the name, the node and the values of each entry of a part. A required key is optional if a weaker layer
    sets it."""
    node = layer.get(part)
    if node is not None and not isinstance(node, Mapping) and to_plain(node) is not None:
        Reader(problems).report_wrong_type(node, f"a mapping of names to {part}")
    for name, entry in entries_of(node).items():
        below = (data.get(part) or {}).get(name)
        known = below if isinstance(below, dict) else {}
        optional_keys = {key: replace(rule, required=rule.required and key not in known) for key, rule in keys.items()}
        yield name, entry.value, Reader(problems).read(entry.value, optional_keys)


def _check_question(entry: Mapping, breaker: dict[str, Any], merged: dict[str, Any], problems: Problems) -> None:
    """Report `ask` and `choices` in a breaker that does not ask, and choices that are invalid or too few."""
    for key in ("ask", "choices"):
        if key in breaker and merged.get("then") != "ask":
            message = f"`{key}` has no effect, because this breaker does not ask"
            problems.report(entry.entries[key].key.span, "breaker", message, "write `then: ask`, or remove it")
    choices = entry.get("choices")
    if not isinstance(choices, Mapping):
        return
    labels: list[str] = []
    for choice_name, choice in choices.entries.items():
        written = to_plain(choice.value)
        if choice_name not in BREAKER_CHOICES:
            hint = suggest(choice_name, BREAKER_CHOICES)
            problems.report(choice.key.span, "unknown-key", f"unknown choice `{choice_name}`", hint)
        label = " ".join(written.split()).casefold() if isinstance(written, str) else ""
        if not label:
            message, hint = f"`{choice_name}` has no text", "write the label that the user sees"
            problems.report(choice.value.span, "empty", message, hint)
        elif label in labels:
            problems.report(choice.value.span, "duplicate", f"another choice has the text `{written}`")
        labels.append(label)
    if len(merged.get("choices") or ()) < 2:
        hint = f"use at least two of {', '.join(f'`{choice_name}`' for choice_name in BREAKER_CHOICES)}"
        problems.report(choices.span, "breaker", "there are fewer than two choices", hint)


def check_modes(layer: Mapping, modes: Collection[Any], problems: Problems) -> None:
    """Report each mode that a feature of `layer` lists, but that the workflow does not have."""
    for entry in entries_of(layer.get("features")).values():
        listed = entries_of(entry.value).get("modes")
        _report_unknown_items(listed.value if listed is not None else None, "mode", modes, problems)


def _report_unknown_items(listed: Node | None, what: str, known: Collection[Any], problems: Problems) -> None:
    for item in items_of(listed):
        name = to_plain(item)
        if name not in known:
            problems.report(item.span, f"unknown-{what}", f"there is no {what} `{name}`", suggest(str(name), known))


def duplicate_spans(layers: Iterable[Mapping], values: list[Any], member: Any) -> list[Span]:
    """Return where `member` occurs for the second time in each config list that equals `values`."""
    return [
        [item.span for item in node.items if to_plain(item) == member][1]
        for layer in layers
        for node in walk(layer)
        if isinstance(node, Sequence) and to_plain(node) == values
    ]


def _reaches(features: dict[str, Any], start: str, goal: str) -> bool:
    seen: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            entry = features.get(name)
            pending.extend(entry.get("requires") or [] if isinstance(entry, dict) else [])
    return False


# renamed keys: `was: {modes.<mode>.panel: panels.<mode>}` maps new keys to old keys

RENAMES_KEY: Final = "was"
Extracted = tuple[dict[str, str], MappingEntry]


class RenamedKey(NamedTuple):
    """The new and the old path of a key.

    A part `<name>` matches any name, and stands for the matched name in the other path.
    """

    new: tuple[str, ...]
    old: tuple[str, ...]

    def __str__(self) -> str:
        return f"`{'.'.join(self.old)}` is now `{'.'.join(self.new)}`"


def read_renamed_keys(shipped: Mapping, problems: Problems) -> list[RenamedKey]:
    """Return the renames that a config layer declares. Only the renames of the weakest layer apply."""
    node = shipped.get(RENAMES_KEY)
    if node is not None and not isinstance(node, Mapping):
        problems.report(node.span, "type", f"`{RENAMES_KEY}` must be a mapping of new keys to old keys")
        return []
    renames = []
    for new, entry in node.entries.items() if node is not None else ():
        old = to_plain(entry.value)
        rename = RenamedKey(tuple(new.split(".")), tuple(old.split(".") if isinstance(old, str) else ("",)))
        if _is_valid_rename(rename, entry.value.span, problems):
            renames.append(rename)
    return renames


def apply_renames(layer: Mapping, renames: list[RenamedKey], problems: Problems) -> Mapping:
    """Return the layer with all values at their new keys; warn of each old key."""
    for move in renames:
        layer, extracted = _extract(layer, move.old, {})
        for names, entry in extracted:
            new, old = (tuple(names.get(part, part) for part in path) for path in move)
            message, hint = str(RenamedKey(new, old)), "the old key still works; use the new one"
            problems.report(entry.key.span, "moved", message, hint, "warning")
            layer = _insert(layer, new, entry)
    return layer


def _is_valid_rename(rename: RenamedKey, span: Span, problems: Problems) -> bool:
    if not all(rename.old):
        message = f"`{'.'.join(rename.new)}` needs its old key"
        problems.report(span, "moved", message, "write a name such as `hours`, or `lengths.<mode>` for several names")
        return False
    marks = [sorted(part for part in path if _is_placeholder(part)) for path in rename]
    if marks[0] != marks[1] or not all(rename.new) or len(set(marks[0])) < len(marks[0]):
        message = f"`{'.'.join(rename.old)}` does not have the same placeholders as `{'.'.join(rename.new)}`"
        problems.report(span, "moved", message, "use each `<name>` once on both sides")
        return False
    return True


def _is_placeholder(part: str) -> bool:
    return part.startswith("<") and part.endswith(">")


def _extract(node: Mapping, path: tuple[str, ...], names: dict[str, str]) -> tuple[Mapping, list[Extracted]]:
    """Remove the entries at a path, and mappings that become empty.

    Return the remaining mapping and the removed entries, each with the names that the placeholders stand for.
    """
    first, *rest = path
    kept: dict[str, MappingEntry] = {}
    extracted: list[Extracted] = []
    for name, entry in node.entries.items():
        bindings = {**names, first: name} if _is_placeholder(first) else names
        if bindings is names and name != first:
            kept[name] = entry
        elif not rest:
            extracted.append((bindings, entry))
        elif isinstance(entry.value, Mapping):
            inner, inner_extracted = _extract(entry.value, tuple(rest), bindings)
            extracted += inner_extracted
            if inner.entries or not inner_extracted:
                kept[name] = entry._replace(value=inner)
        else:
            kept[name] = entry
    return node._replace(entries=kept), extracted


def _insert(node: Mapping, path: tuple[str, ...], entry: MappingEntry) -> Mapping:
    """Return the mapping with an entry added at a path, unless the path already has a value."""
    first, *rest = path
    existing = node.entries.get(first)
    key = Scalar(first, None, entry.key.span)
    value: Node
    if not rest:
        value = existing.value if existing is not None else entry.value
    elif existing is None:
        value = _insert(Mapping({}, entry.key.span), tuple(rest), entry)
    else:
        value = _insert(existing.value, tuple(rest), entry) if isinstance(existing.value, Mapping) else existing.value
    return node._replace(
        entries={**node.entries, first: MappingEntry(existing.key if existing is not None else key, value)}
    )
