"""Checks declared inputs and state, the values that steps pass (members, seats and `with`), and config values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from jinja2 import nodes

from skillrun.checker.comparisons import KINDS
from skillrun.checker.facts import fact, path_nodes
from skillrun.checker.names import MEMBER, VARIANT, fields_type
from skillrun.checker.scope import ReferenceChecker, Scope
from skillrun.definitions.definitions import Check, Protocol, Step
from skillrun.library.configuration import MODES, duplicate_spans
from skillrun.library.lookups import Settings
from skillrun.library.symbols import ScopeOwners, library_path
from skillrun.syntax import source
from skillrun.syntax.diagnostics import suggest
from skillrun.syntax.source import Span
from skillrun.templates.expressions import RenderError, Template, Value
from skillrun.types.fields import Field, coerce, literal_error
from skillrun.types.picoschema import find_templates
from skillrun.types.types import ANY, NO_FACTS, TEXT, Type, identifier, list_of, record

_EXPECTED: Final = {
    "list": "a list", "record": "a record", "number": "a number", "boolean": "true or false", "text": "text",
}  # fmt: skip
_NOTATION: Final = re.compile(r"[?(].*", re.DOTALL)


def member_type(members: Type) -> Type:
    """Return the type of `member`. Its variant and lens are always present if every possible member has a variant."""
    known = _referenced_names(members)
    return VARIANT if known and all(isinstance(member, str) and ":" in member for member in known) else MEMBER


def check_members(scope: Scope, step: Step, members: Type) -> None:
    """Report unknown members at their place in the step or in the config."""
    if step.main is None:
        return
    _check_references(scope, "member", step.main, members)
    if step.main.items == ():
        hint = "write `role`, or a list such as `[role:variant, role@model]`"
        scope.report(step.main.span, "type", f"`{step.verb}` has an empty list of members", hint)


def _check_references(scope: Scope, kind: str, value: Value, type_: Type) -> None:
    for reference in _referenced_names(type_) if kind in ("member", "model") else ():
        if reference is not None:
            for span in scope.lookups.value_spans(value, reference, scope.settings):
                scope.lookups.check_reference(kind, reference, span)


def _referenced_names(members: Type) -> list[Any]:
    named: list[Any] = []
    for value in members.values or ():
        named.extend(value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value])
    return named


def check_seats(scope: Scope, step: Step, members: Type, protocols: Sequence[Protocol]) -> None:
    """Report members that do not fit the seats, as far as the members are known before a run.

    If the step can use several of `protocols`, members that fit one of them are not reported.
    """
    value = step.main
    names = " or ".join(f"`{protocol.name}`" for protocol in protocols)
    what = f"the protocol {names} takes" if len(protocols) == 1 else f"the protocols {names} take"
    for several in members.values or () if value is not None and protocols else ():
        assert value is not None
        if isinstance(several, Mapping):
            if len(protocols) == 1:
                _check_named_seats(scope, value, several, protocols[0])
        elif not any(protocol.seats.names for protocol in protocols):  # named seats take any list
            count = len(several) if isinstance(several, list) else 1
            ranges = [(protocol.seats.least, protocol.seats.most) for protocol in protocols]
            if count and not any(least <= count <= most for least, most in ranges):
                least, most = min(least for least, _ in ranges), max(most for _, most in ranges)
                message = f"{what} {least} to {most} members, not {count}"
                scope.report(value.span, "seats", message)


def _check_named_seats(scope: Scope, value: Value, members: Mapping[str, object], protocol: Protocol) -> None:
    seats, name = protocol.seats, protocol.name
    unknown = [seat for seat in members if seat not in seats.names]
    for seat in members.keys() & value.key_spans.keys():
        scope.lookups.add_reference(value.key_spans[seat], "seat", f"skills/protocols/{name}.md", seat)
    for seat in unknown:
        span = value.key_spans.get(seat, value.span)
        scope.lookups.report_unknown(span, "seat", seat, seats.names, f"`{name}` takes a list of members")
    if not unknown and (empty := [seat for seat in seats.names if seat not in members]):
        scope.report(value.span, "seats", f"the seat `{empty[0]}` of the protocol `{name}` has no member")


def check_duplicate_members(scope: Scope, step: Step, members: Type) -> None:
    """Report a member that is listed twice, at its second place in the step or in the config."""
    for several in members.values or () if step.main is not None else ():
        assert step.main is not None
        listed = several if isinstance(several, list) else []
        for member in [member for place, member in enumerate(listed) if member in listed[:place]][:1]:
            step_spans = [item.span for item in step.main.items or () if item.literal == member][1:2]
            spans = step_spans or duplicate_spans(scope.settings.layers, several, member) or [step.main.span]
            for span in spans:
                hint = "add a variant or a model to distinguish members of one role"
                scope.report(span, "duplicate-member", f"`{member}` is listed twice", hint)


def check_inputs(
    scope: Scope, step: Step, fields: Mapping[str, Field], label: str, types: Type, *, all_of_them: bool = True
) -> None:
    """Check the values in `with` against the declared inputs.

    `types` has the types of the values. Missing required inputs are reported only if `all_of_them` is set.
    """
    value = step.values.get("with", Value(step.span))
    given = value.entries or {}
    named = set(map(identifier, given))
    for name, input_value in given.items():
        field = fields.get(identifier(name))
        if field is not None:
            type_ = types.fields.get(identifier(name), ANY)
            check_field_value(scope, field, input_value, type_)
            scope.check_record_fields(
                input_value.span, type_, field.type, f"the value for `{field.name}`", must_be_present=True
            )
            if field.required and field.default is None and (type_.unless or NO_FACTS) - scope.known_facts:
                hint = "add a `when` to the step, or a `default` to the value"
                scope.report(input_value.span, "missing-input", f"the value for `{field.name}` may be absent", hint)
        else:
            hint = suggest(name, fields) or "it has no inputs"
            has = "has an" if label.startswith("none") else "has no"
            scope.report(value.key_spans[name], "unknown-input", f"{label} {has} input `{name}`", hint)
    for name, field in fields.items() if all_of_them else ():
        if field.required and field.default is None and name not in named:
            hint = f"pass it in `with: {{{field.name}: …}}`"
            scope.report(step.span, "missing-input", f"{label} needs the input `{field.name}`", hint)


def record_input_references(scope: Scope, step: Step, fields: Iterable[Field], owner_path: str) -> None:
    """Record the references from `with` to the inputs of a protocol or workflow."""
    value, known = step.values.get("with"), {identifier(field.name) for field in fields}
    for name, span in value.key_spans.items() if value is not None else ():
        if identifier(name) in known:
            scope.lookups.add_reference(span, "input", owner_path, identifier(name))


def check_field_value(scope: Scope, field: Field, value: Value, type_: Type) -> bool:
    """Return whether a value can fit the type of its field. Report a value that is certain not to fit."""
    literal, strict_field = value.literal, replace(field, fallback=None)
    error, place = "", value.span
    if literal is not None:
        error = literal_error(strict_field, literal)
    elif value.template is not None and len(known := type_.values or ()) == 1 and field.item.word != "enum":
        place = locate_config_value(value.template, scope.settings) or place
        error = coerce(strict_field, known[0]).error if field.fallback is None else ""
    if not error and value.is_computed and not _accepts_type(field.type, type_):
        error = f"`{field.name}` is {KINDS[type_.kind]}; expected {_EXPECTED[field.type.kind]}"
    if error:
        scope.report(place, "type", error)
    elif literal is not None:
        _check_references(scope, field.item.word, value, scope.infer_value(value))
    return not error


def _accepts_type(expected: Type, given: Type) -> bool:
    """Whether a field may accept a value of a given type. Text is always accepted, because a run can convert it."""
    if "any" in (expected.kind, given.kind) or given.kind in ("none", "text", expected.kind):
        items = expected.item, given.item
        return given.kind != "list" or None in items or _accepts_type(*cast("tuple[Type, Type]", items))
    return {expected.kind, given.kind} == {"record", "map"}


def check_declarations(
    checker: ReferenceChecker,
    document: source.Document,
    label: str,
    fields: tuple[Field, ...],
    settings: Settings,
    inputs: Type | None = None,
    reads: set[str] | None = None,
) -> Type:
    """Check declared inputs or state, and return their record type; an invalid field has the type `any`.

    `label` is `inputs` or `state`. The names that the declarations read are added to `reads`.
    """
    names = {"config": settings.config, "inputs": inputs or fields_type(fields, label)}
    scope = Scope(
        checker, settings, names, checker.problems, owners=ScopeOwners("", library_path(document.source), settings.name)
    )
    scope.record_view(document.frontmatter.key_span(label), label)
    choices = {
        field.name: scope.infer(field.item.choices) for field in fields if isinstance(field.item.choices, Template)
    }
    for field in fields:
        if label == "state" and field.required:
            optional = f"{field.name}?{'(array)' if field.is_list else ''}: …"
            hint = f"add a `default:`, or write `{optional}` if the variable is absent until a phase sets it"
            scope.report(field.span, "missing-default", f"`{field.name}` has no initial value", hint)
        if field.name in choices and choices[field.name].kind in ("text", "number", "boolean"):
            template, kind = cast("Template", field.item.choices), KINDS[choices[field.name].kind]
            scope.report(template.text.at(0), "enum", f"`values` of `{field.name}` is {kind}", "expected a list")
        if field.default is not None and field.default.is_computed:
            hint = f"add `or` and another value, or write `{field.name}?` if it may be absent"
            if field.is_optional:
                type_ = scope.infer_value(field.default)
            else:
                type_ = scope.infer_required_value(field.default, "default", hint=hint)
                scope.check_record_fields(
                    field.default.span, type_, field.type, f"`{field.name}`", must_be_present=True
                )
            check_field_value(scope, field, field.default, type_)
        elif field.default is not None:
            _check_references(scope, field.item.word, field.default, scope.infer_value(field.default))
        for template in find_templates(field.item) if field.item.kind == "record" else ():
            scope.infer(template)
    if reads is not None:
        reads |= scope.reads
    types = fields_type(fields, label, choices).fields
    node = document.frontmatter.get(label)
    entries = node.entries if isinstance(node, source.Mapping) else {}
    declarations = {identifier(_NOTATION.sub("", key)): entry.value for key, entry in entries.items()}
    words = {identifier(field.name): field.item.word for field in fields}
    for name, declaration in declarations.items():
        if name not in types or not isinstance(declaration, source.Mapping):
            continue
        known = [str(value) for value in types[name].values or ()] if types[name].tunable else []
        for key in ("default", "fallback"):  # a literal must be among the `values` that a template computes
            value = declaration.get(key)
            literal = value.value if isinstance(value, source.Scalar) and isinstance(value.value, str) else ""
            if value is not None and known and literal not in ("", *known) and "{{" not in literal:
                scope.report(value.span, "default", f"`{key}` is `{literal}`", suggest(literal, known))
        fallback = declaration.get("fallback")
        if isinstance(fallback, source.Scalar):
            scope.lookups.check_reference(words.get(name, ""), str(fallback.value), fallback.span)
    return record({**dict.fromkeys(declarations, ANY), **types}, label)


def find_empty_texts(label: str, fields: Iterable[Field]) -> frozenset[str]:
    """Return the inputs or variables whose default is an empty text."""
    defaults = {field.name: field.default.literal for field in fields if field.default is not None}
    empty = (name for name, text in defaults.items() if isinstance(text, str) and not text.strip())
    return frozenset(f"{label}.{identifier(name)}" for name in empty)


def check_config(checker: ReferenceChecker, checks: tuple[Check, ...], settings: Settings) -> None:
    """Report each failed check at the config value that the check reads.

    A check can read `config` and `roles`, which lists the written forms of all roles, with and without variants. If
    several config files set the value, the problem is placed in the file with the highest precedence.
    """
    problems, roles = checker.problems, checker.lookups.role_forms() if checks else []
    for check in checks:
        problem_count = len(list(problems))
        types = {"config": settings.config, "roles": list_of(TEXT)}
        scope = Scope(checker, settings, types, problems, owners=ScopeOwners(config=settings.name))
        scope.record_view(check.span, "")
        scope.check_condition(check.must)
        if check.say is not None:
            scope.infer_required_value(check.say, "say")
        if check.must is None or check.say is None or settings.data is None or len(list(problems)) > problem_count:
            continue
        for mode, data in (("", settings.data), *settings.modes.items()):
            names = {"config": data, "roles": roles}
            try:
                if not check.must.render(names):
                    place = locate_config_value(check.must, settings, mode) or check.span
                    problems.report(place, "check", str(check.say.evaluate(names)))
                    break
            except RenderError as error:
                problems.report(check.span, "check", f"this check cannot be evaluated: {error.message}")
                break


def locate_config_value(template: Template, settings: Settings, mode: str = "") -> Span | None:
    """Return the location of a config value that the template reads. None if no file sets such a value.

    Searches the file with the highest precedence first. In each file, the values of the mode come first.
    """
    inner: set[int] = set()
    paths: list[list[str]] = []  # the longest paths below `config`, in source order
    for node in path_nodes(template.expression) if template.expression is not None else ():
        if isinstance(node, nodes.Getattr | nodes.Getitem) and id(node) not in inner:
            inner.update(map(id, path_nodes(node)))
            owner, *path = fact(node).path or ("",)
            paths += [path] if owner == "config" and path else []
    for layer in settings.layers:
        for path in (*([MODES, identifier(mode), *path] for path in paths if mode), *paths):
            value: source.Node | None = layer
            for name in path:
                entries = value.entries if isinstance(value, source.Mapping) else {}
                value = next((entry.value for key, entry in entries.items() if identifier(key) == name), None)
            if value is not None:
                return value.span
    return None
