"""`set` and `decide`: compute values without calling a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillrun.definitions.definitions import Row, Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame, StepResult
from skillrun.runtime.scope import frame_names, is_true
from skillrun.templates.values import ABSENT, Absent
from skillrun.types.fields import Field, coerce, keep_declared_keys
from skillrun.types.types import identifier


async def run_set(step: Step, frame: Frame) -> StepResult:
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
    return StepResult()


def _coerce_value(step: Step, frame: Frame, field: Field, value: Any) -> Any:
    """Return the value, converted to the type of the field, and report warnings. Raises StepFailed."""
    names = {"config": frame.names.get("config"), "inputs": frame.names.get("inputs")}
    value = keep_declared_keys(field, value)
    coerced = coerce(field, value, names)
    if coerced.error:
        raise StepFailed(coerce(field, value, names, f"state.{field.name}").error, frame.at(step))
    for text in coerced.warnings:
        frame.phase.warn(text)
    return coerced.value


async def run_decide(step: Step, frame: Frame) -> StepResult:
    """Return `value` and `because` of the first row whose condition holds.

    With `order`, use the row whose value comes last in `order`, among all rows whose condition holds. If each of those
    rows only sets a minimum (`at_least`), the row without `when` is considered too.
    """
    names = frame_names(frame)
    holding = [row for row in step.rows if row.when is not None and is_true(row.when.render(names))]
    default = next((row for row in step.rows if row.when is None), None)
    order = frame.value(step, "order", None)
    if order is None:
        row = next(iter(holding), default)
        return StepResult(_build_decision(row, row.then, names) if row is not None else {})
    if not isinstance(order, list):
        raise StepFailed(f"`order` of `{step.id}` is {order!r}; expected a list", frame.at(step))
    if default is not None and not any(row.then is not None for row in holding):
        holding.append(default)  # the rows that hold only set a minimum (`at_least`)
    decisions = [_build_decision(row, row.then or row.at_least, names) for row in holding]
    decisions = [decision for decision in decisions if "value" in decision]
    for decision in decisions:
        if decision["value"] not in order:
            raise StepFailed(f"`{step.id}` chose `{decision['value']}`, which is not in its `order`")
    return StepResult(max(decisions, key=lambda decision: order.index(decision["value"]), default={}))


def _build_decision(row: Row, value: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    chosen = value.evaluate(names) if value is not None else None
    result = {} if chosen is None or isinstance(chosen, Absent) else {"value": chosen}
    because = row.because.evaluate(names) if row.because is not None else None
    if because is not None and not isinstance(because, Absent):
        result["because"] = because
    return result
