"""The scope at one point of a phase or protocol: the names and facts known there, and checks of templates that use
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from jinja2 import nodes

from skillrun.checker.absences import Absence
from skillrun.checker.facts import conjuncts
from skillrun.checker.inference import Inference
from skillrun.checker.lints import find_printed_replies, warn_about_placeholders
from skillrun.checker.names import FLAGS, RECORDS, UNAVAILABLE_NAMES
from skillrun.checker.program import Callee, CheckedProtocol, Program
from skillrun.definitions.definitions import Prompt, Workflow
from skillrun.library.lookups import Lookups, Settings
from skillrun.library.symbols import ScopeOwners, ScopeRange
from skillrun.scoring.overlap import iterate_texts
from skillrun.scoring.patterns import rejection_reason
from skillrun.syntax.diagnostics import Problems, near_miss
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template, Value
from skillrun.templates.return_types import constant_value
from skillrun.templates.vocabulary import BUILTINS
from skillrun.types.types import (
    ANY,
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
    """Checks referenced files, each file once."""

    lookups: Lookups
    problems: Problems
    estimate_readers: set[tuple[str, int] | None]

    def check_workflow(self, name: str) -> Program | None: ...

    def is_open(self, name: str) -> bool:
        """Whether the check of this workflow is in progress. If so, a `run` of the workflow is a cycle."""
        ...

    def check_protocol(self, name: str, settings: Settings, callers: tuple[str, ...]) -> CheckedProtocol | None:
        """Check a protocol with the config of the calling workflow. `callers` are the enclosing protocols, outermost
        first."""
        ...


@dataclass(frozen=True)
class PhaseContext:
    """The workflow and the phase that contain the steps to check."""

    workflow: Workflow
    phase: str

    def explain(self, path: str) -> str:
        """Return why an existing phase cannot be read at this point; empty if the path is not a phase."""
        name = next((phase for phase in self.workflow.phases if path == f"phases.{identifier(phase)}"), None)
        if name is None:
            return ""
        if name == self.phase:
            return "a phase cannot read its own results; `history` has its results of earlier rounds"
        return f"`{self.phase}` does not follow `{name}`: add `after: [{name}]`, or read `{name}` in a later phase"


@dataclass
class Scope:
    """The names defined so far and the facts that hold at this point.

    `required_facts` are the conditions that must hold to reach this point. A protocol has no `phase_context`.
    `headings` are all sections of the file, including invalid ones; `prompts` are those that steps use. `local` maps
    each name that the steps bind to its location. `loop` is the verb of the enclosing loop; `outer_names` are the names
    outside of the enclosing `each`; `each_names` maps each name bound in an earlier `each` to the id of that `each`.
    `callees` has the called protocols and workflows, keyed by the location of the calling step; `callees_may_write`
    tells whether any of them may write artifacts. `protocols` are the enclosing protocols. `shared_templates` are texts
    that every prompt of the phase contains. `owners` are the files that define the names. `absences` explain why names
    may be absent; `guard` is the location of the innermost condition. `reader` is the location of the step or phase
    whose templates are checked. `empty_texts` are the inputs and variables whose default is an empty text.
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
    reader: Span | None = None
    callees: dict[Span, tuple[Callee, ...]] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()
    shared_templates: tuple[Template, ...] = ()
    headings: frozenset[str] = frozenset()
    owners: ScopeOwners = field(default_factory=ScopeOwners)
    absences: dict[str, Absence] = field(default_factory=dict)
    guard: Span | None = None
    empty_texts: frozenset[str] = frozenset()

    @property
    def lookups(self) -> Lookups:
        return self.checker.lookups

    @property
    def all_reads(self) -> frozenset[str]:
        """The names read in this scope and in all callees of its steps."""
        return frozenset(self.reads).union(
            *(callee.names_read for called in self.callees.values() for callee in called)
        )

    def report(self, span: Span, code: str, message: str, hint: str = "") -> None:
        self.problems.report(span, code, message, hint)

    def check_record_fields(
        self, span: Span, given: Type, expected: Type, what: str, *, must_be_present: bool = False
    ) -> None:
        """Report each field of `expected` that the record `given` lacks. For two lists, compare the types of their
        items. With `must_be_present`, also report each required field that may be absent, since the run would fail.
        """
        check = partial(self.check_record_fields, span, must_be_present=must_be_present)
        if given.kind == expected.kind == "list" and given.item is not None and expected.item is not None:
            check(given.item, expected.item, f"an item of {what}")
        elif expected.kind == "record" and given.kind in ("text", "number", "boolean"):
            self.report(span, "type", f"{what} is not a record", f"expected a record with {', '.join(expected.fields)}")
        elif given.kind == expected.kind == "record":
            for name in sorted(expected.fields.keys() & given.fields.keys()):
                absent = (given.fields[name].unless or NO_FACTS) - self.known_facts
                if must_be_present and absent and expected.fields[name].unless is None:
                    hint = f"give it a `default`, or declare it as `{name}?` if it may be left out"
                    self.report(span, "missing-field", f"`{name}` of {what} may be absent", hint)
                check(given.fields[name], expected.fields[name], f"`{name}`")
            others = given.fields.keys() - expected.fields.keys()
            for name in expected.fields.keys() - given.fields.keys():
                near = near_miss(name, others)
                if near or expected.fields[name].unless is None:
                    hint = f"is `{near}` misspelled?" if near else f"expected {', '.join(expected.fields)}"
                    self.report(span, "missing-field", f"{what} has no `{name}`", hint)

    def check_summary_outputs(self, outputs: Mapping[str, Value], types: Mapping[str, Type]) -> None:
        """Check the outputs that become part of the phase's summary."""
        for name, expected in {**RECORDS, "flags": FLAGS}.items():
            if name in outputs:
                self.check_record_fields(outputs[name].span, types[name], expected, f"`{name}`")

    # templates

    def infer(self, template: Template, extra: Mapping[str, Type] | None = None) -> Type:
        return self._run_inference(template, extra, Inference.infer_template)

    def check_text(self, template: Template, extra: Mapping[str, Type] | None = None) -> None:
        """Check a template that is printed as text, even if it is a single expression."""
        self._run_inference(template, extra, Inference.check_as_text)

    def check_prompt(self, template: Template, extra: Mapping[str, Type] | None = None) -> None:
        """Check a text that becomes part of a prompt."""

        def check(inference: Inference) -> None:
            inference.empty_texts = self.empty_texts
            inference.check_as_text()

        self._run_inference(template, extra, check)
        for span in find_printed_replies(template):
            hint = 'add `material: {What the others said: "{{ others(…) }}"}` to the step'
            self.report(span, "material", "replies belong in `material`, not in a section", hint)
        warn_about_placeholders(template, self.names, self.ids, self.problems)

    def check_condition(self, template: Template | None) -> Facts:
        """Check a condition, and return the facts that hold if it is true."""
        return self._run_inference(template, None, Inference.infer_condition) if template is not None else NO_FACTS

    def infer_value(self, value: Value, extra: Mapping[str, Type] | None = None) -> Type:
        """Return the type of a value; the entries of lists and mappings are inferred one by one."""
        if value.template is not None and not value.template.is_constant:
            return self.infer(value.template, extra)
        if value.items is not None:
            items = [self.infer_value(item, extra) for item in value.items]
            known = [item.values[0] for item in items if item.values and len(item.values) == 1]
            values = single_value(known) if len(known) == len(items) else None
            return list_of(merge_types(items), filled=bool(items))._replace(values=values)
        if value.entries is not None:
            fields = {key: self.infer_value(entry, extra) for key, entry in value.entries.items()}
            parts = {key: type_.values[0] for key, type_ in fields.items() if type_.values and len(type_.values) == 1}
            return record(fields, "the mapping", single_value(parts) if len(parts) == len(fields) else None)
        return infer_type(value.plain)

    def infer_required_value(
        self, value: Value, what: str, extra: Mapping[str, Type] | None = None, hint: str = ""
    ) -> Type:
        """Return the type of a value, and report the value if it may be absent."""
        type_ = self.infer_value(value, extra)
        template = value.template
        if type_.unless is not None and template is not None and template.expression is not None:
            hint = hint or f"`{what}` needs a value: add a `when` to the step, or a `default` to the value"
            expression = template.expression
            self._run_inference(template, extra, lambda inference: inference.require_present(expression, type_, hint))
        return type_

    def _run_inference(self, template: Template, extra: Mapping[str, Type] | None, ask: Callable[[Inference], T]) -> T:
        """Call `ask` with an `Inference` of the template in this scope. Record what the template reads."""
        names = {**self.names, **(extra or {})}
        inference = Inference(template, names, self.problems, self.known_facts, self._explain)
        inference.locate_fact, inference.absences = self.settings.fact_span, self.absences
        answer = ask(inference)
        self.reads |= inference.reads
        if any(name == "run.estimate" or name.startswith("run.estimate.") for name in inference.reads):
            self.checker.estimate_readers.add(self.reader and (self.reader.path, self.reader.offset))
        if (symbols := self.lookups.symbols) is not None:
            text = template.text
            start, end = text.at(0).offset, text.at(len(text.value)).offset
            symbols.scopes[text.source].append(ScopeRange(start, end, inference.names, self.owners))
            for node, key, label, shift in inference.accesses:
                for symbol in self.owners.resolve_symbols(key, label, self.local.keys() | self.each_names.keys()):
                    if key:
                        symbols.add_reference(text.at(node.lineno + shift), key, symbol)
                    else:
                        symbols.indexed.add(symbol)
        for name, arguments, types in inference.calls:
            self._check_call(template, name, arguments, types)
        return answer

    def _check_call(self, template: Template, name: str, arguments: list[nodes.Expr], types: list[Type]) -> None:
        """Check arguments that name question banks, models or kinds of ids, or that are regular expressions."""
        place = BUILTINS[name].pattern_argument if name in BUILTINS else None
        if name == "bank" and arguments:
            for bank_name in types[0].values or ():
                bank = self.lookups.bank(str(bank_name), self._value_spans(template, arguments[0], bank_name)[0])
                for group in types[1].values or () if bank is not None and len(types) > 1 else ():
                    if identifier(str(group)) not in map(identifier, bank or ()):
                        span, hint = template.span(arguments[1]), f"add `## {group}` to `skills/{bank_name}.md`"
                        self.lookups.report_unknown(span, "group", str(group), bank or (), hint)
        elif name == "model" and arguments:
            for model in dict.fromkeys(iterate_texts(types[0].values or ())):
                self.lookups.check_model(model, self._value_spans(template, arguments[0], model)[0])
        elif place is not None and len(arguments) > place:
            for pattern in iterate_texts(types[place].values or ()):
                if reason := rejection_reason(pattern):
                    for span in self._value_spans(template, arguments[place], pattern):
                        self.report(span, "pattern", reason)
            documents = types[place + 1] if name == "ids_in" and len(arguments) > place + 1 else ANY
            kinds = types[place].fields if types[place].kind == documents.kind == "record" else {}
            for kind in documents.fields if kinds else ():  # a key of the `where` argument of `ids_in`
                if kind not in kinds:
                    self.lookups.report_unknown(template.span(arguments[place + 1]), "kind of id", kind, kinds)

    def record_view(self, span: Span | None, step: str | None, extra: Mapping[str, Type] | None = None) -> None:
        """Record in the symbol table which names are known from `span` on."""
        if self.lookups.symbols is not None and span is not None:
            names = {**self.names, **(extra or {})}
            scope_range = ScopeRange(span.offset, span.offset, names, self.owners, step)
            self.lookups.symbols.scopes[span.source].append(scope_range)

    def _explain(self, path: str) -> str:
        if path in self.each_names:
            return f"it exists only inside the `each`: read it from `{identifier(self.each_names[path])}.done`"
        if path in self.local:
            return f"`{path}` is defined later, on line {self.local[path].line}"
        hint = self.phase_context.explain(path) if self.phase_context is not None else ""
        return hint or UNAVAILABLE_NAMES.get(path, "")

    def _value_spans(self, template: Template, node: nodes.Expr, value: str) -> list[Span]:
        """Return where the value of an expression is written: in the template or in the config."""
        config_spans = self.settings.text_spans.get(value) if constant_value(node) != value else None
        return config_spans or [template.span(node)]

    # facts and names

    @contextmanager
    def assuming(self, condition: Template | None, facts: Facts = NO_FACTS) -> Iterator[None]:
        """Assume, within the block, that a condition is true. Names bound in the block depend on the condition."""
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
        """Within the block, the name `failure` has this type. None keeps the enclosing binding, if any."""
        outer_failure = self.names.get("failure")
        if failure is not None:
            self.names["failure"] = failure
        yield
        self.names.pop("failure", None)
        if outer_failure is not None:
            self.names["failure"] = outer_failure

    def bind(self, name: str, type_: Type) -> None:
        self.names[identifier(name)] = type_

    def bind_local(self, name: str, type_: Type) -> None:
        """Bind a name that `set` defines.

        If the name is already known, its old and new types are merged. A new name that is set under a condition may be
        absent.
        """
        previous_type = self.names.get(identifier(name))
        if previous_type is None:
            self.bind(name, type_.maybe(self.required_facts) if self.required_facts else type_)
            if self.required_facts and self.guard is not None:
                self.absences[identifier(name)] = Absence(f"`{name}` is set only under a condition", self.guard)
        else:
            self.bind(name, merge_types([previous_type, type_]))
