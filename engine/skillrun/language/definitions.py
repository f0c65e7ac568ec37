"""What the parsed files are: frozen definitions of workflows, phases, protocols, roles and steps.

Every definition keeps where it stands in its file, so that later checks and errors can point at it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skillrun.language.absent import Absent
from skillrun.language.expressions import Template
from skillrun.language.fields import Field
from skillrun.language.picoschema import ShapeSpec
from skillrun.language.source import Document, Span


@dataclass(frozen=True)
class Value:
    """A YAML value whose strings are templates; `keys` says where the keys of a mapping stand."""

    span: Span
    plain: Any = None
    template: Template | None = None
    items: tuple[Value, ...] | None = None
    entries: Mapping[str, Value] | None = None
    keys: Mapping[str, Span] = field(default_factory=dict)

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Render every string in it; an absent entry of a mapping is left out. Raises RenderError."""
        if self.template is not None:
            return self.template.render(names)
        if self.items is not None:
            return [item.evaluate(names) for item in self.items]
        if self.entries is not None:
            values = {key: value.evaluate(names) for key, value in self.entries.items()}
            return {key: value for key, value in values.items() if not isinstance(value, Absent)}
        return self.plain

    def templates(self) -> Iterator[Template]:
        if self.template is not None:
            yield self.template
        for value in (*(self.items or ()), *(self.entries or {}).values()):
            yield from value.templates()

    @property
    def literal(self) -> Any:
        """The plain value where nothing in it is a template; otherwise None."""
        return self.evaluate({}) if all(template.constant for template in self.templates()) else None


@dataclass(frozen=True)
class Row:
    """A row of a decision: the value it chooses, or the least value that may be chosen."""

    span: Span
    when: Template | None
    then: Value | None
    at_least: Value | None
    because: Value | None


@dataclass(frozen=True)
class Step:
    """One step: its verb, the verb's own value and the keys beside it. A broken one has the verb "".

    `spans` says where the values of its keys stand.
    """

    verb: str
    span: Span
    spans: Mapping[str, Span] = field(default_factory=dict)
    id: str | None = None
    when: Template | None = None
    retry: str | None = None
    otherwise: Step | None = None
    main: Value | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    output: ShapeSpec | None = None
    schema: Any = None
    until: Template | None = None
    rows: tuple[Row, ...] = ()
    steps: tuple[Step, ...] = ()

    def walk(self) -> Iterator[Step]:
        """This step, the one that stands in for it, and all inside."""
        yield self
        if self.otherwise is not None:
            yield from self.otherwise.walk()
        for step in self.steps:
            yield from step.walk()

    @property
    def text(self) -> str:
        """The verb's own value where it is plain text."""
        literal = self.main.literal if self.main is not None else None
        return literal if isinstance(literal, str) else ""

    @property
    def order(self) -> tuple[Any, ...]:
        """What a decision's `order` lists, where that is written out."""
        literal = self.values["order"].literal if "order" in self.values else None
        return tuple(literal) if isinstance(literal, list) else ()

    @property
    def artifact(self) -> Value | None:
        """The path of the artifact that it writes."""
        return self.main if self.verb == "write" else self.values.get("writes")


@dataclass(frozen=True)
class Reference:
    """A text that a phase's prompts carry; an Agent Skill is never rendered."""

    name: str
    span: Span
    when: Template | None = None

    @property
    def agent_skill(self) -> bool:
        return "/" not in self.name


@dataclass(frozen=True)
class Prompt:
    """A named section of a phase or protocol."""

    name: str
    heading: Span
    template: Template


@dataclass(frozen=True)
class Score:
    """What phases and protocols share: steps, outputs and the sections that the steps use."""

    name: str
    description: str
    document: Document
    steps: tuple[Step, ...]
    outputs: Mapping[str, Value]
    prompts: Mapping[str, Prompt]

    def walk(self) -> Iterator[Step]:
        for step in self.steps:
            yield from step.walk()

    @property
    def local(self) -> dict[str, Span]:
        """The names that its steps bind, as expressions write them, and where each is bound last."""
        found = {}
        for step in self.walk():
            names = step.main.keys if step.verb == "set" and step.main is not None else {}
            for name, span in ({step.id: step.span} if step.id else names).items():
                found[name.replace("-", "_")] = span
        return found


@dataclass(frozen=True)
class Phase(Score):
    references: tuple[Reference, ...] = ()
    acceptance: Template | None = None


@dataclass(frozen=True)
class Seats:
    """Named seats, or a number of members between two bounds."""

    names: tuple[str, ...] = ()
    least: int = 1
    most: int = 64


@dataclass(frozen=True)
class Protocol(Score):
    seats: Seats = field(default_factory=Seats)
    inputs: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Role:
    """Who speaks: a persona (never rendered), a model, tools, skills and variants (name to lens).

    `spans` says where the names of tools and skills stand.
    """

    name: str
    description: str
    model: str
    tools: tuple[str, ...]
    skills: tuple[str, ...]
    variants: Mapping[str, str]
    body: str
    document: Document
    spans: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseUse:
    """A phase's place in a workflow: what it follows and when it runs. `spans` says where its keys' values stand."""

    name: str
    span: Span
    skill: str
    after: tuple[str, ...]
    spans: Mapping[str, Span] = field(default_factory=dict)
    when: Template | None = None
    retry: str | None = None
    otherwise: Step | None = None
    was: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workflow:
    name: str
    description: str
    help: str
    document: Document
    inputs: tuple[Field, ...]
    state: tuple[Field, ...]
    outputs: Mapping[str, Value]
    config: str | None
    repository: Template | None
    hint: Template | None
    parallel: Value | None
    phases: Mapping[str, PhaseUse]
    preamble: Template | None
    documents: Mapping[str, Value] = field(default_factory=dict)

    def ancestors(self, name: str) -> frozenset[str]:
        """Every phase that has ended when `name` starts."""
        return self._ancestors[name]

    def followers(self, name: str) -> tuple[str, ...]:
        """`name` and every phase that follows it, in file order."""
        return tuple(other for other in self.phases if other == name or name in self.ancestors(other))

    @cached_property
    def _ancestors(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for name in self.phases:
            seen: set[str] = set()
            pending = list(self.phases[name].after)
            while pending:
                phase = str(pending.pop())
                if phase in self.phases and phase not in seen:
                    seen.add(phase)
                    pending.extend(self.phases[phase].after)
            found[name] = frozenset(seen)
        return found
