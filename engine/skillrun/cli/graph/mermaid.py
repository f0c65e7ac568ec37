"""Draws a workflow as a Mermaid flowchart: a subgraph for each phase, with its steps from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from skillrun.cli.graph.labels import (
    FAMILIES,
    clean,
    cut_note,
    describe_limit,
    join_parts,
    omissions,
    step_line,
)
from skillrun.cli.graph.model import StepNode, WorkflowGraph

MAX_PHASES: Final = 100
MAX_STEPS: Final = 200  # Mermaid refuses more than 500 edges or 50,000 characters
LABEL: Final = 120  # characters of one text
TITLE: Final = 56  # characters of the title of a subgraph, which does not wrap
CONFIG: Final = (
    '%%{init: {"flowchart": {"wrappingWidth": 460, "nodeSpacing": 24, "rankSpacing": 44, '
    '"subGraphTitleMargin": {"top": 4, "bottom": 18}}}}%%'
)
SHAPES: Final = {"ask": ("{{", "}}"), "goto": ("([", "])"), "stop": ("([", "])")}
STYLES: Final = {
    "model": "fill:#dbeafe,stroke:#2563eb,color:#172554",
    "user": "fill:#fef3c7,stroke:#d97706,color:#451a03",
    "file": "fill:#dcfce7,stroke:#16a34a,color:#052e16",
    "choice": "fill:#f3e8ff,stroke:#9333ea,color:#3b0764",
    "jump": "fill:#fee2e2,stroke:#dc2626,color:#450a0a",
    "run": "fill:#ccfbf1,stroke:#0d9488,color:#042f2e",
}
_SPECIAL: Final = re.compile(r"[^\w ,.:;!?/()=…'-]")


def draw_mermaid(graph: WorkflowGraph) -> str:
    """Return the workflow as the source of a Mermaid flowchart."""
    graph = graph.limit(MAX_PHASES, MAX_STEPS)
    return "\n".join([*_Flowchart().lines(graph), *(f"    %% {note}" for note in omissions(graph))])


class _Flowchart:
    """Collects the lines of one chart.

    Ids are numbered, because a name may be a Mermaid keyword. Arrows connect steps, not subgraphs, because
    Mermaid reorders a subgraph if an arrow leads back to it.
    """

    def __init__(self) -> None:
        self._lines = [CONFIG, "flowchart TD"]
        self._edges: list[str] = []
        self._jumps: list[tuple[str, StepNode]] = []
        self._ids: dict[str, list[str]] = {}
        self._count = 0

    def lines(self, graph: WorkflowGraph) -> list[str]:
        ends: dict[str, tuple[str, str]] = {}
        for number, phase in enumerate(graph.phases, 1):
            when = f" (only if {phase.when})" if phase.when else ""
            self._open(f"p{number}", 1, f"{phase.name}{when}")
            phase_ends = self._add_steps(phase.steps, 2)
            rest = cut_note(phase) or ("" if phase.steps else phase.description or "no steps to show")
            if rest or phase_ends is None:
                node = self._add_node(2, "[", "]", rest)
                phase_ends = (phase_ends[0] if phase_ends is not None else node, node)
            self._lines.append("    end")
            ends[phase.name] = first, last = phase_ends
            self._edges += [f"{ends[name][1]} --> {first}" for name in phase.after if name in ends]
            if phase.otherwise is not None:
                self._jumps.append((last, phase.otherwise))
        for source, step in self._jumps:
            if step.verb == "goto" and step.target in ends:
                label = "back" + (f", {describe_limit(step.at_most)}" if step.at_most else "")
                self._edges.append(f"{source} -.->|{_label(label)}| {ends[step.target][0]}")
        styles = [
            f"    {line}"
            for family, ids in self._ids.items()
            for line in (f"classDef {family} {STYLES[family]}", f"class {','.join(ids)} {family}")
        ]
        return [*self._lines, *(f"    {edge}" for edge in self._edges), *styles]

    def _add_steps(self, steps: Iterable[StepNode], depth: int) -> tuple[str, str] | None:
        """Write consecutive steps, and return their first and last node; None if there are no steps."""
        ends: tuple[str, str] | None = None
        for step in steps:
            step_ends = self._add_step(step, depth)
            if ends is not None:
                self._edges.append(f"{ends[1]} --> {step_ends[0]}")
            ends = (ends[0] if ends is not None else step_ends[0], step_ends[1])
            self._jumps += [(step_ends[1], each) for each in (step, step.otherwise) if each is not None]
        return ends

    def _add_step(self, step: StepNode, depth: int) -> tuple[str, str]:
        """Write a step with the steps inside it, and return its first and last node."""
        verb, condition = step.verb or "error", [f"if {step.when}"] if step.when else []
        if step.steps:
            self._count += 1
            self._open(f"s{self._count}", depth, f"{verb} {step.id}")
            words = join_parts(part for part in step_line(step) if part.kind != "name")
            first = self._add_node(depth + 1, "([", "])", words, *condition)
            ends = self._add_steps(step.steps, depth + 1)
            assert ends is not None
            self._edges.append(f"{first} --> {ends[0]}")
            self._lines.append(f"{'    ' * depth}end")
            return first, ends[1]
        shape = SHAPES.get(step.verb, ("[", "]"))
        node = self._add_node(depth, *shape, f"{verb}: {join_parts(step_line(step))}", *condition)
        if (family := FAMILIES.get(step.verb, "")) in STYLES:
            self._ids.setdefault(family, []).append(node)
        return node, node

    def _add_node(self, depth: int, start: str, end: str, *texts: str) -> str:
        self._count += 1
        self._lines.append(f"{'    ' * depth}s{self._count}{start}{_label(*texts)}{end}")
        return f"s{self._count}"

    def _open(self, name: str, depth: int, title: str) -> None:
        indent = "    " * depth
        self._lines += [f"{indent}subgraph {name}[{_label(clean(title, TITLE))}]", f"{indent}    direction TB"]


def _label(*texts: str) -> str:
    """Return a quoted label with one line for each text. Characters special in Mermaid or HTML are escaped."""
    lines = (_SPECIAL.sub(lambda match: f"#{ord(match[0])};", clean(text, LABEL)) for text in texts)
    return f'"{"<br>".join(lines)}"'
