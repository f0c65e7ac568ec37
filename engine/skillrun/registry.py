"""The names that extensions register, and where each object is defined.

Built-in extensions are a literal table. Installed packages register by entry points in groups of the same names, such
as `skillrun.listeners`. Their `entry_points.txt` is read directly, since importing `importlib.metadata` takes 60 ms.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, get_args

Group = Literal["checks", "commands", "listeners", "outlines", "stores"]
BUILT_IN: Final[dict[Group, dict[str, str]]] = {
    "checks": {"cases": "skillrun.extensions.testing.problems:check_cases"},
    "commands": {},  # `cli.registry` lists the built-in commands, with their line in the help
    "listeners": {"traces": "skillrun.extensions.workers.telemetry.tracing:open_spans"},
    "outlines": {"tree-sitter": "skillrun.extensions.outline.parser:DefinitionParser"},
    "stores": {"postgres": "skillrun.extensions.workers.commands.open_store:open_store"},
}
PREFIX: Final = "skillrun."


def names(group: Group) -> dict[str, str]:
    """Every registered name of a group with its place, `module:attribute`. A package cannot replace a built-in name."""
    return {**_read_entry_points().get(group, {}), **BUILT_IN[group]}


def load(group: Group, name: str) -> Any:
    """Import and return a registered object. Raises KeyError if the name is not registered."""
    return import_object(BUILT_IN[group].get(name) or names(group)[name])


def import_object(place: str) -> Any:
    """Import the object at a place, `module:attribute`."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


@cache
def _read_entry_points() -> dict[str, dict[str, str]]:
    """The entry points of installed packages, by group."""
    entries: dict[str, dict[str, str]] = {}
    for folder in filter(os.path.isdir, sys.path):
        for package in os.scandir(folder):
            path = os.path.join(package.path, "entry_points.txt")  # noqa: PTH118 (pathlib takes three times as long)
            if package.name.endswith(".dist-info") and os.path.isfile(path):  # noqa: PTH113
                with open(path, encoding="utf-8") as file:  # noqa: PTH123
                    text = file.read()
                if f"[{PREFIX}" in text:
                    _parse(text, entries)
    return entries


def _parse(text: str, entries: dict[str, dict[str, str]]) -> None:
    import configparser

    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    for group in get_args(Group):
        if parser.has_section(PREFIX + group):
            entries.setdefault(group, {}).update(parser[PREFIX + group])
