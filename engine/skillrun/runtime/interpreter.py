"""Runs a workflow to its end, and has the folder, the events and the person say the same of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from skillrun.events import RunEnded, RunStarted
from skillrun.runtime.errors import BudgetSpent
from skillrun.runtime.run import Run
from skillrun.runtime.scheduler import Scheduler, spent_of
from skillrun.store.clock import moment
from skillrun.store.errors import file_trouble
from skillrun.store.lease import RunLost
from skillrun.store.next_step import RESUME_RUN, NextStep
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError


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
        outcome = Outcome("interrupted", "interrupted", RESUME_RUN)
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
    typed = outcome.next_step.typed(here, {**run.session.person.typed, **run.session.flags})
    run.emit(RunEnded(run.name, outcome.status, outcome.reason, spent_of(run).to_dict(), typed))
    return replace(outcome, next_step=NextStep.of(typed))


def _failure(error: SkillrunError) -> Outcome:
    if isinstance(error, RunLost):  # it says all of it: it may be that nothing can be resumed
        return Outcome("failed", str(error), NextStep.of(error.next_step))
    return Outcome("failed", str(error), NextStep.read(error.next_step).then_resume())


def _keep(run: Run, outcome: Outcome) -> None:
    """Have the folder say how the run ended."""
    if outcome.status == "completed":
        run.store.prune()
    run.state.status, run.state.reason = outcome.status, outcome.reason
    run.log.append(f"{moment()} {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    run.save()


def _unkept(outcome: Outcome, error: SkillrunError) -> Outcome:
    """How a run has ended whose folder does not say so."""
    if outcome.status in ("completed", "waiting"):
        return _failure(error)
    more = "" if error.message in outcome.reason else f"; {error.message}"
    return replace(outcome, reason=f"{outcome.reason}{more}")
