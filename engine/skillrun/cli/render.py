"""`skillrun render`: a prompt exactly as it would be sent, taken from a rehearsal on the scripted model, or as it was
sent in a run, taken from its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import click

from skillrun.cli import completers, options
from skillrun.cli.call_selection import Place, calls_of, is_named, selected
from skillrun.cli.call_view import blocks_of, prompt_lines
from skillrun.cli.formatting import because, counted, table
from skillrun.cli.loading import load
from skillrun.cli.output import Output
from skillrun.cli.preview import rehearsed
from skillrun.cli.project_folder import project_here
from skillrun.definitions.definitions import Workflow
from skillrun.definitions.step_paths import unmarked
from skillrun.models.messages import Block, Request
from skillrun.runtime.inputs import checked_inputs
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed, did_you_mean, printable

HELP: Final = """Print a prompt of PHASE exactly as it would be sent. Results of earlier phases are placeholders.

With --run, print a prompt that a run has sent: `skillrun render --run RUN PHASE [STEP] [MEMBER]`. STEP may be the
address of a call."""


@click.command(help=HELP)
@click.argument("workflow", shell_complete=completers.workflows_or_phases)
@click.argument("phase", default="", shell_complete=completers.phases)
@click.argument("step", default="")
@click.argument("member", default="")
@click.option("-i", "--input", "given", multiple=True, metavar="NAME=VALUE", help="Set an input of the workflow.")
@options.model
@click.option(
    "--run",
    metavar="RUN",
    default="",
    help="Print a prompt of this run. Leave out WORKFLOW.",
    shell_complete=completers.runs,
)
@options.version
@options.runs_folder
@options.as_json
def render(workflow: str, phase: str, step: str, member: str, **options_given: Any) -> int:
    out, run, version = Output(options_given["json"]), options_given["run"], options_given["version"] or 0
    given = options_given["given"]
    if run:
        if given or member:
            what = "`-i` is for a prompt that would be sent" if given else f"`{member}` is one name too many"
            raise UsageError(what, f"`skillrun render --run {run} PHASE [STEP] [MEMBER]`")
        stored = options.stored_run(run, options_given["runs"])
        return _sent(stored, Place(workflow, phase, step, version), out)
    if version:
        raise UsageError("`--version` is for a prompt that was sent", "`skillrun render --run RUN PHASE STEP`")
    return _would_be_sent(workflow, Place(phase, step, member), given, options_given["model"], out)


def _sent(run: StoredRun, place: Place, out: Output) -> int:
    """What is on record of a call that was made: the first one at the place, or the turn that is named."""
    calls = calls_of(run)
    for text in calls.notes:
        out.note(f"warning: {text}")
    there = [(each, turn) for each in selected(calls, place) for turn in each.turns]
    number = place.turn
    chosen = [(each, turn) for each, turn in there if number in (0, turn.number)]
    if not chosen:
        last = there[-1][1].number
        raise UsageError(f"there is no turn {number} at `{place}`", f"the last one is turn {last}")
    (conversation, turn), others = chosen[0], [*chosen[1:], *(each for each in there if each not in chosen)]
    several = {"version": conversation.version, "versions": conversation.versions, "round": turn.round}
    record = {"fingerprint": turn.fingerprint, "is_exact": turn.is_exact, **several}
    out.data({"address": turn.address, **turn.request.to_dict(), **record})
    for line in _shown(turn.address, turn.request) if not out.json else ():
        out.line(line)
    if not turn.is_exact:
        out.note("warning: this text has another fingerprint than the one it was recorded with: it was changed since")
    if not out.json and any(_hides(block) for block in _blocks(turn.request)):
        out.note("what a terminal would obey, or nobody sees, was sent and is not shown; `--json` has every character")
    for _, other in others:
        out.note(f"there is also {other.address}")
    if not place.version and conversation.versions > 1:
        out.note(f"{counted(conversation.versions - 1, 'earlier prompt')} at this address: `--version 1` is the first")
    return 0


def _blocks(request: Request) -> Iterator[Block]:
    return (block for _, blocks in blocks_of(request) for _, block in blocks)


def _hides(block: Block) -> bool:
    return printable(block.text) != block.text


def _would_be_sent(workflow: str, place: Place, given: tuple[str, ...], model: str, out: Output) -> int:
    """A prompt of a rehearsal."""
    loaded = load(workflow, out)
    phases = loaded.program.workflow.phases
    phase, step, member = place.phase, place.step, place.member
    if phase not in phases:
        what = f"`{workflow}` has no phase `{phase}`" if phase else "a phase has to be named"
        raise UsageError(what, did_you_mean(phase, phases) or allowed(phases))
    typed = options.paths_in_project(loaded.program.workflow, _inputs(loaded.program.workflow, given))
    inputs, _ = checked_inputs(loaded.program, typed, project_here())
    rehearsal = asyncio.run(rehearsed(loaded, inputs, model, typed=typed))
    sent = {address: request for address, request in rehearsal.sent if address.startswith(f"{workflow}/{phase}/")}
    addresses = [address for address in sent if _has(address, step) and _has_member(address, member)]
    if not sent:
        why = f"{rehearsal.outcome.status}{because(rehearsal.outcome.reason)}"
        raise SkillrunError(
            f"a rehearsal sends no prompt in `{phase}` ({why})", "with other inputs it may: `-i mode=…`"
        )
    if not addresses:
        raise SkillrunError(f"no prompt of `{phase}` is at `{step}/{member}`".replace("/`", "`"), allowed(sent))
    out.data({"address": addresses[0], **sent[addresses[0]].to_dict()})
    for line in _shown(addresses[0], sent[addresses[0]]) if not out.json else ():
        out.line(line)
    for other in addresses[1:]:
        out.note(f"there is also {other}")
    return 0


def _inputs(workflow: Workflow, given: tuple[str, ...]) -> dict[str, Any]:
    """What was given, and a placeholder for a text that is required."""
    required = [field.name for field in workflow.inputs if field.required and field.item.word == "string"]
    values: dict[str, Any] = {name: f"(the {name})" for name in required}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"`{pair}` is no input", "write `-i name=value`")
        values[name] = value
    return values


def _has(address: str, name: str) -> bool:
    """Whether a segment of the address is `name`, whatever the pass of a loop and the item of an `each`."""
    return not name or any(name in (segment, unmarked(segment)) for segment in address.split("/"))


def _has_member(address: str, member: str) -> bool:
    """Whether a segment of the address is the member, by its id, role, variant or model."""
    return any(is_named(unmarked(segment), member) for segment in address.split("/")[2:-1])


def _shown(address: str, request: Request) -> Iterator[str]:
    yield f"{address} · {request.model} · at most {request.max_tokens:,} tokens of reply"
    parts = [block for block in _blocks(request) if block.part]
    yield from table(
        ("part", "tokens"), [[block.part, f"{estimate_tokens(block.text):,}"] for block in parts], right=(1,)
    )
    yield from prompt_lines(request)
