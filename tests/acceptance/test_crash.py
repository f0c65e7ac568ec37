"""A plan that is killed with `kill -9` at any moment resumes, repeats no recorded call and ends with the same files.

The moments are the checkpoints of the engine: before and after every journal commit, file rename and model call.
The tests try a sample; `SKILLRUN_CRASH_ALL=1` tries all (several minutes).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.signing_key import ensure_signing_key
from tests.acceptance.conftest import EXAMPLES, Call
from tests.launcher import run_skillrun
from tests.property.runs import folder

ALL = bool(os.environ.get("SKILLRUN_CRASH_ALL"))
DRIVE = Path(__file__).with_name("drive.py")
RED: Mapping[str, Any] = {"score": 2, "reasons": ["It does not say who pays."]}
CASES: Mapping[str, dict[str, Any]] = {
    "rapid": {"mode": "rapid", "script": []},
    # RED judges send the design back; a member and a whole phase fail; two phases run at the same time.
    "advanced": {
        "mode": "advanced",
        "script": [
            {"address": "plan/validation/judged/*", "data": RED},
            {"address": "plan/expert-review/cycle#*/review/*", "data": {"findings": []}},
            {"address": "plan/test-strategy/proposals/first/qa-security/*.1", "fail": "overloaded"},
            {"address": "plan/coverage/judged/*/*.[12]", "stop": "length"},
            {"address": "plan/coverage/judged/*", "data": {"score": 18, "reasons": []}},
            {"address": "plan/assets/assets/*/*.[12]", "fail": "timeout"},
        ],
        "config": "features: {parallel_dispatch: {enabled: true}}\n",
    },
}


class Crashes:
    """Runs of one case, each in a separate process."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        self.case = CASES[name]
        self.project = root / "project"
        self.project.mkdir()
        if "config" in self.case:
            (self.project / "config").mkdir()
            (self.project / "config" / "planning.yaml").write_text(self.case["config"])
        log = root / "points"
        ensure_signing_key()  # so that no run has to create it
        self.uninterrupted = self.run([{"folder": str(root / "whole"), "kill_log": str(log)}])[0]
        self.points = log.read_text().splitlines()

    def run(self, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        job = self.root / "job.json"
        inputs = {"request": "Add dark mode to the settings page", "mode": self.case["mode"]}
        settings = {"project": str(self.project), "workflow": "plan", "inputs": inputs, "script": self.case["script"]}
        job.write_text(json.dumps({**settings, "runs": runs}))
        done = subprocess.run([sys.executable, DRIVE, job], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def kill(self, numbers: list[int]) -> list[dict[str, Any]]:
        return self.run([{"folder": str(self.root / str(number)), "kill_at": number} for number in numbers])

    def sample_checkpoints(self) -> list[int]:
        """The checkpoints to try: some of each kind in the small run, some commits and calls in the large one, and
        others at regular intervals."""
        if ALL:
            return list(range(1, len(self.points) + 1))
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self.points, 1):
            numbers.setdefault(name, []).append(number)
        if self.name == "rapid":
            renames = [name for name in numbers if name.startswith("rename")]
            names = [name for name in numbers if name not in renames] + renames[1::7]
            chosen = {numbers[name][len(numbers[name]) // 2] for name in names}
            chosen |= set(range(7, len(self.points) + 1, len(self.points) // 4))
        else:
            chosen = {one for name, found in numbers.items() if not name.startswith("rename") for one in found[5::480]}
            chosen |= set(range(7, len(self.points) + 1, len(self.points) // 2))
        return sorted(chosen)


@pytest.fixture(params=list(CASES))
def crashes(request: pytest.FixtureRequest) -> Iterator[Crashes]:
    with folder() as root:
        yield Crashes(root, request.param)


@pytest.mark.slow
@pytest.mark.row("X4")
def test_a_killed_plan_resumes_and_ends_the_same(crashes: Crashes) -> None:
    uninterrupted = crashes.uninterrupted
    assert uninterrupted["ends"] == [0]
    assert {"commit: before", "commit: after", "call: before", "call: after"} <= set(crashes.points)
    numbers = crashes.sample_checkpoints()
    for number, killed in zip(numbers, crashes.kill(numbers), strict=True):
        point = f"killed at {number}, {crashes.points[number - 1]}"
        assert killed["ends"] == [-signal.SIGKILL, 0], point
        assert calls(killed) == calls(uninterrupted) + Counter(killed["lost"]), point
        assert files(killed) == files(uninterrupted), point
        assert state(killed) == state(uninterrupted), point


def run_greeting(folder: Path, name: str, **environ: str) -> int:
    """Run the example `greeting` in a separate process, and return its exit code."""
    command = ("greeting", "Ada", "--model", "scripted:x", "--name", name)
    return run_skillrun(*command, cwd=folder, env={**os.environ, **environ}, stdout=PIPE, stderr=PIPE).returncode


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A project in which a run called `whole` has completed, and the checkpoints that it reached."""
    project = tmp_path_factory.mktemp("finished") / "project"
    shutil.copytree(EXAMPLES / "greeting", project)
    log = project.parent / "points"
    assert run_greeting(project, "whole", SKILLRUN_KILL_LOG=str(log)) == 0
    return project, log.read_text().splitlines()


@pytest.mark.slow  # two processes
@pytest.mark.row("X4")
@pytest.mark.parametrize("point", ["commit: after", "rename state.md: after", "call: after"])
def test_a_killed_command_is_shown_as_interrupted_and_can_be_resumed(
    point: str, finished: tuple[Path, list[str]], skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, points = finished
    name = point.partition(" ")[0].strip(":")
    numbers = [number for number, reached in enumerate(points, 1) if reached == point]
    assert run_greeting(project, name, SKILLRUN_KILL_AT=str(numbers[len(numbers) * 3 // 4])) == -signal.SIGKILL
    monkeypatch.chdir(project)
    shown = {run["run"]: run["status"] for run in skillrun("runs", "--json").json}
    assert (shown["whole"], shown[name]) == ("completed", "interrupted")
    done = skillrun("resume", name, "--unattended", "--json")
    assert (done.code, done.json["status"]) == (0, "completed")
    assert files({"runs": project / "runs"}, name) == files({"runs": project / "runs"}, "whole")


def calls(run: Mapping[str, Any]) -> Counter[str]:
    """The calls that all processes of a run sent."""
    return Counter((Path(run["runs"]) / "calls.log").read_text().splitlines())


def files(run: Mapping[str, Any], name: str = "run") -> dict[str, bytes]:
    """Every artifact and summary, of all rounds."""
    root = Path(run["runs"]) / name
    paths = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if name != "state.md" and name[:5] != ".run/"}


def state(run: Mapping[str, Any]) -> dict[str, Any]:
    data, _ = from_frontmatter(Path(run["runs"]) / "run" / "state.md")
    return {key: value for key, value in data.items() if key != "started_at"}
