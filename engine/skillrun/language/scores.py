"""Checks the steps and prompts of a phase or protocol: what they read, whom they seat, where they go.

Walks the steps in order and keeps what each name is by then; nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from jinja2 import nodes

from skillrun.language.definitions import Prompt, Protocol, Score, Step, Value
from skillrun.language.diagnostics import Problems, allowed, did_you_mean
from skillrun.language.expressions import FUNCTIONS as PURE_FUNCTIONS
from skillrun.language.expressions import Template, compile_string
from skillrun.language.fields import Field
from skillrun.language.kinds import RESERVED
from skillrun.language.library import Library
from skillrun.language.members import MemberError, parse_member
from skillrun.language.names import base_names, of_fields, replies_type, seats_type
from skillrun.language.picoschema import ShapeSpec
from skillrun.language.source import Mapping as YamlMapping
from skillrun.language.source import Node, Scalar, Sequence, Span, Text
from skillrun.language.types import (
    ANY,
    BOOLEAN,
    MEMBER,
    NEVER,
    NUMBER,
    QUESTION,
    TEXT,
    Facts,
    Inference,
    Type,
    facts,
    facts_of_failure,
    list_of,
    merged,
    of_schema,
    record,
)

Explain = Callable[[str], str | None]


def _nothing(_: str) -> None:
    return None


@dataclass
class Scope:
    """What is known at one point of a phase or protocol."""

    library: Library
    problems: Problems
    names: dict[str, Type]
    known: Facts = frozenset()
    breakers: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None
    explain: Explain = _nothing
    state: Mapping[str, Field] = field(default_factory=dict)
    goto: frozenset[str] | None = None
    phases: tuple[str, ...] = ()
    phase: str = ""
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    ids: dict[str, Span] = field(default_factory=dict)
    looping: bool = False
    depends: Facts = frozenset()
    phases_read: set[str] = field(default_factory=set)
    state_read: set[str] = field(default_factory=set)
    protocols: tuple[str, ...] = ()

    # templates

    def infer(self, template: Template, extra: Mapping[str, Type] | None = None) -> Type:
        inference = Inference(template, {**self.names, **(extra or {})}, self.known, self.problems, self.explain)
        result = inference.result()
        self._note(template)
        return result

    def evaluated(self, value: Value, extra: Mapping[str, Type] | None = None) -> Type:
        """The type of a value; parts of lists and mappings are inferred one by one."""
        if value.template is not None:
            if value.template.constant:
                return replace(TEXT, values=(value.plain,))
            return self.infer(value.template, extra)
        if value.items is not None:
            items = [self.evaluated(item, extra) for item in value.items]
            literal = all(item.values is not None and len(item.values) == 1 for item in items)
            values = ([item.values[0] for item in items if item.values],) if literal else None
            return replace(list_of(merged(items) if items else ANY), values=values)
        if value.entries is not None:
            return record({key: self.evaluated(one, extra) for key, one in value.entries.items()}, "the mapping")
        if isinstance(value.plain, bool):
            return replace(BOOLEAN, values=(value.plain,))
        return replace(NUMBER, values=(value.plain,)) if isinstance(value.plain, int | float) else ANY

    def needed(self, value: Value, what: str, extra: Mapping[str, Type] | None = None) -> Type:
        """As `evaluated`, for a place where an absent value cannot be used."""
        one = self.evaluated(value, extra)
        template = value.template
        if one.unless is not None and template is not None and not one.unless <= self.known:
            self.problems.report(template.text.at(0), "absent", f"`{what}` may be absent here", "give the step a `when`, or the value a `default`")
        return one

    def condition(self, template: Template | None) -> Facts:
        """Check a `when`; the facts that hold where it does."""
        if template is None:
            return frozenset()
        self.infer(template)
        if template.expression is None:
            return frozenset()
        return Inference(template, self.names, self.known, Problems()).gained(template.expression)

    @contextmanager
    def under(self, new: Facts, depends: Facts = frozenset()) -> Iterator[None]:
        before, before_depends = self.known, self.depends
        self.known, self.depends = self.known | new, self.depends | depends
        try:
            yield
        finally:
            self.known, self.depends = before, before_depends

    def _note(self, template: Template) -> None:
        for node in template.tree.find_all(nodes.Getattr | nodes.Getitem):  # type: ignore[type-var]
            owner = node.node
            key = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
            if isinstance(owner, nodes.Name) and owner.name == "phases":
                self.phases_read |= {p for p in self.phases if p.replace("-", "_") == str(key).replace("-", "_")}
            if isinstance(owner, nodes.Name) and owner.name == "state":
                self.state_read.add(str(key))
        for call in template.tree.find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "bank" and call.args:
                self._bank(template, call)

    def _bank(self, template: Template, call: nodes.Call) -> None:
        name = call.args[0].value if isinstance(call.args[0], nodes.Const) else None
        if not isinstance(name, str):
            return
        span = template.span(call.args[0])
        if self.library.locate(f"skills/{name}.md") is None:
            self.problems.report(span, "unknown-skill", f"there is no question bank `{name}`", did_you_mean(name, self.library.skills()))
            return
        groups = self.library.bank(name)
        group = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], nodes.Const) else None
        if groups is not None and isinstance(group, str) and group not in groups:
            self.problems.report(template.span(call.args[1]), "unknown-group", f"`{name}` has no group `{group}`", did_you_mean(group, groups) or allowed(groups))

    # names

    def bind(self, name: str, one: Type) -> None:
        self.names[name.replace("-", "_")] = one

    def breaker(self, name: str, span: Span) -> Mapping[str, Any]:
        if self.breakers is None:
            return {}
        if name not in self.breakers:
            hint = did_you_mean(name, self.breakers) or "breakers are named in the workflow's config"
            self.problems.report(span, "unknown-breaker", f"there is no breaker `{name}`", hint)
            return {}
        found = self.breakers[name]
        return found if isinstance(found, dict) else {}

    # steps

    def steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        if step.id is not None:
            self._unique(step)
        new = self.condition(step.when)
        depends = _conjuncts(step.when) if step.when is not None else frozenset()
        with self.under(new, depends):
            result = _VERBS[step.verb](self, step)
            depends_here = self.depends
            breaker = self.breaker(step.retry, step.retry_span or step.span) if step.retry else {}
            can_fail = breaker.get("then") == "skip" and step.otherwise is None and step.verb not in ("repeat", "goto")
            answered = frozenset({f"{step.id} was answered"})
        if step.otherwise is not None:
            with self.under(new, depends):
                result = self._otherwise(step, result)
        if step.id is not None and result is not None:
            unless = depends_here | (answered if can_fail else frozenset())
            self.bind(step.id, result.maybe(unless) if unless else result)

    def _otherwise(self, step: Step, result: Type | None) -> Type | None:
        other = step.otherwise
        assert other is not None
        if other.when is not None:
            self.condition(other.when)
        stand_in = _VERBS[other.verb](self, other)
        if step.verb == "goto" or other.verb == "stop" or result is None:
            return result
        answered = frozenset({f"{step.id} was answered"})
        if stand_in is None or result.kind != "record":
            return result.maybe(answered)
        failed = frozenset({f"{step.id} failed"})
        fields = {name: one.maybe(answered) for name, one in result.fields.items() if name not in stand_in.fields}
        fields |= {name: one.maybe(failed) for name, one in stand_in.fields.items() if name not in result.fields}
        fields |= {name: merged([one, stand_in.fields[name]]) for name, one in result.fields.items() if name in stand_in.fields}
        return record(fields, result.label)

    def _unique(self, step: Step) -> None:
        assert step.id is not None
        key = step.id.replace("-", "_")
        if key in self.ids and step.id_span is not None:
            self.problems.report(step.id_span, "duplicate-id", f"another step is called `{step.id}` already", f"it stands in line {self.ids[key].line}")
        elif step.id_span is not None:
            self.ids[key] = step.id_span

    # members, seats, sections

    def members(self, value: Value, one: Type) -> None:
        """Check every member that a value is known to name, at the config file where it comes from there."""
        for candidate in one.values or ():
            several = candidate if isinstance(candidate, list) else candidate.values() if isinstance(candidate, dict) else [candidate]
            for written in several:
                if isinstance(written, str):
                    self.member(written, self._place(value, written))

    def _place(self, value: Value, written: str) -> Span:
        for item in value.items or (value,):
            if item.template is not None and item.template.constant and item.plain == written:
                return item.span
        for name in (self._config_name(),):
            config = self.library.config(name) if name else None
            for layer in config.layers if config else ():
                found = _find(layer, written)
                if found is not None:
                    return found
        return value.span

    def _config_name(self) -> str | None:
        for name in self.library.names("config"):
            config = self.library.config(name)
            if config is not None and config.data is self.config:
                return name
        return None

    def member(self, written: str, span: Span) -> None:
        try:
            member = parse_member(written)
        except MemberError as error:
            self.problems.report(span, "member", str(error), "write `role`, `role:variant`, `role@model` or `role:variant@model`")
            return
        from skillrun.language.check import check_role

        role = check_role(self.library, member.role)
        if role is None:
            roles = self.library.names("roles")
            if member.role not in roles:
                self.problems.report(span, "unknown-role", f"there is no role `{member.role}`", did_you_mean(member.role, roles) or f"make `roles/{member.role}.md`")
        elif member.variant and member.variant not in role.variants:
            hint = did_you_mean(member.variant, role.variants) or (allowed(role.variants) if role.variants else "it has no variants")
            self.problems.report(span, "unknown-variant", f"the role `{member.role}` has no variant `{member.variant}`", hint)

    def section(self, step: Step, extra: Mapping[str, Type]) -> None:
        prompt = self.prompts.get(step.id or "")
        if prompt is not None:
            check_prompt(prompt.template, self, {**self.names, **extra})

    def shaped(self, step: Step) -> Type:
        """The type of `.data`; templates inside the shape are checked."""
        if step.schema is not None:
            return of_schema(step.schema, f"{step.id}.data")
        if step.output is None:
            return TEXT
        for text in step.output.templates:
            self._shape_template(text)
        return of_schema(step.output.outline, f"{step.id}.data")

    def _shape_template(self, text: Text) -> None:
        template = compile_string(text, self.problems)
        if template is not None:
            self.infer(template)


def check_prompt(template: Template, scope: Scope, names: Mapping[str, Type]) -> None:
    scope.infer(template, names)


def check_score(score: Score, scope: Scope) -> dict[str, Type]:
    """Check the steps, prompts and outputs; the types of the outputs."""
    scope.prompts = score.prompts
    scope.steps(score.steps)
    outputs = {}
    for name, value in score.outputs.items():
        outputs[name] = scope.evaluated(value)
    return outputs


def check_protocol(
    library: Library, name: str, config: Mapping[str, Any], problems: Problems, outer: Scope | None = None
) -> tuple[Protocol, dict[str, Type]] | None:
    """Check a protocol against the config of the workflow that calls it; its outputs' types."""
    protocol = library.protocol(name)
    if protocol is None:
        return None
    names = base_names(of_fields(protocol.inputs, "inputs"), ANY, ANY, ())
    del names["state"]
    names |= {"task": TEXT, "seats": seats_type(protocol.seats.names), "features": ANY}
    if outer is not None:
        names |= {"config": outer.names["config"], "features": outer.names["features"]}
    scope = Scope(
        library=library,
        problems=problems,
        names=names,
        breakers=outer.breakers if outer else None,
        config=config,
        protocols=(*(outer.protocols if outer else ()), name),
    )
    return protocol, check_score(protocol, scope)


# one function for each verb: checks the step, and returns the type of its id


def _agent(scope: Scope, step: Step) -> Type:
    assert step.main is not None
    one = scope.needed(step.main, "agent")
    scope.members(step.main, one)
    several = step.main.items is not None or one.kind == "list" or (one.kind == "any" and not _single(step.main))
    extra = {"member": _member_type(one)}
    if step.output is not None and step.output.task:
        data = ANY
    else:
        data = scope.shaped(step)
    for name, value in step.values.items():
        scope.needed(value, name, extra if name == "writes" else None)
    scope.section(step, extra)
    fields = replies_type(data, several=several and step.main.template is None or one.kind == "list")
    if one.kind == "any" and step.main.template is not None:
        fields["data"] = ANY
    if "writes" in step.values:
        fields["path"] = TEXT
    return record(fields, step.id or "agent")


def _member_type(members: Type) -> Type:
    """A member; where every one that can be is known to have a variant, so has it a lens."""
    several: list[Any] = []
    for value in members.values or ():
        several.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value])
    if not several or not all(isinstance(one, str) and ":" in one for one in several):
        return MEMBER
    return record({**MEMBER.fields, "variant": TEXT, "lens": TEXT}, "member")


def _single(value: Value) -> bool:
    return value.template is not None and value.template.constant


def _panel(scope: Scope, step: Step) -> Type:
    assert step.main is not None
    one = scope.needed(step.main, "panel")
    scope.members(step.main, one)
    scope.section(step, {"member": _member_type(one)})
    if step.output is not None or step.schema is not None:
        scope.shaped(step)
    value = step.values.get("protocol")
    if value is None:
        return ANY
    named = scope.needed(value, "protocol")
    known = scope.library.skills()
    protocols = [name.removeprefix("protocols/") for name in known if name.startswith("protocols/")]
    literal = value.template is not None and value.template.constant
    candidates = [name for name in named.values or () if isinstance(name, str)]
    outputs: list[dict[str, Type]] = []
    for name in candidates if named.values is not None else protocols:
        if name not in protocols:
            scope.problems.report(value.span, "unknown-protocol", f"there is no protocol `{name}`", did_you_mean(name, protocols) or allowed(protocols))
        elif name in scope.protocols:
            scope.problems.report(value.span, "cycle", f"the protocol `{name}` calls itself")
        elif scope.library.protocol(name) is not None:
            found = check_protocol(scope.library, name, scope.config or {}, scope.problems, scope if named.values is not None else None)
            if found is not None:
                outputs.append(found[1])
                _with(scope, step, found[0].inputs, f"the protocol `{name}`", strict=literal)
    if not outputs:
        return ANY
    fields = {"degraded": BOOLEAN.maybe()}
    return merged(record({**fields, **one}, step.id or "the panel") for one in outputs)


def _with(scope: Scope, step: Step, inputs: tuple[Field, ...], label: str, *, strict: bool) -> None:
    value = step.values.get("with")
    entries = dict(value.entries or {}) if value is not None else {}
    known = {one.name.replace("-", "_"): one for one in inputs}
    for name, given in entries.items():
        scope.evaluated(given)
        if name.replace("-", "_") not in known and strict:
            scope.problems.report(given.span, "unknown-input", f"{label} has no input `{name}`", did_you_mean(name, known) or (allowed(known) if known else "it takes none"))
    for one in inputs:
        if one.required and one.default is None and one.name.replace("-", "_") not in {n.replace("-", "_") for n in entries} and strict:
            scope.problems.report(step.span, "missing-input", f"{label} needs the input `{one.name}`", f"give it in `with: {{{one.name}: …}}`")


def _ask(scope: Scope, step: Step) -> Type:
    assert step.main is not None
    asked = scope.needed(step.main, "ask")
    for name, value in step.values.items():
        scope.evaluated(value) if name == "default" else scope.needed(value, name)
    item = asked.item if asked.kind == "list" and asked.item is not None and asked.item.kind == "record" else QUESTION
    answered = {
        **QUESTION.fields, **item.fields, "answer": ANY.maybe(), "asked_at": TEXT, "confidence": TEXT.maybe(), "comment": TEXT.maybe(), "round": NUMBER,
    }  # fmt: skip
    return record({"answers": list_of(record(answered, "the answer")), "answer": ANY.maybe()}, step.id or "the question")


def _read(scope: Scope, step: Step) -> Type:
    assert step.main is not None
    scope.needed(step.main, "read")
    if "from" in step.values:
        scope.needed(step.values["from"], "from")
    data = scope.shaped(step) if step.output is not None else ANY
    return record({"text": TEXT, "data": data, "files": list_of(TEXT)}, step.id or "the files")


def _write(scope: Scope, step: Step) -> Type:
    assert step.main is not None
    scope.needed(step.main, "write")
    template = step.values.get("template")
    name = template.literal if template is not None else None
    if isinstance(name, str):
        if scope.library.locate(f"skills/{name}.md") is None:
            scope.problems.report(template.span if template else step.span, "unknown-skill", f"there is no template `{name}`", did_you_mean(name, scope.library.skills()))
        elif (text := scope.library.text(name)) is not None:
            check_prompt(text.template, scope, scope.names)
    if "frontmatter" in step.values:
        scope.evaluated(step.values["frontmatter"])
    scope.section(step, {})
    return record({"path": TEXT, "text": TEXT}, step.id or "the artifact")


def _say(scope: Scope, step: Step) -> None:
    assert step.main is not None
    scope.needed(step.main, "say")


def _set(scope: Scope, step: Step) -> None:
    for name, value in (step.main.entries if step.main and step.main.entries else {}).items():
        one = scope.evaluated(value)
        key = name.replace("-", "_")
        if key in {declared.replace("-", "_") for declared in scope.state}:
            continue
        if key in RESERVED or key in PURE_FUNCTIONS:
            scope.problems.report(value.span, "reserved", f"`{name}` is the language's own name", "choose another")
            continue
        close = next((one for one in scope.state if _near(one, name)), None)
        if close and key not in scope.names:
            scope.problems.report(value.span, "near-miss", f"`{name}` is not declared in `state`, but it is close to a name that is", f"did you mean `{close}`?")
        unless = (one.unless or frozenset()) | scope.depends
        before = scope.names.get(key)
        bound = replace(one, unless=unless or None)
        scope.bind(name, merged([before, bound]) if before is not None and key not in scope.ids else bound)


def _near(one: str, other: str) -> bool:
    """Whether two names differ by a slip of the keyboard."""
    return abs(len(one) - len(other)) <= 1 and SequenceMatcher(None, one, other).ratio() >= 0.85


def _decide(scope: Scope, step: Step) -> Type:
    values: list[Type] = []
    certain = False
    known: Facts = frozenset()
    because_missing = False
    for row in step.rows:
        new = scope.condition(row.when)
        with scope.under(new if row.when is not None else frozenset()):
            for value in (row.then, row.at_least):
                if value is not None:
                    values.append(scope.needed(value, "then"))
            if row.because is not None:
                scope.needed(row.because, "because")
        because_missing = because_missing or row.because is None
        certain = certain or row.when is None
        if row.when is not None and row.when.expression is not None:
            known |= facts_of_failure(row.when.expression)
    chosen = merged(values) if values else ANY
    if step.order and chosen.values is not None:
        for one in chosen.values:
            if one not in step.order:
                scope.problems.report(step.span, "order", f"`{one}` can be chosen but is not in `order`", did_you_mean(str(one), step.order) or allowed(step.order))
        chosen = replace(chosen, values=tuple(dict.fromkeys((*chosen.values, *step.order))))
    chosen = chosen if certain else chosen.maybe()
    return record({"value": chosen, "because": TEXT.maybe() if because_missing or not certain else TEXT}, step.id or "the decision")


def _repeat(scope: Scope, step: Step) -> Type:
    looping = step.until is not None or "at_most" in step.values
    at_most = step.values.get("at_most")
    if at_most is not None:
        _cap(scope, at_most)
    elif step.until is not None and step.retry is None:
        scope.problems.report(step.span, "unbounded", "a `repeat` with `until` needs `at_most`", "a number, or the name of a breaker")
    if not looping:
        scope.steps(step.steps)
        return record({"times": NUMBER, "exhausted": BOOLEAN}, step.id or "the group")
    outer_pass, outer_looping = scope.names.get("pass"), scope.looping
    scope.looping = True
    trial = replace(
        scope, problems=Problems(), names={**scope.names, "pass": record({"index": NUMBER, "previous": ANY}, "pass")}, ids=dict(scope.ids)
    )
    trial.steps(step.steps)
    inner = {key: one.maybe(frozenset({"a pass before this one"})) for key, one in trial.names.items() if scope.names.get(key) is not one and key != "pass"}
    scope.names["pass"] = record({"index": NUMBER, "previous": record(inner, "pass.previous").maybe(frozenset({"a pass before this one"}))}, "pass")
    scope.steps(step.steps)
    if step.until is not None:
        scope.infer(step.until)
    scope.looping = outer_looping
    if outer_pass is not None:
        scope.names["pass"] = outer_pass
    else:
        scope.names.pop("pass", None)
    return record({"times": NUMBER, "exhausted": BOOLEAN}, step.id or "the loop")


def _cap(scope: Scope, value: Value) -> None:
    literal = value.literal
    if isinstance(literal, str):
        scope.breaker(literal, value.span)
    elif isinstance(literal, int) and literal < 1:
        scope.problems.report(value.span, "type", f"`at_most` is {literal}; it is at least 1")
    else:
        scope.needed(value, "at_most")


def _run(scope: Scope, step: Step) -> Type:
    name = step.text
    if name and scope.library.locate(f"workflows/{name}.md") is None:
        known = scope.library.names("workflows")
        scope.problems.report(step.main.span if step.main else step.span, "unknown-workflow", f"there is no workflow `{name}`", did_you_mean(name, known) or allowed(known))
        return ANY
    workflow = scope.library.workflow(name) if name else None
    if workflow is None:
        return ANY
    _with(scope, step, workflow.inputs, f"the workflow `{name}`", strict=True)
    return record(dict.fromkeys(workflow.outputs, ANY.maybe()), step.id or name)


def _goto(scope: Scope, step: Step) -> None:
    span = step.main.span if step.main else step.span
    if scope.goto is None:
        scope.problems.report(step.span, "goto", "a protocol cannot go back to a phase", "let the phase do it, from the protocol's outputs")
        return
    if scope.looping:
        scope.problems.report(step.span, "goto", "`goto` does not stand inside `repeat`", "set a name in the loop and go back after it")
    target = step.text
    if target and target not in scope.goto:
        if target in scope.phases:
            scope.problems.report(span, "goto", f"`{target}` is not earlier than `{scope.phase}`", "a `goto` goes back to a phase that this one follows, or to itself")
        else:
            scope.problems.report(span, "unknown-phase", f"there is no phase `{target}`", did_you_mean(target, scope.phases) or allowed(sorted(scope.goto)))
    if "at_most" in step.values:
        _cap(scope, step.values["at_most"])
    elif step.retry is None:
        scope.problems.report(step.span, "unbounded", "a `goto` needs `at_most` or `retry`", "a number, or the name of a breaker, so that it ends")


def _stop(scope: Scope, step: Step) -> None:
    for value in step.values.values():
        scope.needed(value, "reason")


_VERBS: dict[str, Callable[[Scope, Step], Type | None]] = {
    "agent": _agent,
    "panel": _panel,
    "ask": _ask,
    "read": _read,
    "write": _write,
    "say": _say,
    "set": _set,
    "decide": _decide,
    "repeat": _repeat,
    "run": _run,
    "goto": _goto,
    "stop": _stop,
}


def _conjuncts(when: Template) -> Facts:
    def split(node: nodes.Node) -> Iterator[str]:
        if isinstance(node, nodes.And):
            yield from split(node.left)
            yield from split(node.right)
        else:
            yield repr(node)

    return frozenset(split(when.expression)) if when.expression is not None else NEVER


def _find(node: Node, written: str) -> Span | None:
    """Where a YAML file has the text `written` as a value."""
    if isinstance(node, Scalar):
        return node.span if node.value == written else None
    children = node.items if isinstance(node, Sequence) else [entry.value for entry in node.entries.values()]
    for child in children:
        found = _find(child, written)
        if found is not None:
            return found
    return None


__all__ = ["Scope", "ShapeSpec", "YamlMapping", "check_prompt", "check_protocol", "check_score"]
