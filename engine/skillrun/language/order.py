"""The order of a workflow's phases: what follows what, and what must not happen at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations

from skillrun.language.definitions import Phase, Step, Value, Workflow
from skillrun.language.diagnostics import Problems, did_you_mean
from skillrun.language.types import identifier


@dataclass(frozen=True)
class Trace:
    """What a phase touches: the state it sets, and where; the names it reads; the artifacts it writes, and where."""

    sets: Mapping[str, Value]
    reads: frozenset[str]
    writes: Mapping[str, Step]


def trace(phase: Phase, reads: set[str], writes: Mapping[str, Step]) -> Trace:
    sets = {
        identifier(name): value
        for step in phase.walk()
        if step.verb == "set" and step.main is not None
        for name, value in (step.main.entries or {}).items()
    }
    return Trace(sets, frozenset(reads), writes)


def ordered(workflow: Workflow, problems: Problems) -> list[str]:
    """The phases, each behind what it follows; unknown names, cycles and what they cut off are reported."""
    phases = workflow.phases
    for use in phases.values():
        for after, span in use.after.items():
            if after not in phases:
                message = f"`{use.name}` follows `{after}`, which is no phase"
                problems.report(span, "unknown-phase", message, did_you_mean(after, phases))
    done: list[str] = []
    pending = list(phases)
    while ready := [name for name in pending if all(one in done or one not in phases for one in phases[name].after)]:
        done += ready
        pending = [name for name in pending if name not in done]
    for name in pending:
        around = workflow.ancestors(name)
        if name in around:
            hint = f"through {', '.join(sorted(around - {name})) or 'its own `after`'}"
            problems.report(phases[name].span, "cycle", f"`{name}` follows itself", hint)
        else:
            problems.report(phases[name].span, "unreachable", f"`{name}` is never reached: it follows a cycle")
    return done


def check_parallel(workflow: Workflow, traces: Mapping[str, Trace], problems: Problems) -> None:
    """Two phases that may run at the same time must not set, or set and read, one variable, or write one file."""
    state = {identifier(one.name) for one in workflow.state}

    def report(value: Value | Step, first: str, second: str, what: str) -> None:
        message = f"{what}, and neither follows the other"
        problems.report(value.span, "unordered", message, f"give `{second}` `after: [{first}]`")

    for first, second in combinations(traces, 2):
        if first in workflow.ancestors(second) or second in workflow.ancestors(first):
            continue
        one, other = traces[first], traces[second]
        for name in one.sets.keys() & other.sets.keys() & state:
            report(other.sets[name], first, second, f"`{first}` and `{second}` both set `state.{name}`")
        for path in one.writes.keys() & other.writes.keys():
            report(other.writes[path], first, second, f"`{first}` and `{second}` both write `{path}`")
        for setter, reader in permutations((first, second)):
            for name in (traces[setter].sets.keys() & state) - traces[reader].sets.keys():
                if f"state.{name}" in traces[reader].reads:
                    what = f"`{setter}` sets `state.{name}`, which `{reader}` reads"
                    report(traces[setter].sets[name], setter, reader, what)


@dataclass(frozen=True)
class Artifact:
    """A file that a step writes; no path where only the run knows it, not `certain` where it may stay unwritten."""

    path: str | None
    step: Step
    certain: bool


def artifacts(steps: tuple[Step, ...], skipped: frozenset[str], *, certain: bool = True) -> Iterator[Artifact]:
    """What the steps themselves write. `skipped` are the breakers that skip."""
    for step in steps:
        sure = certain and step.when is None and step.otherwise is None and step.retry not in skipped
        if (value := step.artifact) is not None:
            path = value.literal
            yield Artifact(path if isinstance(path, str) else None, step, sure)
        yield from artifacts(step.steps, skipped, certain=sure)
        if step.otherwise is not None:
            yield from artifacts((step.otherwise,), skipped, certain=False)
