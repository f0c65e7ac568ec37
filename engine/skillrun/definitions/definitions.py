"""Frozen definitions of workflows, phases, protocols, roles and steps.

A field declared with `key` is a key that the file, or a part of the file, can have. Every definition keeps its position
in the file for later error messages.
"""

# ruff: noqa: RUF009  # `key` makes a field, as `dataclasses.field` does

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from skillrun.definitions.verbs import VERBS, Keys, key, keys_of
from skillrun.syntax import source as nodes
from skillrun.syntax.source import Document, Span
from skillrun.templates.expressions import Template, Value
from skillrun.types.fields import Field
from skillrun.types.picoschema import ShapeSpec
from skillrun.types.types import identifier


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a decision."""

    span: Span
    when: Template | None = key("condition", "the row applies if the condition holds")
    then: Value | None = key("value", "the chosen value")
    at_least: Value | None = key("value", "the minimum value")
    because: Value | None = key("text", "the reason for the choice")


@dataclass(frozen=True)
class RecordPart:
    """A part of `record:`: an inline shape, or the name of a template with an `output`."""

    span: Span
    shape: ShapeSpec | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkflowElement:
    """The common keys of steps and of phases in a workflow."""

    span: Span
    node: nodes.Node
    when: Template | None = key("condition", "run only if the condition holds")
    retry: str | None = key("name", "the breaker that counts the failures")
    otherwise: Step | None = key("step", "the step to run instead after a failure")

    def value_span(self, key: str) -> Span:
        """Return the position of a key's value; if the key is missing, the position of the element."""
        value = self.node.get(key) if isinstance(self.node, nodes.Mapping) else None
        return value.span if value is not None else self.span


@dataclass(frozen=True, kw_only=True)
class Step(WorkflowElement):
    """One step: its verb, the verb's value and the other keys. An invalid step has the verb ""."""

    verb: str
    id: str | None = key("id", "the name that later steps, the section and the journal use")
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
        """Yield this step, its `otherwise` step, and all nested steps."""
        yield self
        if self.otherwise is not None:
            yield from self.otherwise.walk()
        for step in self.steps:
            yield from step.walk()

    @property
    def material(self) -> Value | None:
        """The material that the step passes to prompts, by title."""
        return self.values.get("material")

    @cached_property
    def text(self) -> str:
        """The verb's value if it is plain text, else ""."""
        literal = self.main.literal if self.main is not None else None
        return literal if isinstance(literal, str) else ""

    @cached_property
    def order(self) -> tuple[Any, ...]:
        """The values of a decision's `order`, if it is literal."""
        literal = self.values["order"].literal if "order" in self.values else None
        return tuple(literal) if isinstance(literal, list) else ()

    @property
    def artifact(self) -> Value | None:
        """The path of the artifact that the step writes."""
        return self.main if self.verb == "write" else self.values.get("writes")

    @property
    def artifact_path(self) -> str | None:
        """The path of the artifact; None if the path is computed, or if the step writes no artifact."""
        path = self.artifact.literal if self.artifact is not None else None
        return path if isinstance(path, str) else None

    @property
    def assignments(self) -> Mapping[str, Value]:
        """The values of a `set`, keyed by name. Names are spelled as in expressions."""
        entries = self.main.entries if self.verb == "set" and self.main is not None else None
        return {identifier(name): value for name, value in (entries or {}).items()}

    @property
    def has_section(self) -> bool:
        return bool(self.verb) and VERBS[self.verb].section and "template" not in self.values


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A text to include in a phase's prompts. The text of an Agent Skill is included without rendering."""

    span: Span
    skill: str = key("name", "the skill", required=True)
    when: Template | None = key("condition", "include the text only if the condition holds")

    @property
    def is_agent_skill(self) -> bool:
        return "/" not in self.skill


@dataclass(frozen=True, kw_only=True)
class Check:
    """A condition on a workflow's config, and the error message if the condition does not hold."""

    span: Span
    must: Template | None = key("condition", "the condition; reads only `config`", required=True)
    say: Value | None = key("text", "the error message, and what to write instead", required=True)


@dataclass(frozen=True)
class Prompt:
    """A named section of a phase or protocol."""

    name: str
    heading: Span
    template: Template

    @property
    def name_span(self) -> Span:
        """The position of the name in the heading."""
        return Span(self.heading.source, self.heading.source.text.index(self.name, self.heading.offset))


@dataclass(frozen=True, kw_only=True)
class File:
    """The common parts of all markdown files."""

    name: str
    document: Document
    description: str = key("sentence", "the purpose, in one line", "")


@dataclass(frozen=True, kw_only=True)
class Skill(File):
    kind: str = key("name", "the kind of file", "")


@dataclass(frozen=True, kw_only=True)
class Procedure(Skill):
    """The common parts of phases and protocols: steps, outputs and the sections that the steps use."""

    steps: tuple[Step, ...] = key("steps", "the steps", (), required=True)
    outputs: Mapping[str, Value] = key("mapping", "the return values", dict)
    prompts: Mapping[str, Prompt]

    def walk(self) -> Iterator[Step]:
        for step in self.steps:
            yield from step.walk()

    @property
    def headings(self) -> frozenset[str]:
        """The names of the sections in the file."""
        return frozenset(section.name for section in self.document.sections)

    @property
    def local_names(self) -> dict[str, Span]:
        """The names that the steps set, as spelled in expressions, with the position where each name is last set."""
        spans = {}
        for step in self.walk():
            names = step.main.key_spans if step.verb == "set" and step.main is not None else {}
            for name, span in ({step.id: step.span} if step.id else names).items():
                spans[name.replace("-", "_")] = span
        return spans


@dataclass(frozen=True, kw_only=True)
class Phase(Procedure):
    references: tuple[Reference, ...] = key("references", "texts included in the prompts", ())
    acceptance: Template | None = None


@dataclass(frozen=True)
class Seats:
    """Named seats, or a minimum and maximum number of members."""

    names: tuple[str, ...] = ()
    least: int = 1
    most: int = 64


@dataclass(frozen=True, kw_only=True)
class Protocol(Procedure):
    seats: Seats = key("seats", "the names of the seats, or `members: 1..4`", Seats(), required=True)
    inputs: tuple[Field, ...] = key("fields", "the inputs", ())


@dataclass(frozen=True, kw_only=True)
class TextFile(Skill):
    """A reference or template. `output` is the shape of the reply that a template requests."""

    template: Template
    output: ShapeSpec | None = key("shape", "the shape of a structured reply")
    material: Value | None = key("mapping", "the material, by title")


@dataclass(frozen=True, kw_only=True)
class AgentSkill(File):
    """An Agent Skill: knowledge that prompts include without rendering.

    `tools` maps names to positions, and `ignored_keys` the keys of other tools that have no effect. `report` tells in
    one line what of the file is not used; empty if all of it is used. `slips` has the position, code, message and hint
    of each name that is probably misspelt.
    """

    name: str = key("label", "the skill's name")
    description: str = key("label", "the purpose, in one line", "")
    body: str
    tools: Mapping[str, Span] = field(default_factory=dict)
    ignored_keys: Mapping[str, Span] = field(default_factory=dict)
    report: str = ""
    folder: Path | None = None
    """The folder with the skill's other files; None if it has none."""
    slips: tuple[tuple[Span, str, str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Role(AgentSkill):
    """A role. `tools` and `skills` map names to positions, and `variants` maps names to lenses.

    `models` has the names that the file lists, in the order of preference.
    """

    model: str = key("words", "a tier, an alias or the name of a model", "strong")
    tools: Mapping[str, Span] = key("anything", "the tools that the role can use; all, if it is missing", dict)
    skills: Mapping[str, Span] = key("words", "the skills of the role", dict)
    variants: Mapping[str, str] = key("sentences", "the variants, each with its lens", dict)
    models: tuple[str, ...] = ()
    denied_tools: Mapping[str, Span] = field(default_factory=dict)
    is_exact_model: bool = False

    def model_under(self, override: str) -> str:
        """Return the model's name. An `override` takes the place of tiers and aliases, so with one, the name of an
        exact model becomes a tier."""
        return "strong" if override and self.is_exact_model else self.model


@dataclass(frozen=True, kw_only=True)
class PhaseUse(WorkflowElement):
    """A phase in a workflow: the phases it follows, and its condition."""

    name: str
    after: Mapping[str, Span] = key("names", "the phases to follow, if not the previous phase", dict)
    skill: str = key("name", "the phase's file, if not `<workflow>/<phase>`")
    was: Mapping[str, Span] = key("names", "former names of the phase", dict)


@dataclass(frozen=True, kw_only=True)
class Workflow(File):
    """A workflow. `help` is the text above the sections; `preamble` is the start of every prompt."""

    name: str = key("name", "the name of the command", required=True)
    inputs: tuple[Field, ...] = key("fields", "the inputs", ())
    state: tuple[Field, ...] = key("fields", "the variables", ())
    outputs: Mapping[str, Value] = key("mapping", "the return values", dict)
    config: str | None = key("name", "the name of a file in `config/`")
    checks: tuple[Check, ...] = key("checks", "conditions that the config must fulfill", ())
    repository: Value | None = key("text", "the folder that the tools of agents may read")
    hint: Value | None = key("text", "the line that `skillrun hint` prints")
    parallel: Value | None = key("value", "whether unordered phases run at the same time")
    material: Value | None = key("mapping", "the material of all prompts, by title")
    phases: Mapping[str, PhaseUse] = key("phases", "the phases, in order", dict, required=True)
    help: str
    preamble: Template | None

    @property
    def first_input(self) -> Field | None:
        """The first required input: the command's argument, and the request in every prompt."""
        return next((field for field in self.inputs if field.required), None)

    def ancestors(self, name: str) -> frozenset[str]:
        """Return every phase that must end before `name` starts."""
        return self._ancestors[name]

    def followers(self, name: str) -> tuple[str, ...]:
        """Return `name` and every phase that follows it, in file order."""
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


_MARKED: Final = re.compile(r"(?:#\d+|~[^/~#@]*)+(?=@|/|$)")
_ITEM: Final = re.compile(r"~([^/~#@]*)")
_UP_TO_ITEM: Final = re.compile(r"~[^/~#@]*(?=/|$)")


def strip_markers(address: str) -> str:
    """Return an address without passes and items.

    For example, `build/reviewed~T-1/verdict#2` becomes `build/reviewed/verdict`.
    """
    return _MARKED.sub("", address)


def enclosing_items(address: str) -> str:
    """Return the items that enclose an address, outermost first, joined with spaces."""
    return " ".join(_ITEM.findall(address))


def enclosing_loops(address: str) -> list[tuple[str, str]]:
    """Return the addresses of each enclosing `each` and of its item, outermost first."""
    return [(strip_markers(address[: match.end()]), address[: match.end()]) for match in _UP_TO_ITEM.finditer(address)]
