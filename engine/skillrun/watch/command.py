"""`skillrun dev`: runs a workflow. On every save, it checks the workflow, and makes only calls with changed prompts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final

import click

from skillrun.cli import completion
from skillrun.cli.loading import LoadedWorkflow, open_library, require_workflow
from skillrun.cli.output import Output
from skillrun.cli.run_request import RunRequest, build_run_request
from skillrun.cli.workflow import RESUME_PARAMETER, workflow_command
from skillrun.definitions.definitions import Workflow
from skillrun.library.library import Library
from skillrun.runtime.resumed_state import FOREIGN_RUN, is_own_state
from skillrun.runtime.session import require_no_files
from skillrun.store.local.local_store import LocalStore
from skillrun.syntax.diagnostics import UsageError, allowed_hint, did_you_mean
from skillrun.watch.cost_preview import DEFAULT_CALLS, DEFAULT_PRICE, CostThreshold, CostThresholdType
from skillrun.watch.file_watcher import SETTLE_SECONDS, ChangedFiles, watch_files
from skillrun.watch.in_flight_calls import InFlightCalls
from skillrun.watch.interactive import KeyboardSession
from skillrun.watch.session import INTERRUPTED, DevOptions, DevSession, load_unless_errors
from skillrun.watch.watch_loop import WatchLoop

RERUN_HELP: Final = "Repeat the calls of this phase at the start. With PHASE+, also repeat the calls of later phases."
TO_HELP: Final = "Stop after this phase."
ASK_ABOVE_HELP: Final = (
    "Ask before a rerun that exceeds this limit in dollars or calls: `0.50,calls=10`. Without `calls=`, the number "
    "of calls matters only if the price is unknown."
)
NOTHING_RUN_YET: Final = "nothing was run yet; fix the file and save it"
EXCLUDED_OPTIONS: Final = (RESUME_PARAMETER, "dry_run", "interactive", "store", "quiet")
"""Options of a workflow's command that `dev` leaves out. `dev` resumes by itself, keeps the run in a folder, always
previews calls, and has a key for questions."""


HELP: Final = f"""Run WORKFLOW, and rerun it each time you save a file. Only calls with changed prompts are made.

`skillrun dev WORKFLOW --help` lists all options. These belong to `dev`:

\b
--rerun PHASE       {RERUN_HELP}
--to PHASE          {TO_HELP}
--ask-above AMOUNT  Ask before reruns that cost more than this."""


@click.command(
    help=HELP,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("workflow", shell_complete=completion.workflows)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dev(workflow: str, arguments: tuple[str, ...]) -> int:
    if {"-h", "--help"} & set(arguments):
        dev_command(workflow).make_context(f"skillrun dev {workflow}", list(arguments))
    try:
        library, messages = open_library(), Output("--json" in arguments)
        require_workflow(workflow, library)
        loaded = load_unless_errors(workflow, library, messages, NOTHING_RUN_YET)
        loaded = loaded or asyncio.run(_wait_for_fix(workflow, library, messages))
    except KeyboardInterrupt:
        return INTERRUPTED
    command = dev_command(workflow)
    values = command.make_context(f"skillrun dev {workflow}", list(arguments)).params
    out: Output = values["out"]
    options = [values.pop(name) for name in ("rerun", "to", "ask_above")]
    request = build_run_request(workflow, {**values, "dry_run": False, "interactive": False}, out, loaded)
    return asyncio.run(_watch_run(request, _dev_options(request, *options)))


def dev_command(workflow: str) -> click.Command:
    """Return the workflow's command with the options of `dev`."""
    command = workflow_command(workflow)
    command.params = [parameter for parameter in command.params if parameter.name not in EXCLUDED_OPTIONS]

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Any:
        return completion.workflow_phases(workflow, incomplete)

    command.params += [
        click.Option(["--rerun"], multiple=True, metavar="PHASE", help=RERUN_HELP, shell_complete=complete),
        click.Option(["--to"], metavar="PHASE", help=TO_HELP, shell_complete=complete),
        click.Option(
            ["--ask-above"],
            type=CostThresholdType(),
            default=CostThreshold(),
            metavar="AMOUNT",
            help=f"{ASK_ABOVE_HELP}  [default: {DEFAULT_PRICE:.2f},calls={DEFAULT_CALLS}]",
        ),
    ]
    return command


async def _wait_for_fix(workflow: str, library: Library, out: Output) -> LoadedWorkflow:
    changes = ChangedFiles(asyncio.get_running_loop())
    with watch_files(library.roots, changes):
        while True:
            out.line("watching for changes, Ctrl-C quits")
            paths = await changes.wait_for_changes()
            while await changes.wait_for_more(SETTLE_SECONDS):
                """Wait until the editor has finished writing."""
            paths |= changes.drain()
            out.lines(["", f"saved: {', '.join(sorted(path.name for path in paths))}"])
            library = Library(library.roots, library)
            if (loaded := load_unless_errors(workflow, library, out, NOTHING_RUN_YET)) is not None:
                return loaded


def _dev_options(request: RunRequest, rerun: Iterable[str], to: str | None, ask_above: CostThreshold) -> DevOptions:
    """Return the options of `dev`. `PHASE+` in `rerun` includes all phases that follow it. Raises UsageError."""
    workflow = request.loaded.program.workflow
    phases: set[str] = set()
    for name in rerun:
        phase = _require_phase(workflow, name.removesuffix("+"))
        phases |= {phase, *(workflow.followers(phase) if name.endswith("+") else ())}
    allowed = frozenset() if to is None else workflow.ancestors(_require_phase(workflow, to)) | {to}
    return DevOptions(frozenset(phases), allowed, ask_above)


def _require_phase(workflow: Workflow, phase: str) -> str:
    if phase not in workflow.phases:
        hint = did_you_mean(phase, workflow.phases) or allowed_hint(workflow.phases)
        raise UsageError(f"`{workflow.name}` has no phase `{phase}`", hint)
    return phase


async def _watch_run(request: RunRequest, dev_options: DevOptions) -> int:
    """Run the workflow, rerun it on every save until the user quits, and return the exit code.

    Raises SkillrunError if another process has the run, or if the lease is lost.
    """
    program = request.loaded.program
    folder = LocalStore(request.runs).create_run(request.slug or f"dev-{program.workflow.name}", shared=request.share)
    folder.check()
    changes = ChangedFiles(asyncio.get_running_loop())
    with ExitStack() as opened:
        opened.enter_context(folder.lease.hold())
        opened.enter_context(watch_files(program.library.roots, changes))
        journal = folder.open_journal(create=True)
        opened.callback(journal.close)
        calls = InFlightCalls(request.loaded.open_gateway(request.script, Output(request.json).note), journal)
        has_keys = not request.json and sys.stdin.isatty() and sys.stdout.isatty()
        session_class = KeyboardSession if has_keys else DevSession
        session = session_class(request, dev_options, WatchLoop(folder, journal, calls), changes)
        if not folder.has_state:
            require_no_files(folder)
        elif not is_own_state(session.build_session(), folder.state()):
            Output(request.json).note(f"warning: {FOREIGN_RUN}; its replies and answers are used: {folder.location}")
        opened.enter_context(session.session_context())
        try:
            return await session.run()
        finally:
            await session.close()
