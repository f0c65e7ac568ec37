"""Provides the checked shipped library to property tests."""

import pytest

from skillrun.library.library import Library
from tests.shipped import checked_library


@pytest.fixture(scope="session")
def shipped() -> Library:
    """The checked shipped library. A library with it as `earlier` reads only files that differ."""
    return checked_library()
