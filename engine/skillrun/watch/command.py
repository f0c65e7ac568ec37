"""`skillrun dev`: runs a workflow, then on every save checks again and asks only what the edit changed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, Final

import click

from skillrun.cli import completers
from skillrun.cli.loading import Loaded, load, look_for, open_library
from skillrun.cli.output import Output
from skillrun.cli.preview import estimated
from skillrun.cli.run_request import Job, prepare
from skillrun.cli.workflow import RESUMED, workflow_command
from skillrun.library.library import Library
from skillrun.store.local.local_store import RunFolders
from skillrun.syntax.diagnostics import UsageError, allowed, did_you_mean
from skillrun.watch.cost_preview import CALLS, PRICE, AskAbove, AskAboveType
from skillrun.watch.file_watcher import SETTLE, Changes, watch_files
from skillrun.watch.interactive import KeyedSession
from skillrun.watch.session import INTERRUPTED, DevSession, Wishes, watch_run

RERUN: Final = "Repeat the calls of this phase at the start; with PHASE+, also of all later phases."
TO: Final = "Stop after this phase."
ABOVE: Final = (
    "Confirm reruns that cost more than this, in dollars and calls: `0.50,calls=10`. Without `calls`, calls count only "
    "if the price is unknown."
)
NOT_ITS: Final = (RESUMED, "dry_run", "interactive", "store", "quiet")
"""Options of a workflow that `dev` does not take: it goes on by itself, in a folder, says what it will ask, and has a
key for questions."""


HELP: Final = f"""Run WORKFLOW, and rerun it each time you save a file. Only calls with changed prompts are made.

`skillrun dev WORKFLOW --help` lists all options. These belong to `dev`:

\b
--rerun PHASE       {RERUN}
--to PHASE          {TO}
--ask-above AMOUNT  Confirm reruns that cost more than this."""


@click.command(
    help=HELP,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("workflow", shell_complete=completers.workflows)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dev(workflow: str, arguments: tuple[str, ...]) -> int:
    if {"-h", "--help"} & set(arguments):
        dev_command(workflow).make_context(f"skillrun dev {workflow}", list(arguments))
    try:
        loaded = _whole(workflow, Output("--json" in arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    command = dev_command(workflow)
    values = command.make_context(f"skillrun dev {workflow}", list(arguments)).params
    out = Output(values["json"])
    names, to, ask_above = values.pop("rerun"), values.pop("to"), values.pop("ask_above")
    job = prepare(workflow, {**values, "dry_run": False, "interactive": False}, out, loaded)
    wishes = Wishes(_phases(job, names), _up_to(job, to), ask_above)
    return asyncio.run(_run(job, wishes))


def dev_command(workflow: str) -> click.Command:
    """The command of the workflow, as `dev` takes it."""
    command = workflow_command(workflow)
    command.params = [parameter for parameter in command.params if parameter.name not in NOT_ITS]

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Any:
        return completers.phases_of(workflow, incomplete)

    command.params += [
        click.Option(["--rerun"], multiple=True, metavar="PHASE", help=RERUN, shell_complete=complete),
        click.Option(["--to"], metavar="PHASE", help=TO, shell_complete=complete),
        click.Option(
            ["--ask-above"],
            type=AskAboveType(),
            default=AskAbove(),
            metavar="AMOUNT",
            help=f"{ABOVE}  [default: {PRICE:.2f},calls={CALLS}]",
        ),
    ]
    return command


def _whole(workflow: str, out: Output) -> Loaded:
    """The checked workflow; one with errors is watched until they are mended. Raises UsageError where there is none."""
    library = open_library()
    look_for(workflow, library)
    loaded = _without_errors(workflow, library, out)
    return loaded or asyncio.run(_mended(workflow, library, out))


def _without_errors(workflow: str, library: Library, out: Output) -> Loaded | None:
    try:
        return load(workflow, out, library, "nothing was run yet; mend the file and save it")
    except click.exceptions.Exit:
        return None
    except UsageError as error:  # its own file is gone, perhaps while an editor saves it
        out.note(f"error: {error.message}")
        return None


async def _mended(workflow: str, library: Library, out: Output) -> Loaded:
    """The workflow as soon as a save has mended it."""
    changes = Changes(asyncio.get_running_loop())
    with watch_files([root.path for root in library.roots], changes):
        while True:
            out.line("watching; Ctrl-C ends")
            paths = await changes.take()
            while await changes.more(SETTLE):
                """Wait until whoever writes has written."""
            paths |= changes.taken()
            out.line(f"\nsaved: {', '.join(sorted(path.name for path in paths))}")
            library = Library(library.roots, library)
            if (loaded := _without_errors(workflow, library, out)) is not None:
                return loaded


def _phases(job: Job, names: Iterable[str]) -> frozenset[str]:
    """The phases that are named; `PHASE+` is also all that follow it. Raises UsageError."""
    phases: set[str] = set()
    for name in names:
        phase = _known(job, name.removesuffix("+"))
        phases |= {phase, *(job.loaded.program.workflow.followers(phase) if name.endswith("+") else ())}
    return frozenset(phases)


def _up_to(job: Job, name: str | None) -> frozenset[str]:
    """The phase with all that it follows; nothing where none is named. Raises UsageError."""
    if name is None:
        return frozenset()
    phase = _known(job, name)
    return job.loaded.program.workflow.ancestors(phase) | {phase}


def _known(job: Job, phase: str) -> str:
    workflow = job.loaded.program.workflow
    if phase not in workflow.phases:
        hint = did_you_mean(phase, workflow.phases) or allowed(workflow.phases)
        raise UsageError(f"`{workflow.name}` has no phase `{phase}`", hint)
    return phase


async def _run(job: Job, wishes: Wishes) -> int:
    folder = RunFolders(job.runs).new(job.slug or f"dev-{job.loaded.program.workflow.name}", shared=job.share)
    folder.check()
    estimate = None
    if not folder.has_state:  # a run that is there has its estimate
        estimate = await estimated(job.loaded, job.inputs, job.model, job.typed, job.presence.prepared)
    has_keys = not job.json and sys.stdin.isatty() and sys.stdout.isatty()
    return await watch_run(job, wishes, estimate, folder, KeyedSession if has_keys else DevSession)
