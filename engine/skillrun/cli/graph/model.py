"""Builds the graph of a workflow: its phases in order, their steps, and jumps back to earlier phases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from jinja2 import nodes

from skillrun.checker.program import Program
from skillrun.cli.graph.candidates import Candidates
from skillrun.definitions.definitions import Step, Workflow
from skillrun.library.library import Library
from skillrun.library.lookups import Lookups
from skillrun.templates.expressions import Template, Value

MINOR_VERBS: Final = ("set", "say")


@dataclass(frozen=True, kw_only=True)
class StepNode:
    """One step. Expressions and templates are kept as written; a step with an error may have an empty verb.

    If `is_fixed`, the `members` and `protocols` of an agent or panel, and the `outcomes` of a decision, are exact. If
    not, they are candidates found in the files, and the run chooses among them. `path` is the file that the step reads
    or writes.
    """

    verb: str
    id: str = ""
    when: str = ""
    expression: str = ""
    members: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    is_fixed: bool = True
    questions: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    path: str = ""
    outcomes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    text: str = ""
    level: str = ""
    target: str = ""
    until: str = ""
    at_most: str = ""
    item: str = ""
    at_once: str = ""
    retry: str = ""
    retry_limit: str = ""
    retry_then: str = ""
    otherwise: StepNode | None = None
    steps: tuple[StepNode, ...] = ()

    def walk(self) -> Iterator[StepNode]:
        """Yield this step, its fallback and the steps inside it."""
        yield self
        if self.otherwise is not None:
            yield from self.otherwise.walk()
        for step in self.steps:
            yield from step.walk()


@dataclass(frozen=True, kw_only=True)
class PhaseNode:
    """One phase. `cut` counts its omitted steps.

    `reads` names the phases whose results this phase reads; it is None if errors in the files make this unknown.
    """

    name: str
    description: str
    after: tuple[str, ...]
    reads: tuple[str, ...] | None
    when: str
    retry: str
    retry_limit: str
    retry_then: str
    otherwise: StepNode | None
    steps: tuple[StepNode, ...]
    is_missing: bool = False
    cut: int = 0

    def walk(self) -> Iterator[StepNode]:
        """Yield every step of the phase and of its fallback."""
        for step in (*self.steps, *((self.otherwise,) if self.otherwise is not None else ())):
            yield from step.walk()

    @property
    def back_to(self) -> list[str]:
        """The phases that this phase may go back to, in the order of its steps."""
        return list(dict.fromkeys(step.target for step in self.walk() if step.verb == "goto"))


@dataclass(frozen=True, kw_only=True)
class WorkflowGraph:
    """A workflow with its phases. `minor` counts omitted minor steps, and `undrawn` counts omitted phases."""

    name: str
    description: str
    outputs: tuple[str, ...]
    phases: tuple[PhaseNode, ...]
    minor: int = 0
    undrawn: int = 0

    def data(self) -> dict[str, Any]:
        """Return the graph as JSON data; empty fields of steps are omitted."""
        phases = [
            {
                "phase": phase.name,
                "description": phase.description,
                "after": list(phase.after),
                "reads": None if phase.reads is None else list(phase.reads),
                "back_to": phase.back_to,
                "when": phase.when,
                "is_missing": phase.is_missing,
                **({"retry": phase.retry} if phase.retry else {}),
                **({"otherwise": _step_data(phase.otherwise)} if phase.otherwise is not None else {}),
                "steps": list(map(_step_data, phase.steps)),
            }
            for phase in self.phases
        ]
        names = {"workflow": self.name, "description": self.description, "outputs": list(self.outputs)}
        return {**names, "phases": phases}

    def without_minor_steps(self) -> WorkflowGraph:
        """Return the graph without steps that only set values or print messages."""
        phases = tuple(replace(phase, steps=_major_steps(phase.steps)) for phase in self.phases)
        minor = sum(_count(phase.steps) for phase in self.phases) - sum(_count(phase.steps) for phase in phases)
        return replace(self, phases=phases, minor=minor)

    def limit(self, phases: int, steps: int) -> WorkflowGraph:
        """Return the graph with at most `phases` phases and `steps` steps in total, for pictures of limited size."""
        drawn_phases = []
        for phase in self.phases[:phases]:
            shown: list[StepNode] = []
            for step in phase.steps:
                steps -= _count([step])
                if steps < 0:
                    break
                shown.append(step)
            drawn_phases.append(replace(phase, steps=tuple(shown), cut=_count(phase.steps[len(shown) :])))
        return replace(self, phases=tuple(drawn_phases), undrawn=len(self.phases) - len(drawn_phases))


def _count(steps: Iterable[StepNode]) -> int:
    return sum(1 for step in steps for _ in step.walk())


def _major_steps(steps: Iterable[StepNode]) -> tuple[StepNode, ...]:
    kept = (replace(step, steps=_major_steps(step.steps)) for step in steps)
    return tuple(step for step in kept if step.verb not in MINOR_VERBS and (step.steps or step.verb != "repeat"))


def _step_data(step: StepNode) -> dict[str, Any]:
    data = {name: value for name, value in vars(step).items() if value not in ("", (), None, True)}
    if step.otherwise is not None:
        data["otherwise"] = _step_data(step.otherwise)
    if step.steps:
        data["steps"] = list(map(_step_data, step.steps))
    return data


def build_graph(workflow: Workflow, library: Library, program: Program | None) -> WorkflowGraph:
    """Return the graph of a workflow. A phase whose file cannot be read has no steps.

    If a phase cannot be read, `program` is None, and so is `reads` of every phase.
    """
    settings = Lookups(library).settings(workflow)
    files = {name: library.phase(use.skill) for name, use in workflow.phases.items()}
    candidates = Candidates(workflow, library, settings, [phase for phase in files.values() if phase is not None])
    builder = _StepBuilder(settings.part("breakers"), candidates)
    phases = []
    for name, use in workflow.phases.items():
        phase = files[name]
        candidates.enter_phase(phase)
        read_phases = None if program is None else program.reads.get(name, frozenset())
        limit, then = builder.breaker(use.retry)
        phases.append(
            PhaseNode(
                name=name,
                description=phase.description if phase is not None else "",
                after=tuple(use.after),
                reads=None if read_phases is None else tuple(each for each in workflow.phases if each in read_phases),
                when=_source(use.when),
                retry=use.retry or "",
                retry_limit=limit,
                retry_then=then,
                otherwise=builder.build(use.otherwise) if use.otherwise is not None else None,
                steps=tuple(map(builder.build, phase.steps)) if phase is not None else (),
                is_missing=phase is None,
            )
        )
    outputs = tuple(workflow.outputs)
    return WorkflowGraph(name=workflow.name, description=workflow.description, outputs=outputs, phases=tuple(phases))


@dataclass(frozen=True)
class _StepBuilder:
    """Turns the steps of one workflow into nodes."""

    breakers: Mapping[str, Any]
    candidates: Candidates

    def build(self, step: Step) -> StepNode:
        limit, then = self.breaker(step.retry)
        return StepNode(
            verb=step.verb,
            id=step.id or "",
            when=_source(step.when),
            retry=step.retry or "",
            retry_limit=limit,
            retry_then=then,
            otherwise=self.build(step.otherwise) if step.otherwise is not None else None,
            steps=tuple(map(self.build, step.steps)),
            **self._details(step),
        )

    def _details(self, step: Step) -> dict[str, Any]:
        """Return the fields that depend on the verb."""
        main, values = step.main, step.values
        details: dict[str, Any] = {}
        match step.verb:
            case "agent" | "panel":
                members, is_fixed = self.candidates.members(main)
                protocols, is_one = self.candidates.protocols(values.get("protocol"))
                names = {"members": members, "protocols": protocols, "is_fixed": is_fixed and is_one}
                details = {**names, "expression": "" if members else _text(main), "path": _text(step.artifact)}
            case "ask":
                choices = values.get("choices")
                shown = tuple(map(_text, choices.items or ())) if choices is not None else ()
                questions = _questions(main)
                file = _text(values.get("form") or values.get("files"))
                expression = "" if questions else _text(main)
                details = {"questions": questions, "choices": shown, "expression": expression, "path": file}
            case "read" | "write":
                details = {"path": _text(main)}
            case "find":
                details = {"expression": _text(main)}
            case "say":
                details = {"text": _text(main), "level": _text(values.get("level"))}
            case "set":
                details = {"names": tuple(main.entries or ()) if main is not None else ()}
            case "decide":
                outcomes, is_complete = self.candidates.outcomes(step)
                details = {"outcomes": outcomes, "is_fixed": is_complete}
            case "repeat":
                details = {"until": _source(step.until), "at_most": self._limit(values.get("at_most"))}
            case "each":
                details = {"expression": _text(main), "item": step.item, "at_once": _text(values.get("at_once"))}
            case "run":
                details = {"target": step.text}
            case "goto":
                details = {"target": step.text, "at_most": self._limit(values.get("at_most"))}
            case "stop":
                details = {"target": step.text, "text": _text(values.get("reason"))}
        return details

    def _limit(self, value: Value | None) -> str:
        """Return the limit of a loop or jump: a number if it is known, otherwise the expression."""
        if value is None:
            return ""
        if isinstance(value.literal, str):
            return self.breaker(value.literal)[0] or value.literal
        names = {name.name for template in value.templates() for name in template.tree.find_all(nodes.Name)}
        numbers = self.candidates.values_of(value) if names <= {"config"} else []
        return str(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], int) else _text(value)

    def breaker(self, name: str | None) -> tuple[str, str]:
        """Return the limit and the action of a breaker; both are empty if the breaker is unknown."""
        breaker = self.breakers.get(name or "")
        if not isinstance(breaker, Mapping):
            return "", ""
        return str(breaker.get("limit", "")), str(breaker.get("then", ""))


def _source(condition: Template | None) -> str:
    return " ".join(condition.text.value.split()) if condition is not None else ""


def _questions(main: Value | None) -> tuple[str, ...]:
    """Return the texts of the questions; empty if an expression computes them."""
    if main is None or (main.template is not None and main.template.expression is not None):
        return ()
    items = main.items if main.items is not None else (main,)
    texts = (item.entries.get("text") if item.entries is not None else item for item in items)
    return tuple(text for value in texts if (text := _text(value)))


def _text(value: Value | None) -> str:
    """Return a value on one line: its fixed text with `…` for each expression, or the source of a single expression."""
    if value is None:
        return ""
    if value.items is not None:
        return ", ".join(filter(None, map(_text, value.items)))
    if value.entries is not None:
        return ", ".join(f"{name}: {_text(entry)}" for name, entry in value.entries.items())
    if value.template is None:
        return "" if value.plain is None else str(value.plain)
    template = value.template
    if template.is_constant:
        text = template.text.value
    elif template.expression is not None:
        text = template.text.value.strip().removeprefix("{{").removesuffix("}}").strip("- \n")
    else:
        outputs = (node for node in template.tree.body if isinstance(node, nodes.Output))
        parts = (part for output in outputs for part in output.nodes)
        text = "".join(part.data if isinstance(part, nodes.TemplateData) else "…" for part in parts)
    return " ".join(text.split())
