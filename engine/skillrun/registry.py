"""Finds and imports the objects that extensions register.

Built-in objects are in the table `BUILT_IN`. An installed package registers an object with an entry point in a group
such as `skillrun.listeners`. The file `entry_points.txt` is read directly, since importing `importlib.metadata` takes
60 ms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, get_args

Group = Literal["checks", "commands", "listeners", "outlines", "providers", "reports", "stores", "tools"]
BUILT_IN: Final[dict[Group, dict[str, str]]] = {
    "checks": {"cases": "skillrun.extensions.testing.checking:check_cases"},
    "commands": {},  # the built-in commands are in `cli.registry`
    "listeners": {"traces": "skillrun.extensions.workers.tracing:open_spans"},
    "outlines": {"tree-sitter": "skillrun.extensions.outline.parser:DefinitionParser"},
    "providers": {
        "anthropic": "skillrun.models.providers:open_client",
        "responses": "skillrun.models.providers:open_client",
        "openai": "skillrun.models.providers:open_client",
        "embedded": "skillrun.models.embedded:open_client",
    },
    "reports": {},  # the sections of the built-in report are in its template
    "stores": dict.fromkeys(("postgresql", "postgres"), "skillrun.extensions.workers.commands.open_store:open_store"),
    "tools": {
        "Read": "skillrun.repository.repository:READ",
        "Outline": "skillrun.repository.repository:OUTLINE",
        "Grep": "skillrun.repository.repository:GREP",
        "Glob": "skillrun.repository.repository:GLOB",
        "List": "skillrun.repository.repository:LIST",
    },
}
PREFIX: Final = "skillrun."


def names(group: Group) -> dict[str, str]:
    """Return the place (`module:attribute`) of each registered object of a group, keyed by name. A built-in object has
    priority over an object of a package with the same name."""
    return {**BUILT_IN[group], **read_entry_points().get(group, {}), **BUILT_IN[group]}


def is_registered(group: Group, name: str) -> bool:
    """Whether a name is registered. The entry points of packages are read only for a name that is not built in."""
    return name in BUILT_IN[group] or name in names(group)


def load(group: Group, name: str) -> Any:
    """Import and return a registered object.

    Raises KeyError if the name is not registered, and UsageError if an installed package fails to load.
    """
    if name in BUILT_IN[group]:
        return import_object(BUILT_IN[group][name])
    place = names(group)[name]
    try:
        return import_object(place)
    except Exception as error:
        from skillrun.syntax.diagnostics import UsageError

        reason = str(error) or type(error).__name__
        hint = f"reinstall or remove the package of `{place}`"
        raise UsageError(f"the extension `{name}` failed to load: {reason}", hint) from error


@contextmanager
def report_failure(group: Group, name: str) -> Iterator[None]:
    """Convert an error in the block, which calls a registered object of a package, to UsageError.

    A SkillrunError, and any error of a built-in object, is raised unchanged.
    """
    from skillrun.syntax.diagnostics import SkillrunError, UsageError

    try:
        yield
    except Exception as error:
        if isinstance(error, SkillrunError) or name in BUILT_IN[group]:
            raise
        message = f"the {group[:-1]} `{name}` of an extension failed: {str(error) or type(error).__name__}"
        raise UsageError(message, "report it to the authors of its package, or remove the package") from error


def import_object(place: str) -> Any:
    """Import the object at `module:attribute`."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


@cache
def read_entry_points() -> dict[str, dict[str, str]]:
    """Return the entry points of installed packages, keyed by group and name.

    `python -m` adds the current folder to the search path. This folder is ignored, because a project must not register
    anything.
    """
    entries: dict[str, dict[str, str]] = {}
    current = os.path.realpath(os.curdir)
    for folder in filter(os.path.isdir, sys.path):
        if os.path.realpath(folder) == current or not os.access(folder, os.R_OK):
            continue
        for package in list(os.scandir(folder)):
            path = os.path.join(package.path, "entry_points.txt")  # noqa: PTH118 (pathlib takes three times as long)
            if package.name.endswith(".dist-info") and os.path.isfile(path):  # noqa: PTH113
                with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    text = file.read()
                if f"[{PREFIX}" in text:
                    for group, points in _parse(text, path).items():
                        entries.setdefault(group, {}).update(points)
    return entries


def _parse(text: str, path: str) -> dict[str, dict[str, str]]:
    """Return the entry points in the text of one `entry_points.txt`, keyed by group and name.

    Raises UsageError if the file is invalid.
    """
    import configparser

    from skillrun.syntax.diagnostics import UsageError

    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path} is invalid: {reason}", "reinstall or remove this package") from error
    sections = {group: PREFIX + group for group in get_args(Group)}
    return {group: dict(parser[section]) for group, section in sections.items() if parser.has_section(section)}
