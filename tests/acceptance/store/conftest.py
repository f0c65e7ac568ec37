"""Shared fixtures: an empty store that the environment names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skillrun.cli.options import STORE_VARIABLE
from skillrun.extensions.workers.commands import open_store as store_module
from skillrun.extensions.workers.dispatch import install
from skillrun.extensions.workers.postgres.maintenance import migrate
from tests.servers.postgres import empty


@pytest.fixture
def database(postgres: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty database, which the environment names."""
    with empty() as url:
        monkeypatch.setenv(STORE_VARIABLE, url)
        yield url
        store_module.open_database(url).close()
        store_module.open_database.cache_clear()
        store_module.open_store.cache_clear()


@pytest.fixture
def store(database: str) -> str:
    """The URL of an empty store, which the environment names."""
    migrate(store_module.open_database(database))
    install(store_module.open_database(database))
    return database
