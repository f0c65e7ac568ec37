"""Rechecks a library after a change, and keeps the results of workflows that read no changed file.

Finds the same errors as `check_library`. Some warnings are given only if there are no errors: `check_library` requires
that the whole library has none, a recheck only that the workflow has none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from skillrun.checker.checker import Checker
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.symbols import SymbolTable
from skillrun.syntax.diagnostics import Problem, Problems


@dataclass(frozen=True)
class CheckedPart:
    """The result of checking one workflow, or all files that no workflow uses.

    `library` holds the files that the check read.
    """

    library: Library
    used_names: frozenset[str]
    symbols: SymbolTable
    program: Program | None = None


@dataclass(frozen=True)
class CheckedLibrary:
    """A library with its check results, keyed by workflow; the result for unused files has an empty key."""

    library: Library
    parts: Mapping[str, CheckedPart] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def programs(self) -> dict[str, Program]:
        """The programs of the workflows that could be read."""
        return {name: part.program for name, part in self.parts.items() if part.program is not None}

    @property
    def problems(self) -> list[Problem]:
        """All problems of all files."""
        problems = Problems()
        for library in (self.library, *(part.library for part in self.parts.values())):
            for problem in library.problems:
                problems.add(problem)
        return list(problems)


class CheckOutdated(Exception):
    """The library has changed again, so this check is outdated."""


def recheck(
    library: Library,
    commands: Collection[str],
    earlier: CheckedLibrary | None = None,
    is_outdated: Callable[[], bool] = lambda: False,
) -> CheckedLibrary:
    """Check the library, reusing the results of the earlier check for parts that read no changed file.

    Raises CheckOutdated as soon as `is_outdated` returns true.
    """
    earlier_parts: Mapping[str, CheckedPart] = earlier.parts if earlier is not None else {}
    parts: dict[str, CheckedPart] = {}
    for name in library.names("workflows"):
        part = earlier_parts.get(name)
        if part is None or not library.matches(part.library):
            if is_outdated():
                raise CheckOutdated
            part = _check_workflow(library.fork(), name, commands)
        parts[name] = part
    used_names = frozenset(name for part in parts.values() for name in part.used_names)
    errors = any(part.library.problems.has_errors for part in parts.values())
    parts[""] = _check_unused_files(library.fork(), used_names, has_errors=errors)
    return CheckedLibrary(library, parts)


def _check_workflow(library: Library, name: str, commands: Collection[str]) -> CheckedPart:
    symbols = SymbolTable()
    checker = Checker(library, commands, symbols=symbols)
    program = checker.check_workflow(name)
    checker.warn_about_unused_inputs()
    return CheckedPart(library, checker.used_names, symbols, program)


def _check_unused_files(library: Library, used_names: frozenset[str], *, has_errors: bool) -> CheckedPart:
    symbols = SymbolTable()
    checker = Checker(library, used_names=used_names, has_errors=has_errors, symbols=symbols)
    checker.check_unused_files()
    checker.finish()
    return CheckedPart(library, used_names, symbols)
