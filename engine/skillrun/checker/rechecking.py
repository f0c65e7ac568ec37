"""A library checked again after each change: what has read nothing that changed keeps what came of its check.

Finds the errors that `check_library` finds. Warnings that wait until there are no errors wait here for each workflow
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from skillrun.checker.checker import Checker
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.symbols import Sightings
from skillrun.syntax.diagnostics import Problem, Problems


@dataclass(frozen=True)
class CheckedPart:
    """What came of the check of a workflow, or of the files that none reaches; the library has what it read."""

    library: Library
    reached: frozenset[str]
    sightings: Sightings
    program: Program | None = None


@dataclass(frozen=True)
class CheckedLibrary:
    """A library and what came of its check, by workflow; of the files that none reaches under an empty name."""

    library: Library
    parts: Mapping[str, CheckedPart] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def programs(self) -> dict[str, Program]:
        """The workflows that can be read."""
        return {name: part.program for name, part in self.parts.items() if part.program is not None}

    @property
    def problems(self) -> list[Problem]:
        """All problems of all files."""
        problems = Problems()
        for library in (self.library, *(part.library for part in self.parts.values())):
            for problem in library.problems:
                problems.add(problem)
        return list(problems)


class Outdated(Exception):
    """The library has changed again, so that nobody waits for its check any more."""


def recheck(
    library: Library,
    commands: Collection[str],
    earlier: CheckedLibrary | None = None,
    outdated: Callable[[], bool] = lambda: False,
) -> CheckedLibrary:
    """The library checked. What the earlier check found is kept where nothing that it read has changed.

    Raises Outdated as soon as the library is `outdated`.
    """
    before: Mapping[str, CheckedPart] = earlier.parts if earlier is not None else {}
    parts: dict[str, CheckedPart] = {}
    for name in library.names("workflows"):
        part = before.get(name)
        if part is None or not library.holds(part.library):
            if outdated():
                raise Outdated
            part = _workflow(library.apart(), name, commands)
        parts[name] = part
    reached = frozenset(name for part in parts.values() for name in part.reached)
    errors = any(part.library.problems.errors for part in parts.values())
    parts[""] = _others(library.apart(), reached, errors=errors)
    return CheckedLibrary(library, parts)


def _workflow(library: Library, name: str, commands: Collection[str]) -> CheckedPart:
    sightings = Sightings()
    checker = Checker(library, commands, sightings=sightings)
    program = checker.workflow(name)
    checker.warn_of_unused()
    return CheckedPart(library, checker.reached, sightings, program)


def _others(library: Library, reached: frozenset[str], *, errors: bool) -> CheckedPart:
    sightings = Sightings()
    checker = Checker(library, reached=reached, broken=errors, sightings=sightings)
    checker.others()
    checker.finish()
    return CheckedPart(library, reached, sightings)
