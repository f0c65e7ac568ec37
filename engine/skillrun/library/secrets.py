"""Reads the patterns of secret file names from `config/skillrun.yaml`; a project can only add patterns."""

from __future__ import annotations

from typing import Final

from skillrun.library.library import Library
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Mapping, Scalar, Sequence

CONFIG: Final = "skillrun"


def secret_names(library: Library) -> tuple[str, ...]:
    """Return the patterns in the order in which they apply.

    The user's patterns (or the shipped ones, if the user has none) come first, then the project's.
    """
    config = library.config(CONFIG)
    names: list[str] = []
    for layer in reversed(config.layers if config is not None else ()):
        items = _items(layer)
        if _is_of_project(layer, library):
            names += [str(item.value) for item in items or () if not _is_negation(item)]
        elif items is not None:
            names = [str(item.value) for item in items]
    return tuple(names)


def check_secret_names(library: Library, problems: Problems) -> None:
    """Report negated patterns in a project's list."""
    config = library.config(CONFIG)
    for layer in config.layers if config is not None else ():
        for item in _items(layer) or () if _is_of_project(layer, library) else ():
            if _is_negation(item):
                message = f"`{item.value}` would allow a withheld name; a project can only add names to withhold"
                problems.report(
                    item.span, "withheld", message, "put a list in your config folder to replace the shipped one"
                )


def _is_of_project(layer: Mapping, library: Library) -> bool:
    return library.files.get(("project", f"config/{CONFIG}.yaml")) is layer.span.source


def _items(layer: Mapping) -> list[Scalar] | None:
    """Return the patterns in one config file; None if the file does not list any."""
    part = layer.get("repository")
    withheld = part.get("withheld") if isinstance(part, Mapping) else None
    return [item for item in withheld.items if isinstance(item, Scalar)] if isinstance(withheld, Sequence) else None


def _is_negation(item: Scalar) -> bool:
    return str(item.value).startswith("!")
