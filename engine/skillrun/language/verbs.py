"""Checks one step: a function for each verb, which returns what the step's id gives to later steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

from skillrun.language.definitions import Protocol, Step, Value
from skillrun.language.diagnostics import Problems, allowed, did_you_mean
from skillrun.language.facts import denied
from skillrun.language.fields import Field, coerce
from skillrun.language.kinds import OWN_FILES, VERBS
from skillrun.language.names import MEMBER, VARIANT, replies_type
from skillrun.language.reader import OWN_NAMES, close_to
from skillrun.language.results import ANSWER, QUESTION
from skillrun.language.scope import Scope
from skillrun.language.types import (
    ANY,
    BOOLEAN,
    NONE,
    NOTHING,
    NUMBER,
    TEXT,
    Facts,
    Type,
    identifier,
    list_of,
    merged,
    of_schema,
    record,
)

_EARLIER_PASS: Final[Facts] = frozenset({"a pass before this one"})


def check_steps(scope: Scope, steps: Iterable[Step]) -> None:
    for step in steps:
        check_step(scope, step)


def check_step(scope: Scope, step: Step) -> None:
    """Check a step and what stands in for it, and bind its id."""
    _claim_id(scope, step)
    with scope.under(step.when):
        found = _CHECKS[step.verb](scope, step)
        breaker = scope.lookups.breaker(step.retry, step.spans["retry"], scope.settings) if step.retry else {}
        depends = scope.depends
        if step.otherwise is not None:
            with scope.under(step.otherwise.when):
                found = _either(step, found, step.otherwise, _CHECKS[step.otherwise.verb](scope, step.otherwise))
        elif breaker.get("then") == "skip" and step.verb not in ("repeat", "goto"):
            depends = depends | {f"{step.id} was answered"}
    if step.id is not None and found is not None:
        scope.bind(step.id, found.maybe(depends) if depends else found)


def _claim_id(scope: Scope, step: Step) -> None:
    if step.id is None:
        return
    span = step.spans.get("id", step.span)
    taken = scope.ids.setdefault(identifier(step.id), span)
    if taken is not span:
        hint = f"it stands in line {taken.line}"
        scope.problems.report(span, "duplicate-id", f"another step is called `{step.id}` already", hint)


def _either(step: Step, found: Type | None, other: Step, stand_in: Type | None) -> Type | None:
    """What an id gives when either the step or the one that stands in for it ran."""
    if step.verb == "goto" or other.verb == "stop" or found is None:
        return found
    answered, failed = (frozenset({f"{step.id} {how}"}) for how in ("was answered", "failed"))
    if stand_in is None or found.kind != "record":
        return found.maybe(answered)
    fields = {name: one.maybe(answered) for name, one in found.fields.items()}
    fields |= {name: one.maybe(failed) for name, one in stand_in.fields.items()}
    both = found.fields.keys() & stand_in.fields.keys()
    fields |= {name: merged([found.fields[name], stand_in.fields[name]]) for name in both}
    return record(fields, found.label)


def _main(scope: Scope, step: Step, extra: Mapping[str, Type] | None = None) -> Type:
    return scope.needed(step.main, step.verb, extra) if step.main is not None else ANY


def _section(scope: Scope, step: Step, extra: Mapping[str, Type] | None = None) -> None:
    prompt = scope.prompts.get(step.id or "")
    if prompt is not None:
        scope.printed(prompt.template, extra)


def _check_path(scope: Scope, step: Step) -> None:
    """Report an artifact outside the run's folder, or where the run keeps its own files."""
    value = step.artifact
    path = value.literal if value is not None else None
    if value is None or not isinstance(path, str):
        return
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts:
        scope.problems.report(value.span, "path", f"`{path}` is no place in the run's folder", "write `name.md`")
    elif parts[0] in OWN_FILES or parts[0].startswith("round-"):
        scope.problems.report(value.span, "path", f"`{path}` belongs to the run itself", "choose another name")


def _shaped(scope: Scope, step: Step) -> Type:
    """The type of a structured reply; the templates inside a shape are checked."""
    label = f"{step.id}.data"
    if step.schema is not None:
        return of_schema(step.schema, label)
    if step.output is None:
        return TEXT
    if step.output.task and scope.place is not None:
        scope.problems.report(step.output.span, "shape", "only a protocol's step takes `task`", "write out the fields")
    for text in step.output.templates:
        scope.text(text)
    return ANY if step.output.task else of_schema(step.output.outline, label)


def _agent(scope: Scope, step: Step) -> Type:
    one = _main(scope, step)
    if step.main is not None:
        scope.lookups.members(step.main, one.values or (), scope.settings)
        if step.main.entries is not None:
            scope.problems.report(step.main.span, "type", "expected a member or a list of members")
    extra = {"member": _member(one)}
    for name, value in step.values.items():
        scope.needed(value, name, extra if name == "writes" else None)
    _check_path(scope, step)
    _section(scope, step, extra)
    data = _shaped(scope, step)
    least = step.values.get("at_least")
    filled = least is None or least.literal != 0
    data = ANY if one.kind == "any" else data  # nobody knows whether it is a list
    found = replies_type(data, step.id or "agent", several=one.kind == "list", filled=filled)
    return replace(found, fields={**found.fields, "path": TEXT}) if "writes" in step.values else found


def _named(one: Type) -> list[Any]:
    """Every member that a value can name."""
    found: list[Any] = []
    for value in one.values or ():
        found.extend(value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value])
    return found


def _member(one: Type) -> Type:
    """A member; where every one that can be is known to have a variant, so has it a lens."""
    named = _named(one)
    return VARIANT if named and all(isinstance(each, str) and ":" in each for each in named) else MEMBER


def _panel(scope: Scope, step: Step) -> Type:
    one = _main(scope, step)
    if step.main is not None:
        scope.lookups.members(step.main, one.values or (), scope.settings)
    _section(scope, step, {"member": _member(one)})
    _shaped(scope, step)
    value, given = step.values.get("protocol"), step.values.get("with")
    if given is not None:
        scope.value(given)
    if value is None:
        return ANY
    named = scope.needed(value, "protocol")
    known = scope.lookups.library.names("skills/protocols")
    outputs = []
    for name in dict.fromkeys(known if named.values is None else map(str, named.values)):
        if name in scope.protocols:
            scope.problems.report(value.span, "cycle", f"the protocol `{name}` calls itself")
        elif name not in known:
            for span in scope.lookups.places(value, name, scope.settings):
                scope.lookups.unknown(span, "protocol", name, known)
        elif (found := scope.checker.protocol(name, scope, certain=named.values is not None)) is not None:
            scope.writes_elsewhere |= found.writes
            outputs.append(record({**found.outputs, "degraded": BOOLEAN}, step.id or "the panel"))
            if value.literal is not None:
                _given(scope, step, found.protocol.inputs, f"the protocol `{name}`")
            if step.main is not None and named.values is not None and len(named.values) == 1:
                _seated(scope, step.main, one, found.protocol)
    return merged(outputs)


def _seated(scope: Scope, value: Value, one: Type, protocol: Protocol) -> None:
    """Check that the members fit the seats, where both are known."""
    seats, name = protocol.seats, protocol.name
    for members in one.values or ():
        if isinstance(members, Mapping):
            unknown = [seat for seat in members if seat not in seats.names]
            for seat in unknown:
                span = value.keys.get(seat, value.span)
                scope.lookups.unknown(span, "seat", seat, seats.names, f"`{name}` takes a list of members")
            if not unknown and (missing := [seat for seat in seats.names if seat not in members]):
                scope.problems.report(value.span, "seats", f"nobody sits on `{missing[0]}` of the protocol `{name}`")
        elif not seats.names:
            count = len(members) if isinstance(members, list) else 1
            if count and not seats.least <= count <= seats.most:
                message = f"the protocol `{name}` seats {seats.least} to {seats.most} members; here are {count}"
                scope.problems.report(value.span, "seats", message)


def _given(scope: Scope, step: Step, inputs: tuple[Field, ...], label: str) -> None:
    """Check what `with` hands over against what is declared."""
    value = step.values.get("with")
    given = (value.entries or {}) if value is not None else {}
    fields = {identifier(one.name): one for one in inputs}
    for name, one in given.items():
        field = fields.get(identifier(name))
        if field is not None:
            _check_literal(scope, field, one)
        elif value is not None:
            hint = did_you_mean(name, fields) or allowed(fields) or "it takes none"
            scope.problems.report(value.keys[name], "unknown-input", f"{label} has no input `{name}`", hint)
    for field in inputs:
        if field.required and field.default is None and identifier(field.name) not in map(identifier, given):
            hint = f"give it in `with: {{{field.name}: …}}`"
            scope.problems.report(step.span, "missing-input", f"{label} needs the input `{field.name}`", hint)


def _check_literal(scope: Scope, field: Field, value: Value) -> bool:
    """Whether a value that is written out is of its field's type; a problem where it is not."""
    literal = value.literal
    error = coerce(replace(field, fallback=None), literal).error if literal is not None else ""
    if error:
        scope.problems.report(value.span, "type", error)
    return not error


def _ask(scope: Scope, step: Step) -> Type:
    asked = _main(scope, step)
    beside = {n: scope.value(one) if n == "default" else scope.needed(one, n) for n, one in step.values.items()}
    choices, default = beside.get("choices", ANY), beside.get("default", ANY)
    known = [str(one) for one in (choices.item.values if choices.item is not None else None) or ()]
    for written in default.values or () if known else ():
        if written not in ("", *known):
            hint = did_you_mean(str(written), known) or allowed(known)
            for span in scope.lookups.places(step.values["default"], written, scope.settings):
                scope.problems.report(span, "choice", f"`{written}` is none of the choices", hint)
    pause = step.values.get("pause")
    if pause is not None and pause.literal == "exit" and not step.values.keys() & {"form", "files"}:
        hint = "add `form:`, a file to fill in, or `files:` to wait for"
        scope.problems.report(pause.span, "missing-key", "`pause: exit` does not say what is waited for", hint)
    answer = TEXT if asked.kind == "text" and "multiple" not in beside else ANY
    if known and "other" not in beside and choices.item is not None:
        answer = replace(answer, values=tuple(known), tunable=choices.item.tunable)
    item = asked.item if asked.kind == "list" and asked.item is not None and asked.item.kind == "record" else QUESTION
    answered = {**QUESTION.fields, **item.fields, **ANSWER, "answer": answer.maybe()}
    return record({"answers": list_of(record(answered, "the answer")), "answer": answer.maybe()}, step.id or "ask")


def _read(scope: Scope, step: Step) -> Type:
    _main(scope, step)
    if "from" in step.values:
        scope.needed(step.values["from"], "from")
    data = _shaped(scope, step) if step.output is not None else ANY
    return record({"text": TEXT, "data": data, "files": list_of(TEXT)}, step.id or "read")


def _write(scope: Scope, step: Step) -> Type:
    _main(scope, step)
    _check_path(scope, step)
    template = step.values.get("template")
    if template is not None and isinstance(template.literal, str):
        text = scope.lookups.text(template.literal, template.span, "template")
        if text is not None:
            scope.printed(text.template)
    elif template is not None:
        scope.needed(template, "template")
    if "frontmatter" in step.values:
        scope.value(step.values["frontmatter"])
    _section(scope, step)
    return record({"path": TEXT, "text": TEXT}, step.id or "write")


def _say(scope: Scope, step: Step) -> None:
    _main(scope, step)
    for name, value in step.values.items():
        scope.needed(value, name)


def _set(scope: Scope, step: Step) -> None:
    state = {identifier(one.name): one for one in scope.place.workflow.state} if scope.place is not None else {}
    if step.main is None:
        return
    for written, value in (step.main.entries or {}).items():
        one, name = scope.value(value), identifier(written)
        if name in state:
            if _check_literal(scope, state[name], value):
                _check_choice(scope, written, value, one)
            continue
        span = step.main.keys[written]
        if name in OWN_NAMES:
            scope.problems.report(span, "reserved", f"`{written}` is the language's own name", "choose another")
            continue
        if name not in scope.names and (close := close_to(name, state)):
            message = f"`{written}` is not declared in `state`, but it is close to a name that is"
            scope.problems.report(span, "near-miss", message, f"did you mean `{close}`?")
        scope.bind_local(name, one)


def _check_choice(scope: Scope, name: str, value: Value, one: Type) -> None:
    """Report what a variable is set to and cannot be."""
    choices = scope.names["state"].fields[identifier(name)].values or ()
    for given in (one.values or ()) if choices else ():
        if given not in choices:
            hint = did_you_mean(str(given), map(str, choices)) or allowed(map(str, choices))
            for span in scope.lookups.places(value, given, scope.settings):
                scope.problems.report(span, "choice", f"`state.{name}` cannot be `{given}`", hint)


def _decide(scope: Scope, step: Step) -> Type:
    values: list[Type] = []
    reasons = []
    failed: Facts = NOTHING
    for row in step.rows:
        with scope.under(row.when, failed):
            for value in (one for one in (row.then, row.at_least) if one is not None):
                values.append(scope.needed(value, "then"))
                if step.order and value.literal is None:  # what is written out has been looked at
                    _check_order(scope, step, value, values[-1])
            if row.because is not None:
                reasons.append(scope.needed(row.because, "because"))
        if row.when is not None and row.when.expression is not None and not step.order:
            failed |= denied(row.when.expression)
    certain = any(row.when is None for row in step.rows)
    chosen = merged(values)
    if step.order and chosen.values is not None:
        chosen = replace(chosen, values=tuple(step.order), tunable=False)
    because = TEXT if certain and len(reasons) == len(step.rows) else TEXT.maybe()
    return record({"value": chosen if certain else chosen.maybe(), "because": because}, step.id or "decide")


def _check_order(scope: Scope, step: Step, value: Value, one: Type) -> None:
    for chosen in [each for each in one.values or () if each not in step.order]:
        hint = did_you_mean(str(chosen), step.order) or allowed(step.order)
        for span in scope.lookups.places(value, chosen, scope.settings):
            scope.problems.report(span, "order", f"`{chosen}` can be chosen but is not in `order`", hint)


def _repeat(scope: Scope, step: Step) -> Type:
    found = record({"times": NUMBER, "exhausted": BOOLEAN}, step.id or "repeat")
    at_most = step.values.get("at_most")
    if at_most is not None:
        _cap(scope, at_most)
    elif step.until is not None and step.retry is None:
        hint = "a number, or the name of a breaker"
        scope.problems.report(step.span, "unbounded", "a `repeat` with `until` needs `at_most`", hint)
    if step.until is None and at_most is None:
        check_steps(scope, step.steps)
        return found
    outer, looping, before = scope.names.pop("pass", None), scope.looping, dict(scope.names)
    scope.looping = True
    trial = replace(scope, problems=Problems(), names={**before, "pass": _pass(NONE)}, ids=dict(scope.ids))
    check_steps(trial, step.steps)
    bound = {name: one for name, one in trial.names.items() if before.get(name) is not one and name != "pass"}
    scope.names |= {name: merged([before[name], one]) for name, one in bound.items() if name in before}
    scope.names["pass"] = _pass(
        record({name: one.maybe(_EARLIER_PASS) for name, one in bound.items()}, "pass.previous")
    )
    check_steps(scope, step.steps)
    scope.condition(step.until)
    scope.looping = looping
    scope.names.pop("pass")
    if outer is not None:
        scope.names["pass"] = outer
    return found


def _pass(previous: Type) -> Type:
    return record({"index": NUMBER, "previous": previous.maybe(_EARLIER_PASS)}, "pass")


def _cap(scope: Scope, value: Value) -> None:
    literal = value.literal
    if literal is None:
        scope.needed(value, "at_most")
    elif isinstance(literal, str) and not literal.isdigit():
        scope.lookups.breaker(literal, value.span, scope.settings)
    elif isinstance(literal, bool) or not isinstance(literal, int | str) or int(literal) < 1:
        hint = "a whole number of at least 1, or the name of a breaker"
        scope.problems.report(value.span, "type", f"`at_most` is `{literal}`", hint)


def _run(scope: Scope, step: Step) -> Type:
    if step.main is None or not step.text:
        return ANY
    given = step.values.get("with")
    if given is not None:
        scope.value(given)
    library = scope.lookups.library
    if library.locate(f"workflows/{step.text}.md") is None:
        scope.lookups.unknown(step.main.span, "workflow", step.text, library.names("workflows"))
        return ANY
    if scope.checker.is_open(step.text):
        scope.problems.report(step.main.span, "cycle", f"the workflow `{step.text}` runs itself")
        return ANY
    program = scope.checker.workflow(step.text)
    scope.writes_elsewhere = True
    if program is None:
        return ANY
    _given(scope, step, program.workflow.inputs, f"the workflow `{step.text}`")
    return record(dict.fromkeys(program.workflow.outputs, ANY.maybe()), step.id or step.text)


def _goto(scope: Scope, step: Step) -> None:
    place, target = scope.place, step.text
    if place is None:
        hint = "let the phase do it, from the protocol's outputs"
        scope.problems.report(step.span, "goto", "a protocol cannot go back to a phase", hint)
        return
    if scope.looping:
        hint = "set a name in the loop and go back after it"
        scope.problems.report(step.span, "goto", "`goto` does not stand inside `repeat`", hint)
    earlier = place.earlier | {place.phase}
    if step.main is not None and target and target not in earlier:
        if target in place.workflow.phases:
            hint = "a `goto` goes back to a phase that this one follows, or to itself"
            message = f"`{target}` is not earlier than `{place.phase}`"
            scope.problems.report(step.main.span, "goto", message, hint)
        else:
            scope.lookups.unknown(step.main.span, "phase", target, sorted(earlier))
    if "at_most" in step.values:
        _cap(scope, step.values["at_most"])
    elif step.retry is None:
        hint = "a number, or the name of a breaker, so that it ends"
        scope.problems.report(step.span, "unbounded", "a `goto` needs `at_most` or `retry`", hint)


def _stop(scope: Scope, step: Step) -> None:
    _main(scope, step)
    for name, value in step.values.items():
        scope.needed(value, name)


def _broken(_: Scope, __: Step) -> Type:
    return ANY


_CHECKS: Final[Mapping[str, Callable[[Scope, Step], Type | None]]] = {
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
    "": _broken,
}
assert _CHECKS.keys() == VERBS.keys() | {""}
