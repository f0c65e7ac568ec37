"""Runs a workflow: its phases as their predecessors finish, rounds, pauses and the end.

Deterministic: the same files, inputs, answers and replies give the same path. Resuming is evaluating again: a phase
with a summary is final, the open ones are evaluated over the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any, Final

from skillrun.language.absent import Absent
from skillrun.language.diagnostics import SkillrunError
from skillrun.runtime.errors import BudgetSpent
from skillrun.runtime.events import PhaseEnded, RunEnded, RunStarted, WentBack
from skillrun.runtime.phases import Ended, run_phase
from skillrun.runtime.recovery import lost, usable
from skillrun.runtime.run import PhaseRun, Run, Spent
from skillrun.runtime.scope import base_names, phase_value, truth
from skillrun.runtime.summaries import NEEDS_INPUT

EXIT: Final[Mapping[str, int]] = {"completed": 0, "failed": 1, "waiting": 75, "interrupted": 130}
RESUME: Final = "go on with `skillrun resume RUN`"


@dataclass(frozen=True)
class Outcome:
    """How a run ended, or where it stands: status, reason, and what to type next."""

    status: str
    reason: str = ""
    next_step: str = ""
    outputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        return EXIT[self.status]


async def run_workflow(run: Run, *, resumed: bool = False) -> Outcome:
    """Run to the end, or to where a person is needed; `state.md` says the same as the outcome."""
    workflow = run.program.workflow
    run.state.status = "running"
    run.emit(
        RunStarted(
            run.name,
            workflow.name,
            str(run.folder.path),
            tuple(workflow.phases),
            run.state.inputs,
            dict(run.state.models),
            resumed,
        )
    )
    run.save()
    try:
        outcome = await Scheduler(run).run()
    except BudgetSpent as spent:
        outcome = Outcome("waiting", str(spent), run.limits.next_step())
    except SkillrunError as error:
        outcome = Outcome("failed", str(error), _then_resumed(error.next_step))
    except asyncio.CancelledError:
        outcome = Outcome("interrupted", "interrupted", RESUME)
    if unwritten := run.journal.unwritten():
        outcome = Outcome("failed", unwritten[0], _then_resumed(unwritten[1]))
    outcome = replace(outcome, next_step=outcome.next_step.replace("resume RUN", f"resume {_called(run)}"))
    if outcome.status == "completed":
        run.folder.prune()
    run.state.status, run.state.reason = outcome.status, outcome.reason
    run.log.append(f"{now()} {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    run.save()
    run.emit(RunEnded(run.name, outcome.status, outcome.reason, spent_of(run).to_dict(), outcome.next_step))
    return outcome


def _then_resumed(way: str) -> str:
    """What to do, and then to resume the run."""
    way = way.rstrip(".") or "mend what is wrong"
    return way if "resume" in way else f"{way}; then {RESUME}"


def _called(run: Run) -> str:
    """What `skillrun resume` takes in the project: the run's name, or the path of a folder that is not below `runs`."""
    folder = run.folder.path
    return run.name if folder.parent == Path(run.state.project).resolve() / "runs" else quote(str(folder))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def spent_of(run: Run) -> Spent:
    """What the summaries of all rounds, and with them their calls, have used."""
    return Spent.of(run.folder.ended(run.state.round, run.program.workflow.phases))


class Scheduler:
    """Starts each phase when the ones it follows have ended, and applies what they end with."""

    def __init__(self, run: Run, *, final: bool = True) -> None:
        self.run_ = run
        self.done: dict[str, str] = {}
        self.running: dict[asyncio.Task[Ended], str] = {}
        self.unfinished = set(run.state.phase)  # begun, perhaps by a process that is dead, and without a summary
        self.ended: dict[str, Ended] = {}  # in this process, without a summary: waiting, failed or stopped
        self.later: dict[str, PhaseRun] = {}  # failed beside others, to be tried again in turn
        self.backs: list[tuple[str, str, str]] = []  # source, target, step
        self.error: SkillrunError | None = None
        self.final = final

    async def run(self) -> Outcome:
        self._finish_move()
        if self.final:
            self._take_final()
        try:
            while True:
                self._start()
                if not self.running:
                    if not self._go_back():
                        break
                    continue
                ended, _ = await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    self._take_task(task)
        finally:
            for task in self.running:
                task.cancel()
            await asyncio.gather(*self.running, return_exceptions=True)
        if self.error is not None:
            raise self.error
        return self._outcome()

    @property
    def _ending(self) -> bool:
        """Nothing new begins; what runs beside is waited for, so that no call is cut off."""
        return self.error is not None or any(ended.status != NEEDS_INPUT for ended in self.ended.values())

    def _take_final(self) -> None:
        """Phases with a current summary are final."""
        run = self.run_
        for name in run.program.workflow.phases:
            summary = usable(run, name)
            if summary is not None:
                recovered = (summary.get("flags") or {}).get("recovered")
                self._settle(name, summary, new=name in self.unfinished and not recovered)
                run.emit(PhaseEnded(name, run.state.round, self.done[name], final=True))
        run.lost = lost(run, self.done, self.unfinished)
        self._save()

    def _settle(self, name: str, summary: Mapping[str, Any], *, new: bool) -> None:
        """Apply what a phase has ended with; what it set only once, or a later phase's value would be lost."""
        state = self.run_.state
        self.done[name] = str(summary["status"])
        self.unfinished.discard(name)
        if new:
            for key, value in (summary.get("set") or {}).items():
                state.state.pop(key, None)
                if value is not None:
                    state.state[key] = value
        back = summary.get("goto")
        if back and summary["round"] == state.round:
            self.backs.append((name, back["target"], back["step"]))

    def _start(self) -> None:
        if self._ending:
            return
        parallel = self._parallel()
        for name, use in self.run_.program.workflow.phases.items():
            if self.running and not parallel:
                return
            if name in self.done or name in self.ended or name in self.running.values() or name in self.later:
                continue
            if self.backs and name not in self.unfinished:
                continue  # going back waits for what runs beside, and begins nothing
            if all(before in self.done for before in use.after):
                self._open(name)
        if not self.running and self.later and not self.backs:
            name = next(iter(self.later))
            self._open(name, self.later.pop(name))

    def _open(self, name: str, before: PhaseRun | None = None) -> None:
        run = self.run_
        use = run.program.workflow.phases[name]
        self.running[asyncio.create_task(run_phase(run, use, before), name=name)] = name
        self.unfinished.add(name)
        self._save()

    def _save(self) -> None:
        self.run_.state.phase = sorted(self.unfinished)
        self.run_.save()

    def _parallel(self) -> bool:
        value = self.run_.program.workflow.parallel
        return value is not None and truth(value.evaluate(base_names(self.run_, self.run_.state.state)))

    def _take_task(self, task: asyncio.Task[Ended]) -> None:
        name = self.running.pop(task)
        try:
            self._take(name, task.result())
        except SkillrunError as error:
            self.error = self.error or error

    def _take(self, name: str, ended: Ended) -> None:
        run = self.run_
        if ended.in_turn is not None:
            self.later[name] = ended.in_turn
        elif ended.summary is not None:
            self._settle(name, ended.summary, new=name not in run.lost)
            run.lost.discard(name)
        else:
            self.ended[name] = ended
        if not run.inline:
            run.log.append(f"{now()} {name}: {ended.status}{f' ({ended.reason})' if ended.reason else ''}")
        self._save()

    def _go_back(self) -> bool:
        """Apply the earliest target of the phases that went back; whether there was one."""
        if not self.backs or self._ending:
            return False
        run = self.run_
        order = list(run.program.workflow.phases)
        source, target, _ = min(self.backs, key=lambda back: order.index(back[1]))
        again = run.program.workflow.followers(target)
        run.state.backs = {**run.state.backs}
        for _, _, key in self.backs:
            run.state.backs[key] = run.state.backs.get(key, 0) + 1
        run.state.going = {"target": target}
        run.save()
        self.backs.clear()
        for name in again:
            for left in (self.done, self.ended, self.later):
                left.pop(name, None)
            self.unfinished.discard(name)
        self._move(again)
        run.emit(WentBack(source, target, run.state.round))
        if not run.inline:
            run.log.append(f"{now()} round {run.state.round}: back from {source} to {target}")
        self._save()
        return True

    def _finish_move(self) -> None:
        """Finish what the state says is going on: back to a phase, or everything again; some files may be in place."""
        going = self.run_.state.going
        if "again" in going:
            self.run_.folder.begin_again()
            self.run_.state.going = {}
            self.run_.save()
        elif going.get("target") in self.run_.program.workflow.phases:
            again = self.run_.program.workflow.followers(going["target"])
            self.unfinished.difference_update(again)
            self._move(again)
            self._save()

    def _move(self, phases: Collection[str]) -> None:
        run = self.run_
        staying = [name for name in run.program.workflow.phases if name not in phases]
        run.folder.move_to_round(run.state.round, phases, staying)
        run.state.round += 1
        run.state.going = {}

    def _outcome(self) -> Outcome:
        run = self.run_
        ended = {name: self.ended[name] for name in run.program.workflow.phases if name in self.ended}
        for one in ended.values():
            if one.status == "stopped":
                return Outcome(one.next_step or "failed", one.reason)
        failed = [f"{name}: {one.reason}" for name, one in ended.items() if one.status == "failed"]
        if failed:
            way = next((one.next_step for one in ended.values() if one.status == "failed" and one.next_step), "")
            return Outcome("failed", "; ".join(failed), _then_resumed(way))
        for one in ended.values():
            return Outcome("waiting", one.reason, f"{one.next_step}, then {RESUME}" if one.next_step else RESUME)
        missing = [name for name in run.program.workflow.phases if name not in self.done]
        assert not missing, missing
        return Outcome("completed", outputs=workflow_outputs(run))


def workflow_outputs(run: Run) -> dict[str, Any]:
    found = run.folder.summaries(run.program.workflow.phases)
    phases = {name: phase_value(run, one) for name, one in found.items() if one["status"] == "completed"}
    names = {**base_names(run, run.state.state), "phases": phases}
    names["run"]["usage"] = spent_of(run).to_dict()
    outputs = {name: value.evaluate(names) for name, value in run.program.workflow.outputs.items()}
    return {name: value for name, value in outputs.items() if not isinstance(value, Absent)}
