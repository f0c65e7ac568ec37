"""Creates the run folders of older commits: `python tests/golden/make.py CHECKOUTS [CASE …]`.

CHECKOUTS is a folder with a checkout of each commit in `runs.CASES`, named after the commit. Existing run folders are
kept, because they prove what older commits wrote: cases are only added.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden.runs import CASES, KEY, NAME, RUNS, Case, describe, fill_in, make_project, pack

FIRST_VERSION = """---
schema_version: 1
workflow: trek
started_at: '2025-03-04T05:06:07+00:00'
current_phase: settle
phase_status: in_progress
place: Rome
tries: 0
---
"""


class Maker:
    """A project and the command line of a commit."""

    def __init__(self, case: Case, checkouts: Path, folder: Path) -> None:
        self.case, self.project = case, folder / "project"
        self.run = self.project / "runs" / NAME
        make_project(self.project)
        data = folder / "data"
        (data / "skillrun").mkdir(parents=True)
        (data / "skillrun" / "seal.key").write_bytes(KEY)
        (data / "skillrun" / "seal.key").chmod(0o600)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SKILLRUN_", "XDG_"))},
            "PYTHONPATH": str(checkouts / case.commit / "engine"),
            "XDG_DATA_HOME": str(data),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "HOME": str(folder),
        }

    def skillrun(self, *words: str, **environ: str) -> int:
        command = [sys.executable, "-m", "skillrun", *words]
        process = subprocess.run(
            command, cwd=self.project, env={**self.environ, **environ}, stdin=subprocess.DEVNULL, check=False
        )
        return process.returncode

    def begin(self, **environ: str) -> int:
        return self.skillrun("trek", "Rome", "--script", self.case.script, "--name", NAME, **environ)

    def resume(self, **environ: str) -> int:
        return self.skillrun("resume", NAME, "--script", "script.yaml", **environ)

    def run_until_left(self) -> None:
        """Run until the state in which the case leaves the run."""
        killed = self.case.killed
        if killed is None or self.case.answered:
            self.begin()
            if self.case.answered:
                fill_in(self.run)
        if killed is not None:
            self._kill(*killed)
        elif self.case.answered:
            self.resume()
        elif self.case.first_version:
            (self.run / "state.md").write_text(FIRST_VERSION, encoding="utf-8")

    def _kill(self, address: str, round_: int) -> None:
        """Kill the run at the last checkpoint before the reply to a call, found by bisection."""
        store = self.project.parent / "store"
        begin = self.begin
        if self.run.exists():
            subprocess.run(["cp", "-a", self.run, store], check=True)
            begin = self.resume
        low, high = 1, 2000
        while low < high:
            middle = (low + high + 1) // 2
            self._restore(store)
            code = begin(SKILLRUN_KILL_AT=str(middle))
            if code < 0 and not _has_reply(self.run, address, round_):
                low = middle
            else:
                high = middle - 1
        self._restore(store)
        assert begin(SKILLRUN_KILL_AT=str(low)) < 0
        assert _has_sent(self.run, address, round_)

    def _restore(self, store: Path) -> None:
        subprocess.run(["rm", "-rf", self.run], check=True)
        if store.exists():
            subprocess.run(["cp", "-a", store, self.run], check=True)

    def finish(self) -> None:
        """Resume the run with the same commit until it ends."""
        if (self.run / "questions.md").exists() and not self.case.answered:
            fill_in(self.run)
        for expected in self.case.exit_codes:
            code = self.resume()
            assert code == expected, code
            if code:
                fill_in(self.run)


def _records(run: Path, kind: str, address: str) -> int:
    """The number of records of a kind at an address, read from a copy because SQLite changes journals it opens."""
    with tempfile.TemporaryDirectory() as copy:
        for path in (run / ".run").glob("journal.db*"):
            if not path.name.endswith("-shm"):
                (Path(copy) / path.name).write_bytes(path.read_bytes())
        if not (Path(copy) / "journal.db").exists():
            return 0
        with closing(sqlite3.connect(Path(copy) / "journal.db")) as database:
            query = "SELECT count(*) FROM records WHERE kind = ? AND address GLOB ?"
            (number,) = database.execute(query, (kind, f"{address}*")).fetchone()
            return int(number)


def _has_reply(run: Path, address: str, round_: int) -> bool:
    return _records(run, "reply", address) >= round_


def _has_sent(run: Path, address: str, round_: int) -> bool:
    return _records(run, "sent", address) >= round_


def main(checkouts: Path, names: list[str]) -> None:
    for name in names or CASES:
        target = RUNS / name
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            maker = Maker(CASES[name], checkouts, Path(folder))
            maker.run_until_left()
            target.mkdir(parents=True)
            pack(maker.run, target / "left.tar.xz")
            maker.finish()
            (target / "end.txt").write_text(describe(maker.run), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
