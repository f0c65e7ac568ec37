"""Checks the shipped library once in each process, for all tests that start from it."""

from functools import cache

from skillrun.language.check.checker import check_library
from skillrun.language.library.library import Library
from skillrun.language.library.roots import Root, package_library

SHIPPED = Root(package_library(), "skillrun:", "library")


@cache
def checked_library() -> Library:
    """The shipped library alone, checked. Pass it to `Library` as `earlier`, and only files that differ are read.

    The first call takes a second, so tests get it from a fixture of the scope `session`.
    """
    library = Library((SHIPPED,))
    check_library(library)
    return library
