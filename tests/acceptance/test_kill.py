"""A whole plan, killed with SIGKILL at its checkpoints and resumed, is the plan of a run that nobody disturbed.

The checkpoints stand before and after every commit of the journal, every rename of a file and every call.
`SKILLRUN_KILL_ALL=1` kills at each of them; without it a sample of every kind is taken.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from skillrun.runtime.journal import Journal

PLAN = ("plan", "Add dark mode to the settings page", "--mode", "rapid", "--unattended", "--name", "run")
SCRIPTED = ("--model", "scripted:default")
PARTS = 4  # of the sample, so that workers share it


def skillrun(folder: Path, *arguments: str, **environ: str) -> int:
    command = [sys.executable, "-m", "skillrun", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environ}, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode


@dataclass(frozen=True)
class Finished:
    """What a run leaves: its files but for the log, the calls that were answered, and those that were sent."""

    files: dict[str, str]
    replies: Counter[tuple[str, str]]
    sent: Counter[tuple[str, str]]


def finished(folder: Path) -> Finished:
    run = folder / "runs" / "run"
    files = {
        path.relative_to(run).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(run.rglob("*.md"))
        if path.name != "state.md"
    }
    journal = Journal.open(run)
    try:
        replies = Counter((entry.address, entry.fingerprint) for entry in journal.entries("reply"))
        sent = Counter((entry.address, entry.fingerprint) for entry in journal.entries("sent"))
    finally:
        journal.close()
    return Finished(files, replies, sent)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, list[str]]:
    """A run from start to finish, and the names of the checkpoints that it passed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    log = folder / "points.log"
    assert skillrun(folder, *PLAN, *SCRIPTED, SKILLRUN_KILL_LOG=str(log)) == 0
    return finished(folder), log.read_text(encoding="utf-8").splitlines()


def sample(points: list[str]) -> list[int]:
    """Numbers of checkpoints: of each kind the first, one in the middle and the last; all of them when asked for."""
    if os.environ.get("SKILLRUN_KILL_ALL"):
        return list(range(1, len(points) + 1))
    kinds: dict[str, list[int]] = {}
    for number, name in enumerate(points, 1):
        kinds.setdefault(name if not name.startswith("rename") else f"rename {name.rpartition(' ')[2]}", []).append(
            number
        )
    return sorted({number for found in kinds.values() for number in (found[0], found[len(found) // 2], found[-1])})


@pytest.mark.row("X4")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_killed_plan_goes_on_to_the_same_end(
    undisturbed: tuple[Finished, list[str]], part: int, tmp_path: Path
) -> None:
    expected, points = undisturbed
    for number in sample(points)[part::PARTS]:
        folder = tmp_path / str(number)
        folder.mkdir()
        where = f"killed at {number}, {points[number - 1]}"
        assert skillrun(folder, *PLAN, *SCRIPTED, SKILLRUN_KILL_AT=str(number)) == -signal.SIGKILL, where
        begun = (folder / "runs" / "run" / "state.md").is_file()
        again = ("resume", "run", "--unattended") if begun else (*PLAN, *SCRIPTED)
        assert skillrun(folder, *again) == 0, where
        found = finished(folder)
        assert found.files == expected.files, where
        assert found.replies == expected.replies, where
        repeated = found.sent - expected.sent
        assert sum(repeated.values()) <= 1, f"{where}: only the call in flight may be asked again"
