"""Picoschema, the notation of shapes: `name: type, description`, `name?`, `name(array)`, `name(enum)`, `name(object)`.

Reads YAML nodes and reports what is wrong where it stands. The notation is Dotprompt's, with ranges (`integer 0..100`);
shapes are closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skillrun.language.templates.expressions import RenderError, Template, compile_string
from skillrun.language.templates.limits import Fault
from skillrun.language.text.diagnostics import Problems, allowed, did_you_mean
from skillrun.language.text.source import Mapping, Node, Scalar, Sequence, Span, Text
from skillrun.language.types.schemas import Shape

SCALARS: Final = ("string", "integer", "number", "boolean", "any")
FORMS: Final = ("array", "enum", "object")
TASK: Final = "task"
LONGEST: Final = {"array": 1_000, "string": 100_000}  # items, characters

Names = AbstractMapping[str, Any]

_KEY: Final = re.compile(
    r"(?P<name>[^\W\d][\w-]*)(?P<optional>\?)?(?:\((?P<form>[^,()]*)(?:,(?P<description>.*))?\))?", re.DOTALL
)
_TYPE: Final = re.compile(
    r"\s*+(?P<type>[^\s,]*+)\s*+(?P<range>(?:[^\s,]++|\s++(?=[^\s,]))*+)\s*+(?:,(?P<description>.*))?", re.DOTALL
)
_RANGE: Final = re.compile(r"(?P<lower>-?\d+(?:\.\d+)?)\s*\.\.\s*(?P<upper>-?\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Type:
    """A type as written: a scalar with its range, an enum, a list or a record. Texts in it may be templates.

    Of a text and of a list, `lower` and `upper` are how long it may be: in characters, in items.
    """

    kind: str
    lower: float | None = None
    upper: float | None = None
    values: tuple[Any, ...] | Template | None = None
    fields: tuple[tuple[str, bool, Type], ...] = ()  # name, optional, type
    item: Type | None = None
    description: Template | None = None

    def schema(self, names: Names | None) -> dict[str, Any]:
        """JSON Schema of it; without `names`, values that a template gives are not told."""
        schema = self._body(names)
        if (words := self.description) is not None:
            plain = names is None or words.constant
            schema["description"] = words.text.value if plain else words.render_text(names or {})
        return schema

    def templates(self) -> Iterator[Template]:
        values = [self.values] if isinstance(self.values, Template) else self.values or ()
        yield from (each for each in values if isinstance(each, Template))
        if self.description is not None and not self.description.constant:
            yield self.description
        for inner in (*(each for _, _, each in self.fields), *([self.item] if self.item else [])):
            yield from inner.templates()

    def choices(self, names: Names | None) -> list[Any] | None:
        """The values of an enum; None where only `names` tell. Raises RenderError when its template yields none."""
        if isinstance(self.values, Template):
            return _yielded(self.values.render(names), self.values.text.at(0)) if names is not None else None
        if names is None and any(isinstance(each, Template) for each in self.values or ()):
            return None
        return [each.render_text(names or {}) if isinstance(each, Template) else each for each in self.values or ()]

    def _body(self, names: Names | None) -> dict[str, Any]:
        match self.kind:
            case "any":
                return {}
            case "array":
                items = self.item.schema(names) if self.item else {}
                return {"type": "array", "items": items} | self._between("minItems", "maxItems")
            case "enum":
                choices = self.choices(names)
                if choices is not None and not all(isinstance(each, str) for each in choices):
                    return {"enum": choices}
                return {"type": "string"} | ({} if choices is None else {"enum": choices})
            case "object":
                return {
                    "type": "object",
                    "properties": {name: inner.schema(names) for name, _, inner in self.fields},
                    "required": [name for name, optional, _ in self.fields if not optional],
                    "additionalProperties": False,
                }
        numeric = self.kind in ("integer", "number")
        bounds = self._between("minimum", "maximum") if numeric else self._between("minLength", "maxLength")
        return {"type": self.kind if self.kind in SCALARS else "string"} | bounds

    def _between(self, least: str, most: str) -> dict[str, Any]:
        return {name: bound for name, bound in ((least, self.lower), (most, self.upper)) if bound is not None}


@dataclass(frozen=True)
class ShapeSpec:
    """A shape as an author wrote it; `task` is the one that a protocol's step takes over from its caller.

    One with a `name` is the `output` of the template of that name.
    """

    span: Span
    type: Type
    task: bool = False
    name: str = ""
    templates: tuple[Template, ...] = field(default=(), repr=False)

    def resolve(self, names: Names) -> Shape:
        """The shape with its templates rendered. Raises RenderError when a template yields no values."""
        return Shape(self.type.schema(names))

    @property
    def outline(self) -> dict[str, Any]:
        """Its JSON Schema before anything is rendered: an enum whose values a template gives is any text."""
        return self.type.schema(None)


def parse_shape(node: Node, problems: Problems) -> ShapeSpec | None:
    """The shape that `output:` or `shape:` holds; nothing, and problems, when something in it is wrong."""
    if isinstance(node, Scalar) and node.value == TASK:
        return ShapeSpec(node.span, Type("any"), task=True)
    if not isinstance(node, Mapping):
        hint = "write `{answer: string}`, one line for each field"
        problems.report(node.span, "shape", "a shape is a mapping of names to types", hint)
        return None
    shape = _record(node, problems)
    return ShapeSpec(node.span, shape, templates=tuple(shape.templates())) if shape else None


@dataclass(frozen=True)
class KeyNotation:
    """A key as written: `name?(form, description)`; `length` is that of a list, as in `name(array 0..8)`."""

    name: str
    optional: bool
    form: str
    description: Template | None
    span: Span
    length: tuple[int, int] | None = None


def read_key(key: Scalar, problems: Problems) -> KeyNotation | None:
    match = _KEY.fullmatch(key.text.value) if key.text else None
    if key.text is None or match is None:
        hint = "write `name`, `name?` when it may be left out, `name(array)`, or `name?(array, description)`"
        problems.report(key.span, "name", f"`{key.value}` is no field", hint)
        return None
    form, _, written = (match["form"] or "").strip().partition(" ")
    if match["form"] is not None and form not in FORMS:
        hint = did_you_mean(form, FORMS) or allowed(f"({each})" for each in FORMS)
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
    """How long a list or text may be, `0..8`; nothing, and a problem, where it is no such range."""
    found = _RANGE.fullmatch(written)
    lower, upper = (each if each.isdecimal() else "" for each in found.groups()) if found else ("", "")
    hint = "write how long it may be as `0..8`, from the least to the most"
    if not lower or not upper or kind not in ("array", "string"):
        problems.report(span, "range", f"`{written}` is no length of `{kind}`", hint)
    elif int(lower) > int(upper) or int(upper) > LONGEST[kind]:
        message = f"the length `{written}` is empty, or beyond {LONGEST[kind]:,}"
        problems.report(span, "range", message, hint)
    else:
        return int(lower), int(upper)
    return None


def read_type(text: Text, types: tuple[str, ...], problems: Problems) -> Type | None:
    """`integer 0..100, description`: one of the types, a range where it is a number's, and a description."""
    match = _TYPE.fullmatch(text.value)
    assert match is not None, "every text has this form"
    kind = match["type"]
    if kind not in types:
        hint = f"write `name({kind}): …`" if kind in FORMS else did_you_mean(kind, types) or allowed(types)
        problems.report(text.at(match.start("type")), "unknown-type", f"unknown type `{kind}`", hint)
        return None
    description = _description(text, match, problems)
    if description is not None and kind in ("integer", "number") and not match["range"]:
        _warn_of_range(text.at(match.start("description")), kind, match["description"], problems)
    if not match["range"]:
        return Type(kind, description=description)
    if kind == "string" and _RANGE.fullmatch(match["range"].strip()):
        length = _length(match["range"].strip(), kind, text.at(match.start("range")), problems)
        return Type(kind, *length, description=description) if length is not None else None
    found = _RANGE.fullmatch(match["range"])
    is_fraction = "." in (found["lower"] + found["upper"] if found else "")
    if found is None or kind not in ("integer", "number") or (kind == "integer" and is_fraction):
        hint = "write `integer 0..100`, `number 0..0.5` or `string 1..200`; a description stands behind a comma"
        message = f"`{match['range']}` is no range of `{kind}`"
        problems.report(text.at(match.start("range")), "range", message, hint)
        return None
    lower, upper = (float(each) if "." in each else int(each) for each in found.groups())
    if lower > upper:
        hint = f"did you mean `{found['upper']}..{found['lower']}`?"
        problems.report(text.at(match.start("range")), "range", f"the range `{match['range']}` is empty", hint)
        return None
    return Type(kind, lower, upper, description=description)


def _warn_of_range(span: Span, kind: str, description: str, problems: Problems) -> None:
    """A range behind the comma is only told to the model."""
    if found := _RANGE.match(description.strip()):
        message = f"`{found[0]}` is a description here, and no range"
        problems.report(span, "range", message, f"write `{kind} {found[0]}`, without the comma", "warning")


def read_choices(node: Node, problems: Problems) -> tuple[Any, ...] | Template | None:
    """The values of an enum: a list, or a template that yields one."""
    if isinstance(node, Scalar) and node.text is not None and _is_template(node.text):
        return compile_string(node.text, problems)
    if not isinstance(node, Sequence) or not node.items:
        hint = "write `[A, B]`, or a template that yields a list"
        problems.report(node.span, "enum", "the values of an enum are a list", hint)
        return None
    values: list[Any] = []
    for item in node.items:
        if not isinstance(item, Scalar) or isinstance(item.value, bool) or item.value is None:
            hint = 'write text or a number; quote words like "true"'
            problems.report(item.span, "enum", "this is no value of an enum", hint)
            return None
        values.append(compile_string(item.text, problems) if item.text and _is_template(item.text) else item.value)
    return tuple(values)


def _is_template(text: Text) -> bool:
    return "{{" in text.value or "{%" in text.value


def _record(node: Mapping, problems: Problems) -> Type | None:
    """A mapping of names to types."""
    if not node.entries:
        problems.report(node.span, "shape", "the shape has no fields")
        return None
    fields: dict[str, tuple[str, bool, Type]] = {}
    complete = True
    for entry in node.entries.values():
        if isinstance(entry.value, Scalar) and entry.value.value is None:
            hint = 'a description with a comma needs quotes inside `{ }`: `name: "string, what it is"`'
            problems.report(entry.key.span, "shape", f"`{entry.key.value}` has no type", hint)
            complete = False
            continue
        key = read_key(entry.key, problems)
        inner = _value(key, entry.value, problems) if key else None
        if key is None or inner is None:
            complete = False
        elif fields.setdefault(key.name.replace("-", "_"), (key.name, key.optional, inner))[2] is not inner:
            problems.report(entry.key.span, "duplicate", f"`{key.name}` is there already")
            complete = False
    return Type("object", fields=tuple(fields.values())) if complete else None


def _value(key: KeyNotation, node: Node, problems: Problems) -> Type | None:
    """The type that stands behind a key."""
    if key.form == "enum":
        values = read_choices(node, problems)
        return None if values is None else Type("enum", values=values, description=key.description)
    found: Type | None = None
    if isinstance(node, Mapping):
        found = _record(node, problems)
    elif key.form == "object" or not isinstance(node, Scalar) or node.text is None:
        hint = "write `name: string`, `name: {…}`, or `name(enum): [A, B]`"
        problems.report(node.span, "shape", f"this is no type for `{key.name}`", hint)
    else:
        found = read_type(node.text, SCALARS, problems)
    if found and key.form == "array":
        least, most = key.length or (None, None)
        return Type("array", least, most, item=found, description=key.description)
    return replace(found, description=key.description) if found and key.description else found


def _yielded(found: Any, span: Span) -> list[Any]:
    """What a template yielded as an enum's values: a list, or a mapping for its names. Raises RenderError."""
    values = list(found) if isinstance(found, (list, tuple, AbstractMapping)) else []
    if not values or not all(isinstance(each, (str, int, float)) for each in values):
        raise RenderError.at(span, Fault("the template yields no values to choose from", "it has to yield a list"))
    return list(dict.fromkeys(values))


def _description(text: Text, match: re.Match[str], problems: Problems) -> Template | None:
    """The description in a notation, without space around it; nothing for nothing."""
    written = match["description"] or ""
    start = match.start("description") + len(written) - len(written.lstrip())
    part = text.part(start, start + len(written.strip())) if written.strip() else None
    return compile_string(part, problems) if part is not None else None
