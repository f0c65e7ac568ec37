"""A stored run that is killed at any commit or write resumes exactly, and no paid call is repeated."""

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


def run_process(folder: Path, *arguments: str, kill_at: int = 0, log: Path | None = None) -> int:
    environment = {**os.environ, **({"SKILLRUN_KILL_AT": str(kill_at)} if kill_at else {})}
    if log is not None:
        environment["SKILLRUN_KILL_LOG"] = str(log)
    return run_skillrun(*arguments, cwd=folder, env=environment, stdout=DEVNULL).returncode


def content(store: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The calls with replies, and the artifacts by their hashes."""
    database = open_database(store)
    calls = database.rows("SELECT kind, address, fingerprint FROM records WHERE kind = 'reply' ORDER BY seq")
    files = "SELECT path, sha FROM files WHERE path NOT LIKE 'state.md' AND path NOT LIKE 'summaries/%%' ORDER BY path"
    return calls, database.rows(files, optional={"sha"})


def delete_runs(store: str) -> None:
    open_database(store).rows("DELETE FROM runs")


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_point_resumes_exactly(project: Make, store: str, tmp_path: Path) -> None:
    folder, log = project("greeting"), tmp_path / "points"
    assert run_process(folder, *BEGIN, log=log) == 0
    expected, points = content(store), log.read_text().splitlines()
    assert {"commit: before", "commit: after", "rename greeting.md: before"} <= set(points)
    for number in range(1, len(points) + 1, max(1, len(points) // 6)):
        delete_runs(store)
        assert run_process(folder, *BEGIN, kill_at=number) == -signal.SIGKILL
        expire = "UPDATE runs SET lease_until = now() - interval '1 s' WHERE status = 'running'"
        open_database(store).rows(expire)
        has_state = open_database(store).rows("SELECT 1 FROM files WHERE path = 'state.md'")
        command = ("resume", "ada") if has_state else (*BEGIN, "--name", "ada")
        assert run_process(folder, *command) == 0, points[number - 1]
        assert content(store) == expected, points[number - 1]
