"""Collects the state, names and artifacts that each phase uses, and reports conflicts between unordered phases."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations

from skillrun.definitions.definitions import Phase, Step, Workflow
from skillrun.syntax.diagnostics import Problems
from skillrun.templates.expressions import Value
from skillrun.types.types import identifier


@dataclass(frozen=True)
class PhaseEffects:
    """The variables that a phase sets, the names that it reads and the artifacts that it writes.

    `certain_writes` are the artifacts that it always writes.
    """

    sets: Mapping[str, Value]
    reads: frozenset[str]
    writes: Mapping[str, Step]
    certain_writes: frozenset[str]


def collect_effects(
    phase: Phase, reads: set[str], writes: Mapping[str, Step], certain_writes: Collection[str]
) -> PhaseEffects:
    sets = {
        identifier(name): value
        for step in phase.walk()
        if step.verb == "set" and step.main is not None
        for name, value in (step.main.entries or {}).items()
    }
    return PhaseEffects(sets, frozenset(reads), writes, frozenset(certain_writes) & writes.keys())


def check_parallel(workflow: Workflow, effects: Mapping[str, PhaseEffects], problems: Problems) -> None:
    """Report conflicts between two phases that may run in any order.

    Both set a variable, one sets a variable that the other reads, or both write a file.
    """
    state = {identifier(variable.name) for variable in workflow.state}

    def report(value: Value | Step, first: str, second: str, what: str) -> None:
        message = f"{what}, and neither follows the other"
        problems.report(value.span, "unordered", message, f"add `after: [{first}]` to `{second}`")

    for first, second in combinations(effects, 2):
        if first in workflow.ancestors(second) or second in workflow.ancestors(first):
            continue
        first_effects, other = effects[first], effects[second]
        for name in first_effects.sets.keys() & other.sets.keys() & state:
            report(other.sets[name], first, second, f"`{first}` and `{second}` both set `state.{name}`")
        for path in first_effects.writes.keys() & other.writes.keys():
            report(other.writes[path], first, second, f"`{first}` and `{second}` both write `{path}`")
        for setter, reader in permutations((first, second)):
            for name in (effects[setter].sets.keys() & state) - effects[reader].sets.keys():
                if f"state.{name}" in effects[reader].reads:
                    what = f"`{setter}` sets `state.{name}`, which `{reader}` reads"
                    report(effects[setter].sets[name], setter, reader, what)


@dataclass(frozen=True)
class Artifact:
    """A file that a step writes.

    A computed path has no `path`; `certain` tells whether the file is always written.
    """

    path: str | None
    step: Step
    certain: bool


def artifacts(steps: tuple[Step, ...], skipped: frozenset[str], *, certain: bool = True) -> Iterator[Artifact]:
    """Yield the artifacts that the steps write, without the artifacts of called protocols and workflows.

    `skipped` holds the names of the breakers whose action is to skip.
    """
    for step in steps:
        is_always_written = certain and step.when is None and step.otherwise is None and step.retry not in skipped
        if (value := step.artifact) is not None:
            path = value.literal
            yield Artifact(path if isinstance(path, str) else None, step, is_always_written)
        yield from artifacts(step.steps, skipped, certain=is_always_written)
        if step.otherwise is not None:
            yield from artifacts((step.otherwise,), skipped, certain=False)
