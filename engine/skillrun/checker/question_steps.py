"""Collects the steps of a phase or protocol that ask the user, and the steps whose callees may ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skillrun.checker.program import Callee, NestedCall, QuestionStep
from skillrun.definitions.definitions import Step
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template


def collect_questions(
    steps: Iterable[Step],
    callees: Mapping[Span, tuple[Callee, ...]],
    address: str = "",
    outer_conditions: tuple[Template, ...] = (),
) -> Iterator[QuestionStep | NestedCall]:
    """Yield the `ask` steps and the steps that call protocols or workflows, in order.

    `callees` has the called protocols and workflows, keyed by the location of the calling step.
    """
    for step in steps:
        step_address = f"{address}/{step.id or step.verb}"
        conditions = outer_conditions if step.when is None else (*outer_conditions, step.when)
        if step.verb == "ask":
            yield QuestionStep(step_address, step, conditions, _questions(step))
        elif step.verb == "repeat":
            runs_once = step.until is None and "at_most" not in step.values
            yield from collect_questions(step.steps, callees, address if runs_once else f"{step_address}#2", conditions)
        elif step.verb == "each":
            yield from collect_questions(step.steps, callees, f"{step_address}~ID", conditions)
        elif step.span in callees:
            yield NestedCall(step_address, step, conditions, callees[step.span])
        if step.otherwise is not None:
            yield from collect_questions([step.otherwise], callees, f"{step_address}.otherwise", conditions)


def _questions(step: Step) -> tuple[Mapping[str, Any], ...]:
    """Return the questions, with the step's choices and options for each question that does not set its own.

    A computed question has only an id.
    """
    base = step.id or "question"
    main = step.main
    if main is None or (main.literal is None and (main.template is None or main.template.expression is not None)):
        return ({"id": base},)
    items = main.literal if isinstance(main.literal, list) else [main.literal]
    shared = {name: step.values[name].literal for name in ("choices", "multiple", "other") if name in step.values}
    questions = []
    for number, item in enumerate(items, 1):
        record = item if isinstance(item, dict) else {}
        questions.append({"id": base if len(items) == 1 else f"{base}-{number}", **shared, **record})
    return tuple(questions)
