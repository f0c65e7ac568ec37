"""Merges a config for each of its modes: an entry of `modes` overlays the rest of the config.

Also reads the features that modes list. Does not know the mode of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from skillrun.library.configuration import check_entry, filter_layer, is_collection, merge, overlay, without_key
from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import to_plain

MODES: Final = "modes"
FEATURES: Final = "features"  # in a mode: the list of features that are on


Data = dict[str, Any]


def merge_by_mode(layers: Iterable[source.Mapping], problems: Problems) -> tuple[Data, dict[str, Data]]:
    """Return the merged data of `layers`, strongest first, and the data of each mode (empty without modes).

    A mode overlays its own file, and a stronger file overlays both. Each returned entry of `modes` then has every key
    that any mode overlays, from itself or from the rest of the config.
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
    listed = [_entries(layer, known, sample, problems) for layer in reversed(layers)]
    names = dict.fromkeys(name for entries in listed for name in entries)
    modes = {name: _overlay_all(entries.get(name, {}) for entries in listed) for name in names}
    by_mode = {}
    for name in modes:
        pairs = zip(parts, listed, strict=True)
        by_mode[name] = _overlay_all(
            values for part, entries in pairs for values in (part, _shared_values(entries.get(name, {}), data))
        )
    shared = dict.fromkeys(key for entry in modes.values() for key in _shared_values(entry, data))
    complete = {name: {**entry, **{key: by_mode[name][key] for key in shared}} for name, entry in modes.items()}
    return {**data, MODES: complete}, {name: {**data, MODES: complete} for name, data in by_mode.items()}


def mode_dependent_keys(data: Mapping[str, Any], modes: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The keys of a config that have another value in some mode."""
    return frozenset(name for values in modes.values() for name in values if values[name] != data.get(name))


def _entries(layer: source.Mapping, known: Data, sample: Data, problems: Problems) -> dict[str, Data]:
    """The modes of a layer with their valid keys; `sample` has every key that a mode may have."""
    node = layer.get(MODES)
    entries = {}
    for name, entry in node.entries.items() if isinstance(node, source.Mapping) else ():
        where = f"{MODES}.{name}"
        if name not in known:
            check_entry(known, name, entry, problems, where, is_open=True)
        elif not isinstance(entry.value, source.Mapping):
            check_entry(known, name, entry, problems, where, is_open=is_collection(known))
        if isinstance(entry.value, source.Mapping):
            entries[name] = filter_layer(sample, entry.value, problems, where)
    if node is not None and not isinstance(node, source.Mapping):
        filter_layer({MODES: known}, source.Mapping({MODES: layer.entries[MODES]}, layer.span), problems)
    return entries


def _shared_values(entry: Data, data: Data) -> Data:
    """The values of a mode that overlay the config; the others exist only in modes."""
    return {key: value for key, value in entry.items() if key in data and key != FEATURES}


def _overlay_all(layers: Iterable[Data]) -> Data:
    merged: Data = {}
    for layer in layers:
        merged = overlay(merged, layer)
    return merged
