"""Checks the shipped library before the first test that starts from it."""

import pytest

from tests.shipped import checked_library


@pytest.fixture(scope="session", autouse=True)
def _shipped_library_is_checked() -> None:
    """No single test is charged for the check."""
    checked_library()
