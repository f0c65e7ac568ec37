"""Runs a workflow in processes that are killed: `python drive.py JOB` reads JSON and prints a JSON line for each run.

Loads everything once and forks each process, so that hundreds of kills take little time. Each process is real and dies
by a real SIGKILL; it appends every call that it sends to a file before the model replies.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from skillrun.checker.checker import check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Reply, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store import kill_points
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.local_store import LocalStore
from skillrun.syntax.diagnostics import render_problem

NAME = "run"
MAX_PROCESSES = 4  # a run needs one more for each kill


class LoggingGateway(ScriptedGateway):
    """The scripted model, which logs each call to a file."""

    def __init__(self, script: list[dict[str, Any]], log: Path) -> None:
        super().__init__(Rule(**rule) for rule in script)
        self.log = log

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{address} {request.fingerprint()}\n")
        return await super().send(request, address, attempts)


class Driver:
    """Runs a loaded workflow in child processes."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = job
        self.project = Path(job["project"])
        library = Library(search_path(self.project))
        program = check_workflow(library, job["workflow"])
        models = library.config("models")
        problems = [render_problem(problem) for problem in library.problems if problem.severity == "error"]
        assert program is not None, problems
        assert models is not None
        assert not problems, problems
        self.program, self.catalogue = program, Catalogue.from_config(models.data)

    def run_to_end(self, runs: Path, kill_at: int | None, kill_log: str | None) -> dict[str, Any]:
        """Run, kill and resume until the run ends; returns the exit codes and the calls in flight at the last kill."""
        ends: list[int] = []
        lost: list[str] = []
        environment = {"SKILLRUN_KILL_AT": str(kill_at or ""), "SKILLRUN_KILL_LOG": kill_log or ""}
        while not ends or (ends[-1] < 0 and len(ends) < MAX_PROCESSES):
            child = os.fork()
            if not child:
                self._child(runs, environment if not ends else {})
            _, status = os.waitpid(child, 0)
            ends.append(os.waitstatus_to_exitcode(status))
            if ends[-1] < 0:
                lost = in_flight(runs)
        return {"runs": str(runs), "ends": ends, "lost": lost}

    def _child(self, runs: Path, environment: Mapping[str, str]) -> None:
        code = 70
        try:
            os.environ.update(environment)
            kill_points.hook = kill_points._from_environment() if environment else None
            code = asyncio.run(self._run(runs))
        except BaseException as error:  # noqa: BLE001 (a child must never continue as its parent)
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
        finally:
            os._exit(code)

    async def _run(self, runs: Path) -> int:
        gateway = LoggingGateway(self.job["script"], runs / "calls.log")
        services = Services(self.catalogue, gateway, open_responder(unattended=True))
        settings = Session(self.program, services, RunOptions(self.project, "scripted:x"))
        if (runs / NAME / "state.md").exists():
            return (await session.resume_run(settings, LocalStore(runs).open_run(NAME))).exit_code
        inputs, _ = validate_inputs(self.program, self.job["inputs"])
        return (await session.start_run(settings, inputs, LocalStore(runs), NAME)).exit_code


def in_flight(runs: Path) -> list[str]:
    """The calls that were sent and have no reply or failure in the journal, read from a copy of it."""
    log, copy = runs / "calls.log", runs / "copy"
    if not log.exists():
        return []
    shutil.copytree(runs / NAME / ".run", copy / ".run")
    with closing(SqliteJournal.open(copy)) as journal:
        entries = [*journal.entries("reply"), *journal.entries("failed")]
    shutil.rmtree(copy)
    answered = Counter(f"{entry.address} {entry.fingerprint}" for entry in entries)
    return list((Counter(log.read_text(encoding="utf-8").splitlines()) - answered).elements())


def main(job: Mapping[str, Any]) -> None:
    driver = Driver(job)
    for run in job["runs"]:
        runs = Path(run["folder"])
        runs.mkdir(parents=True)
        outcome = driver.run_to_end(runs, run.get("kill_at"), run.get("kill_log"))
        sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
