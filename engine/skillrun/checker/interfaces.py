"""What is declared and what is handed over: inputs and state, members and seats, what `with` gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from skillrun.checker.comparisons import KINDS
from skillrun.checker.config_checks import config_place
from skillrun.checker.names import MEMBER, VARIANT, of_fields
from skillrun.checker.scope import Reached, Scope
from skillrun.definitions.definitions import Protocol, Step
from skillrun.library.configuration import places_of_second
from skillrun.library.lookups import Settings
from skillrun.library.symbols import Homes, home_of
from skillrun.syntax import source as nodes
from skillrun.syntax.diagnostics import Problems, suggest
from skillrun.templates.expressions import Template, Value
from skillrun.types.fields import Field, coerce, written_error
from skillrun.types.picoschema import templates_of
from skillrun.types.types import ANY, Type, identifier, record

_EXPECTED: Final = {
    "list": "a list", "record": "a record", "number": "a number", "boolean": "true or false", "text": "text",
}  # fmt: skip
_NOTATION: Final = re.compile(r"[?(].*", re.DOTALL)


def check_beginnings(state: Iterable[Field], problems: Problems) -> None:
    """Report the variables that nothing sets up: no run could begin."""
    for field in state:
        if field.required:
            message = f"`{field.name}` has no value to begin with"
            optional = f"{field.name}?{'(array)' if field.array else ''}: …"
            hint = f"write `{optional}` where it is absent until a phase sets it, or give it a `default:`"
            problems.report(field.span, "missing-default", message, hint)


def member_of(members: Type) -> Type:
    """A member; where every one that can be is known to have a variant, so has it a lens."""
    known = _named(members)
    return VARIANT if known and all(isinstance(member, str) and ":" in member for member in known) else MEMBER


def check_members(scope: Scope, step: Step, members: Type) -> None:
    """Report members that there are not, where they are written: in the step, or in the config."""
    if step.main is None:
        return
    _check_named(scope, "member", step.main, members)
    if step.main.items == ():
        hint = "write `role`, or a list such as `[role:variant, role@model]`"
        scope.report(step.main.span, "type", f"`{step.verb}` seats nobody", hint)


def _check_named(scope: Scope, kind: str, value: Value, type_: Type) -> None:
    """Report the members or models that a value can name and that there are not."""
    look = _look(scope, kind)
    for written in _named(type_) if look is not None else ():
        if look is not None and written is not None:
            for span in scope.lookups.places(value, written, scope.settings):
                look(written, span)


def _look(scope: Scope, kind: str) -> Callable[[str, nodes.Span], None] | None:
    """What reports that there is no such member or model, for a value of that kind."""
    return {"member": scope.lookups.member, "model": scope.lookups.model}.get(kind)


def _named(members: Type) -> list[Any]:
    """Every member that a value can name."""
    named: list[Any] = []
    for value in members.values or ():
        named.extend(value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value])
    return named


def check_seats(scope: Scope, step: Step, members: Type, protocol: Protocol) -> None:
    """Report members that do not fit the seats, where both are known."""
    value, seats, name = step.main, protocol.seats, protocol.name
    for several in members.values or () if value is not None else ():
        assert value is not None
        if isinstance(several, Mapping):
            unknown = [seat for seat in several if seat not in seats.names]
            for seat in several.keys() & value.keys.keys():
                scope.lookups.mention(value.keys[seat], "seat", f"skills/protocols/{name}.md", seat)
            for seat in unknown:
                span = value.keys.get(seat, value.span)
                scope.lookups.unknown(span, "seat", seat, seats.names, f"`{name}` takes a list of members")
            if not unknown and (empty := [seat for seat in seats.names if seat not in several]):
                scope.report(value.span, "seats", f"nobody sits on `{empty[0]}` of the protocol `{name}`")
        elif not seats.names:
            count = len(several) if isinstance(several, list) else 1
            if count and not seats.least <= count <= seats.most:
                message = f"the protocol `{name}` seats {seats.least} to {seats.most} members; here are {count}"
                scope.report(value.span, "seats", message)


def check_twice(scope: Scope, step: Step, members: Type) -> None:
    """Report a list that names one member twice, where it is written: in the step, or in the config."""
    for several in members.values or () if step.main is not None else ():
        assert step.main is not None
        listed = several if isinstance(several, list) else []
        for member in [member for place, member in enumerate(listed) if member in listed[:place]][:1]:
            here = [item.span for item in step.main.items or () if item.literal == member][1:2]
            spans = here or places_of_second(scope.settings.layers, several, member) or [step.main.span]
            for span in spans:
                hint = "a variant or a model tells members apart"
                scope.report(span, "duplicate-member", f"`{member}` is seated twice", hint)


def check_given(
    scope: Scope,
    step: Step,
    fields: Mapping[str, Field],
    label: str,
    types: Type,
    *,
    all_of_them: bool = True,
) -> None:
    """Check what `with` hands over against what is declared; `all_of_them`: whether nothing required may lack.

    `types` are those of what is handed over: of what the config has, the value is known.
    """
    value = step.values.get("with", Value(step.span))
    given = value.entries or {}
    named = set(map(identifier, given))
    for name, handed in given.items():
        field = fields.get(identifier(name))
        if field is not None:
            check_fits(scope, field, handed, types.fields.get(identifier(name), ANY))
        else:
            hint = suggest(name, fields) or "it takes none"
            has = "has an" if label.startswith("none") else "has no"
            scope.report(value.keys[name], "unknown-input", f"{label} {has} input `{name}`", hint)
    for name, field in fields.items() if all_of_them else ():
        if field.required and field.default is None and name not in named:
            hint = f"give it in `with: {{{field.name}: …}}`"
            scope.report(step.span, "missing-input", f"{label} needs the input `{field.name}`", hint)


def mention_given(scope: Scope, step: Step, fields: Iterable[Field], home: str) -> None:
    """Note which inputs of a protocol or workflow `with` names."""
    value, known = step.values.get("with"), {identifier(field.name) for field in fields}
    for name, span in value.keys.items() if value is not None else ():
        if identifier(name) in known:
            scope.lookups.mention(span, "input", home, identifier(name))


def check_fits(scope: Scope, field: Field, value: Value, type_: Type) -> bool:
    """Whether a value can be one of its field's type, as far as it is known; a problem where it cannot."""
    literal, own = value.literal, replace(field, fallback=None)
    error, place = "", value.span
    if literal is not None:
        error = written_error(own, literal)
    elif value.template is not None and len(known := type_.values or ()) == 1 and field.item.word != "enum":
        place = config_place(value.template, scope.settings) or place
        error = coerce(own, known[0]).error if field.fallback is None else ""
    if not error and value.computed and not _accepts(field.type, type_):
        error = f"`{field.name}` is {KINDS[type_.kind]}; expected {_EXPECTED[field.type.kind]}"
    if error:
        scope.report(place, "type", error)
    elif literal is not None:
        _check_named(scope, field.item.word, value, scope.value(value))
    return not error


def _accepts(expected: Type, given: Type) -> bool:
    """Whether a value of that kind can be taken; a text may be one that is read as what is expected."""
    if "any" in (expected.kind, given.kind) or given.kind in ("none", "text", expected.kind):
        items = expected.item, given.item
        return given.kind != "list" or None in items or _accepts(*cast("tuple[Type, Type]", items))
    return {expected.kind, given.kind} == {"record", "map"}


def declared(
    reached: Reached,
    document: nodes.Document,
    label: str,
    fields: tuple[Field, ...],
    settings: Settings,
    inputs: Type | None = None,
    reads: set[str] | None = None,
) -> Type:
    """The record of the inputs or the state; what is declared wrongly can be anything. `reads` gets what it reads."""
    names = {"config": settings.config, "inputs": inputs or of_fields(fields, label)}
    scope = Scope(reached, settings, names, reached.problems, homes=Homes("", home_of(document.source), settings.name))
    scope.look_around(document.front.place(label), label)
    choices = {
        field.name: scope.infer(field.item.choices) for field in fields if isinstance(field.item.choices, Template)
    }
    for field in fields:
        if field.name in choices and choices[field.name].kind in ("text", "number", "boolean"):
            template, kind = cast("Template", field.item.choices), KINDS[choices[field.name].kind]
            scope.report(template.text.at(0), "enum", f"the values of `{field.name}` are {kind}", "expected a list")
        if field.default is not None and field.default.computed:
            check_fits(scope, field, field.default, scope.value(field.default))
        elif field.default is not None:
            _check_named(scope, field.item.word, field.default, scope.value(field.default))
        for template in templates_of(field.item) if field.item.kind == "record" else ():
            scope.infer(template)
    if reads is not None:
        reads |= scope.reads
    types = of_fields(fields, label, choices).fields
    node = document.front.get(label)
    kinds = {identifier(field.name): field.item.word for field in fields}
    written: dict[str, nodes.Node] = {}
    if isinstance(node, nodes.Mapping):
        written = {identifier(_NOTATION.sub("", key)): entry.value for key, entry in node.entries.items()}
    for name, declaration in written.items():
        if name in types and isinstance(declaration, nodes.Mapping):
            _check_choices(reached, types[name], declaration)
            fallback = declaration.get("fallback")
            if isinstance(fallback, nodes.Scalar) and (look := _look(scope, kinds.get(name, ""))):
                look(str(fallback.value), fallback.span)
    return record({**dict.fromkeys(written, ANY), **types}, label)


def _check_choices(reached: Reached, type_: Type, declaration: nodes.Mapping) -> None:
    """The literal default and fallback are among the values that a template yields."""
    known = [str(value) for value in type_.values or ()] if type_.tunable else []
    for name in ("default", "fallback"):
        node = declaration.get(name)
        literal = node.value if isinstance(node, nodes.Scalar) and isinstance(node.value, str) else ""
        if node is not None and known and literal not in ("", *known) and "{{" not in literal:
            reached.problems.report(node.span, "default", f"`{name}` is `{literal}`", suggest(literal, known))
