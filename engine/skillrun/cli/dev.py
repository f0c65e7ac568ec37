"""`skillrun dev`: runs a workflow, then on every save checks again and asks only what the edit changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import click

from skillrun.cli import completing
from skillrun.cli.job import Job, prepare
from skillrun.cli.loading import Loaded, load
from skillrun.cli.printing import Output
from skillrun.cli.rehearsal import estimated
from skillrun.cli.words import counted, line_of, status_line
from skillrun.cli.workflow import RESUMED, workflow_command
from skillrun.dev.cycle import Turn, turn
from skillrun.dev.watch import Changes, watch_files
from skillrun.language.library.library import Library
from skillrun.language.text.diagnostics import SkillrunError, UsageError, allowed, did_you_mean, hanging
from skillrun.models.messages import Gateway
from skillrun.runtime.events import Asked, CallStarted, Event, RunEnded, Tripped, Wrote
from skillrun.runtime.store.disk.run_folder import RunFolder
from skillrun.runtime.store.disk.run_folders import RunFolders
from skillrun.runtime.store.journal import Journal

BROKEN: Final = "the last good version stays in force; mend the file and save it"
RERUN: Final = "Ask this phase's calls again at the start; PHASE+ also those of all that follow it."
MOST_LINES: Final = 40  # of a difference that are shown


@click.command(
    help="Run WORKFLOW with its own inputs and flags, then again on every save: only what changed is asked.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("workflow", shell_complete=completing.workflows)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dev(workflow: str, arguments: tuple[str, ...]) -> int:
    command = dev_command(workflow)
    values = command.make_context(f"skillrun dev {workflow}", list(arguments)).params
    out = Output(values["json"])
    names = values.pop("rerun")
    job = prepare(workflow, values, out)
    return asyncio.run(_watch(workflow, job, _phases(job, names), out))


def dev_command(workflow: str) -> click.Command:
    """The command of the workflow, as `dev` takes it."""
    command = workflow_command(workflow)
    # it goes on with its run by itself
    command.params = [parameter for parameter in command.params if parameter.name != RESUMED]
    command.params.append(
        click.Option(
            ["--rerun"],
            multiple=True,
            metavar="PHASE",
            help=RERUN,
            shell_complete=lambda _context, _parameter, incomplete: completing.phases_of(workflow, incomplete),
        )
    )
    return command


def _phases(job: Job, names: tuple[str, ...]) -> frozenset[str]:
    """The phases that are named; `PHASE+` is also all that follow it. Raises UsageError."""
    workflow = job.loaded.program.workflow
    phases: set[str] = set()
    for name in names:
        phase = name.removesuffix("+")
        if phase not in workflow.phases:
            hint = did_you_mean(phase, workflow.phases) or allowed(workflow.phases)
            raise UsageError(f"`{workflow.name}` has no phase `{phase}`", hint)
        phases |= {phase, *(workflow.followers(phase) if name.endswith("+") else ())}
    return frozenset(phases)


async def _watch(workflow: str, job: Job, rerun: frozenset[str], out: Output) -> int:
    folder = RunFolders(job.runs).new(job.slug or f"dev-{workflow}", shared=job.share)
    folder.check()
    changes = Changes(asyncio.get_running_loop())
    gateway, catalogue = job.loaded.gateway(job.script, out.note), job.loaded.catalogue
    library = job.loaded.program.library
    roots = [root.path for root in library.roots]
    estimate = None
    if not folder.has_state:  # a run that is there has its estimate
        estimate = await estimated(job.loaded, job.inputs, job.model, job.typed, job.presence.prepared)
    with folder.lease.hold(), watch_files(roots, changes):
        journal = folder.new_journal()
        try:
            loaded: Loaded | None = job.loaded
            while True:
                if loaded is not None:
                    begun = _evaluate(loaded, job, gateway, folder, journal, rerun, out, estimate)
                    if not await begun:
                        return 130
                folder.check_here()  # a run that is lost is not watched any longer
                rerun = frozenset()
                out.line("watching; Ctrl-C ends")
                paths = await changes.take()
                started = time.monotonic()
                out.line(f"\nsaved: {', '.join(sorted(path.name for path in paths))}")
                library = Library(library.roots, library)  # what was not saved is not read again
                try:
                    loaded = load(workflow, out, library, consequence=BROKEN, trusted=job.trust_project)
                except click.exceptions.Exit:
                    loaded = None
                except SkillrunError as error:  # the workflow's own file is gone, perhaps while an editor saves it
                    out.note(f"error: {error.message}")
                    out.note(BROKEN)
                    loaded = None
                if loaded is not None and loaded.catalogue != catalogue and job.script is None:
                    await gateway.close()
                    catalogue = loaded.catalogue
                    gateway = loaded.gateway(None, out.note)
                out.line(f"checked in {(time.monotonic() - started) * 1000:.0f} ms")
        except asyncio.CancelledError:
            return 130
        finally:
            journal.close()
            await gateway.close()


async def _evaluate(
    loaded: Loaded,
    job: Job,
    gateway: Gateway,
    folder: RunFolder,
    journal: Journal,
    rerun: frozenset[str],
    out: Output,
    estimate: Mapping[str, Any] | None,
) -> bool:
    """One turn, and what it came to; whether to go on watching."""
    first = not folder.has_state

    def heard(event: Event) -> None:
        if not first and isinstance(event, CallStarted):
            out.line(f"asking {event.address}")
        elif not isinstance(event, RunEnded) and (first or isinstance(event, (Wrote, Asked, Tripped))):
            line = line_of({**event.to_dict(), "resumed": False})
            if line:
                out.line(line)

    session = replace(
        loaded.session(gateway, job.presence.person(), heard),
        override=job.model,
        budget=job.budget,
        keeps_reads=False,
        typed=job.typed,
        rerun=rerun,
        share=job.share,
        estimate=estimate,
    )
    started = time.monotonic()
    try:
        result = await turn(session, folder, journal, job.inputs)
    except SkillrunError as error:
        out.note(f"error: {error.message}")
        return True
    _report(result, {} if first else result.differences, time.monotonic() - started, out)
    return result.outcome.status != "interrupted"


def _report(result: Turn, differences: dict[str, list[str]], seconds: float, out: Output) -> None:
    outcome, changed = result.outcome, result.differences
    for name, lines in differences.items():
        out.line(f"changed: {name}")
        for line in lines[2 : 2 + MOST_LINES]:
            out.line(f"  {line}")
        if len(lines) > 2 + MOST_LINES:
            out.line(f"  … {len(lines) - 2 - MOST_LINES} more lines")
    out.line(
        f"{status_line(outcome.status, outcome.reason)} in {seconds:.2f} s; "
        f"{result.reused} reused, {len(result.asked)} asked, {counted(len(changed), 'artifact')} changed"
    )
    if outcome.status == "failed":
        out.line(f"next: {hanging(str(outcome.next_step))}")
    ended = {"status": outcome.status, "reason": outcome.reason, "reused": result.reused, "asked": result.asked}
    out.data({**ended, "changed": sorted(changed)})
