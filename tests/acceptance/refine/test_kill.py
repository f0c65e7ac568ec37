"""A complete refine session whose process is killed between its pauses ends as if nothing had happened.

It samples the checkpoints of all legs; `SKILLRUN_CRASH_ALL=1` tries all (several minutes).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from skillrun.store.local.signing_key import ensure_signing_key
from tests.acceptance.refine.conftest import HAPPY_PATH, IDEA, PRD, question, scores
from tests.acceptance.test_crash import calls, files, state
from tests.property.runs import folder

ALL = bool(os.environ.get("SKILLRUN_CRASH_ALL"))
ROOT = Path(__file__).parents[3]
LATER = {"questions": [question("Workflows", "What does the host see when someone leaves early?", "HIGH")]}
LEGS: list[dict[str, Any]] = [
    {"script": []},
    {"script": [], "files": {"research/reports/one.md": "Libraries are empty after six."}},
    {
        "script": [{"address": "refine/draft/scores/*", "data": scores(2)}],
        "form": "working/QUESTIONS-001.md",
        "answer": "Ten seats.",
    },
    {
        "script": [{"address": f"refine/questions/{one}/*", "data": LATER} for one in ("proposals", "merged")],
        "answers": {"draft/next-mode": "standard"},
    },
    {
        "script": [
            {"address": "refine/draft/prd/*", "text": PRD.replace("Text", "A lamp goes out")},
            {"address": "refine/draft/scores/*", "data": scores(3, users=1)},
        ],
        "form": "working/QUESTIONS-002.md",
        "answer": "A lamp goes out.",
    },
]
PAUSES = [75, 75, 75, 75, 0]


def run(base: Path, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    job = base / "job.json"
    project = base / "project"
    project.mkdir(exist_ok=True)
    legs = [{**leg, "script": [*leg["script"], *HAPPY_PATH]} for leg in LEGS]
    inputs = {"idea": IDEA, "mode": "standard"}
    settings = {"project": str(project), "workflow": "refine", "inputs": inputs, "legs": legs}
    job.write_text(json.dumps({**settings, "runs": runs}))
    command = [sys.executable, "-m", "tests.acceptance.refine.drive", str(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.row("R1", "R5", "R9")
def test_a_session_killed_between_its_pauses_ends_the_same() -> None:
    with folder() as base:
        ensure_signing_key()  # created once, so that every run finds it
        (reference,) = run(base, [{"folder": str(base / "whole"), "log": str(base / "points")}])
        assert reference["ends"] == PAUSES
        checkpoints = [
            (leg, number, name)
            for leg in range(len(LEGS))
            for number, name in enumerate((base / f"points.{leg}").read_text().splitlines(), 1)
        ]
        names = " ".join(name for _, _, name in checkpoints)
        assert "rename" in names
        assert "reflection-round-1.md" in names
        chosen = checkpoints if ALL else checkpoints[5 :: len(checkpoints) // 5]
        results = run(base, [{"folder": str(base / f"{leg}-{at}"), "kill": [leg, at]} for leg, at, _ in chosen])
        for (leg, number, name), killed in zip(chosen, results, strict=True):
            point = f"killed in leg {leg} at {number}, {name}"
            ends = [*PAUSES[:leg], -signal.SIGKILL, *PAUSES[leg:]]
            assert killed["ends"] == ends, point
            assert calls(killed) == calls(reference) + Counter(killed["lost"]), point
            assert files(killed) == files(reference), point
            assert state(killed) == state(reference), point
