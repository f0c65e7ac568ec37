"""`repeat`, `goto`, `stop` and `run`, which decide what is evaluated next, and `say`, which shows the user a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from skillrun.checker.checker import check_workflow
from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import VERBS
from skillrun.events import Said, Tripped
from skillrun.questions.answers import remove_double_stops
from skillrun.runtime.asking.asking import offer_retry
from skillrun.runtime.errors import GoToPhase, StepFailed, Stopped
from skillrun.runtime.frame import Frame, StepResult
from skillrun.runtime.phase_record import BreakerSettings, UsageTotals
from skillrun.runtime.run import PhaseRun, Run
from skillrun.runtime.scheduler import Schedule
from skillrun.runtime.scope import frame_names, is_true, names_bound_by
from skillrun.runtime.summaries import base_summary, degraded_flags
from skillrun.store.outcome import WaitingForUser
from skillrun.store.state import State
from skillrun.syntax.diagnostics import allowed_hint
from skillrun.types.fields import resolve_inputs
from skillrun.types.schemas import quote_value


async def run_repeat(step: Step, frame: Frame) -> StepResult:
    """Return `times` (the number of passes) and `exhausted` (whether the cap ended the loop before the condition held).

    A pass can read the results of the previous pass. If the cap is reached and the breaker is set to ask, the user is
    offered another pass.
    """
    if step.until is None and "at_most" not in step.values:
        for inner in step.steps:
            await frame.evaluate(inner)
        return StepResult({"times": 1, "exhausted": False})
    most, ids, names = frame.cap(step), names_bound_by(step.steps, only_ids=True), names_bound_by(step.steps)
    previous: dict[str, object] = {}
    times, done = 0, False
    with frame.name_scope("pass"):
        while not done:
            if times >= most and not await _offer_extra_pass(step, frame, times):
                break
            times += 1
            frame.names["pass"] = {"index": times, "previous": previous}
            frame.mark_absent(ids)
            with frame.address_scope(f"{step.id or 'repeat'}#{times}"):
                for inner in step.steps:
                    await frame.evaluate(inner)
            done = step.until is not None and is_true(step.until.render(frame_names(frame)))
            previous = {name: frame.names[name] for name in (*ids, *names) if name in frame.names}
    return StepResult({"times": times, "exhausted": not done and step.until is not None})


async def _offer_extra_pass(step: Step, frame: Frame, times: int) -> bool:
    """Return whether the user wants a pass beyond the cap. The user is asked only if the breaker's `then` is `ask`."""
    name = step.retry or frame.breaker_name(step)
    if name is None or step.until is None or frame.phase.breakers.settings_for(name).then != "ask":
        return False
    limit = frame.phase.breakers.settings_for(name)
    frame.run.emit(Tripped(name, frame.phase.name, times, "ask", limit.limit))
    what = f"`{step.id or 'repeat'}` has run {times} times, and its condition does not hold yet."
    return await offer_retry(frame, f"{frame.at(step)}.retry-{times}", what, limit, can_continue=True)


async def run_goto(step: Step, frame: Frame) -> StepResult:
    """Raise GoToPhase if the cap allows it, or if the breaker asks the user and the user agrees.

    In any other case, evaluate the step's `otherwise`, if there is one.
    """
    run = frame.run
    if run.options.simulation is not None and run.options.simulation.ignore_jumps:
        return StepResult()
    key = frame.at(step) + f">{step.text}"
    times = run.state.backs.get(key, 0)
    if times < frame.cap(step):
        await run.load_estimate()
        raise GoToPhase(step.text, key)
    name = frame.breaker_name(step)
    limit = frame.phase.breakers.settings_for(name) if name else BreakerSettings()
    then = limit.then
    run.emit(Tripped(name or "at_most", frame.phase.name, times, then, frame.cap(step)))
    reason = f"The run has already gone back to {step.text} {times} times."
    if then == "ask" and await offer_retry(frame, f"{key}@{times}", reason, limit, can_continue=True):
        await run.load_estimate()
        raise GoToPhase(step.text, key)
    if step.otherwise is not None:
        await frame.evaluate(step.otherwise)
    return StepResult()


async def run_stop(step: Step, frame: Frame) -> StepResult:
    status = frame.text(step)
    if status not in VERBS["stop"].main.values:
        raise StepFailed(f"`stop` is {quote_value(status)}; {allowed_hint(VERBS['stop'].main.values)}", frame.at(step))
    simulation, usage = frame.run.options.simulation, frame.phase.prior.usage + frame.phase.record.usage
    if simulation is not None and simulation.ignore_jumps and status == "failed" and usage.calls:
        return StepResult()  # before any call, no generated reply has an effect on the stop
    raise Stopped(status, frame.text(step, "reason"))


async def run_inline_workflow(step: Step, frame: Frame) -> StepResult:
    """Evaluate a workflow from its first phase, with journaled results, and return its outputs.

    The usage, warnings, questions and degradations of its phases are added to the record of the outer phase.
    """
    outer, address = frame.run, frame.at(step)
    program = outer.program.inline.get(step.text) or check_workflow(outer.program.library, step.text)
    if program is None:
        raise StepFailed(f"the workflow `{step.text}` cannot be run", address)
    workflow = program.workflow
    given = frame.value(step, "with", {})
    given = given if isinstance(given, Mapping) else {}
    inputs, errors, warnings = resolve_inputs(workflow.inputs, given, {"config": program.config})
    state, more, warned = resolve_inputs(workflow.state, {}, {"config": program.config, "inputs": inputs})
    if errors or more:
        raise StepFailed("; ".join(errors + more), address)
    for text in (*warnings, *warned):
        frame.phase.warn(text)
    inner = replace(
        outer,
        session=replace(outer.session, program=program),
        store=outer.store.inline(address),
        state=State(
            workflow.name,
            outer.state.started_at,
            inputs,
            state,
            environment=outer.state.environment,
            models=outer.state.models,
            project=outer.state.project,
            override=outer.state.override,
        ),
        lost_phases=set(),
        inline_address=address,
        parent_phase=frame.phase,
    )
    schedule = Schedule(inner)
    try:
        outcome = await frame.evaluator.run_phases(schedule)
    finally:
        _merge_inline_records(frame, inner, schedule.failed_phases)
    if outcome.status == "waiting":
        raise WaitingForUser(outcome.reason, outcome.next_step, schedule.pause_type or "interactive")
    if outcome.status != "completed":
        raise StepFailed(outcome.reason or f"{workflow.name} {outcome.status}", address, outcome.next_step)
    return StepResult(dict(outcome.outputs))


def _merge_inline_records(frame: Frame, inner: Run, failed: Iterable[PhaseRun]) -> None:
    """Add the records of an inline workflow's phases to the record of the outer phase."""
    phase, account = frame.phase, frame.phase.record
    ended = inner.store.summaries.all_summaries(inner.state.round, inner.program.workflow.phases)
    account.usage += UsageTotals.from_summaries(ended)
    account.prompts.count += sum(1 for summary in ended if summary.usage.get("calls"))
    unfinished = [  # a failed phase has no summary on disk
        base_summary(phase, "failed").with_fields(
            flags=degraded_flags(phase), quality_warnings=phase.record.warnings, asked=phase.record.question_ids
        )
        for phase in failed
    ]
    at = inner.inline_address.removeprefix(f"{phase.address()}/")
    for record in (*ended, *unfinished):
        again = f" (round {record.round})" if record.round > 1 else ""
        place, flags = f"{at}/{record.phase}{again}", record.flags
        warnings = (f"{place}: {text}" for text in record.quality_warnings)
        account.warnings.extend(text for text in warnings if text not in account.warnings)
        if flags.get("degraded"):
            account.degrade(f"{place}: {flags.get('degraded_because', 'degraded')}")
            frame.degraded_steps.append(place)
        if isinstance(dropped := flags.get("dropped"), int) and dropped:
            account.dropped_counts[place] = dropped
        account.question_ids.extend(question for question in record.asked if question not in account.question_ids)


async def run_say(step: Step, frame: Frame) -> StepResult:
    text = remove_double_stops(" ".join(frame.text(step).split()))
    level = frame.text(step, "level", "info")
    if level == "warn" and text not in frame.phase.record.warnings:
        frame.phase.record.warnings.append(text)
    frame.run.emit(Said(frame.phase.name, text, level))
    return StepResult()
