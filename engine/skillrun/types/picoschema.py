"""Parses Picoschema, the shape notation: `name: type, description`, `name?`, `name(array)`, `name(enum)` and more.

The parser reads YAML nodes, and reports problems at their positions. The notation is Dotprompt's, extended by ranges
(`integer 0..100`). Values must not have fields that the shape does not declare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from typing import Any, Final

from skillrun.syntax.diagnostics import Problems, Suggestion, allowed_hint, did_you_mean
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Span, Text
from skillrun.syntax.yaml import report_rewritten_numbers
from skillrun.templates.expressions import Template, compile_string
from skillrun.types.json_schema import to_json_schema
from skillrun.types.schemas import Shape
from skillrun.types.types import ANY, BOOLEAN, INTEGER, NUMBER, TEXT, Names, Type, identifier, list_of, one_of

TYPES: Final[AbstractMapping[str, Type]] = {
    "string": TEXT,
    "integer": INTEGER,
    "number": NUMBER,
    "boolean": BOOLEAN,
    "any": ANY,
    "enum": TEXT._replace(values=()),  # the values are parsed separately
    "path": TEXT._replace(form="path"),
    "slug": TEXT._replace(form="slug"),
    "model": TEXT._replace(form="model"),
    "member": TEXT._replace(form="member"),
}
"""The types of single values, keyed by their names in the notation."""
SCALARS: Final = ("string", "integer", "number", "boolean", "any")
FORMS: Final = ("array", "enum", "object")
TASK: Final = "task"
LONGEST: Final = {"array": 1_000, "string": 100_000}  # items, characters

_KEY: Final = re.compile(
    r"(?P<name>[^\W\d][\w-]*)(?P<optional>\?)?(?:\((?P<form>[^,()]*)(?:,(?P<description>.*))?\))?", re.DOTALL
)
_TYPE: Final = re.compile(
    r"\s*+(?P<type>[^\s,]*+)\s*+(?P<range>(?:[^\s,]++|\s++(?=[^\s,]))*+)\s*+(?:,(?P<description>.*))?", re.DOTALL
)
_RANGE: Final = re.compile(r"(?P<lower>-?\d+(?:\.\d+)?)\s*\.\.\s*(?P<upper>-?\d+(?:\.\d+)?)")


def find_templates(type_: Type) -> Iterator[Template]:
    """Yield the templates inside a type. Descriptions without tags are left out."""
    about = type_.about if type_.about and not type_.about.is_constant else None
    yield from (each for each in (type_.choices, *(type_.values or ()), about) if isinstance(each, Template))
    for inner in (*type_.fields.values(), *([type_.item] if type_.item is not None else [])):
        yield from find_templates(inner)


@dataclass(frozen=True)
class ShapeSpec:
    """A shape as an author wrote it.

    `is_task` is set if the author wrote `task`, which stands for the shape that the caller of a protocol provides. If a
    template declares the shape as its `output`, `name` is the template's name.
    """

    span: Span
    type: Type
    is_task: bool = False
    name: str = ""
    templates: tuple[Template, ...] = field(default=(), repr=False)

    def resolve(self, names: Names) -> Shape:
        """Return the shape with its templates rendered. Raises RenderError."""
        return Shape(to_json_schema(self.type, names))

    @property
    def static_schema(self) -> dict[str, Any]:
        """The JSON Schema without rendered templates. In it, an enum with templates accepts any text."""
        return to_json_schema(self.type, None)


def parse_shape(node: Node, problems: Problems) -> ShapeSpec | None:
    """Parse the value of `output:` or `shape:`. If it is invalid, report problems and return None."""
    if isinstance(node, Scalar) and node.value == TASK:
        return ShapeSpec(node.span, ANY, is_task=True)
    if not isinstance(node, Mapping):
        hint = "write `{answer: string}`, one line per field"
        problems.report(node.span, "shape", "a shape must be a mapping of names to types", hint)
        return None
    shape = _record(node, problems)
    return ShapeSpec(node.span, shape, templates=tuple(find_templates(shape))) if shape else None


@dataclass(frozen=True)
class KeyNotation:
    """A key in the notation `name?(form, description)`. `length` is the length of a list, as in `name(array 0..8)`."""

    name: str
    optional: bool
    form: str
    description: Template | None
    span: Span
    length: tuple[int, int] | None = None


def read_key(key: Scalar, problems: Problems) -> KeyNotation | None:
    match = _KEY.fullmatch(key.text.value) if key.text else None
    if key.text is None or match is None:
        hint = "write `name`, `name?` for an optional field, `name(array)`, or `name?(array, description)`"
        problems.report(key.span, "name", f"`{key.value}` is not a valid field", hint)
        return None
    form, _, written = (match["form"] or "").strip().partition(" ")
    if match["form"] is not None and form not in FORMS:
        hint = did_you_mean(form, FORMS) or allowed_hint(f"({each})" for each in FORMS)
        problems.report(key.text.at(match.start("form")), "unknown-type", f"unknown form `({form})`", hint)
        return None
    length = None
    if written.strip():
        length = _length(written.strip(), form, key.text.at(match.start("form")), problems)
        if length is None:
            return None
    description = _description(key.text, match, problems)
    return KeyNotation(match["name"], bool(match["optional"]), form, description, key.span, length)


def _length(written: str, kind: str, span: Span, problems: Problems) -> tuple[int, int] | None:
    """Parse the length of a list or text, such as `0..8`. If it is invalid, report a problem and return None."""
    limits = _RANGE.fullmatch(written)
    lower, upper = (each if each.isdecimal() else "" for each in limits.groups()) if limits else ("", "")
    hint = "write the minimum and maximum length, such as `0..8`"
    if not lower or not upper or kind not in ("array", "string"):
        problems.report(span, "range", f"`{written}` is not a valid length of `{kind}`", hint)
    elif int(lower) > int(upper) or int(upper) > LONGEST[kind]:
        message = f"the length `{written}` is empty, or exceeds {LONGEST[kind]:,}"
        problems.report(span, "range", message, hint)
    else:
        return int(lower), int(upper)
    return None


def read_type(text: Text, types: tuple[str, ...], problems: Problems, more: str = "") -> Type | None:
    """Parse a type with an optional range and an optional description, such as `integer 0..100, description`.

    The type must be one of `types`. `more` is added to the hint that lists the types.
    """
    match = _TYPE.fullmatch(text.value)
    assert match is not None, "the pattern matches every text"
    kind = match["type"]
    if kind not in types:
        hint = did_you_mean(kind, types) or f"{allowed_hint(types)}{more}"
        if kind in FORMS:
            hint = f"write `name({kind}): …`"
        problems.report(text.at(match.start("type")), "unknown-type", f"unknown type `{kind}`", hint)
        return None
    description = _description(text, match, problems)
    if not match["range"]:
        limits = _RANGE.match(match["description"].strip()) if description is not None else None
        if limits is not None and kind in ("integer", "number"):  # the range is only a description for the model
            span, message = text.at(match.start("description")), f"`{limits[0]}` is a description here, not a range"
            hint = f"write `{kind} {limits[0]}`, without the comma"
            problems.report(span, "range", message, hint, "warning")
        return TYPES[kind]._replace(about=description)
    span = text.at(match.start("range"))
    if kind == "string" and _RANGE.fullmatch(match["range"].strip()):
        length = _length(match["range"].strip(), kind, span, problems)
        return TEXT._replace(length=length, about=description) if length is not None else None
    limits = _RANGE.fullmatch(match["range"])
    is_fraction = "." in (limits["lower"] + limits["upper"] if limits else "")
    if limits is None or kind not in ("integer", "number") or (kind == "integer" and is_fraction):
        hint = "write `integer 0..100`, `number 0..0.5` or `string 1..200`; put a description after a comma"
        message = f"`{match['range']}` is not a valid range of `{kind}`"
        problems.report(span, "range", message, hint)
        return None
    lower, upper = (float(each) if "." in each else int(each) for each in limits.groups())
    if lower > upper:
        hint = Suggestion.of(limits[0], f"{limits['upper']}..{limits['lower']}")
        problems.report(span, "range", f"the range `{match['range']}` is empty", hint)
        return None
    return TYPES[kind]._replace(bounds=(lower, upper), about=description)


def read_choices(node: Node, problems: Problems) -> Type | None:
    """Parse the values of an enum: a list, or a template that yields one."""
    if isinstance(node, Scalar) and node.text is not None and _is_template(node.text):
        template = compile_string(node.text, problems)
        return TEXT._replace(choices=template) if template is not None else None
    if not isinstance(node, Sequence) or not node.items:
        hint = "write `[A, B]`, or a template that yields a list"
        problems.report(node.span, "enum", "the values of an enum must be a list", hint)
        return None
    report_rewritten_numbers(node, problems)
    values: list[Any] = []
    seen: set[Any] = set()
    for item in node.items:
        if not isinstance(item, Scalar) or isinstance(item.value, bool) or item.value is None:
            hint = 'write text or a number; quote words like "true"'
            problems.report(item.span, "enum", "this is not a valid enum value", hint)
            return None
        if item.value in seen:
            problems.report(item.span, "duplicate", f"the value `{item.value}` occurs twice", "remove one")
        if item.text and _is_template(item.text):
            values.append(compile_string(item.text, problems))
        else:
            values.append(item.value)
            seen.add(item.value)
    return one_of(values)


def _is_template(text: Text) -> bool:
    return "{{" in text.value or "{%" in text.value


def _record(node: Mapping, problems: Problems) -> Type | None:
    """Parse a record, which is a mapping of names to types. Return None if a field is invalid."""
    if not node.entries:
        problems.report(node.span, "shape", "the shape has no fields")
        return None
    fields: dict[str, Type] = {}
    names: dict[str, str] = {}  # the names as written, keyed by the names that expressions use
    complete = True
    for entry in node.entries.values():
        if isinstance(entry.value, Scalar) and entry.value.value is None:
            hint = 'inside `{ }`, a description with a comma needs quotes: `name: "string, what it is"`'
            problems.report(entry.key.span, "shape", f"`{entry.key.value}` has no type", hint)
            complete = False
            continue
        key = read_key(entry.key, problems)
        inner = _value(key, entry.value, problems) if key else None
        if key is None or inner is None:
            complete = False
        elif names.setdefault(identifier(key.name), key.name) in fields:
            problems.report(entry.key.span, "duplicate", f"`{key.name}` already exists")
            complete = False
        else:
            fields[key.name] = inner.maybe() if key.optional else inner
    return Type("record", fields) if complete else None


def _value(key: KeyNotation, node: Node, problems: Problems) -> Type | None:
    """Parse the type after a key."""
    if key.form == "enum":
        choices = read_choices(node, problems)
        return None if choices is None else choices._replace(about=key.description)
    type_: Type | None = None
    if isinstance(node, Mapping):
        type_ = _record(node, problems)
        field = node.get("type") if len(node.entries) == 1 else None
        if isinstance(field, Scalar) and field.value in SCALARS:  # a text in JSON Schema and in workflow inputs
            written = f"{key.name}({key.form})" if key.form == "array" else key.name
            hint = f"write `{written}: {field.value}`; if a record is meant, describe its field: "
            hint += f'`type: "{field.value}, …"`'
            problems.report(node.span, "shape", f"`{key.name}` is a record with a field `type`", hint, "warning")
    elif key.form == "object" or not isinstance(node, Scalar) or node.text is None:
        hint = "write `name: string`, `name: {…}`, or `name(enum): [A, B]`"
        problems.report(node.span, "shape", f"this is not a valid type for `{key.name}`", hint)
    else:
        type_ = read_type(node.text, SCALARS, problems)
    if type_ and key.form == "array":
        return list_of(type_)._replace(length=key.length, about=key.description)
    return type_._replace(about=key.description) if type_ and key.description else type_


def _description(text: Text, match: re.Match[str], problems: Problems) -> Template | None:
    """Return the compiled description of a key or type, or None if the description is missing or invalid."""
    written = match["description"] or ""
    start = match.start("description") + len(written) - len(written.lstrip())
    part = text.substring(start, start + len(written.strip())) if written.strip() else None
    return compile_string(part, problems) if part is not None else None
