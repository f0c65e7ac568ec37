"""What is known at one point of a phase or protocol: names, facts, and how templates are inferred against them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from jinja2 import nodes

from skillrun.checker.absences import Absence
from skillrun.checker.facts import conjuncts
from skillrun.checker.inference import Inference
from skillrun.checker.lints import find_printed_replies, warn_about_placeholders
from skillrun.checker.names import FLAGS, RECORDS, UNAVAILABLE_NAMES
from skillrun.checker.program import Callee, CheckedProtocol, Program
from skillrun.definitions.definitions import Prompt, Workflow
from skillrun.library.lookups import Lookups, Settings
from skillrun.library.symbols import ScopeOwners, ScopeRange, SymbolTable
from skillrun.scoring.patterns import rejection_reason
from skillrun.syntax.diagnostics import Problems, near_miss
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template, Value
from skillrun.templates.return_types import constant_value
from skillrun.templates.vocabulary import BUILTINS
from skillrun.types.types import (
    NO_FACTS,
    Facts,
    Type,
    identifier,
    infer_type,
    list_of,
    merge_types,
    record,
    single_value,
)

T = TypeVar("T")


class ReferenceChecker(Protocol):
    """The files that others refer to, each checked once however many do."""

    lookups: Lookups
    problems: Problems

    def check_workflow(self, name: str) -> Program | None: ...

    def is_open(self, name: str) -> bool:
        """Whether the workflow is being checked: it runs itself."""
        ...

    def check_protocol(self, name: str, settings: Settings, callers: tuple[str, ...]) -> CheckedProtocol | None:
        """A protocol against the config of a workflow that calls it; `callers` are the protocols around it."""
        ...


@dataclass(frozen=True)
class PhaseContext:
    """Where in a workflow the steps of a phase stand."""

    workflow: Workflow
    phase: str

    @property
    def earlier(self) -> frozenset[str]:
        return self.workflow.ancestors(self.phase)

    def explain(self, path: str) -> str:
        """Why a phase that exists cannot be read."""
        name = next((phase for phase in self.workflow.phases if path == f"phases.{identifier(phase)}"), None)
        if name is None:
            return ""
        if name == self.phase:
            return "a phase does not read itself; earlier rounds are in `history`"
        return f"`{self.phase}` does not follow `{name}`: give it `after: [{name}]`, or read it later"


@dataclass
class Scope:
    """The names so far, and what holds here.

    `place` is None in a protocol, `protocols` are those it is called in; `depends` is what must hold to get here;
    `around` are the texts that every prompt of the phase carries;
    `headings` are the sections that its file has, also broken ones; `local` are all ids and names that the steps bind,
    and where; `writes_elsewhere` says that protocols or other workflows may write artifacts; `loop` is the verb whose
    steps these are, `outside` what is known outside of the `each` whose steps they are, and `inside` by name the `each`
    before whose steps bind it; `entered` are the protocols and workflows that steps enter, by where each stands;
    `homes` are the files whose names are read; `absences` say why a name may be absent, `guard` is where the
    innermost one stands that holds here.
    """

    checker: ReferenceChecker
    settings: Settings
    names: dict[str, Type]
    problems: Problems
    known_facts: Facts = NO_FACTS
    required_facts: Facts = NO_FACTS
    phase_context: PhaseContext | None = None
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    ids: dict[str, Span] = field(default_factory=dict)
    local: Mapping[str, Span] = field(default_factory=dict)
    loop: str = ""
    outer_names: frozenset[str] | None = None
    each_names: dict[str, str] = field(default_factory=dict)
    callees_may_write: bool = False
    reads: set[str] = field(default_factory=set)
    callees: dict[Span, tuple[Callee, ...]] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()
    shared_templates: tuple[Template, ...] = ()
    headings: frozenset[str] = frozenset()
    owners: ScopeOwners = field(default_factory=ScopeOwners)
    absences: dict[str, Absence] = field(default_factory=dict)
    guard: Span | None = None

    @property
    def lookups(self) -> Lookups:
        return self.checker.lookups

    @property
    def all_reads(self) -> frozenset[str]:
        """What is read here, and in all that steps enter."""
        return frozenset(self.reads).union(
            *(inner.names_read for callees in self.callees.values() for inner in callees)
        )

    def report(self, span: Span, code: str, message: str, hint: str = "") -> None:
        self.problems.report(span, code, message, hint)

    def check_record_fields(self, span: Span, given: Type, expected: Type, what: str) -> None:
        """Report fields that a record, or the records of a list, should have and do not."""
        if given.kind == expected.kind == "list" and given.item is not None and expected.item is not None:
            self.check_record_fields(span, given.item, expected.item, f"each of {what}")
        elif expected.kind == "record" and given.kind in ("text", "number", "boolean"):
            self.report(span, "type", f"{what} is no record", f"it has {', '.join(expected.fields)}")
        elif given.kind == expected.kind == "record":
            for name in expected.fields.keys() & given.fields.keys():
                self.check_record_fields(span, given.fields[name], expected.fields[name], f"`{name}`")
            others = given.fields.keys() - expected.fields.keys()
            for name in expected.fields.keys() - given.fields.keys():
                near = near_miss(name, others)
                if near or expected.fields[name].unless is None:
                    hint = f"is `{near}` misspelt?" if near else f"it has {', '.join(expected.fields)}"
                    self.report(span, "missing-field", f"{what} has no `{name}`", hint)

    def check_summary_outputs(self, outputs: Mapping[str, Value], types: Mapping[str, Type]) -> None:
        """Check the outputs that become part of summaries."""
        for name, expected in {**RECORDS, "flags": FLAGS}.items():
            if name in outputs:
                self.check_record_fields(outputs[name].span, types[name], expected, f"`{name}`")

    # templates

    def infer(self, template: Template, extra: Mapping[str, Type] | None = None) -> Type:
        return self._run_inference(template, extra, Inference.infer_template)

    def check_text(self, template: Template, extra: Mapping[str, Type] | None = None) -> None:
        """Check a template whose text is used, also where it is a single expression."""
        self._run_inference(template, extra, Inference.check_as_text)

    def check_prompt(self, template: Template, extra: Mapping[str, Type] | None = None) -> None:
        """Check a text that a prompt carries."""
        self.check_text(template, extra)
        for span in find_printed_replies(template):
            hint = 'write `material: {What the others said: "{{ others(…) }}"}` at the step'
            self.report(span, "material", "replies are handed over, not printed in a section", hint)
        warn_about_placeholders(template, self.names, self.ids, self.problems)

    def check_condition(self, template: Template | None) -> Facts:
        """Check a condition; the facts that hold where it does."""
        return self._run_inference(template, None, Inference.infer_condition) if template is not None else NO_FACTS

    def infer_value(self, value: Value, extra: Mapping[str, Type] | None = None) -> Type:
        """The type of a value; parts of lists and mappings are inferred one by one."""
        if value.template is not None and not value.template.is_constant:
            return self.infer(value.template, extra)
        if value.items is not None:
            items = [self.infer_value(item, extra) for item in value.items]
            several = [item.values[0] for item in items if item.values] if all(map(_single, items)) else None
            values = single_value(several) if several is not None else None
            return list_of(merge_types(items), filled=bool(items))._replace(values=values)
        if value.entries is not None:
            fields = {key: self.infer_value(entry, extra) for key, entry in value.entries.items()}
            parts = {key: type_.values[0] for key, type_ in fields.items() if type_.values}
            return record(fields, "the mapping", single_value(parts) if all(map(_single, fields.values())) else None)
        return infer_type(value.plain)

    def infer_required_value(self, value: Value, what: str, extra: Mapping[str, Type] | None = None) -> Type:
        """As `value`, for a place where an absent one cannot be used."""
        type_ = self.infer_value(value, extra)
        template = value.template
        if type_.unless is not None and template is not None and template.expression is not None:
            hint = f"`{what}` needs a value: give the step a `when`, or the value a `default`"
            expression = template.expression
            self._run_inference(template, extra, lambda inference: inference.require_present(expression, type_, hint))
        return type_

    def _run_inference(self, template: Template, extra: Mapping[str, Type] | None, ask: Callable[[Inference], T]) -> T:
        """What is asked of the inference of a template against what is known here."""
        names = {**self.names, **(extra or {})}
        inference = Inference(template, names, self.problems, self.known_facts, self._explain)
        inference.locate_fact, inference.absences = self.settings.fact_span, self.absences
        answer = ask(inference)
        self.reads |= inference.reads
        if self.lookups.symbols is not None:
            self._record_symbols(self.lookups.symbols, inference)
        for name, arguments, types in inference.calls:
            if name == "bank" and arguments:
                self._check_question_bank(template, arguments, types)
            elif name == "model" and arguments:
                for model in dict.fromkeys(_texts(types[0].values or ())):
                    self.lookups.check_model(model, self._value_spans(template, arguments[0], model)[0])
            elif name in BUILTINS and (place := BUILTINS[name].pattern_argument) is not None and len(arguments) > place:
                self._check_patterns(template, arguments[place], types[place])
                if name == "ids_in" and len(arguments) > place + 1:
                    self._check_id_documents(template, arguments[place + 1], types[place + 1], types[place])
        return answer

    def record_view(self, span: Span | None, step: str | None, extra: Mapping[str, Type] | None = None) -> None:
        """Note what is known from a place on."""
        if self.lookups.symbols is not None and span is not None:
            names = {**self.names, **(extra or {})}
            self.lookups.symbols.add_scope(ScopeRange(span.source, span.offset, span.offset, names, self.owners, step))

    def _record_symbols(self, symbols: SymbolTable, inference: Inference) -> None:
        """Note what the names of a template mean, and what is known in it."""
        text = inference.template.text
        start, end = text.at(0).offset, text.at(len(text.value)).offset
        symbols.add_scope(ScopeRange(text.source, start, end, inference.names, self.owners))
        for node, key, label, shift in inference.accesses:
            for symbol in self.owners.resolve_symbols(key, label, self.local.keys() | self.each_names.keys()):
                if not key:
                    symbols.indexed.add(symbol)
                    continue
                symbols.add_reference(text.at(node.lineno + shift), key, symbol)

    def _explain(self, path: str) -> str:
        if path in self.each_names:
            return f"it is known for each item alone: read it from `{identifier(self.each_names[path])}.done`"
        if path in self.local:
            return f"`{path}` is first known behind line {self.local[path].line}"
        return (self.phase_context.explain(path) if self.phase_context is not None else "") or UNAVAILABLE_NAMES.get(
            path, ""
        )

    def _check_question_bank(self, template: Template, arguments: list[nodes.Expr], types: list[Type]) -> None:
        """Check the names of the question banks that it may be, and the groups that are asked of them."""
        for name in types[0].values or ():
            bank = self.lookups.bank(str(name), self._value_spans(template, arguments[0], name)[0])
            for group in types[1].values or () if bank is not None and len(types) > 1 else ():
                if identifier(str(group)) not in map(identifier, bank or ()):
                    span, hint = template.span(arguments[1]), f"add `## {group}` to `skills/{name}.md`"
                    self.lookups.report_unknown(span, "group", str(group), bank or (), hint)

    def _check_patterns(self, template: Template, argument: nodes.Expr, patterns: Type) -> None:
        """Check the regular expressions that are searched for."""
        for pattern in _texts(patterns.values or ()):
            if reason := rejection_reason(pattern):
                for span in self._value_spans(template, argument, pattern):
                    self.report(span, "pattern", reason)

    def _check_id_documents(
        self, template: Template, argument: nodes.Expr, document_types: Type, patterns: Type
    ) -> None:
        """Check that what a document alone may define is a kind of id that is looked for."""
        for kind in (
            document_types.fields if document_types.kind == patterns.kind == "record" and patterns.fields else ()
        ):
            if kind not in patterns.fields:
                self.lookups.report_unknown(template.span(argument), "kind of id", kind, patterns.fields)

    def _value_spans(self, template: Template, node: nodes.Expr, value: str) -> list[Span]:
        """Where a text that an expression yields is written: here, or in the config."""
        config_spans = self.settings.text_spans.get(value) if constant_value(node) != value else None
        return config_spans or [template.span(node)]

    # facts and names

    @contextmanager
    def assuming(self, condition: Template | None, facts: Facts = NO_FACTS) -> Iterator[None]:
        """What stands under a condition: it may rely on it, and what it binds depends on it."""
        outer_state = self.known_facts, self.required_facts, self.guard
        self.known_facts = self.known_facts | facts
        if condition is not None:
            self.guard = condition.text.at(0)
            self.known_facts = self.known_facts | self.check_condition(condition)
            self.required_facts = self.required_facts | conjuncts(condition.expression)
        yield
        self.known_facts, self.required_facts, self.guard = outer_state

    @contextmanager
    def failure_in_scope(self, failure: Type | None) -> Iterator[None]:
        """What may be read of why a step failed; with None it stays what is known around it."""
        outer_failure = self.names.get("failure")
        if failure is not None:
            self.names["failure"] = failure
        yield
        self.names.pop("failure", None)
        if outer_failure is not None:
            self.names["failure"] = outer_failure

    def trial_scope(self, names: Mapping[str, Type]) -> Scope:
        """A scope of its own whose problems nobody hears: what steps bind, before it is known what they can read."""
        return replace(self, problems=Problems.without_limit(), names={**self.names, **names}, ids=dict(self.ids))

    def bind(self, name: str, type_: Type) -> None:
        self.names[identifier(name)] = type_

    def bind_local(self, name: str, type_: Type) -> None:
        """Bind what `set` names: on top of what it was, or present only where this is reached."""
        previous_type = self.names.get(identifier(name))
        if previous_type is None:
            self.bind(name, type_.maybe(self.required_facts) if self.required_facts else type_)
            if self.required_facts and self.guard is not None:
                self.absences[identifier(name)] = Absence(f"`{name}` is set under a condition", self.guard)
        else:
            self.bind(name, merge_types([previous_type, type_]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _single(type_: Type) -> bool:
    return type_.values is not None and len(type_.values) == 1
