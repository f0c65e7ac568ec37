"""Runs a workflow until it ends or waits, and records the same outcome in `state.md` and in the events."""

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
from skillrun.store.next_step import RESUME_RUN, NextStep
from skillrun.store.outcome import Outcome
from skillrun.syntax.diagnostics import SkillrunError


async def run_workflow(run: Run, *, resumed: bool = False) -> Outcome:
    """Run until the workflow ends or waits for the user. `state.md` records the returned outcome."""
    workflow = run.program.workflow
    run.state.status = "running"
    run.emit(
        RunStarted(
            run.name,
            workflow.name,
            run.store.location(),
            tuple(workflow.phases),
            run.state.inputs,
            dict(run.state.models),
            resumed,
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
        run.state.status, run.state.reason = "failed", f"internal error in skillrun ({type(bug).__name__})"
        with suppress(OSError):
            run.save()
        raise
    if unwritten := run.journal.write_error():
        outcome = _failure(unwritten)
    try:
        _save_outcome(run, outcome)
    except (OSError, SkillrunError) as error:
        outcome = _outcome_of_failed_save(outcome, error if isinstance(error, SkillrunError) else file_error(error))
        with suppress(OSError, SkillrunError):  # the file on disk may be intact and show another status
            _save_outcome(run, outcome)
    run_name = run.store.command_argument(run.session.project)
    next_step_text = outcome.next_step.render(
        run_name, {**run.session.responder.resume_flags, **run.session.command_flags}
    )
    run.emit(RunEnded(run.name, outcome.status, outcome.reason, total_usage(run).to_dict(), next_step_text))
    return replace(outcome, next_step=NextStep.of(next_step_text))


def _failure(error: SkillrunError) -> Outcome:
    if isinstance(error, LeaseLost):  # its hint is complete: the run may not be resumable
        return Outcome("failed", str(error), NextStep.of(error.next_step))
    return Outcome("failed", str(error), NextStep.parse(error.next_step).then_resume())


def _save_outcome(run: Run, outcome: Outcome) -> None:
    """Record in the run folder how the run ended."""
    if outcome.status == "completed":
        run.store.prune()
    run.state.status, run.state.reason = outcome.status, outcome.reason
    run.log.append(f"{utc_timestamp()} {outcome.status}{f': {outcome.reason}' if outcome.reason else ''}")
    run.save()


def _outcome_of_failed_save(outcome: Outcome, error: SkillrunError) -> Outcome:
    """Return the outcome of a run whose final state could not be saved."""
    if outcome.status in ("completed", "waiting"):
        return _failure(error)
    more = "" if error.message in outcome.reason else f"; {error.message}"
    return replace(outcome, reason=f"{outcome.reason}{more}")
