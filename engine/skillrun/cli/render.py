"""`skillrun render`: a prompt exactly as it would be sent, taken from a rehearsal on the scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from skillrun.cli.lines import because
from skillrun.cli.options import as_json
from skillrun.cli.printing import Output

if TYPE_CHECKING:
    from skillrun.language.definitions import Workflow
    from skillrun.models.messages import Request

PLACEHOLDER = "(the {name})"


@click.command(help="Show a prompt of PHASE exactly as it would be sent. What earlier phases wrote is generated.")
@click.argument("workflow")
@click.argument("phase")
@click.argument("step", default="")
@click.argument("member", default="")
@click.option("-i", "--input", "given", multiple=True, metavar="NAME=VALUE", help="An input of the workflow.")
@click.option("--model", default="", metavar="NAME", envvar="SKILLRUN_MODEL", help="One model for everything.")
@as_json
def render(workflow: str, phase: str, step: str, member: str, given: tuple[str, ...], model: str, json: bool) -> int:
    from skillrun.cli.loading import load
    from skillrun.cli.rehearsal import rehearsed
    from skillrun.language.diagnostics import SkillrunError, UsageError, allowed, did_you_mean
    from skillrun.runtime.session import checked_inputs

    out = Output(json)
    loaded = load(workflow, out)
    phases = loaded.program.workflow.phases
    if phase not in phases:
        raise UsageError(f"`{workflow}` has no phase `{phase}`", did_you_mean(phase, phases) or allowed(phases))
    inputs, _ = checked_inputs(loaded.program, _inputs(loaded.program.workflow, given))
    rehearsal = asyncio.run(rehearsed(loaded, inputs, model))
    sent = [(address, request) for address, request in rehearsal.sent if address.startswith(f"{workflow}/{phase}/")]
    found = [one for one in sent if not step or _has(one[0], step)]
    found = [one for one in found if not member or _has(one[0], member)]
    if not found:
        known = [address for address, _ in sent]
        reason = f"no prompt of `{phase}` is at `{'/'.join(part for part in (step, member) if part)}`"
        if not known:
            outcome = rehearsal.outcome
            reason = f"a rehearsal sends no prompt in `{phase}` ({outcome.status}{because(outcome.reason)})"
        raise SkillrunError(reason, allowed(known) or "with other inputs it may: `-i mode=…`")
    address, request = found[0]
    out.data({"address": address, **request.to_dict()})
    for line in _shown(address, request) if not json else ():
        out.line(line)
    for other in dict.fromkeys(other for other, _ in found if other != address):
        out.note(f"there is also {other}")
    return 0


def _inputs(workflow: Workflow, given: tuple[str, ...]) -> dict[str, Any]:
    """What was given, and a placeholder for a text that is required."""
    from skillrun.language.diagnostics import UsageError

    values: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise UsageError(f"`{one}` is no input", "write `-i name=value`")
        values[name] = value
    missing: Mapping[str, str] = {
        field.name: PLACEHOLDER.format(name=field.name)
        for field in workflow.inputs
        if field.required and field.type == "string"
    }
    return {**missing, **values}


def _has(address: str, name: str) -> bool:
    """Whether a segment of the address is `name`, whatever the pass of a loop."""
    return any(segment.partition("#")[0] == name or segment == name for segment in address.split("/"))


def _shown(address: str, request: Request) -> Iterator[str]:
    yield f"{address} · {request.model} · at most {request.max_tokens:,} tokens of reply"
    for title, blocks in (
        ("system", request.system),
        *((message.role, message.blocks) for message in request.messages),
    ):
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
