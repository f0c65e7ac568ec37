"""The names of the budget limits of a run, and their defaults without flags."""

from __future__ import annotations

from typing import Final

from skillrun.library.library import Library
from skillrun.syntax.source import to_plain

LIMIT_NAMES: Final = ("calls", "tokens", "price", "minutes")
WORDS: Final = {"calls": "calls", "tokens": "tokens", "price": "dollars", "minutes": "minutes"}


def load_budget(library: Library) -> dict[str, float]:
    """Return the budget limits without flags, by name. A project can only lower the limits of user and library."""
    config = library.config("skillrun")
    layers = zip(config.roots, config.layers, strict=True) if config is not None else ()
    own: dict[str, float] = {}
    projects: dict[str, float] = {}
    for root, layer in layers:  # strongest first
        written = to_plain(layer).get("budgets") or {}
        limits = {name: limit for name, limit in written.items() if isinstance(limit, int | float)}
        if root == "project":
            projects = limits
        else:
            own = {**limits, **own}
    return {**own, **{name: min(limit, own.get(name, limit)) for name, limit in projects.items()}}
