"""Runs a workflow to its end, and has the folder, the events and the person say the same of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from skillrun.events import RunEnded, RunStarted
from skillrun.runtime.errors import BudgetExhausted
from skillrun.runtime.run import Run
from skillrun.runtime.scheduler import Scheduler, total_usage
from skillrun.store.clock import utc_timestamp
from skillrun.store.errors import file_error
from skillrun.store.lease import LeaseLost
from skillrun.store.next_step import RESUME_RUN, NextStep, flags_to_record
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError


async def run_workflow(run: Run, *, resumed: bool = False) -> Outcome:
    """Run to the end, or to where a person is needed; `state.md` says the same as the outcome."""
    workflow = run.program.workflow
    run.state.status = "running"
    flags = {**run.session.responder.resume_flags, **run.session.command_flags}
    run.emit(
        RunStarted(
            run.name,
            workflow.name,
            run.store.location(),
            tuple(workflow.phases),
            run.state.inputs,
            dict(run.state.models),
            resumed,
            flags_to_record(flags),
        )
    )
    run.save()
    try:
        outcome = await Scheduler(run).run()
    except BudgetExhausted as spent:
        outcome = Outcome("waiting", str(spent), run.budget.next_step())
    except SkillrunError as error:
        outcome = _failure(error)
    except asyncio.CancelledError:
        outcome = Outcome("interrupted", "interrupted", RESUME_RUN)
    except Exception as bug:
        run.state.status, run.state.reason = "failed", f"a bug in skillrun ({type(bug).__name__})"
        with suppress(OSError):
            run.save()
        raise
    if unwritten := run.journal.write_error():
        outcome = _failure(unwritten)
    try:
        _save_outcome(run, outcome)
    except (OSError, SkillrunError) as error:
        outcome = _outcome_of_failed_save(outcome, error if isinstance(error, SkillrunError) else file_error(error))
        with suppress(OSError, SkillrunError):  # what is on the disk may be whole, and say otherwise
            _save_outcome(run, outcome)
    run_name = run.store.command_argument(run.session.project)
    next_step_text = outcome.next_step.render(run_name, flags)
    run.emit(RunEnded(run.name, outcome.status, outcome.reason, total_usage(run).to_dict(), next_step_text))
    return replace(outcome, next_step=NextStep.of(next_step_text))


def _failure(error: SkillrunError) -> Outcome:
    if isinstance(error, LeaseLost):  # it says all of it: it may be that nothing can be resumed
        return Outcome("failed", str(error), NextStep.of(error.next_step))
    return Outcome("failed", str(error), NextStep.parse(error.next_step).then_resume())


def _save_outcome(run: Run, outcome: Outcome) -> None:
    """Have the folder say how the run ended."""
    if outcome.status == "completed":
        run.store.prune()
    run.state.status, run.state.reason = outcome.status, outcome.reason
    run.log.append(f"{utc_timestamp()} {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    run.save()


def _outcome_of_failed_save(outcome: Outcome, error: SkillrunError) -> Outcome:
    """How a run has ended whose folder does not say so."""
    if outcome.status in ("completed", "waiting"):
        return _failure(error)
    more = "" if error.message in outcome.reason else f"; {error.message}"
    return replace(outcome, reason=f"{outcome.reason}{more}")
