"""Decides when each phase of a workflow starts, when the run goes back to an earlier phase, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from skillrun.events import Notice, PhaseEnded, RunEnded, WentBack
from skillrun.runtime.asking.forms import reread_forms, warn_of_late_files
from skillrun.runtime.estimate_updates import emit_goto_estimate
from skillrun.runtime.phase_record import UsageTotals
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scope import base_values, is_true, phase_value
from skillrun.runtime.summaries import usable_summary, warn_of_edit
from skillrun.store.files import LeaseLost
from skillrun.store.outcome import NO_NEXT_STEP, RESUME_RUN, NextStep, Outcome, Status, file_error
from skillrun.store.summaries import WAITING_STATUS, Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.values import Absent


def total_usage(run: Run) -> UsageTotals:
    """Return the total usage that the summaries of all rounds record."""
    return UsageTotals.from_summaries(run.store.summaries.all_summaries(run.state.round, run.program.workflow.phases))


@dataclass(frozen=True)
class PhaseResult:
    """How the evaluation of a phase ended.

    `status` is completed, skipped, back, failed, needs-user-input or stopped.
    """

    status: str
    summary: Summary | None = None
    reason: str = ""
    next_step: NextStep = NO_NEXT_STEP
    run_status: Status = "failed"
    """The status of the run after a `stop` step."""
    deferred_attempt: PhaseRun | None = None
    """The failed attempt, if the phase is to be retried when no other phase runs."""
    failed_phase: PhaseRun | None = None
    """The phase, if it failed without a summary. Its record then replaces the summary."""
    pause_type: str = ""


class Schedule:
    """Decides which phases may start, applies the results of ended phases, and says how the run ends."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.done: dict[str, str] = {}
        self.running: set[str] = set()
        self.unfinished = set(run.state.phase)  # started, perhaps in an earlier process, but not ended
        self.incomplete_results: dict[str, PhaseResult] = {}
        """Phases that have ended in this process without a final summary: waiting, failed or stopped."""
        self.retry_queue: dict[str, PhaseRun] = {}  # failed in parallel with others; retried alone
        self.pending_gotos: list[tuple[str, str, str]] = []  # source, target, step
        self.error: Exception | None = None

    async def prepare(self) -> None:
        """Finish what an earlier process began, and load the summaries of the phases that have ended."""
        with self.capture_errors():
            self._finish_move()
            if not self.run.inline_address:  # an inline workflow is evaluated from its first phase
                self._load_final_summaries()
                await reread_forms(self.run, self.done)
                warn_of_late_files(self.run, self.done)
                for place in self.run.store.summaries.list_edited_in_past_rounds():
                    warn_of_edit(self.run, place)

    @property
    def pause_type(self) -> str:
        """The pause type of the first phase that waits; empty if none waits."""
        return next((ended.pause_type for ended in self.incomplete_results.values() if ended.pause_type), "")

    @property
    def failed_phases(self) -> list[PhaseRun]:
        """The phases that failed permanently and therefore have no summary."""
        return [ended.failed_phase for ended in self.incomplete_results.values() if ended.failed_phase is not None]

    @contextmanager
    def capture_errors(self) -> Iterator[None]:
        """Keep the first error that occurs in the context. It ends the run after the running phases have ended."""
        try:
            yield
        except SkillrunError as error:
            self.error = self.error or error
        except OSError as error:
            self.error = self.error or file_error(error)
        except Exception as bug:  # noqa: BLE001 -- raised again after active calls have ended
            self.error = self.error or bug

    @property
    def _ending(self) -> bool:
        """Whether no more phases may start. Running phases may end, so that no call is interrupted."""
        return self.error is not None or any(end.status != WAITING_STATUS for end in self.incomplete_results.values())

    def _load_final_summaries(self) -> None:
        """Mark each phase that has a summary in this round as final.

        A phase without a summary must have ended too if a later phase has started or ended.
        """
        run, workflow = self.run, self.run.program.workflow
        for name in workflow.phases:
            summary = usable_summary(run, name)
            if summary is not None:
                recovered = summary.flags.get("recovered")
                self._apply_summary(name, summary, new=name in self.unfinished and not recovered)
                run.emit(PhaseEnded(name, run.state.round, self.done[name], final=True))
        later = {*self.done, *self.unfinished}
        missing = (name for name in workflow.phases if name not in self.done)
        run.lost_phases = {name for name in missing if later & (set(workflow.followers(name)) - {name})}
        self._save()

    def _apply_summary(self, name: str, summary: Summary, *, new: bool) -> None:
        """Apply the summary of an ended phase.

        If the summary is `new`, its state values are applied too. The values of an older summary are not, because later
        phases may have changed them since.
        """
        state = self.run.state
        self.done[name] = summary.status
        self.unfinished.discard(name)
        if new:
            for key, value in summary.set.items():
                state.state.pop(key, None)
                if value is not None:
                    state.state[key] = value
        back = summary.goto
        if back is not None and summary.round == state.round:
            self.pending_gotos.append((name, back["target"], back["step"]))

    def start_phases(self) -> Iterator[tuple[str, PhaseRun | None]]:
        """Mark each phase that may start as running, and yield it with the failed attempt of a phase that is retried.

        The caller must start a phase before it takes the next one. Raises SkillrunError if a summary was removed.
        """
        if self._ending:
            return
        store, workflow = self.run.store, self.run.program.workflow
        for name in self.done:
            if store.summaries.find(name) is None:  # later phases read it
                place = store.location(store.summaries.file_name(name))
                raise SkillrunError(f"{place} was removed during the run", f"{RESUME_RUN}, which rebuilds it")
        names = base_values(self.run, self.run.state.state) if workflow.parallel is not None else {}
        parallel = workflow.parallel is not None and is_true(workflow.parallel.evaluate(names))
        for name, use in workflow.phases.items():
            if self.running and not parallel:
                return
            if name in self.running or any(
                name in ended for ended in (self.done, self.incomplete_results, self.retry_queue)
            ):
                continue
            if self.pending_gotos and name not in self.unfinished:
                continue  # before the run goes back, running phases end, and no phase starts
            if self._is_selected(name) and all(before in self.done for before in use.after):
                yield self._start(name), None
        if not self.running and self.retry_queue and not self.pending_gotos:
            name = next(iter(self.retry_queue))
            yield self._start(name), self.retry_queue.pop(name)

    def _start(self, name: str) -> str:
        self.unfinished.add(name)
        self._save()
        self.running.add(name)
        return name

    def _save(self) -> None:
        self.run.state.phase = sorted(self.unfinished)
        self.run.save()

    def _is_selected(self, name: str) -> bool:
        """Return whether a phase was selected for this evaluation. Phases of an inline workflow always are."""
        only = self.run.options.only_phases
        return not only or self.run.inline_address != "" or name in only

    def end_phase(self, name: str, task: asyncio.Task[PhaseResult]) -> None:
        """Apply the result of a phase, or keep its error."""
        self.running.discard(name)
        with self.capture_errors():
            run, result = self.run, task.result()
            if result.deferred_attempt is not None:
                self.retry_queue[name] = result.deferred_attempt
            elif result.summary is not None:
                self._apply_summary(name, result.summary, new=name not in run.lost_phases)
                run.lost_phases.discard(name)
            else:
                self.incomplete_results[name] = result
            run.log(f"{name}: {result.status}{f' ({result.reason})' if result.reason else ''}")
            self._save()

    def go_back(self) -> bool:
        """Go back to the earliest phase that a `goto` names, and return whether there is one."""
        if not self.pending_gotos or self._ending:
            return False
        with self.capture_errors():
            run, order = self.run, list(self.run.program.workflow.phases)
            source, target, _ = min(self.pending_gotos, key=lambda back: order.index(back[1]))
            run.state.backs = {**run.state.backs}
            for _, _, key in self.pending_gotos:
                run.state.backs[key] = run.state.backs.get(key, 0) + 1
            run.state.going = {"target": target}
            run.save()
            self.pending_gotos.clear()
            self._start_round(target)
            run.emit(WentBack(source, target, run.state.round))
            emit_goto_estimate(run, source, [name for name in order if name not in self.done])
            run.log(f"round {run.state.round}: back from {source} to {target}")
            self._save()
        return True

    def _finish_move(self) -> None:
        """Finish going back to a phase or to the start, if the state says that an earlier process began this.

        Some files may have been moved already.
        """
        going = self.run.state.going
        if "again" in going:
            self.run.store.reset()
            self.run.state.going = {}
            self.run.save()
        elif going.get("target") in self.run.program.workflow.phases:
            self._start_round(going["target"])
            self._save()

    def _start_round(self, target: str) -> None:
        """Start a round in which `target` and all phases that follow it are evaluated again."""
        run, workflow = self.run, self.run.program.workflow
        again = workflow.followers(target)
        for name in again:
            for phase_map in (self.done, self.incomplete_results, self.retry_queue):
                phase_map.pop(name, None)
            self.unfinished.discard(name)
        staying = [name for name in workflow.phases if name not in again]
        for name in run.store.end_round(run.state.round, again, staying):
            text = f"your edit of {name} was moved to round-{run.state.round}/, because {name} is written again"
            run.emit(Notice(text, "warn"))
        run.state.round += 1
        run.state.going = {}

    def outcome(self) -> Outcome:
        """Return how the run ends. Raises the first error of a phase."""
        if self.error is not None:
            raise self.error
        run = self.run
        results = self.incomplete_results
        ended = {name: results[name] for name in run.program.workflow.phases if name in results}
        for phase in ended.values():
            if phase.status == "stopped":
                return Outcome(phase.run_status, phase.reason)
        failed = [f"{name}: {phase.reason}" for name, phase in ended.items() if phase.status == "failed"]
        if failed:
            ways = (phase.next_step for phase in ended.values() if phase.status == "failed" and phase.next_step)
            return Outcome("failed", "; ".join(failed), next(ways, NO_NEXT_STEP).then_resume())
        reason = "; ".join(dict.fromkeys(phase.reason for phase in ended.values()))  # parallel phases may all wait
        for phase in ended.values():
            return Outcome("waiting", reason, phase.next_step.then_resume(", ") if phase.next_step else RESUME_RUN)
        missing = [name for name in run.program.workflow.phases if name not in self.done]
        if missing and not any(map(self._is_selected, missing)):
            return Outcome("waiting", f"ended before `{missing[0]}`, which was not selected", RESUME_RUN)
        assert not missing, missing
        summaries = run.store.summaries.completed_summaries(run.program.workflow.phases)
        completed = {name: summary for name, summary in summaries.items() if summary.status == "completed"}
        names = base_values(run, run.state.state)
        names["phases"] = {name: phase_value(run, summary) for name, summary in completed.items()}
        names["run"]["usage"] = total_usage(run).template_value()
        outputs = {name: value.evaluate(names) for name, value in run.program.workflow.outputs.items()}
        given = {name: value for name, value in outputs.items() if not isinstance(value, Absent)}
        return Outcome("completed", outputs=given)


def record_outcome(run: Run, outcome: Outcome, flags: Mapping[str, str]) -> Outcome:
    """Record in the run folder how a run has ended, emit an event, and return the outcome with the next command."""
    if unwritten := run.journal.write_error():
        outcome = failure_outcome(unwritten)
    try:
        _save_outcome(run, outcome)
    except (OSError, SkillrunError) as error:
        failed = error if isinstance(error, SkillrunError) else file_error(error)
        if outcome.status in ("completed", "waiting"):
            outcome = failure_outcome(failed)
        elif failed.message not in outcome.reason:
            outcome = replace(outcome, reason=f"{outcome.reason}; {failed.message}")
        with suppress(OSError, SkillrunError):  # the file may be writable, and must not show another status
            _save_outcome(run, outcome)
    run_name = run.store.command_argument(run.options.project)
    next_step_text = outcome.next_step.render(run_name, flags)
    run.emit(RunEnded(run.name, outcome.status, outcome.reason, total_usage(run).to_dict(), next_step_text))
    return replace(outcome, next_step=NextStep.of(next_step_text))


def failure_outcome(error: SkillrunError) -> Outcome:
    if isinstance(error, LeaseLost):  # the hint of the error is complete, since the run may not be resumable
        return Outcome("failed", str(error), NextStep.of(error.next_step))
    return Outcome("failed", str(error), NextStep.parse(error.next_step).then_resume())


def _save_outcome(run: Run, outcome: Outcome) -> None:
    """Record in the run folder how the run ended, and remove what a completed run no longer needs."""
    if outcome.status == "completed":
        run.store.prune()
    run.state.status, run.state.reason = outcome.status, outcome.reason
    run.log(f"{outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    run.save()
