"""A run in a store that is killed at any commit or write goes on exactly, and nothing paid for is asked twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from subprocess import DEVNULL

import pytest

from skillrun.extensions.workers.commands.open_store import open_database
from tests.acceptance.conftest import Make
from tests.launcher import run_skillrun

pytestmark = pytest.mark.row("W1")
BEGIN = ("greeting", "Ada", "--model", "scripted:x")


def process(folder: Path, *arguments: str, kill_at: int = 0, log: Path | None = None) -> int:
    environment = {**os.environ, **({"SKILLRUN_KILL_AT": str(kill_at)} if kill_at else {})}
    if log is not None:
        environment["SKILLRUN_KILL_LOG"] = str(log)
    return run_skillrun(*arguments, cwd=folder, env=environment, stdout=DEVNULL).returncode


def content(store: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The calls that were answered, and the artifacts by their hashes."""
    database = open_database(store)
    calls = database.rows("SELECT kind, address, fingerprint FROM records WHERE kind = 'reply' ORDER BY seq")
    files = "SELECT path, sha FROM files WHERE path NOT LIKE 'state.md' AND path NOT LIKE 'summaries/%%' ORDER BY path"
    return calls, database.rows(files)


def forget(store: str) -> None:
    open_database(store).rows("DELETE FROM runs")


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_point_goes_on_exactly(project: Make, store: str, tmp_path: Path) -> None:
    folder, log = project("greeting"), tmp_path / "points"
    assert process(folder, *BEGIN, log=log) == 0
    whole, points = content(store), log.read_text().splitlines()
    assert {"commit: before", "commit: after", "rename greeting.md: before"} <= set(points)
    for number in range(1, len(points) + 1, max(1, len(points) // 6)):
        forget(store)
        assert process(folder, *BEGIN, kill_at=number) == -signal.SIGKILL
        held = "UPDATE runs SET lease_until = now() - interval '1 s' WHERE status = 'running'"
        open_database(store).rows(held)
        begun = open_database(store).rows("SELECT 1 FROM files WHERE path = 'state.md'")
        again = ("resume", "ada") if begun else (*BEGIN, "--name", "ada")
        assert process(folder, *again) == 0, points[number - 1]
        assert content(store) == whole, points[number - 1]
