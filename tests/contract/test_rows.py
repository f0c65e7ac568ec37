"""Each command reads any value in any column of a store: it ends with a message, and never with an internal error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from skillrun.extensions.workers.commands import open_store as store_module
from tests.faults import rows
from tests.faults.rows import Rows

pytestmark = pytest.mark.row("W5")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    with ExitStack() as stack:
        stack.callback(store_module.open_store.cache_clear)
        stack.callback(store_module.open_database.cache_clear)
        folder = tmp_path_factory.mktemp("rows") / "project"
        folder.mkdir()
        yield Rows(folder, stack)


@pytest.mark.finding("FS12", "FS13")
@pytest.mark.parametrize(
    "case",
    [
        "runs bundle 0 worker once y",
        "runs request 0 worker once y",
        "runs takes 0 worker once y",
        "runs workflow 2 worker once y",
        "runs name 0 runs",
        "runs records 0 worker once y",
        "runs created_at 0 runs",
        "runs name 0 store pull x",
        "runs records 0 show x",
        "records kind 0 show x",
        "records body 0 show x",
        "events line 0 logs x",
        "workers queues 0 worker list",
        "workers seen_at 0 worker list",
        "runs status 0 runs",
        "runs reason 3 show y",
        "records chain 0 show x",
        "records body 5 show x",
        "files sha 0 store pull x",
        "events line 3 logs x",
        "workers queues 1 worker list",
        "workers host 3 worker list",
        "limits most 0 worker limits",
    ],
)
def test_a_command_reads_an_invalid_row(postgres: None, store: Rows, case: str) -> None:
    rows.hold(store, case)


@pytest.mark.slow
@pytest.mark.finding("FS12", "FS13")
@pytest.mark.parametrize("command", rows.COMMANDS)
def test_a_command_reads_any_value_in_any_column(postgres: None, store: Rows, command: str) -> None:
    for case in Random(command).sample([*rows.all_cases(store, command)], 50):
        rows.hold(store, case)
