"""`set`: assigns names in order; names declared in `state` belong to the workflow, others are local."""

from __future__ import annotations

from typing import Any

from skillrun.definitions.definitions import Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.scope import frame_names
from skillrun.templates.absent import Absent
from skillrun.templates.expressions import ABSENT
from skillrun.types.fields import Field, coerce
from skillrun.types.input_values import keep_declared_keys
from skillrun.types.types import identifier


async def execute(step: Step, frame: Frame) -> None:
    state_fields = frame.run.program.workflow.state if frame.task is None else ()  # a protocol has no state
    declared = {identifier(field.name): field for field in state_fields}
    for name, entry in (step.main.entries if step.main and step.main.entries else {}).items():
        value = entry.evaluate(frame_names(frame))
        field = declared.get(identifier(name))
        if field is None:
            frame.bind(name, value)
            continue
        if isinstance(value, Absent):
            frame.phase.state[field.name] = ABSENT
            frame.phase.record.sets[field.name] = None
        else:
            value = _coerce_value(step, frame, field, value)
            frame.phase.state[field.name] = frame.phase.record.sets[field.name] = value
        frame.phase.prompt_cache.shared_prefix = None
        if field.name == "mode":
            features = frame.run.features(frame.phase.state)
            frame.names["features"].update({name: feature.on for name, feature in features.items()})
            frame.names["config"].update(frame.run.config(frame.phase.state))


def _coerce_value(step: Step, frame: Frame, field: Field, value: Any) -> Any:
    """Return the value as the field's type, and report warnings. Raises StepFailed."""
    names = {"config": frame.names.get("config"), "inputs": frame.names.get("inputs")}
    value = keep_declared_keys(field, value)
    coerced = coerce(field, value, names)
    if coerced.error:
        raise StepFailed(coerce(field, value, names, f"state.{field.name}").error, frame.at(step))
    for text in coerced.warnings:
        frame.phase.warn(text)
    return coerced.value
