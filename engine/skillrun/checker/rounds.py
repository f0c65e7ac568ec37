"""Warns of a `goto` that starts a round like the last one, because its phases read nothing that has changed.

An unchanged prompt gets its recorded reply, so such rounds have no effect but to count up to `at_most`. There is no
warning if anything might change.
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

_HINT: Final = "read `history` or a variable set in the round; or use `fresh: true` to call the models again"


@dataclass(frozen=True)
class RoundPart:
    """A phase in a round.

    `own_steps` are the steps of the phase; `steps` also has the steps of callees; `reads` has the names that any of
    them read.
    """

    own_steps: tuple[Step, ...]
    steps: tuple[Step, ...]
    reads: frozenset[str]


def warn_about_unchanging_rounds(workflow: Workflow, parts: Mapping[str, RoundPart], problems: Problems) -> None:
    """Warn of each `goto` whose next round cannot differ from the last."""
    for name, part in parts.items():
        for step in _goto_steps(part.own_steps):
            if step.text not in workflow.phases:
                continue
            later_phases = {*workflow.followers(name)} - {name}
            repeated_parts = [parts[other] for other in workflow.followers(step.text) if other not in later_phases]
            if not _may_change(repeated_parts):
                message = f"going back to `{step.text}` sends the same requests again and gets the same replies"
                problems.report(step.span, "same-again", message, _HINT, "warning")


def nested_steps(question_steps: Iterable[QuestionStep | NestedCall]) -> Iterator[Step]:
    """Yield the steps of the called protocols, and of the protocols that these call."""
    for nested in question_steps:
        for callee in nested.callees if isinstance(nested, NestedCall) else ():
            if isinstance(callee, CheckedProtocol):
                yield from callee.protocol.walk()
                yield from nested_steps(callee.question_steps)


def _goto_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the `goto` steps, except those in an `otherwise`: the failed step may succeed in the next round."""
    for step in steps:
        if step.verb == "goto":
            yield step
        yield from _goto_steps(step.steps)


def _may_change(parts: Collection[RoundPart]) -> bool:
    """Whether repeating the parts may give different results."""
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
