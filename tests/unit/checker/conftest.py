"""Checks the shipped library before the first test that uses it."""

import pytest

from tests.shipped import checked_library


@pytest.fixture(scope="session", autouse=True)
def _check_shipped_library() -> None:
    """Keep the time of the check out of the first test."""
    checked_library()
