"""`skillrun render`: a prompt exactly as it would be sent, taken from a rehearsal on the scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import click

from skillrun.cli import completing, options
from skillrun.cli.here import project_here
from skillrun.cli.loading import load
from skillrun.cli.printing import Output
from skillrun.cli.rehearsal import rehearsed
from skillrun.cli.words import because, table
from skillrun.collaboration.compaction import estimate_tokens
from skillrun.language.files.definitions import Workflow
from skillrun.language.files.places import unmarked
from skillrun.language.text.diagnostics import SkillrunError, UsageError, allowed, did_you_mean
from skillrun.models.messages import Request
from skillrun.runtime.inputs import checked_inputs


@click.command(help="Show a prompt of PHASE exactly as it would be sent. What earlier phases wrote is generated.")
@click.argument("workflow", shell_complete=completing.workflows)
@click.argument("phase", shell_complete=completing.phases)
@click.argument("step", default="")
@click.argument("member", default="")
@click.option("-i", "--input", "given", multiple=True, metavar="NAME=VALUE", help="An input of the workflow.")
@options.model
@options.as_json
def render(workflow: str, phase: str, step: str, member: str, given: tuple[str, ...], model: str, json: bool) -> int:
    out = Output(json)
    loaded = load(workflow, out)
    phases = loaded.program.workflow.phases
    if phase not in phases:
        raise UsageError(f"`{workflow}` has no phase `{phase}`", did_you_mean(phase, phases) or allowed(phases))
    typed = options.paths_in_project(loaded.program.workflow, _inputs(loaded.program.workflow, given))
    inputs, _ = checked_inputs(loaded.program, typed, project_here())
    rehearsal = asyncio.run(rehearsed(loaded, inputs, model, typed=typed))
    sent = {address: request for address, request in rehearsal.sent if address.startswith(f"{workflow}/{phase}/")}
    addresses = [address for address in sent if all(_has(address, name) for name in (step, member) if name)]
    if not sent:
        why = f"{rehearsal.outcome.status}{because(rehearsal.outcome.reason)}"
        raise SkillrunError(
            f"a rehearsal sends no prompt in `{phase}` ({why})", "with other inputs it may: `-i mode=…`"
        )
    if not addresses:
        raise SkillrunError(f"no prompt of `{phase}` is at `{step}/{member}`".replace("/`", "`"), allowed(sent))
    out.data({"address": addresses[0], **sent[addresses[0]].to_dict()})
    for line in _shown(addresses[0], sent[addresses[0]]) if not json else ():
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
    return any(name in (segment, unmarked(segment)) for segment in address.split("/"))


def _shown(address: str, request: Request) -> Iterator[str]:
    yield f"{address} · {request.model} · at most {request.max_tokens:,} tokens of reply"
    messages = [(message.role, message.blocks) for message in request.messages]
    parts = [block for _, several in (("", request.system), *messages) for block in several if block.part]
    yield from table(
        ("part", "tokens"), [[block.part, f"{estimate_tokens(block.text):,}"] for block in parts], right=(1,)
    )
    for title, blocks in (("system", request.system), *messages):
        yield f"──── {title} ────"
        for block in blocks:
            yield block.text
            yield "──── cached up to here ────" if block.cache else ""
    if request.tools:
        yield f"──── tools: {', '.join(tool.name for tool in request.tools)} ────"
    if request.schema is not None:
        import json

        yield "──── shape of the reply ────"
        yield json.dumps(request.schema, indent=2, ensure_ascii=False)
