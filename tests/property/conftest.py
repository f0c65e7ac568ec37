"""Gives the property tests the shipped library, read and checked."""

import pytest

from skillrun.library.library import Library
from tests.shipped import checked_library


@pytest.fixture(scope="session")
def shipped() -> Library:
    """The shipped library, checked; one that has it as `earlier` reads only files that differ."""
    return checked_library()
