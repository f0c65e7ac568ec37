"""What the steps of a phase or protocol ask a person, and where they enter others that may ask: the checker's record.

What holds before a run, and whether somebody has to be there, is for others to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skillrun.checker.program import Ask, Entered, Nested
from skillrun.definitions.definitions import Step
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template


def asks_of(
    steps: Iterable[Step],
    entered: Mapping[Span, tuple[Entered, ...]],
    at: str = "",
    under: tuple[Template, ...] = (),
) -> Iterator[Ask | Nested]:
    """The records of steps in their order. `entered` is what they enter, by where each stands."""
    for step in steps:
        here = f"{at}/{step.id or step.verb}"
        conditions = under if step.when is None else (*under, step.when)
        if step.verb == "ask":
            yield Ask(here, step, conditions, _questions(step))
        elif step.verb == "repeat":
            once = step.until is None and "at_most" not in step.values
            yield from asks_of(step.steps, entered, at if once else f"{here}#2", conditions)
        elif step.verb == "each":
            yield from asks_of(step.steps, entered, f"{here}~ID", conditions)
        elif step.span in entered:
            yield Nested(here, step, conditions, entered[step.span])
        if step.otherwise is not None:
            yield from asks_of([step.otherwise], entered, f"{here}.otherwise", conditions)


def _questions(step: Step) -> tuple[Mapping[str, Any], ...]:
    """The questions, put together as they are when they are asked; records that are computed are unknown."""
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
