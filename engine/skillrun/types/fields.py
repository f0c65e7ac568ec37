"""Declared inputs and variables: their declarations, and the conversion of values to their types.

A declaration is short (`name: type, description`), a record written as in a shape, or a mapping with the key `type` or
`shape`. Values come from the command line, YAML or templates. The names of models and members are not resolved here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as AbstractMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from skillrun.syntax.diagnostics import Problems, allowed_hint, did_you_mean
from skillrun.syntax.source import Mapping, Node, Scalar, Span, to_plain
from skillrun.syntax.yaml import report_rewritten_numbers
from skillrun.templates.expressions import Value, compile_value
from skillrun.templates.values import Absent
from skillrun.types.json_schema import enum_values, to_json_schema
from skillrun.types.picoschema import KeyNotation, parse_shape, read_choices, read_key, read_type
from skillrun.types.records import MAX_NUMBER
from skillrun.types.schemas import Shape, quote_value
from skillrun.types.slugs import is_slug
from skillrun.types.types import Names, Type, identifier, list_of

TYPES: Final = ("string", "integer", "number", "boolean", "enum", "path", "slug", "model", "member")
KEYS: Final = {
    "type": "the type, optionally with a range or length",
    "shape": "the shape of a record, instead of a type",
    "values": "the values of an enum: a list, or a template that yields a list",
    "default": "the value to use if none is given; a field with a default is optional",
    "description": "the purpose of the field, in one line",
    "fallback": "the value to use, with a warning, if the given value is not allowed",
}
"""The keys of the long form, with their descriptions."""
RECORD_FORMS: Final = ("", "array", "object")  # a key with one of these forms may have a record as its value
MEMBER: Final = re.compile(r"(?P<role>[^\W_][\w-]*)(?::(?P<variant>[A-Za-z0-9][\w-]*))?(?:@(?P<model>\S.*\S|\S))?")

_NAME: Final = re.compile(r"(?=.*\S)[^\x00-\x1f]+")
_WRITTEN: Final[AbstractMapping[str, tuple[Callable[[str], object], str]]] = {
    "slug": (is_slug, "at most 64 lowercase letters, digits and `-`, not starting with `-`"),
    "member": (MEMBER.fullmatch, "a member: role, role:variant, role@model or role:variant@model"),
    "path": (_NAME.fullmatch, "a path"),
    "model": (_NAME.fullmatch, "the name of a model"),
}


@dataclass(frozen=True)
class Field:
    """A declared input or variable. Its type and its default may contain templates.

    `is_optional` tells whether its name ends in `?`, so that a computed default may be absent.
    """

    name: str
    required: bool
    type: Type
    default: Value | None
    fallback: Any
    description: str
    span: Span
    is_optional: bool = False

    @property
    def is_list(self) -> bool:
        return self.type.kind == "list"

    @property
    def item(self) -> Type:
        """The type of the field's items if the field is a list, or else the type of the field."""
        return self.type.item or self.type


@dataclass(frozen=True)
class CoercedValue:
    """A value converted to the type of a field, or an error. `warnings` name the values that `fallback` replaced."""

    value: Any = None
    error: str = ""
    warnings: tuple[str, ...] = ()


def parse_fields(node: Node, problems: Problems) -> tuple[Field, ...]:
    """Return the fields that `inputs:` or `state:` declares. Invalid fields are reported and left out."""
    if not isinstance(node, Mapping):
        hint = "for example `request: string, what to do`"
        problems.report(node.span, "type", "expected a mapping of names to types", hint)
        return ()
    fields: dict[str, Field] = {}
    for entry in node.entries.values():
        key = read_key(entry.key, problems)
        field = _parse_field(key, entry.value, problems) if key else None
        if field and fields.setdefault(identifier(field.name), field) is not field:
            problems.report(entry.key.span, "duplicate", f"`{field.name}` already exists")
    return tuple(fields.values())


def coerce(field: Field, value: Any, names: Names | None = None, label: str = "") -> CoercedValue:
    """Convert a value from the command line, YAML or a template to the field's type.

    `names` holds the values for templates in the field's type. Without `names`, choices that come from templates are
    not checked. Errors refer to the field by `label`, or by its name if `label` is empty.
    """
    label = label or field.name
    if isinstance(value, str) and field.item.kind == "record":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return CoercedValue(error=f"`{label}` is {quote_value(value)}; expected JSON")
    elif isinstance(value, str) and field.is_list:
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not field.is_list:
        return _coerce_value(field, value, label, names)
    if not isinstance(value, (list, tuple)):
        return CoercedValue(error=f"`{label}` is {quote_value(value)}; expected a list")
    if (length := field.type.length) is not None and not length[0] <= len(value) <= length[1]:
        least, most = length
        return CoercedValue(error=f"`{label}` has {len(value)} items; expected {least} to {most}")
    items = [_coerce_value(field, item, f"{label}[{place}]", names) for place, item in enumerate(value)]
    wrong = "; ".join(item.error for item in items if item.error)
    warnings = tuple(warning for item in items for warning in item.warnings)
    return CoercedValue(error=wrong) if wrong else CoercedValue([item.value for item in items], warnings=warnings)


def literal_error(field: Field, value: Any, label: str = "") -> str:
    """Return the error of a literal value in a file, or "" if the value is valid.

    In a file, a list must be a YAML list. Only the command line accepts a text with commas for a list.
    """
    if field.is_list and isinstance(value, str):
        return f"`{label or field.name}` is {quote_value(value)}; expected a list, such as `[]` or `[{value}]`"
    return coerce(field, value, label=label).error


def _parse_field(key: KeyNotation, node: Node, problems: Problems) -> Field | None:
    """Parse a field: its type and its other keys. Report a literal default or fallback that is invalid."""
    type_ = _parse_field_type(key, node, problems)
    if type_ is None:
        return None
    options = node if isinstance(node, Mapping) else Mapping({}, node.span)
    default, fallback, description = (options.get(name) for name in ("default", "fallback", "description"))
    description_template = type_.about or key.description
    words = description_template.text if description_template is not None else None
    if isinstance(description, Scalar) and description.text is not None:
        words = description.text
    elif description is not None:
        problems.report(description.span, "type", "`description` must be text")
    is_number = type_.word in ("integer", "number")
    rewritten: set[int] = set()
    for value in (default, fallback):
        if value is not None and type_.word != "object" and not is_number:
            rewritten |= report_rewritten_numbers(value, problems)
    field = Field(
        name=key.name,
        required=not key.optional and default is None,
        type=list_of(type_)._replace(length=key.length) if key.form == "array" else type_,
        default=compile_value(default, problems, may_be_text=not is_number) if default is not None else None,
        fallback=None,
        description=words.value if words else "",
        span=key.span,
        is_optional=key.optional,
    )
    if field.default is not None:
        _check_literal(field, field.default, "default", rewritten, problems)
    if fallback is not None:
        compiled = compile_value(fallback, problems, may_be_text=not is_number)
        _check_literal(replace(field, type=type_), compiled, "fallback", rewritten, problems)
        return replace(field, fallback=to_plain(fallback))
    return field


def _parse_field_type(key: KeyNotation, node: Node, problems: Problems) -> Type | None:
    """Parse the type of a field or, if the field is a list, of its items. Accepts the short and the long form."""
    if not isinstance(node, Mapping):
        return read_choices(node, problems) if key.form == "enum" else _parse_named_type(key, node, None, problems)
    if _is_record(node) and key.form in RECORD_FORMS:
        spec = parse_shape(node, problems)
        return spec.type if spec is not None else None
    known = True
    for name, entry in node.entries.items():
        if name not in KEYS:
            hint = did_you_mean(name, KEYS) or f"a record with this field goes under `shape:`; {allowed_hint(KEYS)}"
            problems.report(entry.key.span, "unknown-key", f"unknown key `{name}`", hint)
            known = False
    kind, shape = node.get("type"), node.get("shape")
    if key.form not in ("", "array") or (kind and shape):
        hint = f"write `{key.name}: {{type: …}}` or `{key.name}: {{shape: …}}`"
        problems.report(key.span, "type", f"`{key.name}` declares its type twice", hint)
    elif shape:
        spec = parse_shape(shape, problems)
        if spec is not None and spec.is_task:
            message = "only a step of a protocol can use `task`"
            problems.report(shape.span, "shape", message, "list the fields of the record")
        return spec.type if spec is not None and not spec.is_task else None
    elif kind:
        return _parse_named_type(key, kind, node.get("values"), problems)
    elif known:
        problems.report(key.span, "missing-key", f"`{key.name}` has no `type`", allowed_hint(TYPES))
    return None


def _is_record(node: Mapping) -> bool:
    """Whether a mapping is a record written as in a shape, and not the long form of a declaration.

    A record has none of the keys of the long form, and its first key is not a misspelled `type` or `shape`.
    """
    first = next(iter(node.entries), "")
    return bool(first) and not node.entries.keys() & KEYS.keys() and not did_you_mean(first, ("type", "shape"))


def _parse_named_type(key: KeyNotation, kind: Node, values: Node | None, problems: Problems) -> Type | None:
    """Parse a type that is given by name. `values` is the node of the key `values`, which an enum must have."""
    if not isinstance(kind, Scalar) or kind.text is None:
        hint = "write `name: string, what it is`, `name: {type: string, default: …}`, or a record `name: {id: string}`"
        problems.report(kind.span, "type", f"`{key.name}` has no type", hint)
        return None
    type_ = read_type(kind.text, TYPES, problems, "; write a record as `{field: type}`")
    if type_ is None or (type_.word == "enum") == (values is not None):
        choices = read_choices(values, problems) if type_ is not None and values is not None else type_
        return choices._replace(about=type_.about) if choices is not None and type_ is not None else None
    hint = f"write `{key.name}: {{type: enum, values: [a, b]}}`"
    problems.report((values or kind).span, "enum", "`type: enum` and `values:` require each other", hint)
    return None


def _check_literal(field: Field, value: Value, label: str, rewritten: set[int], problems: Problems) -> None:
    """Report a value that is invalid for its field, unless the value contains templates.

    Numbers at the offsets `rewritten` are reported already.
    """
    if field.is_list and value.items is not None:
        for item in value.items:
            _check_literal(replace(field, type=field.item), item, label, rewritten, problems)
    elif not value.is_computed and value.span.offset not in rewritten:
        literal = value.evaluate({})
        error = literal_error(field, literal, label)
        if error:
            hint = "put it in quotes" if field.item.word == "string" and not isinstance(literal, list | dict) else ""
            problems.report(value.span, "default", error, hint)


def _coerce_value(field: Field, value: Any, label: str, names: Names | None) -> CoercedValue:
    converted, expectation = _convert(field.item, value, names)
    if not expectation:
        return CoercedValue(converted)
    error = f"`{label}` is {quote_value(value)}; {expectation}"
    if field.fallback is not None and value != field.fallback:
        return CoercedValue(field.fallback, warnings=(f"{error}; `{field.fallback}` is used",))
    return CoercedValue(error=error)


def _convert(type_: Type, value: Any, names: Names | None) -> tuple[Any, str]:
    """Return the converted value and an empty text. If the value is invalid, the text says what is expected."""
    match type_.word:
        case "object":
            errors = Shape(to_json_schema(type_, names)).check(value)
            return value, "; ".join(map(str, errors))
        case "integer" | "number":
            return _number(type_, value)
        case "boolean":
            flag = {"true": True, "yes": True, "false": False, "no": False}.get(str(value).lower())
            return flag, "" if flag is not None else "allowed: true, false"
        case "enum":
            return _choice(enum_values(type_, names), value)
    if not isinstance(value, str):
        return None, "expected text"
    if (length := type_.length) is not None and not length[0] <= len(value) <= length[1]:
        return None, f"expected {length[0]} to {length[1]} characters; it has {len(value)}"
    is_valid, words = _WRITTEN.get(type_.form, (None, ""))
    return value, f"expected {words}" if is_valid is not None and not is_valid(value) else ""


def _choice(choices: list[Any] | None, value: Any) -> tuple[Any, str]:
    """Return the matching choice and "", or None and what is expected.

    If `choices` is None, any text or number is accepted.
    """
    if choices is None:
        return value, "" if isinstance(value, str | int | float) else "expected text"
    for choice in choices:
        if value == choice or (isinstance(value, str) and value == str(choice)):
            return choice, ""
    known = [str(choice) for choice in choices]
    return None, f"{did_you_mean(str(value), known)} {allowed_hint(known)}".strip()


def _number(type_: Type, value: Any) -> tuple[float | None, str]:
    number = value
    if isinstance(value, str):
        for convert in (int, float):
            with suppress(ValueError):
                number = convert(value)
                break
    is_number = isinstance(number, int if type_.form == "integer" else int | float) and not isinstance(number, bool)
    least, most = type_.bounds or (-MAX_NUMBER, MAX_NUMBER)
    if is_number and least <= number <= most:
        return number, ""
    wanted = "a whole number" if type_.form == "integer" else "a number"
    limits = f" from {least} to {most}" if type_.bounds is not None else " from -10^18 to 10^18" if is_number else ""
    return None, f"expected {wanted}{limits}"


class MemberError(ValueError):
    """Raised for a text that is not a valid member."""


@dataclass(frozen=True)
class Member:
    """A role with an optional variant and an optional model."""

    role: str
    variant: str | None = None
    model: str | None = None

    @cached_property
    def id(self) -> str:
        """The member in its written form, `role:variant@model`."""
        variant = f":{self.variant}" if self.variant else ""
        return f"{self.role}{variant}{f'@{self.model}' if self.model else ''}"


def parse_member(written: Any) -> Member:
    """Parse a member, written as `role:variant@model`. Variant and model are optional. Raises MemberError."""
    match = MEMBER.fullmatch(written.strip()) if isinstance(written, str) else None
    if match is None:
        raise MemberError(f"`{written}` is not a valid member")
    return Member(**match.groupdict())


def resolve_inputs(
    fields: Iterable[Field], given: AbstractMapping[str, Any], names: AbstractMapping[str, Any]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the values of the fields, the errors and the warnings. Templates in defaults can read `names`."""
    fields = tuple(fields)
    known = {field.name for field in fields}
    values: dict[str, Any] = {}
    errors = [f"there is no input `{name}`" for name in given if name not in known]
    warnings: list[str] = []
    for field in fields:
        names_in_scope = {**names, "inputs": names.get("inputs", values)}
        value = given.get(field.name)
        if field.name not in given and field.default is not None:
            value = field.default.evaluate(names_in_scope)
        elif field.name not in given and field.required:
            errors.append(f"`{field.name}` is missing")
        if isinstance(value, Absent) or value is None:
            continue
        coerced = coerce(field, keep_declared_keys(field, value), names_in_scope)
        warnings.extend(coerced.warnings)
        if coerced.error:
            errors.append(coerced.error)
        else:
            values[field.name] = coerced.value
    return values, errors, warnings


def recheck_values(
    fields: Iterable[Field], values: dict[str, Any], names: AbstractMapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Check the values that a run has recorded. Return the errors and the warnings.

    A value that the field does not allow is replaced with its `fallback`; without one, it is an error.
    """
    errors: list[str] = []
    warnings: list[str] = []
    for field in fields:
        if (value := values.get(field.name)) is None:
            continue
        if field.is_list and isinstance(value, str):
            errors.append(literal_error(field, value))
            continue
        coerced = coerce(field, keep_declared_keys(field, value), {**names, "inputs": names.get("inputs", values)})
        if coerced.error:
            errors.append(coerced.error)
        elif coerced.warnings:
            values[field.name] = coerced.value
            warnings.extend(coerced.warnings)
    return errors, warnings


def keep_declared_keys(field: Field, value: Any) -> Any:
    """Return a record, or a list of records, with only the keys that the field's shape declares."""
    properties = field.item.fields
    if isinstance(value, list):
        return [keep_declared_keys(replace(field, type=field.item), item) for item in value]
    if not properties or not isinstance(value, AbstractMapping):
        return value
    return {key: member for key, member in value.items() if key in properties and member is not None}
