"""Runs a workflow: its phases as their predecessors finish, rounds, pauses and the end.

Deterministic: the same files, inputs, answers and replies give the same path. Resuming is evaluating again: a phase
with a summary is final, the open ones are evaluated over the journal.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from skillrun.language.templates.absent import Absent
from skillrun.language.text.diagnostics import SkillrunError
from skillrun.runtime.errors import BudgetSpent, file_trouble
from skillrun.runtime.events import PhaseEnded, RunEnded, RunStarted, WentBack
from skillrun.runtime.expected import tell_way_back
from skillrun.runtime.phases import Ended, run_phase
from skillrun.runtime.questions.brought import tell_late
from skillrun.runtime.questions.forms import reread
from skillrun.runtime.recovery import lost, tell_edited, usable
from skillrun.runtime.run import PhaseRun, Run, Spent
from skillrun.runtime.scope import base_names, phase_value, truth
from skillrun.runtime.store.lease import RunLost
from skillrun.runtime.store.summary import WAITS, Summary

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
            run.store.place(),
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
        outcome = _failure(error)
    except asyncio.CancelledError:
        outcome = Outcome("interrupted", "interrupted", RESUME)
    except Exception as bug:
        run.state.status, run.state.reason = "failed", f"a bug in skillrun ({type(bug).__name__})"
        with suppress(OSError):
            run.save()
        raise
    if unwritten := run.journal.unwritten():
        outcome = _failure(unwritten)
    try:
        _keep(run, outcome)
    except (OSError, SkillrunError) as error:
        outcome = _unkept(outcome, error if isinstance(error, SkillrunError) else file_trouble(error))
        with suppress(OSError, SkillrunError):  # what is on the disk may be whole, and say otherwise
            _keep(run, outcome)
    here = run.store.called(run.session.project)
    outcome = replace(outcome, next_step=_typed(outcome.next_step, here, run.session.person.typed))
    run.emit(RunEnded(run.name, outcome.status, outcome.reason, spent_of(run).to_dict(), outcome.next_step))
    return outcome


def _failure(error: SkillrunError) -> Outcome:
    complete = isinstance(error, RunLost)  # it may be that nothing can be resumed
    return Outcome("failed", str(error), error.next_step if complete else _then_resumed(error.next_step))


def _keep(run: Run, outcome: Outcome) -> None:
    """Have the folder say how the run ended."""
    if outcome.status == "completed":
        run.store.prune()
    run.state.status, run.state.reason = outcome.status, outcome.reason
    run.log.append(f"{now()} {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    run.save()


def _unkept(outcome: Outcome, error: SkillrunError) -> Outcome:
    """How a run has ended whose folder does not say so."""
    if outcome.status in ("completed", "waiting"):
        return _failure(error)
    more = "" if error.message in outcome.reason else f"; {error.message}"
    return replace(outcome, reason=f"{outcome.reason}{more}")


def _then_resumed(way: str, between: str = "; ") -> str:
    """What to do, and how to go on behind it; said once, also where a workflow inside this one has said it."""
    way = way.rstrip(". ") or "mend what is wrong"
    return way if "resume" in way else f"{way}{between}then {RESUME}"


def _typed(way: str, here: str, again: Mapping[str, str]) -> str:
    """The way with the run's name in its commands, and with the flags that this process was given."""

    def command(found: re.Match[str]) -> str:
        own = found[0].removeprefix("resume RUN")
        flags = [f" {' '.join(filter(None, one))}" for one in again.items() if one[0] not in own]
        return f"resume {here}{''.join(flags)}{own}"

    return re.sub(r"resume RUN[^`]*", command, way)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def spent_of(run: Run) -> Spent:
    """What the summaries of all rounds, and with them their calls, have used."""
    return Spent.of(run.store.summaries.all(run.state.round, run.program.workflow.phases))


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
                await reread(self.run_, self.done)
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
            summary = usable(run, name)
            if summary is not None:
                recovered = summary.flags.get("recovered")
                self._settle(name, summary, new=name in self.unfinished and not recovered)
                run.emit(PhaseEnded(name, run.state.round, self.done[name], final=True))
        run.lost = lost(run, self.done, self.unfinished)
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
            if all(before in self.done for before in use.after):
                self._open(name)
        if not self.running and self.later and not self.backs:
            name = next(iter(self.later))
            self._open(name, self.later.pop(name))

    def _check_summaries(self) -> None:
        """What has ended in this process must still be on the disk: later phases read it there."""
        for name in self.done:
            if self.run_.store.summaries.any(name) is None:
                place = self.run_.store.place(self.run_.store.summaries.place(name))
                raise SkillrunError(f"{place} was removed while the run went on", f"{RESUME}, which works it out again")

    def _open(self, name: str, before: PhaseRun | None = None) -> None:
        run = self.run_
        use = run.program.workflow.phases[name]
        self.unfinished.add(name)
        self._save()
        self.running[asyncio.create_task(run_phase(run, use, before), name=name)] = name

    def _save(self) -> None:
        self.run_.state.phase = sorted(self.unfinished)
        self.run_.save()

    def _parallel(self) -> bool:
        value = self.run_.program.workflow.parallel
        return value is not None and truth(value.evaluate(base_names(self.run_, self.run_.state.state)))

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
            run.log.append(f"{now()} {name}: {ended.status}{f' ({ended.reason})' if ended.reason else ''}")
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
            run.log.append(f"{now()} round {run.state.round}: back from {source} to {target}")
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
        run.store.end_round(run.state.round, phases, staying)
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
        reason = "; ".join(dict.fromkeys(one.reason for one in ended.values()))  # phases side by side may all wait
        for one in ended.values():
            return Outcome("waiting", reason, _then_resumed(one.next_step, ", ") if one.next_step else RESUME)
        missing = [name for name in run.program.workflow.phases if name not in self.done]
        assert not missing, missing
        return Outcome("completed", outputs=workflow_outputs(run))


def workflow_outputs(run: Run) -> dict[str, Any]:
    found = run.store.summaries.of(run.program.workflow.phases)
    phases = {name: phase_value(run, one) for name, one in found.items() if one.status == "completed"}
    names = {**base_names(run, run.state.state), "phases": phases}
    names["run"]["usage"] = spent_of(run).told()
    outputs = {name: value.evaluate(names) for name, value in run.program.workflow.outputs.items()}
    return {name: value for name, value in outputs.items() if not isinstance(value, Absent)}
