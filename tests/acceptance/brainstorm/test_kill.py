"""A brainstorm killed at any write: its files are complete and in order, and the run resumes to the same result.

Each process is forked and ends with `os._exit` at a checkpoint, so that no cleanup runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store import kill_points
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.local_store import LocalStore
from skillrun.store.local.signing_key import ensure_signing_key
from tests.acceptance.brainstorm.conftest import ASKING, NEXT, TOPIC

STORY, CONTEXT, COMPLETE = "00-brainstorming.md", "00-brainstorming.context.md", ".brainstorm-complete"
KILLED = 9


class KilledRuns:
    """Runs a small brainstorm in processes that end at a checkpoint."""

    def __init__(self, project: Path, *, share: bool) -> None:
        self.project, self.share = project, share
        library = Library(search_path(project))
        program, models = check_workflow(library, "brainstorm"), library.config("models")
        assert program is not None
        assert models is not None
        self.program, self.catalogue = program, Catalogue.from_config(models.data)
        self.answers = project / "answers.yaml"
        self.answers.write_text(json.dumps({"questions": "Two streets"}))
        ensure_signing_key()

    def run(self, runs: Path, hook: Callable[[str], None] | None) -> int:
        """Start or resume the run in a new process; returns its exit code."""
        child = os.fork()
        if not child:
            code = 70
            try:
                os.umask(0o022)
                kill_points.hook = hook
                code = asyncio.run(self._start_or_resume(runs))
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    async def _start_or_resume(self, runs: Path) -> int:
        responder = open_responder(unattended=True, answers=self.answers)
        gateway = ScriptedGateway(Rule(**one) for one in ASKING)
        options = RunOptions(self.project, "scripted:x", share=self.share)
        setting = Session(self.program, Services(self.catalogue, gateway, responder), options)
        if (runs / "run" / "state.md").exists():
            return (await session.resume_run(setting, LocalStore(runs).open_run("run"))).exit_code
        inputs, _ = validate_inputs(self.program, {"topic": TOPIC, "rounds": 1, "agents": 0})
        return (await session.start_run(setting, inputs, LocalStore(runs), "run")).exit_code


def exit_at(name: str, number: int) -> Callable[[str], None]:
    """Ends the process when it reaches this point for the n-th time."""
    seen: list[str] = []

    def hook(point: str) -> None:
        seen.append(point)
        if point == name and seen.count(name) == number:
            os._exit(KILLED)

    return hook


@pytest.mark.slow
@pytest.mark.row("B9", "X4", "Z5")
@pytest.mark.parametrize("share", [False, True])
def test_a_run_killed_at_any_write_has_complete_files_in_order(tmp_path: Path, *, share: bool) -> None:
    killed = KilledRuns(tmp_path, share=share)
    log = tmp_path / "points"

    def log_point(point: str) -> None:
        with log.open("a") as file:
            file.write(f"{point}\n")

    assert killed.run(tmp_path / "whole", log_point) == 0
    whole = tmp_path / "whole" / "run"
    points = [one for one in log.read_text().splitlines() if one.startswith("rename")]
    assert [one for one in points if COMPLETE in one or STORY in one or CONTEXT in one] == [
        f"rename {name}: {when}" for name in (STORY, CONTEXT, COMPLETE) for when in ("before", "after")
    ]
    numbered = [(one, points[: at + 1].count(one)) for at, one in enumerate(points)]
    own = [one for one in numbered if any(f" {name}: " in one[0] for name in (STORY, CONTEXT, COMPLETE))]
    for number, (name, times) in enumerate(own if share else numbered[::5]):
        runs = tmp_path / str(number)
        assert killed.run(runs, exit_at(name, times)) == KILLED, name
        existing = [one for one in (STORY, CONTEXT, COMPLETE) if (runs / "run" / one).exists()]
        assert existing == [STORY, CONTEXT, COMPLETE][: len(existing)], name
        assert [stat.S_IMODE((runs / "run" / one).stat().st_mode) for one in existing] == [
            0o644 if share else 0o600 for _ in existing
        ], name
        assert killed.run(runs, None) == 0, name
        for one in (STORY, CONTEXT):
            assert _without_dates(runs / "run" / one) == _without_dates(whole / one), name
        assert (runs / "run" / COMPLETE).exists()
        assert not list((runs / "run").glob(".*.tmp")), name


def _without_dates(path: Path) -> Any:
    data, body = from_frontmatter(path) if path.name == CONTEXT else ({}, path.read_text())
    for one in data.get("qa_pairs", ()):
        assert one["question"] == NEXT
        one.pop("asked_at")
    data.pop("created_at", None)
    return data, body
