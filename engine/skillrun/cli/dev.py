"""`skillrun dev`: runs a workflow, then on every save checks again and asks only what the edit changed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillrun.cli.printing import Output

if TYPE_CHECKING:
    from skillrun.cli.loading import Loaded
    from skillrun.cli.workflow import Options, Ready
    from skillrun.dev.cycle import Turn
    from skillrun.models.messages import Gateway

MOST_LINES: Final = 40  # of a difference that are shown


@click.command(
    help="Run WORKFLOW with its own inputs and flags, then again on every save: only what changed is asked.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("workflow")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dev(workflow: str, arguments: tuple[str, ...]) -> int:
    from skillrun.cli.workflow import GIVEN, Options, workflow_command

    command = workflow_command(workflow)
    with command.make_context(f"skillrun dev {workflow}", list(arguments)) as context:
        values = context.params
    given = {key.removeprefix(GIVEN): value for key, value in values.items() if key.startswith(GIVEN)}
    chosen = Options(**{key: value for key, value in values.items() if not key.startswith(GIVEN)})
    return asyncio.run(_watch(workflow, given, chosen, Output(chosen.json)))


async def _watch(workflow: str, given: dict[str, Any], chosen: Options, out: Output) -> int:
    from skillrun.cli.loading import open_library
    from skillrun.cli.workflow import prepared
    from skillrun.dev.watch import Changes, watching
    from skillrun.runtime.journal import Journal
    from skillrun.runtime.lock import hold

    ready = prepared(open_library(), workflow, given, chosen, out)
    folder = chosen.runs / (chosen.slug or f"dev-{workflow}")
    folder.mkdir(parents=True, exist_ok=True)
    changes = Changes(asyncio.get_running_loop())
    gateway = ready.gateway(out.note)
    roots = [root.path for root in ready.loaded.program.library.roots]
    with hold(folder), watching(roots, changes):
        journal = Journal.open(folder) if (folder / ".run" / "journal.db").exists() else Journal.create(folder)
        try:
            loaded: Loaded | None = ready.loaded
            while True:
                if loaded is not None and not await _evaluate(loaded, ready, chosen, gateway, folder, journal, out):
                    return 130
                out.line("watching; Ctrl-C ends")
                paths = await changes.take()
                started = time.monotonic()
                out.line(f"\nsaved: {', '.join(sorted(path.name for path in paths))}")
                loaded = _reload(workflow, out)
                out.line(f"checked in {(time.monotonic() - started) * 1000:.0f} ms")
        except asyncio.CancelledError:
            return 130
        finally:
            journal.close()
            await gateway.close()


def _reload(workflow: str, out: Output) -> Loaded | None:
    """The workflow as it is now; None where it is broken, and the last good version stays in force."""
    from skillrun.cli.loading import load

    try:
        return load(workflow, out)
    except click.exceptions.Exit:
        out.note("the last good version stays in force; mend the file and save it")
        return None


async def _evaluate(
    loaded: Loaded, ready: Ready, chosen: Options, gateway: Gateway, folder: Path, journal: Any, out: Output
) -> bool:
    """One turn, and what it came to; whether to go on watching."""
    from skillrun.cli.lines import line_of
    from skillrun.dev.cycle import turn
    from skillrun.language.diagnostics import SkillrunError
    from skillrun.people.person import open_person
    from skillrun.runtime.events import Asked, CallStarted, Event, Tripped, Wrote

    quiet = (folder / "state.md").exists()

    def heard(event: Event) -> None:
        if quiet and not isinstance(event, (CallStarted, Wrote, Asked, Tripped)):
            return
        line = f"asking {event.address}" if isinstance(event, CallStarted) and quiet else line_of(event.to_dict())
        if line:
            out.line(line)

    person = open_person(unattended=chosen.unattended, answers=chosen.answers)
    session = loaded.session(gateway, person, [heard], override=ready.model, budget=chosen.budget)
    session.keeps_reads = False
    started = time.monotonic()
    try:
        found = await turn(session, folder, journal, ready.inputs)
    except SkillrunError as error:
        out.note(f"error: {error.message}")
        return True
    _report(found, time.monotonic() - started, out)
    return found.outcome.status != "interrupted"


def _report(found: Turn, seconds: float, out: Output) -> None:
    for name, lines in found.differences.items() if found.reused else ():
        out.line(f"changed: {name}")
        for line in lines[2 : 2 + MOST_LINES]:
            out.line(f"  {line}")
        if len(lines) > 2 + MOST_LINES:
            out.line(f"  … {len(lines) - 2 - MOST_LINES} more lines")
    outcome = found.outcome
    out.line(
        f"{outcome.status}{f': {outcome.reason}' if outcome.reason else ''} in {seconds:.2f} s; "
        f"{found.reused} reused, {len(found.asked)} asked, {len(found.differences)} artifacts changed"
    )
    out.data(
        {
            "status": outcome.status,
            "reason": outcome.reason,
            "reused": found.reused,
            "asked": found.asked,
            "changed": sorted(found.differences),
        }
    )
