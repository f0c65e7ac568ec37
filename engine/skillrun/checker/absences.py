"""Explains why a name may be absent, and locates the cause in the author's file.

The module `facts` determines whether a name may be absent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from skillrun.definitions.definitions import PhaseUse, Step, WorkflowElement
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Value
from skillrun.types.fields import Field
from skillrun.types.types import Type, identifier

OPEN_QUESTION_REASONS: Final[Mapping[str, str]] = {
    "skip": "`skip` lets the user leave the question open",
    "enough": "`enough` lets the user end the list before answering this question",
    "form": "the `form` may be returned with this question open",
}


class Absence(NamedTuple):
    """The reason why a name may be absent, and the location of the cause."""

    reason: str
    span: Span

    def describe(self, viewpoint: Span) -> str:
        """Return the reason and the location of the cause.

        The location is a line number. It includes the path if the cause is in another file than `viewpoint`.
        """
        line, _ = self.span.source.position(self.span.offset)
        return f"{self.reason} ({f'line {line}' if self.span.path == viewpoint.path else f'{self.span.path}:{line}'})"


Absences = Mapping[str, Absence]
"""Maps each path that may be absent, such as `a.b`, to its absence. `x.*` stands for all fields of `x` without an
entry."""


def absent_fields(label: str, fields: Iterable[Field]) -> dict[str, Absence]:
    """Return why optional inputs, or variables without an initial value, may be absent."""
    why = "it has no value until a phase sets it" if label == "state" else "it is optional"
    optional = (field for field in fields if not field.required and (field.default is None or field.is_optional))
    return {f"{label}.{identifier(field.name)}": Absence(why, field.span) for field in optional}


def absent_phases(uses: Iterable[PhaseUse], skipping: Collection[str | None]) -> dict[str, Absence]:
    """Return why phases may be absent. `skipping` has the names of all breakers that skip after failures."""
    absences = {use.name: _absent_part(use, f"the phase `{use.name}`", skipping) for use in uses}
    return {f"phases.{identifier(name)}": absence for name, absence in absences.items() if absence is not None}


def absent_step(step: Step, *, skips: bool, condition: Span | None) -> dict[str, Absence]:
    """Return why the result of a step, or a field of the result, may be absent.

    `skips` tells whether the step's breaker skips the step after failures. `condition` is the place of the innermost
    enclosing condition.
    """
    name, description = identifier(step.id or ""), f"the step `{step.id}`"
    absences = {}
    if (absence := _absent_part(step, description, (step.retry,) if skips else ())) is not None:
        absences[name] = absence
    elif condition is not None:
        absences[name] = Absence(f"{description} runs only under a condition", condition)
    if step.otherwise is not None:
        absences[f"{name}.*"] = _fallback_absence(step, description)
    elif step.verb == "ask":
        open_question = find_open_question(step) or Absence("no question is asked when the list is empty", step.span)
        absences[f"{name}.answer"] = open_question
    return absences


def find_open_question(step: Step) -> Absence | None:
    """Return why the first question of an `ask` may stay unanswered; None if the user must answer it."""
    if "files" in step.values:
        return None
    main = step.main
    first = main.items[0] if main is not None and main.items else main
    question_values = first.entries or {} if first is not None else {}
    places = {**{key: step.value_span(key) for key in step.values}, **(first.key_spans if first is not None else {})}
    values = {**step.values, **question_values}
    for key, reason in OPEN_QUESTION_REASONS.items():
        if key in values and values[key].literal is not False:
            return Absence(reason, places[key])
    default = values.get("default")
    if default is not None and (default.is_computed or default.literal in (None, "", [])):
        may_be = "may be" if default.is_computed else "is"
        return Absence(f"`default` {may_be} empty, which leaves the question open", places["default"])
    return None


def absent_outputs(
    label: str, owner: str, values: Mapping[str, Value], types: Mapping[str, Type]
) -> dict[str, Absence]:
    """Return why outputs may be absent."""
    absences = {}
    for name, value in values.items():
        if types[name].unless is not None:
            absences[f"{label}.{identifier(name)}"] = Absence(f"{owner} does not always return `{name}`", value.span)
    return absences


def _absent_part(part: WorkflowElement, description: str, skipping: Collection[str | None]) -> Absence | None:
    if part.when is not None:
        return Absence(f"{description} has a `when` condition", part.when.text.at(0))
    if part.retry is not None and part.retry in skipping:
        why = f"{description} may fail, and its breaker `{part.retry}` then skips it"
        return Absence(why, part.value_span("retry"))
    return _fallback_absence(part, description) if part.otherwise is not None else None


def _fallback_absence(part: WorkflowElement, description: str) -> Absence:
    return Absence(f"{description} may fail, and then its `otherwise` runs instead", part.value_span("otherwise"))
