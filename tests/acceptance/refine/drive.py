"""Runs whole sessions of refine in processes that are killed: `python -m tests.acceptance.refine.drive JOB`.

A leg is the part between two pauses: the user's files and answers, then a process that resumes the run. A killed
process is followed by another until the leg has ended.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store.local.local_store import LocalStore
from tests.acceptance.drive import NAME, Driver, LoggingGateway, in_flight


class Sessions(Driver):
    leg: Mapping[str, Any]

    def run_legs(self, runs: Path, kill: list[int] | None, log: str | None) -> dict[str, Any]:
        """Run all legs of a session; `kill` is a leg and a checkpoint, `log` the prefix of the checkpoint logs."""
        ends: list[int] = []
        lost: list[str] = []
        for number, leg in enumerate(self.job["legs"]):
            self.leg = leg
            apply_user_actions(runs / NAME, leg)
            kill_at = {"SKILLRUN_KILL_AT": str(kill[1]), "SKILLRUN_KILL_LOG": ""} if kill and kill[0] == number else {}
            environment = {"SKILLRUN_KILL_AT": "", "SKILLRUN_KILL_LOG": f"{log}.{number}"} if log else kill_at
            while True:
                child = os.fork()
                if not child:
                    self._child(runs, environment)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                ends.append(code)
                environment = {}
                if code >= 0:
                    break
                lost += in_flight(runs)
        return {"runs": str(runs), "ends": ends, "lost": lost}

    async def _run(self, runs: Path) -> int:
        answers = runs / "answers.yaml"
        answers.write_text(json.dumps(self.leg.get("answers") or {}))
        gateway = LoggingGateway(self.leg["script"], runs / "calls.log")
        responder = open_responder(unattended=False, answers=answers, terminal=False)
        services = Services(self.catalogue, gateway, responder)
        setting = Session(self.program, services, RunOptions(self.project, "scripted:x"))
        if (runs / NAME / "state.md").exists():
            return (await session.resume_run(setting, LocalStore(runs).open_run(NAME))).exit_code
        inputs, _ = validate_inputs(self.program, self.job["inputs"])
        return (await session.start_run(setting, inputs, LocalStore(runs), NAME)).exit_code


def apply_user_actions(folder: Path, leg: Mapping[str, Any]) -> None:
    """Write the user's files and fill in the form before the process starts."""
    for name, text in (leg.get("files") or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    if form := leg.get("form"):
        path = folder / form
        path.write_text(re.sub(r"^Answer:.*$", f"Answer: {leg['answer']}", path.read_text(), flags=re.MULTILINE))


def main(job: Mapping[str, Any]) -> None:
    sessions = Sessions(job)
    for run in job["runs"]:
        runs = Path(run["folder"])
        runs.mkdir(parents=True)
        sys.stdout.write(json.dumps(sessions.run_legs(runs, run.get("kill"), run.get("log"))) + "\n")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
