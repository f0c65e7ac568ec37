"""Resolves names that refer to other files of the library, and reports unknown names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from skillrun.definitions.definitions import SKILL_KINDS, AgentSkill, RecordPart, Role, TextFile, Workflow
from skillrun.definitions.parse import Bank
from skillrun.library.configuration import check_switches, mode_dependent_keys
from skillrun.library.library import Library
from skillrun.library.model_names import InvalidName, ModelNames
from skillrun.library.symbols import Symbol, SymbolTable
from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problem, did_you_mean, suggest
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Value
from skillrun.types.fields import Field, MemberError, parse_member
from skillrun.types.picoschema import ShapeSpec
from skillrun.types.types import ANY, BOOLEAN, Fact, Type, infer_type, merge_types, record


@dataclass(frozen=True, eq=False)
class Settings:
    """The config that a workflow's templates read, and its data in each mode.

    An unknown config has no `data`. Instances are compared by identity.
    """

    data: Mapping[str, Any] | None = None
    layers: tuple[source.Mapping, ...] = ()
    modes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    name: str = ""

    @cached_property
    def config(self) -> Type:
        """The type of the config. It covers the data of every mode, and the data without a mode."""
        if self.data is None:
            return ANY
        common = infer_type(self.data, ("config",), tunable=True)
        everywhere = (self.data, *self.modes.values())
        varied = {
            name: merge_types(infer_type(data[name], ("config", name), tunable=True) for data in everywhere)
            for name in mode_dependent_keys(self.data, self.modes)
        }
        return common._replace(fields={**common.fields, **record(varied).fields})

    @cached_property
    def features(self) -> Type:
        return ANY if self.data is None else record(dict.fromkeys(self.part("features"), BOOLEAN), "features")

    @cached_property
    def text_spans(self) -> Mapping[str, list[Span]]:
        """The positions of all text values in the config, keyed by the text."""
        spans = defaultdict[str, list[Span]](list)
        for layer in self.layers:
            for node in source.walk(layer):
                if isinstance(node, source.Scalar) and isinstance(node.value, str):
                    spans[node.value].append(node.span)
        return spans

    def part(self, name: str) -> Mapping[str, Any]:
        entries = (self.data or {}).get(name)
        return entries if isinstance(entries, Mapping) else {}

    def fact_span(self, fact: Fact) -> Span | None:
        """Return the position of the config mapping that lacks the value required by `fact`; None if unknown."""
        owner, *path = fact.path[:-1] or ("",)
        spans = (layer.key_span(*path) for layer in self.layers if owner == "config")
        return next((span for span in spans if span is not None), None)


NO_CONFIG: Final = Settings({})
UNKNOWN: Final = Settings()


class Lookups:
    """Resolves names in one library.

    Each role and config is checked once. References are added to `symbols`.
    """

    def __init__(self, library: Library, symbols: SymbolTable | None = None) -> None:
        self.library = library
        self.symbols = symbols
        self.problems = library.problems
        self._roles: dict[str, Role | None] = {}
        self._settings: dict[str, Settings] = {}

    def report_unknown(self, span: Span, what: str, name: str, known: Iterable[str], otherwise: str = "") -> None:
        """Report an unknown name.

        The hint is the closest known name. If no name is close, the hint is `otherwise`, or a list of the known names.
        """
        code = f"unknown-{what.rpartition(' ')[2]}"
        self.problems.report(span, code, f"there is no {what} `{name}`", suggest(name, known, otherwise))

    def add_reference(self, span: Span, kind: str, path: str, name: str) -> None:
        """Record that a position refers to a symbol."""
        if self.symbols is not None:
            self.symbols.add_reference(span, name.rpartition(".")[2], Symbol(kind, path, name))

    # config

    def settings(self, workflow: Workflow) -> Settings:
        """Return the workflow's config; UNKNOWN if it does not exist."""
        name = workflow.config
        if name is None:
            return NO_CONFIG
        span = workflow.document.frontmatter.entries["config"].value.span
        self.add_reference(span, "config", f"config/{name}.yaml", name)
        if self.library.locate(f"config/{name}.yaml") is None:
            self.report_unknown(span, "config", name, self.library.names("config"), f"create `config/{name}.yaml`")
            return UNKNOWN
        return self.config(name)

    def config(self, name: str) -> Settings:
        """Return a config after checking its switches; UNKNOWN if it is missing or invalid."""
        if name not in self._settings:
            config = self.library.config(name)
            self._settings[name] = UNKNOWN
            if config is not None:
                self._settings[name] = Settings(config.data, config.layers, config.modes, name)
                for layer in config.layers:
                    check_switches(layer, config.data, self.problems)
        return self._settings[name]

    def breaker(self, name: str, span: Span, settings: Settings) -> Mapping[str, Any]:
        breaker = settings.part("breakers").get(name)
        self.add_reference(span, "key", f"config/{settings.name}.yaml", f"breakers.{name}")
        if breaker is None and settings.data is not None:
            known = settings.part("breakers")
            hint = "" if known else "define breakers in the workflow's config"
            self.report_unknown(span, "breaker", name, known, hint)
        return breaker if isinstance(breaker, Mapping) else {}

    # skills

    def agent_skill(self, name: str, span: Span) -> None:
        """Check an Agent Skill that a file names."""
        file = self.library.file_name("skills", name)
        self.add_reference(span, "skill", f"skills/{file}/SKILL.md", file)
        if self.library.locate(f"skills/{file}/SKILL.md") is not None:
            self.check_agent_skill(name)
        else:
            self.report_unknown(span, "skill", name, (skill for skill in self.library.skills() if "/" not in skill))

    def check_agent_skill(self, name: str) -> None:
        if (skill := self.library.agent_skill(name)) is not None:
            self._report_use(skill)

    def _report_use(self, file: AgentSkill) -> None:
        """Report in one line what of a role or an Agent Skill is not used, and each name that is misspelt."""
        if file.report:
            place = Span(file.document.source, 0)
            self.problems.add(Problem(place.path, 1, 1, "subagent", file.report, severity="warning"))
        for span, code, message, hint in file.slips:
            self.problems.report(span, code, message, hint, "warning")

    def text(self, name: str, span: Span, kind: str) -> TextFile | None:
        """Return a reference or template; report a name that is unknown or of another kind."""
        return self.library.text(name, kind) if self.is_kind(name, span, kind) else None

    def resolve_shape(self, spec: ShapeSpec | None) -> ShapeSpec | None:
        """Return the shape in `spec` or, if `spec` names a template, the shape of the template.

        Returns None if there is no shape.
        """
        if spec is None or not spec.name:
            return spec
        text = self.text(spec.name, spec.span, "template")
        if text is not None and (text.output is None or text.output.name):
            hint = "add an `output` with its fields"
            self.problems.report(spec.span, "shape", f"the template `{spec.name}` has no `output`", hint)
            return None
        return text.output if text is not None else None

    def record_shape(self, part: RecordPart) -> ShapeSpec | None:
        """Return the shape of a part of `record:`; report a template without an `output`."""
        text = self.text(part.name, part.span, "template") if part.name else None
        if text is not None and text.output is None:
            self.problems.report(part.span, "shape", f"the template `{part.name}` has no `output`", "add one")
        return self.library.record_shape(part)

    def bank(self, name: str, span: Span) -> Bank | None:
        return self.library.bank(name) if self.is_kind(name, span, "questions", "question bank") else None

    def is_kind(self, name: str, span: Span, kind: str, what: str = "") -> bool:
        """Return whether the skill `area/name` exists and does not declare another kind. Report the name if not."""
        library = self.library
        self.add_reference(span, "file", f"skills/{name}.md", name)
        if library.locate(f"skills/{name}.md") is None:
            near = [skill for skill in library.skills() if "/" in skill and library.kind(skill) == kind]
            hint = did_you_mean(name, near, f" Or create `skills/{name}.md`")
            self.report_unknown(span, what or kind, name, (), hint or f"create `skills/{name}.md`")
            return False
        actual = library.kind(name)
        if actual in SKILL_KINDS and actual != kind:
            message = f"`{name}` has the kind `{actual}`; expected a {what or kind}"
            self.problems.report(span, "kind", message)
            return False
        return True

    # roles and members

    def role(self, name: str) -> Role | None:
        """Return the role after checking its skills, tools and model."""
        if name not in self._roles:
            role = self._roles[name] = self.library.role(name)
            if role is None:
                return None
            for skill, span in role.skills.items():
                self.agent_skill(skill, span)
            self._report_use(role)
            node = role.document.frontmatter.get("model")
            if node is not None:
                self._add_model_reference(role.model, node.span)
        return self._roles[name]

    def check_model(self, name: str, span: Span) -> None:
        """Report `name` unless it is a tier, an alias, an intent, a provider's model, or a listed model."""
        self._add_model_reference(name, span)
        if wrong := self.models.check_model(name):
            self.problems.report(span, *wrong)

    def _add_model_reference(self, name: str, span: Span) -> None:
        data = self.config("models").data or {}
        for part in ("tiers", "aliases", "intents"):
            entries = data.get(part)
            if isinstance(entries, Mapping) and name in entries:
                self.add_reference(span, "key", "config/models.yaml", f"{part}.{name}")

    @cached_property
    def models(self) -> ModelNames:
        self.config("models")
        return self.library.import_table.names

    def value_spans(self, value: Value, written: Any, settings: Settings) -> list[Span]:
        """Return the positions at which `written`, a result of `value`, occurs in `value` or in the config.

        If it occurs in neither, return the position of `value`.
        """
        parts = (value, *(value.items or ()), *(value.entries or {}).values())
        literal_spans = [part.span for part in parts if part.literal == written]
        config_spans = settings.text_spans.get(written) if isinstance(written, str) else None
        return literal_spans or config_spans or [value.span]

    def check_reference(self, kind: str, name: Any, span: Span) -> None:
        """Check a value of the kind `member` or `model`; values of other kinds need no check."""
        if kind == "member":
            self.check_member(name, span)
        elif kind == "model":
            self.check_model(name, span)

    def check_member(self, written: Any, span: Span) -> None:
        """Report each error in the notation or the names of a member."""
        for wrong in self.member_errors(written):
            self.problems.report(span, *wrong)
        try:
            member = parse_member(written)
        except MemberError:
            return
        home, text = f"roles/{self.library.file_name('roles', member.role)}.md", span.source.text
        self.add_reference(span, "role", home, member.role)
        after = span.offset + (text[span.offset : span.offset + 1] in ("'", '"')) + len(member.role) + 1
        if member.variant:
            self.add_reference(Span(span.source, after), "variant", home, member.variant)
            after += len(member.variant) + 1
        if member.model:
            self._add_model_reference(member.model, Span(span.source, after))

    def role_forms(self) -> list[str]:
        """Return each role as `role`, and as `role:variant` for each of its variants."""
        forms = []
        for name in self.library.names("roles"):
            role = self.library.role(name)
            forms += [name, *(f"{name}:{variant}" for variant in (role.variants if role is not None else ()))]
        return forms

    def member_errors(self, written: Any) -> Iterator[InvalidName]:
        """Yield the errors of a member: an invalid form, or an unknown role, variant or model."""
        try:
            member = parse_member(written)
        except MemberError as error:
            hint = "write `role`, `role:variant`, `role@model` or `role:variant@model`"
            yield InvalidName("member", str(error), hint)
            return
        role, path = self.role(member.role), f"roles/{self.library.file_name('roles', member.role)}.md"
        if role is None and self.library.locate(path) is None:
            hint = suggest(member.role, self.library.names("roles"), f"create `roles/{member.role}.md`")
            yield InvalidName("unknown-role", f"there is no role `{member.role}`", hint)
        elif role is not None and member.variant and member.variant not in role.variants:
            hint = suggest(member.variant, role.variants) or "the role has no variants"
            if own := self.library.overrides().get(path):
                hint = f"{hint} ({own} replaces the shipped role)"
            yield InvalidName("unknown-variant", f"the role `{member.role}` has no variant `{member.variant}`", hint)
        if member.model and (wrong := self.models.check_model(member.model)):
            yield wrong


# -- names in inputs -----------------------------------------------------------------------------------------------


def check_input_names(library: Library, workflow: Workflow, inputs: Mapping[str, Any]) -> list[str]:
    """Return an error for each invalid member or model that a workflow's inputs name."""
    lookups = Lookups(library)
    errors = []
    for declared, written in _iter_input_names(workflow, inputs):
        is_model = declared.item.word == "model"
        reasons = [lookups.models.check_model(written)] if is_model else lookups.member_errors(written)
        errors += [
            f"`{declared.name}` is `{written}`: {reason.message}; {reason.hint}"
            for reason in reasons
            if reason is not None
        ]
    for declared in workflow.inputs:
        if declared.is_list and declared.item.word == "member":
            for written, times in Counter(inputs.get(declared.name) or ()).items():
                if times > 1:
                    errors.append(
                        f"`{declared.name}` contains `{written}` twice; add a variant or a model to distinguish members"
                    )
    return errors


def referenced_models(library: Library, workflow: Workflow, inputs: Mapping[str, Any], override: str = "") -> list[str]:
    """Return the model names that a workflow's inputs use: directly, or through members and their roles.

    An `override` replaces the roles' models.
    """
    names = []
    for declared, written in _iter_input_names(workflow, inputs):
        names += [written] if declared.item.word == "model" else member_models(library, written, override)
    return list(dict.fromkeys(names))


def member_models(library: Library, written: Any, override: str = "") -> list[str]:
    """Return a list with the name of a member's model; the list is empty if the member does not exist."""
    try:
        member = parse_member(written)
    except MemberError:
        return []
    role = library.role(member.role)
    return [member.model or role.model_under(override)] if role is not None else []


def _iter_input_names(workflow: Workflow, inputs: Mapping[str, Any]) -> Iterator[tuple[Field, str]]:
    """Yield each member and model that an input names, with the field of the input."""
    for declared in workflow.inputs:
        value = inputs.get(declared.name) if declared.item.word in ("member", "model") else None
        yield from (
            (declared, name) for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)
        )
