"""What the parsed files are: frozen definitions of workflows, phases, protocols, roles and steps.

Their fields made with `key` are the keys that such a file, or a part of it, may have. Every definition keeps where it
stands in its file, so that later checks and errors can point at it.
"""

# ruff: noqa: RUF009  # `key` makes a field, as `dataclasses.field` does
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from skillrun.definitions.verbs import VERBS, Keys, key, keys_of
from skillrun.syntax import source as nodes
from skillrun.syntax.source import Document, Span
from skillrun.templates.expressions import Template, Value
from skillrun.types.fields import Field
from skillrun.types.picoschema import ShapeSpec


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a decision."""

    span: Span
    when: Template | None = key("condition", "the row counts when this holds")
    then: Value | None = key("value", "the value that is chosen")
    at_least: Value | None = key("value", "the least value that may be chosen")
    because: Value | None = key("text", "the reason that is kept")


@dataclass(frozen=True)
class RecordPart:
    """A part of what `record:` asks for: a shape that is written out, or the name of a template that has one."""

    span: Span
    shape: ShapeSpec | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkflowElement:
    """What steps, and phases of a workflow, have in common."""

    span: Span
    node: nodes.Node
    when: Template | None = key("condition", "run only when this holds")
    retry: str | None = key("name", "the breaker that counts its failures")
    otherwise: Step | None = key("step", "the step that stands in for it when it fails")

    def value_span(self, key: str) -> Span:
        """Where the value of a key stands, or else the whole."""
        value = self.node.get(key) if isinstance(self.node, nodes.Mapping) else None
        return value.span if value is not None else self.span


@dataclass(frozen=True, kw_only=True)
class Step(WorkflowElement):
    """One step: its verb, the verb's own value and the keys beside it. A broken one has the verb ""."""

    verb: str
    id: str | None = key("id", "the name that later steps, the section and the journal know it by")
    main: Value | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    output: ShapeSpec | None = None
    schema: Any = None
    record: tuple[RecordPart, ...] = ()
    until: Template | None = None
    rows: tuple[Row, ...] = ()
    steps: tuple[Step, ...] = ()
    item: str = "item"
    by: str | None = None

    def walk(self) -> Iterator[Step]:
        """This step, the one that stands in for it, and all inside."""
        yield self
        if self.otherwise is not None:
            yield from self.otherwise.walk()
        for step in self.steps:
            yield from step.walk()

    @property
    def material(self) -> Value | None:
        """What it hands over, by title."""
        return self.values.get("material")

    @cached_property
    def text(self) -> str:
        """The verb's own value where it is plain text."""
        literal = self.main.literal if self.main is not None else None
        return literal if isinstance(literal, str) else ""

    @cached_property
    def order(self) -> tuple[Any, ...]:
        """What a decision's `order` lists, where that is written out."""
        literal = self.values["order"].literal if "order" in self.values else None
        return tuple(literal) if isinstance(literal, list) else ()

    @property
    def artifact(self) -> Value | None:
        """The path of the artifact that it writes."""
        return self.main if self.verb == "write" else self.values.get("writes")

    @property
    def has_section(self) -> bool:
        return bool(self.verb) and VERBS[self.verb].section and "template" not in self.values


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A text that a phase's prompts carry; an Agent Skill is never rendered."""

    span: Span
    skill: str = key("name", "the skill", required=True)
    when: Template | None = key("condition", "only when this holds")

    @property
    def is_agent_skill(self) -> bool:
        return "/" not in self.skill


@dataclass(frozen=True, kw_only=True)
class Check:
    """What must hold of a workflow's config, and what is said where it does not."""

    span: Span
    must: Template | None = key("condition", "what must hold; reads `config` alone", required=True)
    say: Value | None = key("text", "what is wrong otherwise, and what to write", required=True)


@dataclass(frozen=True)
class Prompt:
    """A named section of a phase or protocol."""

    name: str
    heading: Span
    template: Template

    @property
    def name_span(self) -> Span:
        """Where the name stands in the heading."""
        return Span(self.heading.source, self.heading.source.text.index(self.name, self.heading.offset))


@dataclass(frozen=True, kw_only=True)
class File:
    """What every kind of markdown file has."""

    name: str
    document: Document
    description: str = key("sentence", "one line that says what it is for", "")


@dataclass(frozen=True, kw_only=True)
class Skill(File):
    kind: str = key("name", "the kind of file", "")


@dataclass(frozen=True, kw_only=True)
class Procedure(Skill):
    """What phases and protocols share: steps, outputs and the sections that the steps use."""

    steps: tuple[Step, ...] = key("steps", "its steps", (), required=True)
    outputs: Mapping[str, Value] = key("mapping", "what it returns", dict)
    prompts: Mapping[str, Prompt]

    def walk(self) -> Iterator[Step]:
        for step in self.steps:
            yield from step.walk()

    @property
    def headings(self) -> frozenset[str]:
        """The names of the sections in its file."""
        return frozenset(section.name for section in self.document.sections)

    @property
    def local_names(self) -> dict[str, Span]:
        """The names that its steps bind, as expressions write them, and where each is bound last."""
        spans = {}
        for step in self.walk():
            names = step.main.key_spans if step.verb == "set" and step.main is not None else {}
            for name, span in ({step.id: step.span} if step.id else names).items():
                spans[name.replace("-", "_")] = span
        return spans


@dataclass(frozen=True, kw_only=True)
class Phase(Procedure):
    references: tuple[Reference, ...] = key("references", "texts that its prompts carry", ())
    acceptance: Template | None = None


@dataclass(frozen=True)
class Seats:
    """Named seats, or a number of members between two bounds."""

    names: tuple[str, ...] = ()
    least: int = 1
    most: int = 64


@dataclass(frozen=True, kw_only=True)
class Protocol(Procedure):
    seats: Seats = key("seats", "the seats' names, or `members: 1..4`", Seats(), required=True)
    inputs: tuple[Field, ...] = key("fields", "what it is given", ())


@dataclass(frozen=True, kw_only=True)
class TextFile(Skill):
    """A reference or template: its text as a template, and of a template the shape it asks for."""

    template: Template
    output: ShapeSpec | None = key("shape", "the shape of a structured reply")
    material: Value | None = key("mapping", "what is handed over with it, by title")


@dataclass(frozen=True, kw_only=True)
class AgentSkill(File):
    """An Agent Skill: knowledge put into prompts, never rendered."""

    name: str = key("sentence", "the skill's name")
    body: str


@dataclass(frozen=True, kw_only=True)
class Role(AgentSkill):
    """Who speaks: a persona, a model, tools and skills with their places, and variants (name to lens)."""

    model: str = key("sentence", "a tier, an alias or a model's name", "strong")
    tools: Mapping[str, Span] = key("names", "the tools it may use", dict)
    skills: Mapping[str, Span] = key("names", "the skills it brings", dict)
    variants: Mapping[str, str] = key("sentences", "its variants, each with its lens", dict)


@dataclass(frozen=True, kw_only=True)
class PhaseUse(WorkflowElement):
    """A phase's place in a workflow: what it follows and when it runs."""

    name: str
    after: Mapping[str, Span] = key("names", "the phases it follows, when not the one above", dict)
    skill: str = key("name", "the phase's file, when not `<workflow>/<phase>`")
    was: Mapping[str, Span] = key("names", "what older state files called it", dict)


@dataclass(frozen=True, kw_only=True)
class Workflow(File):
    """`help` is what stands above its sections, `preamble` goes in front of every prompt."""

    name: str = key("name", "the command's name", required=True)
    inputs: tuple[Field, ...] = key("fields", "what it is given", ())
    state: tuple[Field, ...] = key("fields", "its variables", ())
    outputs: Mapping[str, Value] = key("mapping", "what it returns", dict)
    config: str | None = key("name", "its file in `config/`")
    checks: tuple[Check, ...] = key("checks", "what must hold of its config", ())
    repository: Value | None = key("text", "the folder that agents' tools may read")
    hint: Value | None = key("text", "the one line of `skillrun hint`")
    parallel: Value | None = key("value", "whether unordered phases run at the same time")
    material: Value | None = key("mapping", "what all its prompts carry, by title")
    phases: Mapping[str, PhaseUse] = key("phases", "the phases in their order", dict, required=True)
    help: str
    preamble: Template | None

    @property
    def first_input(self) -> Field | None:
        """The first required input: what the command takes without a flag, and the request that prompts begin with."""
        return next((field for field in self.inputs if field.required), None)

    def ancestors(self, name: str) -> frozenset[str]:
        """Every phase that has ended when `name` starts."""
        return self._ancestors[name]

    def followers(self, name: str) -> tuple[str, ...]:
        """`name` and every phase that follows it, in file order."""
        return tuple(other for other in self.phases if other == name or name in self.ancestors(other))

    @cached_property
    def _ancestors(self) -> dict[str, frozenset[str]]:
        ancestors: dict[str, frozenset[str]] = {}
        for name in self.phases:
            seen: set[str] = set()
            pending = list(self.phases[name].after)
            while pending:
                phase = pending.pop()
                if phase in self.phases and phase not in seen:
                    seen.add(phase)
                    pending.extend(self.phases[phase].after)
            ancestors[name] = frozenset(seen)
        return ancestors


KINDS: Final[Mapping[str, Keys]] = {
    "workflow": keys_of(Workflow),
    "phase": keys_of(Phase),
    "protocol": keys_of(Protocol),
    "role": keys_of(Role),
    "questions": keys_of(Skill),
    "reference": keys_of(Skill),
    "template": keys_of(TextFile),
    "skill": keys_of(AgentSkill),
}
SKILL_KINDS: Final = tuple(kind for kind, keys in KINDS.items() if "kind" in keys)
PHASE_USE_KEYS: Final = keys_of(PhaseUse)
STEP_KEYS: Final = keys_of(Step)
ROW_KEYS: Final = keys_of(Row)
REFERENCE_KEYS: Final = keys_of(Reference)
CHECK_KEYS: Final = keys_of(Check)
VERB_KEYS: Final[Mapping[str, Keys]] = {
    name: {**STEP_KEYS, name: verb.main, **verb.keys} for name, verb in VERBS.items()
}
