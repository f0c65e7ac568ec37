"""Executes a run for the command line: live view, gateway, final status."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import click

from skillrun.cli.formatting import count_noun, format_usage, phase_label, status_line
from skillrun.cli.live import run_view
from skillrun.cli.loading import LoadedWorkflow, Script, cache_folder, exit_on_errors
from skillrun.cli.options import current_project, open_store, require_store_url, select_store
from skillrun.cli.output import Output
from skillrun.cli.preview import estimate_run
from skillrun.cli.run_request import AnswerOptions, RunRequest
from skillrun.cli.run_summary import resume_command, summarize_run
from skillrun.events import CallEnded, Event
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.prepared_answers import check_answers, unanswerable_questions
from skillrun.questions.responder import open_responder
from skillrun.runtime.listeners import RunContext, close_listeners, observe_gateway, open_listeners
from skillrun.runtime.run import Session
from skillrun.runtime.session import start_run
from skillrun.store.frontmatter import format_json_text
from skillrun.store.local.local_store import LocalStore
from skillrun.store.outcome import Outcome
from skillrun.store.run_view import RunView
from skillrun.store.stored_run import Store, slug_from_request
from skillrun.syntax.diagnostics import SkillrunError, indent_continuation


def execute(request: RunRequest, out: Output) -> int:
    """Execute a new run, and return the exit code."""
    loaded, inputs = request.loaded, request.inputs
    require_answers(request, out)
    first = loaded.program.workflow.first_input
    request_text = format_json_text(str(inputs[first.name])) if first is not None else loaded.program.workflow.name
    runs = select_store(request.runs)
    name = request.slug or runs.reserve_name(request_text, shared=request.share)
    if not request.slug and (base := slug_from_request(request_text)) != name and base and runs.has(base):
        with suppress(SkillrunError):
            similar = runs.open_run(base)
            status = similar.state().status
            if status != "completed":
                hint = f"{resume_command(similar)} resumes it"
                out.note(f"note: the run `{base}` has the same request and is {status}; {hint}")

    unused_replies: list[str] = []

    async def start_session(session: Session) -> Outcome:
        session.options = replace(
            session.options,
            model=request.model,
            budget=request.budget,
            given_inputs=request.given_inputs,
            share=request.share,
        )
        outcome = await start_run(session, inputs, runs, name)
        gateway = session.services.gateway
        if isinstance(gateway, ScriptedGateway) and outcome.status == "completed":
            unused_replies.extend(dict.fromkeys(rule.address for rule in gateway.rules if rule.is_unused))
        return outcome

    try:
        code = execute_session(loaded, request.answer_options, start_session, runs, name, request.script, out)
    finally:
        runs.release_name(name)
    for address in unused_replies:
        out.note(f"warning: no call used the script's reply for `{address}`")
    return code


def execute_session(
    loaded: LoadedWorkflow,
    answer_options: AnswerOptions,
    start: Callable[[Session], Awaitable[Outcome]],
    runs: Store,
    name: str,
    script: Script | None,
    out: Output,
    *,
    is_resumed: bool = False,
) -> int:
    """Start or resume the run `name` with a live view, print its outcome, and return the exit code."""
    outcomes: list[Outcome] = []
    calls = Counter(made=0, reused=0)  # calls of this process, and calls whose replies it reuses from the journal

    def count_call(event: Event) -> None:
        if isinstance(event, CallEnded):
            calls["reused" if event.replayed else "made"] += 1

    async def run_with_view() -> None:
        with run_view(out) as display:
            listeners = open_listeners(RunContext(name, os.environ), display.line)
            limits = None if isinstance(runs, LocalStore) else open_store(require_store_url()).slots()
            gateway = loaded.open_gateway(script, display.line, limits)
            responder = open_responder(**vars(answer_options), prompt_context=display.hold_output)
            try:
                cache = cache_folder() if script is None else None  # with a script no provider is called
                observed = observe_gateway(gateway, listeners, display.line) if script is None else gateway
                session = loaded.build_session(observed, responder, cache=cache)
                if isinstance(gateway, ScriptedGateway) and script is not None:
                    session.options.command_flags = script.command_flags
                    session.services.on_replayed = gateway.on_replayed
                observers = [display.on_event, count_call, *(each.on_event for each in listeners)]
                session.services.listeners = observers
                session.services.estimate = lambda state, given: estimate_run(
                    loaded, state.inputs, state.override, given, answer_options.load_prepared_answers
                )
                outcomes.append(await start(session))
            finally:
                close_listeners(listeners, display.line)
                await gateway.close()
            for answer in responder.prepared.unused_keys():
                display.line(f"warning: no question used the prepared answer `{answer}`")
            for line in responder.prepared.late_answers.values():
                display.line(f"warning: {line}")

    try:
        asyncio.run(run_with_view())
    except (KeyboardInterrupt, OSError):  # Ctrl-C at a question, or a closed terminal; the run has saved its state
        if not outcomes:
            raise
    with suppress(OSError):  # the output cannot be written; the run itself has ended
        _print_outcome(outcomes[0], runs, name, out, calls if is_resumed else None)
    return outcomes[0].exit_code


def require_answers(request: RunRequest, out: Output) -> None:
    """Check the prepared answers. If the run is unattended and a question has no answer, print why and exit."""
    program = request.loaded.program
    prepared = request.answer_options.load_prepared_answers()
    exit_on_errors(check_answers(program, prepared), out)
    reasons = unanswerable_questions(program, prepared, request.inputs) if request.answer_options.unattended else []
    if reasons:
        out.notes(reasons)
        out.note("error: the workflow asks questions and the run is unattended; nothing was started")
        out.data({"status": "refused", "reasons": reasons})
        raise click.exceptions.Exit(1)


def _print_outcome(outcome: Outcome, runs: Store, name: str, out: Output, calls: Mapping[str, int] | None) -> None:
    """Print the status, the artifacts, the usage and the next command.

    `calls` is the call count of this process if it resumed the run. The usage is the total of all processes.
    """
    summary: dict[str, Any] = {"run": name, "artifacts": []}
    with suppress(SkillrunError, OSError):  # the run was deleted, as the outcome says
        summary = summarize_run(RunView(runs.open_run(name)))
    if not out.quiet:
        out.line()
    out.line(status_line(outcome.status, outcome.reason))
    for entry in summary.get("degraded", ()):
        out.line(f"degraded: {phase_label(entry)}: {indent_continuation(entry['text'])}")
    out.line(f"folder: {runs.run_location(name)}")
    for path in () if out.quiet else (*summary["artifacts"], *summary.get("forms", ())):
        out.line(f"  {path}")
    if "usage" in summary:
        if calls is not None:
            out.line(f"this resume: {count_noun(calls['made'], 'call')} made, {calls['reused']:,} reused")
        out.line(f"{'in total: ' if calls is not None else ''}{format_usage(summary['usage'])}")
    show = f"`skillrun show {runs.command_argument(name, current_project())}` shows the details"
    if outcome.next_step or not out.quiet:
        out.line(f"next: {indent_continuation(str(outcome.next_step)) or show}")
    outcome_data: dict[str, Any] = {"status": outcome.status, "reason": outcome.reason, "next": str(outcome.next_step)}
    outcome_data |= calls or {}
    out.data({**summary, **outcome_data, "outputs": dict(outcome.outputs), "exit_code": outcome.exit_code})
