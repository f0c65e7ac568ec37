"""How inputs and state are declared: `name: type, description`, or a mapping with `type` or `shape` and more.

Reads YAML nodes and reports what is wrong where it stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from skillrun.language.diagnostics import Problems, allowed, did_you_mean
from skillrun.language.fields import TYPES, Field, coerce
from skillrun.language.picoschema import (
    KeyNotation,
    ShapeSpec,
    Type,
    is_template,
    parse_shape,
    read_choices,
    read_key,
    read_type,
)
from skillrun.language.schemas import shown
from skillrun.language.source import Mapping, Node, Scalar, Sequence, plain

KEYS: Final = ("type", "shape", "values", "default", "description", "fallback")


def input_type(node: Node, problems: Problems) -> tuple[Field, ...]:
    """The fields that `inputs:` or `state:` declares; one that is wrong is left out and reported."""
    if not isinstance(node, Mapping):
        problems.report(
            node.span, "type", "expected a mapping of names to types", "for example `request: string, what to do`"
        )
        return ()
    fields: dict[str, Field] = {}
    for entry in node.entries.values():
        key = read_key(entry.key, problems)
        if key is None:
            continue
        found = (
            _long(key, entry.value, problems)
            if isinstance(entry.value, Mapping)
            else _short(key, entry.value, problems)
        )
        if found and found.name.replace("-", "_") in fields:
            problems.report(entry.key.span, "duplicate", f"`{found.name}` is there already")
        elif found:
            fields[found.name.replace("-", "_")] = found
    return tuple(fields.values())


def _short(key: KeyNotation, node: Node, problems: Problems) -> Field | None:
    """`name: type, description`, and `name(enum): [a, b]`."""
    if key.form == "enum":
        values = read_choices(node, problems)
        return _field(key, Type("enum", values=values), problems) if values is not None else None
    if not isinstance(node, Scalar) or node.text is None:
        hint = "write `name: string, what it is`, or `name: {type: string, default: …}`"
        problems.report(node.span, "type", f"`{key.name}` has no type", hint)
        return None
    found = read_type(node.text, TYPES, problems)
    if found and found.kind == "enum":
        problems.report(
            node.span, "enum", f"`{key.name}` has no values", f"write `{key.name}: {{type: enum, values: [a, b]}}`"
        )
        return None
    return _field(key, found, problems) if found else None


def _long(key: KeyNotation, node: Mapping, problems: Problems) -> Field | None:
    """`name: {type: …, default: …, description: …}`."""
    for name, entry in node.entries.items():
        if name not in KEYS:
            record = "" if "type" in node.entries or "shape" in node.entries else "a record stands under `shape:`; "
            hint = did_you_mean(name, KEYS) or record + allowed(KEYS)
            problems.report(entry.key.span, "unknown-key", f"unknown key `{name}`", hint)
    if key.form not in ("", "array"):
        hint = (
            f"write `{key.name}: {{type: enum, values: …}}`"
            if key.form == "enum"
            else f"write `{key.name}: {{shape: …}}`"
        )
        problems.report(key.span, "type", f"`({key.form})` does not go with `type:`, `shape:` and the like", hint)
        return None
    kind, shape = node.get("type"), node.get("shape")
    if kind is not None and shape is not None:
        problems.report(
            node.entries["shape"].key.span, "type", "`shape` stands in place of `type`", "leave out one of them"
        )
        return None
    if shape is not None:
        spec = parse_shape(shape, problems)
        if spec is not None and spec.task:
            problems.report(shape.span, "shape", "only a protocol's step takes `task`", "write out the record's fields")
            return None
        if spec is None:
            return None
        return _field(key, spec.type, problems, node, spec)
    if kind is None:
        if all(name in KEYS for name in node.entries):
            problems.report(key.span, "missing-key", f"`{key.name}` has no `type`", allowed(TYPES))
        return None
    found = _long_type(key, kind, node, problems)
    return _field(key, found, problems, node) if found else None


def _long_type(key: KeyNotation, kind: Node, node: Mapping, problems: Problems) -> Type | None:
    if not isinstance(kind, Scalar) or kind.text is None:
        problems.report(
            kind.span, "unknown-type", "`type` is the name of a type; a record stands under `shape:`", allowed(TYPES)
        )
        return None
    found = read_type(kind.text, TYPES, problems)
    values = node.get("values")
    if found is None:
        return None
    if found.kind != "enum":
        if values is not None:
            problems.report(
                node.entries["values"].key.span,
                "enum",
                "`values` belongs to `type: enum`",
                f"the type is `{found.kind}`",
            )
        return found
    if values is None:
        problems.report(
            kind.span, "missing-key", f"`{key.name}` has no `values`", "write `values: [a, b]` beside `type: enum`"
        )
        return None
    choices = read_choices(values, problems)
    return Type("enum", values=choices, description=found.description) if choices is not None else None


def _field(
    key: KeyNotation, found: Type, problems: Problems, node: Mapping | None = None, shape: ShapeSpec | None = None
) -> Field:
    """The field with what stands beside its type; its default and fallback are checked where they are literal."""
    default, fallback, description = (
        node.get(name) if node else None for name in ("default", "fallback", "description")
    )
    words = found.description or key.description
    field = Field(
        name=key.name,
        required=not key.optional and default is None,
        type="object" if shape else found.kind,
        array=key.form == "array",
        values=found.values,
        lower=found.lower,
        upper=found.upper,
        shape=shape,
        default=default,
        fallback=None,
        description=words.value if words else "",
        span=key.span,
    )
    if description is not None:
        if isinstance(description, Scalar) and description.text is not None:
            field = replace(field, description=description.text.value)
        else:
            problems.report(description.span, "type", "`description` is text")
    if fallback is not None and _fits(replace(field, array=False), fallback, "fallback", problems):
        field = replace(field, fallback=plain(fallback))
    if default is not None:
        _check_default(field, default, problems)
    return field


def _check_default(field: Field, default: Node, problems: Problems) -> None:
    if isinstance(default, Scalar) and default.value is None:
        problems.report(default.span, "default", "the default is empty", f"leave it out and write `{field.name}?`")
    elif field.array and isinstance(default, Sequence):
        for item in default.items:
            _fits(replace(field, array=False), item, "default", problems)
    elif field.array and not _computed(default):
        problems.report(default.span, "default", "the default of a list is a list", "write `[…]`")
    else:
        _fits(field, default, "default", problems)


def _fits(field: Field, node: Node, name: str, problems: Problems) -> bool:
    """Report a literal value that is not of the field's type; text is no number here."""
    if _computed(node):
        return True
    value = plain(node)
    if isinstance(value, str) and (field.type in ("integer", "number", "boolean") or field.shape):
        wanted = "a mapping" if field.shape else f"of type `{field.type}`"
        problems.report(node.span, "default", f"`{name}` is {shown(value)}; it has to be {wanted}")
        return False
    error = coerce(replace(field, fallback=None), value).error
    if error:
        problems.report(node.span, "default", error.replace(f"`{field.name}`", f"`{name}`", 1))
    return not error


def _computed(node: Node) -> bool:
    """Whether a template is somewhere in the value."""
    match node:
        case Scalar():
            return node.text is not None and is_template(node.text.value)
        case Sequence():
            return any(_computed(item) for item in node.items)
        case Mapping():
            return any(_computed(entry.value) for entry in node.entries.values())
