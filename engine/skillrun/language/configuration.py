"""Merges the layers of a config file, and resolves feature switches.

A layer may change what the shipped file has. It may add entries only to a collection: a mapping whose values are all
mappings, all lists or all strings (presets, features, breakers, categories); elsewhere a new key is a problem.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from skillrun.language.diagnostics import Problems, allowed, did_you_mean
from skillrun.language.source import Mapping, Node, Scalar, Sequence, plain


def merge(layers: Iterable[Mapping], problems: Problems) -> dict[str, Any]:
    """The merged data of `layers`, the strongest first. Wrong keys and types are reported and left out."""
    order = list(layers)
    merged: dict[str, Any] = plain(order[-1])
    for layer in reversed(order[:-1]):
        _overlay(merged, layer, problems, "", top=True)
    return merged


def _overlay(base: dict[str, Any], layer: Mapping, problems: Problems, path: str, *, top: bool = False) -> None:
    collection = not top and is_collection(base)
    for name, entry in layer.entries.items():
        where = f"{path}.{name}" if path else name
        if name not in base:
            close = did_you_mean(name, base)
            if not collection or close:
                hint = close or allowed(base)
                problems.report(entry.key.span, "unknown-key", f"the shipped config has no `{where}`", hint, severity="warning" if collection else "error")
            if collection and _fits(next(iter(base.values()), None), entry.value, problems, where):
                base[name] = plain(entry.value)
            continue
        if isinstance(base[name], dict) and isinstance(entry.value, Mapping):
            _overlay(base[name], entry.value, problems, where)
        elif _fits(base[name], entry.value, problems, where):
            base[name] = plain(entry.value)


def is_collection(mapping: dict[str, Any]) -> bool:
    """Whether entries may be added to it: all values are mappings, all are lists, or all are strings."""
    return bool(mapping) and any(all(isinstance(v, kind) for v in mapping.values()) for kind in (dict, list, str))


def _fits(old: Any, new: Node, problems: Problems, where: str) -> bool:
    value = plain(new)
    if old is None or value is None or _type(old) == _type(value) or (_type(old), _type(value)) == ("number", "whole number"):
        return True
    problems.report(new.span, "type", f"`{where}` is {_type(value)}; the shipped config has {_type(old)} there")
    return False


def _type(value: Any) -> str:
    names: list[tuple[type, str]] = [(bool, "true or false"), (int, "a whole number"), (float, "number"), (str, "text"), (list, "a list"), (dict, "a mapping")]
    return next((name for kind, name in names if isinstance(value, kind)), "nothing")


@dataclass(frozen=True)
class Feature:
    """A feature switch as it stands in a run: on or off, and why it is off."""

    name: str
    on: bool
    because: str = ""


def resolve_features(features: dict[str, Any], mode: str | None) -> dict[str, Feature]:
    """Each switch is on when it is enabled, lists the mode and all it requires are on. Cycles count as off."""
    resolved: dict[str, Feature] = {}

    def resolve(name: str, path: tuple[str, ...]) -> Feature:
        if name in resolved:
            return resolved[name]
        entry = features.get(name) or {}
        modes = entry.get("modes")
        because = ""
        if name in path:
            return Feature(name, on=False, because="it requires itself")
        if not entry.get("enabled", False):
            because = "not enabled"
        elif modes and mode is not None and mode not in modes:
            because = f"not in {mode} mode"
        else:
            off = [need for need in entry.get("requires") or [] if not resolve(need, (*path, name)).on]
            because = f"needs {', '.join(off)}" if off else ""
        resolved[name] = Feature(name, on=not because, because=because)
        return resolved[name]

    return {name: resolve(name, ()) for name in features}


def check_features(layer: Mapping, data: dict[str, Any], problems: Problems) -> None:
    """Unknown names in `requires`, and cycles, at the place where they stand."""
    features = layer.get("features")
    known = data.get("features") or {}
    if not isinstance(features, Mapping):
        return
    for name, entry in features.entries.items():
        requires = entry.value.get("requires") if isinstance(entry.value, Mapping) else None
        for item in requires.items if isinstance(requires, Sequence) else ():
            need = item.value if isinstance(item, Scalar) else None
            if need not in known:
                problems.report(item.span, "unknown-feature", f"unknown feature `{need}`", did_you_mean(str(need), known) or allowed(known))
            elif _reaches(known, str(need), name):
                problems.report(item.span, "cycle", f"`{name}` requires itself through `{need}`")


def _reaches(features: dict[str, Any], start: str, goal: str) -> bool:
    seen: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            pending.extend((features.get(name) or {}).get("requires") or [])
    return False
