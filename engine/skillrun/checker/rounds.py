"""Warns of a `goto` that leads to the same round again: what it goes back to reads nothing that has changed.

A prompt that is the same as before has the reply of before, so that such a round only counts until `at_most`. Where
anything might make it another round, nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from skillrun.checker.expression_types import HISTORY
from skillrun.checker.lints import only_calls_models
from skillrun.checker.program import CheckedProtocol, NestedCall, QuestionStep
from skillrun.definitions.definitions import Step, Workflow
from skillrun.syntax.diagnostics import Problems
from skillrun.types.types import identifier

_HINT: Final = (
    "let a prompt on the way read `history`, or a variable that is set there; `fresh: true` asks the same anew"
)


@dataclass(frozen=True)
class RoundPart:
    """What a phase does: its own steps, all steps that they lead to, and the names that any of them read."""

    own_steps: tuple[Step, ...]
    steps: tuple[Step, ...]
    reads: frozenset[str]


def warn_about_unchanging_rounds(workflow: Workflow, parts: Mapping[str, RoundPart], problems: Problems) -> None:
    """Report each `goto` behind which the next round cannot be another one."""
    for name, part in parts.items():
        for step in _goto_steps(part.own_steps):
            if step.text not in workflow.phases:
                continue
            later_phases = {*workflow.followers(name)} - {name}
            repeated_parts = [parts[other] for other in workflow.followers(step.text) if other not in later_phases]
            if not _may_change(repeated_parts):
                message = f"the round from `{step.text}` on asks the same again, and gets the same replies"
                problems.report(step.span, "same-again", message, _HINT, "warning")


def nested_steps(question_steps: Iterable[QuestionStep | NestedCall]) -> Iterator[Step]:
    """The steps of the protocols that steps enter, and of those that these enter."""
    for nested in question_steps:
        for callee in nested.callees if isinstance(nested, NestedCall) else ():
            if isinstance(callee, CheckedProtocol):
                yield from callee.protocol.walk()
                yield from nested_steps(callee.question_steps)


def _goto_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps that go back, but for those that stand in for one that failed: it may not fail again."""
    for step in steps:
        if step.verb == "goto":
            yield step
        yield from _goto_steps(step.steps)


def _may_change(parts: Collection[RoundPart]) -> bool:
    """Whether anything may be different when the parts are done once more."""
    steps = [step for part in parts for step in part.steps]
    if not only_calls_models(steps) or any("fresh" in step.values for step in steps):
        return True
    reads = frozenset[str]().union(*(part.reads for part in parts))
    names = {
        identifier(name)
        for step in steps
        if step.verb == "set" and step.main is not None
        for name in step.main.entries or {}
    }
    changing = {HISTORY, *(f"state.{name}" for name in names), *(["state.*"] if names else [])}
    owners = {"run", *(("config", "features") if "mode" in names else ())}
    return any(read in changing or read.split(".")[0] in owners for read in reads)
