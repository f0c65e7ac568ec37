"""`decide`: chooses a value by rules, with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillrun.definitions.definitions import Row, Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.results import Decision
from skillrun.runtime.scope import frame_names, is_true
from skillrun.templates.absent import Absent


async def execute(step: Step, frame: Frame) -> Decision:
    """Return `value` and `because`: of the first row that holds, or with `order` of the one furthest along."""
    names = frame_names(frame)
    holding = [row for row in step.rows if row.when is not None and is_true(row.when.render(names))]
    default = next((row for row in step.rows if row.when is None), None)
    order = frame.value(step, "order", None)
    if order is None:
        row = next(iter(holding), default)
        return _build_decision(row, row.then, names) if row is not None else {}
    if not isinstance(order, list):
        raise StepFailed(f"`order` of `{step.id}` is {order!r}; expected a list", frame.at(step))
    return _furthest(step, order, holding, default, names)


def _furthest(
    step: Step, order: list[Any], holding: list[Row], default: Row | None, names: Mapping[str, Any]
) -> Decision:
    """Return the furthest of the rows that hold; if all of them only set a floor, the row without `when` counts too."""
    if not any(row.then is not None for row in holding) and default is not None:
        holding = [*holding, default]
    best: tuple[int, Decision] | None = None
    for row in holding:
        result = _build_decision(row, row.then or row.at_least, names)
        if "value" not in result:
            continue
        if result["value"] not in order:
            raise StepFailed(f"`{step.id}` chose `{result['value']}`, which is not in its `order`")
        rank = order.index(result["value"])
        if best is None or rank > best[0]:
            best = (rank, result)
    return best[1] if best else {}


def _build_decision(row: Row, value: Any, names: Mapping[str, Any]) -> Decision:
    chosen = value.evaluate(names) if value is not None else None
    result: Decision = {} if chosen is None or isinstance(chosen, Absent) else {"value": chosen}
    because = row.because.evaluate(names) if row.because is not None else None
    if because is not None and not isinstance(because, Absent):
        result["because"] = because
    return result
