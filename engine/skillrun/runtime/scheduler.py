"""Starts the phases of a workflow as their predecessors finish, goes back to earlier ones, and says what came of it.

Deterministic: the same files, inputs, answers and replies give the same path. Resuming is evaluating again: a phase
with a summary is final, the open ones are evaluated over the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from skillrun.events import Notice, PhaseEnded, WentBack
from skillrun.runtime.asking.awaited_files import tell_late
from skillrun.runtime.asking.forms import reread_forms
from skillrun.runtime.estimate_updates import tell_way_back
from skillrun.runtime.evaluate import evaluate
from skillrun.runtime.phases import Ended, run_phase
from skillrun.runtime.recovery import lost_phases, tell_edited, usable_summary
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import base_values, phase_value, truth
from skillrun.runtime.usage_totals import Spent
from skillrun.store.clock import moment
from skillrun.store.errors import file_trouble
from skillrun.store.next_step import NOTHING, RESUME_RUN
from skillrun.store.outcome import Outcome
from skillrun.store.summary import WAITS, Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.absent import Absent


def spent_of(run: Run) -> Spent:
    """What the summaries of all rounds, and with them their calls, have used."""
    return Spent.of(run.store.summaries.all(run.state.round, run.program.workflow.phases))


class Interpreter:
    """Evaluates steps, and workflows that run inside a phase."""

    step = staticmethod(evaluate)

    @staticmethod
    def workflow(run: Run) -> Scheduler:
        return Scheduler(run, final=False)


INTERPRETER: Final = Interpreter()


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
        self.error: Exception | None = None
        self.final = final

    async def run(self) -> Outcome:
        with self._failing():
            self._finish_move()
            if self.final:
                self._take_final()
                await reread_forms(self.run_, self.done)
                tell_late(self.run_, self.done)
                tell_edited(self.run_)
        try:
            while True:
                with self._failing():
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
    def pause(self) -> str:
        """How the phase waits that is the first to wait: empty where none does."""
        return next((ended.pause for ended in self.ended.values() if ended.pause), "")

    @property
    def failed(self) -> list[PhaseRun]:
        """The phases that have failed for good, and so have no summary."""
        return [ended.left for ended in self.ended.values() if ended.left is not None]

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What goes wrong here ends the run; what runs beside is waited for."""
        try:
            yield
        except SkillrunError as error:
            self.error = self.error or error
        except OSError as error:
            self.error = self.error or file_trouble(error)
        except Exception as bug:  # noqa: BLE001 -- it, too, waits for the calls that are under way
            self.error = self.error or bug

    @property
    def _ending(self) -> bool:
        """Nothing new begins; what runs beside is waited for, so that no call is cut off."""
        return self.error is not None or any(ended.status != WAITS for ended in self.ended.values())

    def _take_final(self) -> None:
        """Phases with a current summary are final."""
        run = self.run_
        for name in run.program.workflow.phases:
            summary = usable_summary(run, name)
            if summary is not None:
                recovered = summary.flags.get("recovered")
                self._settle(name, summary, new=name in self.unfinished and not recovered)
                run.emit(PhaseEnded(name, run.state.round, self.done[name], final=True))
        run.lost = lost_phases(run, self.done, self.unfinished)
        self._save()

    def _settle(self, name: str, summary: Summary, *, new: bool) -> None:
        """Apply what a phase has ended with; what it set only once, or a later phase's value would be lost."""
        state = self.run_.state
        self.done[name] = summary.status
        self.unfinished.discard(name)
        if new:
            for key, value in summary.set.items():
                state.state.pop(key, None)
                if value is not None:
                    state.state[key] = value
        back = summary.goto
        if back is not None and summary.round == state.round:
            self.backs.append((name, back["target"], back["step"]))

    def _start(self) -> None:
        if self._ending:
            return
        self._check_summaries()
        parallel = self._parallel()
        for name, use in self.run_.program.workflow.phases.items():
            if self.running and not parallel:
                return
            if name in self.done or name in self.ended or name in self.running.values() or name in self.later:
                continue
            if self.backs and name not in self.unfinished:
                continue  # going back waits for what runs beside, and begins nothing
            if self._is_wanted(name) and all(before in self.done for before in use.after):
                self._open(name)
        if not self.running and self.later and not self.backs:
            name = next(iter(self.later))
            self._open(name, self.later.pop(name))

    def _check_summaries(self) -> None:
        """What has ended in this process must still be on the disk: later phases read it there."""
        for name in self.done:
            if self.run_.store.summaries.any(name) is None:
                place = self.run_.store.place(self.run_.store.summaries.place(name))
                raise SkillrunError(
                    f"{place} was removed while the run went on", f"{RESUME_RUN}, which works it out again"
                )

    def _open(self, name: str, before: PhaseRun | None = None) -> None:
        run = self.run_
        use = run.program.workflow.phases[name]
        self.unfinished.add(name)
        self._save()
        self.running[asyncio.create_task(run_phase(run, use, INTERPRETER, before), name=name)] = name

    def _save(self) -> None:
        self.run_.state.phase = sorted(self.unfinished)
        self.run_.save()

    def _is_wanted(self, name: str) -> bool:
        """Whether the phase may begin in this evaluation; those of an inline workflow may."""
        only = self.run_.session.only
        return not only or self.run_.inline != "" or name in only

    def _parallel(self) -> bool:
        value = self.run_.program.workflow.parallel
        return value is not None and truth(value.evaluate(base_values(self.run_, self.run_.state.state)))

    def _take_task(self, task: asyncio.Task[Ended]) -> None:
        name = self.running.pop(task)
        with self._failing():
            self._take(name, task.result())

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
            run.log.append(f"{moment()} {name}: {ended.status}{f' ({ended.reason})' if ended.reason else ''}")
        self._save()

    def _go_back(self) -> bool:
        """Apply the earliest target of the phases that went back; whether there was one."""
        if not self.backs or self._ending:
            return False
        with self._failing():
            self._move_back()
        return True

    def _move_back(self) -> None:
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
        tell_way_back(run, source, [name for name in order if name not in self.done])
        if not run.inline:
            run.log.append(f"{moment()} round {run.state.round}: back from {source} to {target}")
        self._save()

    def _finish_move(self) -> None:
        """Finish what the state says is going on: back to a phase, or everything again; some files may be in place."""
        going = self.run_.state.going
        if "again" in going:
            self.run_.store.begin_again()
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
        for name in run.store.end_round(run.state.round, phases, staying):
            run.emit(Notice(f"your edit of {name} is in round-{run.state.round}/ now: {name} is written anew", "warn"))
        run.state.round += 1
        run.state.going = {}

    def _outcome(self) -> Outcome:
        run = self.run_
        ended = {name: self.ended[name] for name in run.program.workflow.phases if name in self.ended}
        for phase in ended.values():
            if phase.status == "stopped":
                return Outcome(phase.ends, phase.reason)
        failed = [f"{name}: {phase.reason}" for name, phase in ended.items() if phase.status == "failed"]
        if failed:
            ways = (phase.next_step for phase in ended.values() if phase.status == "failed" and phase.next_step)
            return Outcome("failed", "; ".join(failed), next(ways, NOTHING).then_resume())
        reason = "; ".join(dict.fromkeys(phase.reason for phase in ended.values()))  # phases side by side may all wait
        for phase in ended.values():
            return Outcome("waiting", reason, phase.next_step.then_resume(", ") if phase.next_step else RESUME_RUN)
        missing = [name for name in run.program.workflow.phases if name not in self.done]
        if missing and not any(map(self._is_wanted, missing)):
            return Outcome("waiting", f"ended before `{missing[0]}`, which was left out", RESUME_RUN)
        assert not missing, missing
        return Outcome("completed", outputs=workflow_outputs(run))


def workflow_outputs(run: Run) -> dict[str, object]:
    summaries = run.store.summaries.of(run.program.workflow.phases)
    phases = {name: phase_value(run, summary) for name, summary in summaries.items() if summary.status == "completed"}
    names = {**base_values(run, run.state.state), "phases": phases}
    names["run"]["usage"] = spent_of(run).template_value()
    outputs = {name: value.evaluate(names) for name, value in run.program.workflow.outputs.items()}
    return {name: value for name, value in outputs.items() if not isinstance(value, Absent)}
