"""Checks the shipped library once in each process, for all tests that start from it."""

from collections.abc import Collection
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest

from skillrun.checker.checker import check_library, check_workflow
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library

SHIPPED = Root(package_library(), "skillrun:", "library")


@cache
def checked_library() -> Library:
    """The shipped library alone, checked. With it as `earlier`, `Library` reads only files that differ.

    The first call takes a second, so tests get it from a fixture of the scope `session`.
    """
    library = Library((SHIPPED,))
    check_library(library)
    return library


def share_shipped_library(patch: pytest.MonkeyPatch) -> None:
    """Let every command of this process start from the checked library, as `dev` does after a save.

    Each workflow is checked once while there are only shipped files.
    """

    shipped = checked_library()
    checked: dict[tuple[str, tuple[str, ...]], tuple[Library, Program | None]] = {}

    def check(library: Library, name: str, commands: Collection[str] = ()) -> Program | None:
        if library._places != shipped._places:
            return check_workflow(library, name, commands)
        key = name, tuple(commands)
        if key not in checked:
            checked[key] = library, check_workflow(library, name, commands)
        first, program = checked[key]
        library.__dict__.update({**vars(first), "roots": library.roots, "problems": deepcopy(first.problems)})
        return replace(program, library=library) if program is not None else None

    patch.setattr(
        "skillrun.library.library.Library",
        lambda roots, earlier=shipped, **more: Library(roots, earlier, **more),
    )
    patch.setattr("skillrun.checker.checker.check_workflow", check)
