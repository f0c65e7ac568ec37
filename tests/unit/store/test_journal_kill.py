"""A run that is killed at any point of its journal loses no acknowledged record, and resumes."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.local_files import remove_leftovers

ALL_POINTS = "SKILLRUN_CRASH_ALL" in os.environ  # every third point by default
PROGRAM = """
import asyncio, sys
from pathlib import Path
from skillrun.store.local.journal import SqliteJournal

async def call(number):
    address = f"a/{number}"
    if not journal.find("reply", address, "1"):
        await journal.record("sent", address, "1", {"prompt": "shared " * 100 + str(number)})
        await journal.record("reply", address, "1", {"text": f"reply {address}" * 100})
    print(address, flush=True)

async def calls():
    await call(0)
    await asyncio.gather(call(1), call(2))

folder = Path(sys.argv[1])
journal = (SqliteJournal.open if (folder / ".run" / "journal.db").exists() else SqliteJournal.create)(folder)
asyncio.run(calls())
asyncio.run(journal.record("note", "", "", {"status": "completed"}))
journal.close()
"""


def start(folder: Path, **environment: str) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_output(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=30)
    return output


def records(folder: Path) -> list[tuple[str, str]]:
    with closing(SqliteJournal.open(folder)) as journal:
        return [(kind, entry.address) for kind in ("reply", "note") for entry in journal.entries(kind)]


@pytest.mark.slow
@pytest.mark.row("X4")
def test_a_kill_at_any_point_loses_no_acknowledged_record_and_resume_adds_no_duplicates(tmp_path: Path) -> None:
    log = tmp_path / "points"
    undisturbed = tmp_path / "undisturbed"
    wait_for_output(start(undisturbed, SKILLRUN_KILL_LOG=str(log)))
    points = log.read_text().splitlines()
    assert points.count("commit: before") == points.count("commit: after") == 5
    complete = records(undisturbed)

    for number in range(1, len(points) + 1, 1 if ALL_POINTS else 3):
        folder = tmp_path / str(number)
        process = start(folder, SKILLRUN_KILL_AT=str(number))
        acknowledged = wait_for_output(process).split()
        assert process.returncode == -signal.SIGKILL
        if (folder / ".run" / "journal.db").exists():
            with closing(SqliteJournal.open(folder)) as journal:
                for address in acknowledged:
                    assert journal.find("reply", address, "1") == {"text": f"reply {address}" * 100}
        if number % 2 == 0:
            resumed = start(folder)
            wait_for_output(resumed)
            assert resumed.returncode == 0
            assert records(folder) == complete
            remove_leftovers(ConfinedFolder(folder / ".run"))
            assert sorted(path.name for path in (folder / ".run").iterdir()) == ["journal.db", "witness"]
