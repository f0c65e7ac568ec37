"""`panel`: seats members in a protocol and evaluates its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillrun.definitions.definitions import Protocol, Step
from skillrun.runtime.errors import StepFailed, Stopped
from skillrun.runtime.frame import Frame, Task
from skillrun.runtime.members import resolve_members
from skillrun.runtime.scope import frame_names, new_frame
from skillrun.templates.absent import Absent
from skillrun.types.input_values import resolve_inputs


async def execute(step: Step, frame: Frame) -> Mapping[str, object]:
    """Return the protocol's outputs, and `degraded`. A `stop` in the protocol fails the step."""
    name = frame.text(step, "protocol")
    protocol = frame.run.program.library.protocol(name)
    if protocol is None:
        raise StepFailed(f"the protocol `{name}` does not exist", frame.at(step))
    value = step.values.get("protocol")
    literal = value is not None and value.template is not None and value.template.is_constant
    given = frame.value(step, "with", {})
    names = {
        "inputs": _inputs(protocol, given if isinstance(given, Mapping) else {}, frame, strict=literal),
        "seats": await _assign_seats(protocol, frame.main(step), frame),
        **{key: frame.names[key] for key in ("config", "features", "run")},
    }
    inner = new_frame(
        frame.phase,
        frame.at(step),
        protocol,
        names,
        frame.evaluator,
        task=Task(step, frame, frame.shape(step)),
        fresh=frame.fresh or frame.value(step, "fresh", False) is True,
        criteria=frame.text(step, "criteria") or frame.criteria,
        sequential=frame.sequential,
    )
    try:
        for inner_step in protocol.steps:
            await inner.evaluate(inner_step)
    except Stopped as stopped:
        raise StepFailed(stopped.reason or f"`{name}` stopped", frame.at(step)) from None
    names = frame_names(inner)
    outputs = {name: value.evaluate(names) for name, value in protocol.outputs.items()}
    outputs = {name: value for name, value in outputs.items() if not isinstance(value, Absent)}
    outputs["degraded"] = bool(inner.degraded_steps) or bool(outputs.get("degraded"))
    frame.degraded_steps.extend(inner.degraded_steps)
    return outputs


def _inputs(protocol: Protocol, given: Mapping[str, Any], frame: Frame, *, strict: bool) -> dict[str, object]:
    """Return the protocol's inputs; unknown ones are errors if `strict`, otherwise dropped."""
    known = {field.name for field in protocol.inputs}
    taken = {name: value for name, value in given.items() if strict or name in known}
    values, errors, warnings = resolve_inputs(protocol.inputs, taken, {"config": frame.names.get("config")})
    for text in warnings:
        frame.phase.warn(text)
    if errors:
        raise StepFailed(f"invalid inputs of the protocol `{protocol.name}`: {'; '.join(errors)}", frame.address)
    return values


async def _assign_seats(protocol: Protocol, value: Any, frame: Frame) -> dict[str, object]:
    """Return the members of named seats in their written form, or the list of members for a range of seats."""
    seats = protocol.seats
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in seats.names]
        if unknown:
            raise StepFailed(f"`{protocol.name}` has no seat `{unknown[0]}` (its seats: {', '.join(seats.names)})")
        missing = [name for name in seats.names if name not in value]
        if missing:
            raise StepFailed(f"the seat `{missing[0]}` of `{protocol.name}` has no member")
        members = await resolve_members(frame, list(value.values()))
        return {name: member.id for name, member in zip(value, members, strict=True)}
    members = await resolve_members(frame, value if isinstance(value, list) else [value])
    if not members:
        raise StepFailed(f"`{protocol.name}` was given no members")
    if seats.names:
        return {name: members[index % len(members)].id for index, name in enumerate(seats.names)}
    if not seats.least <= len(members) <= seats.most:
        raise StepFailed(f"`{protocol.name}` takes {seats.least} to {seats.most} members, not {len(members)}")
    return {"members": [dict(member.names) for member in members]}
