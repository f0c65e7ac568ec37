"""Checks the shipped library before the first test that starts from it."""

import pytest

from tests.shipped import checked_library


@pytest.fixture(scope="session", autouse=True)
def _shipped_library_is_checked() -> None:
    """Keep the time of the check out of the first test."""
    checked_library()
