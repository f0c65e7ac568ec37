"""A run from the first line to the last: its view, its gateway, and what is said at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from skillrun.cli.answer_options import Presence
from skillrun.cli.formatting import phase_at, spent, status_line
from skillrun.cli.live import run_view
from skillrun.cli.loading import Loaded, Script, cache_folder, refuse
from skillrun.cli.options import runs_at, slots_for
from skillrun.cli.output import Output, silence
from skillrun.cli.preview import estimated
from skillrun.cli.project_folder import project_here
from skillrun.cli.run_request import Job
from skillrun.cli.run_summary import story
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.expected_questions import check_answers, refusal
from skillrun.runtime.listeners import RunContext, close_listeners, observe_gateway, open_listeners
from skillrun.runtime.run import Session
from skillrun.runtime.session import begin_run
from skillrun.store.frontmatter import legible
from skillrun.store.outcome import Outcome
from skillrun.store.stored_run import Runs, base_slug
from skillrun.syntax.diagnostics import SkillrunError, hanging


def run_new(job: Job, out: Output) -> int:
    """Begin a run; the exit code."""
    loaded, inputs = job.loaded, job.inputs
    if not is_answered(job, out):
        return 1
    first = loaded.program.workflow.first_input
    words = legible(str(inputs[first.name])) if first is not None else loaded.program.workflow.name
    estimate = asyncio.run(estimated(loaded, inputs, job.model, job.typed, job.presence.prepared))
    runs = runs_at(job.runs)
    name = job.slug or runs.take_name(words, shared=job.share)
    if not job.slug:
        base = base_slug(words)
        _mention(runs, base if base != name else "", out)

    left: list[str] = []

    async def go(session: Session) -> Outcome:
        chosen = replace(
            session, override=job.model, budget=job.budget, estimate=estimate, typed=job.typed, share=job.share
        )
        outcome = await begin_run(chosen, inputs, runs, name)
        if isinstance(session.gateway, ScriptedGateway) and outcome.status == "completed":
            left.extend(dict.fromkeys(session.gateway.unused()))
        return outcome

    try:
        code = carry_out(loaded, job.presence, go, runs, name, job.script, out)
    finally:
        runs.give_back(name)
    for address in left:
        out.note(f"warning: no call has taken the script's reply for `{address}`")
    return code


def _mention(runs: Runs, name: str, out: Output) -> None:
    """Say that an earlier run has the same words and is not over: perhaps that one was meant."""
    if name and runs.has(name):
        with suppress(SkillrunError):
            run = runs.existing(name)
            status = run.state().status
            if status != "completed":
                hint = f"`skillrun resume {run.called(project_here())}` goes on with it"
                out.note(f"note: the run `{name}` has the same words and is {status}; {hint}")


def carry_out(
    loaded: Loaded,
    presence: Presence,
    go: Callable[[Session], Awaitable[Outcome]],
    runs: Runs,
    name: str,
    script: Script | None,
    out: Output,
) -> int:
    """Run with a view of it, and say how it ended; the exit code. It begins or goes on with the run of that name."""
    ended: list[Outcome] = []

    async def within() -> None:
        with run_view(out) as display:
            listeners = open_listeners(RunContext(name, os.environ), display.line)
            gateway = loaded.gateway(script, display.line, slots_for(runs))
            person = presence.person(display.around)
            try:
                cache = cache_folder() if script is None else None  # with a script nothing is asked of any provider
                observed = observe_gateway(gateway, listeners) if script is None else gateway
                session = loaded.session(observed, person, display.on_event, cache)
                if isinstance(gateway, ScriptedGateway) and script is not None:
                    session = replace(session, flags=script.typed, replayed=gateway.replayed)
                session = replace(session, listeners=[*session.listeners, *(each.on_event for each in listeners)])
                ended.append(await go(session))
            finally:
                close_listeners(listeners)
                await gateway.close()
            for answer in person.prepared.unused():
                display.line(f"warning: no question used the prepared answer `{answer}`")
            for line in person.prepared.late():
                display.line(f"warning: {line}")

    try:
        asyncio.run(within())
    except KeyboardInterrupt:  # at a question; what was cancelled by it has saved its state
        if not ended:
            raise
    try:
        _say(ended[0], runs, name, out)
    except OSError:  # nobody reads it, or it cannot be written: that changes nothing of what was done
        silence()
    return ended[0].exit_code


def is_answered(job: Job, out: Output) -> bool:
    """Whether the run can go without a person, where there is none; and whether the prepared answers fit."""
    program = job.loaded.program
    prepared = job.presence.prepared()
    refuse(check_answers(program, prepared), out)
    reasons = refusal(program, prepared, job.inputs) if job.presence.unattended else []
    if reasons:
        for reason in reasons:
            out.note(reason)
        out.note("error: the workflow asks questions and the run is unattended; nothing was started")
        out.data({"status": "refused", "reasons": reasons})
    return not reasons


def _say(outcome: Outcome, runs: Runs, name: str, out: Output) -> None:
    """The last lines: the status, where the artifacts are, what it used, what to type next."""
    summary: dict[str, Any] = {"run": name, "artifacts": []}
    with suppress(SkillrunError, OSError):  # it is not there any more, as the outcome says
        summary = story(runs.existing(name))
    if not out.quiet:
        out.line()
    out.line(status_line(outcome.status, outcome.reason))
    for entry in summary.get("degraded", ()):
        out.line(f"degraded: {phase_at(entry)}: {hanging(entry['text'])}")
    out.line(f"folder: {runs.place_of(name)}")
    for path in () if out.quiet else (*summary["artifacts"], *summary.get("forms", ())):
        out.line(f"  {path}")
    if "usage" in summary:
        out.line(spent(summary["usage"]))
    show = f"`skillrun show {runs.called(name, project_here())}` shows the details"
    if outcome.next_step or not out.quiet:
        out.line(f"next: {hanging(str(outcome.next_step)) or show}")
    ended = {"status": outcome.status, "reason": outcome.reason, "next": str(outcome.next_step)}
    out.data({**summary, **ended, "outputs": dict(outcome.outputs), "exit_code": outcome.exit_code})
