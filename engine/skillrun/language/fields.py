"""Declared inputs and variables, and whether a value fits one: from the command line, from YAML, from a template.

What the name of a model or member stands for is not known here.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from skillrun.language.diagnostics import allowed, did_you_mean
from skillrun.language.picoschema import Render, ShapeSpec, Type
from skillrun.language.schemas import Shape, shown
from skillrun.language.source import Node, Span, Text

TYPES: Final = ("string", "integer", "number", "boolean", "enum", "path", "slug", "model", "member")
SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
MEMBER: Final = re.compile(r"[a-z0-9][a-z0-9-]*(?::[a-z0-9][a-z0-9-]*)?(?:@\S(?:.*\S)?)?")


@dataclass(frozen=True)
class Field:
    """A declared input or variable. `values` may be a template that yields them, and so may every text in `default`."""

    name: str
    required: bool
    type: str  # one of TYPES, or "object" where there is a `shape`
    array: bool
    values: tuple[Any, ...] | Text | None
    lower: float | None
    upper: float | None
    shape: ShapeSpec | None
    default: Node | None
    fallback: Any
    description: str
    span: Span


@dataclass(frozen=True)
class Coerced:
    """A value of its field's type, or the error; `warnings` say what `fallback` replaced."""

    value: Any = None
    error: str = ""
    warnings: tuple[str, ...] = ()


def coerce(field: Field, value: Any, render: Render | None = None) -> Coerced:
    """The value as the field's type: from the command line (always text) or from YAML and templates.

    `render` renders the field's own templates; without it, values that a template gives are not checked.
    """
    if isinstance(value, str) and (field.shape is not None or field.array):
        value = _listed(field, value)
        if isinstance(value, Coerced):
            return value
    if not field.array:
        return _one(field, value, field.name, render)
    if not isinstance(value, (list, tuple)):
        return Coerced(error=f"`{field.name}` is {shown(value)}; expected a list")
    items = [_one(field, item, f"{field.name}[{place}]", render) for place, item in enumerate(value)]
    wrong = "; ".join(item.error for item in items if item.error)
    warnings = tuple(warning for item in items for warning in item.warnings)
    return Coerced(error=wrong) if wrong else Coerced([item.value for item in items], warnings=warnings)


def _listed(field: Field, written: str) -> Any:
    """A list or record as typed on a command line: `a, b` or JSON."""
    if field.shape is None:
        return [part.strip() for part in written.split(",") if part.strip()]
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return Coerced(error=f"`{field.name}` is {shown(written)}; expected JSON")


def _one(field: Field, value: Any, label: str, render: Render | None) -> Coerced:
    found, error = _checked(field, value, label, render)
    if error and field.fallback is not None and value != field.fallback:
        return Coerced(field.fallback, warnings=(f"{error}; `{field.fallback}` is used",))
    return Coerced(error=error) if error else Coerced(found)


def _checked(field: Field, value: Any, label: str, render: Render | None) -> tuple[Any, str]:
    """The value as the field's type and "", or anything and the error."""
    if field.shape is not None:
        return value, _misfit(field.shape, value, label, render)
    match field.type:
        case "integer" | "number":
            number = _number(value, field.type)
            wanted = "a whole number" if field.type == "integer" else "a number"
            if number is None:
                return None, f"`{label}` is {shown(value)}; expected {wanted}{_range(field, ' from ')}"
            if (field.lower is not None and number < field.lower) or (field.upper is not None and number > field.upper):
                return None, f"`{label}` is {shown(value)}; allowed: {_range(field, '')}"
            return number, ""
        case "boolean":
            given = {"true": True, "yes": True, "false": False, "no": False}.get(str(value).lower())
            return given, "" if given is not None else f"`{label}` is {shown(value)}; allowed: true, false"
        case "enum":
            return _chosen(field, value, label, render)
    if not isinstance(value, str):
        return None, f"`{label}` is {shown(value)}; expected text" + (
            ", in quotes" if isinstance(value, (int, float)) else ""
        )
    return value, _misspelt(field.type, value, label)


def _misspelt(kind: str, value: str, label: str) -> str:
    """What is wrong with the text of a slug, path, model or member."""
    if kind == "slug" and not SLUG.fullmatch(value):
        return f"`{label}` is {shown(value)}; allowed: small letters, digits and `-`, at most 64, not starting with `-`"
    if kind == "member" and not MEMBER.fullmatch(value):
        return f"`{label}` is {shown(value)}; a member is written role, role:variant, role@model or role:variant@model"
    if kind in ("path", "model") and (not value.strip() or any(ord(each) < 32 for each in value)):
        return f"`{label}` is {shown(value)}; expected {'a path' if kind == 'path' else 'the name of a model'}"
    return ""


def _number(value: Any, kind: str) -> float | None:
    if isinstance(value, str):
        written = value.strip()
        if re.fullmatch(r"[-+]?[0-9]{1,300}", written):
            return int(written)
        if kind == "integer" or not re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", written):
            return None
        value = float(written)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value if kind == "number" or isinstance(value, int) else None


def _chosen(field: Field, value: Any, label: str, render: Render | None) -> tuple[Any, str]:
    choices = Type("enum", values=field.values).choices(render)
    if choices is None:
        return value, "" if isinstance(value, (str, int, float)) else f"`{label}` is {shown(value)}; expected text"
    for choice in choices:
        if value == choice or (isinstance(value, str) and value == str(choice)):
            return choice, ""
    names = [str(choice) for choice in choices]
    hint = did_you_mean(str(value), names)
    return None, f"`{label}` is {shown(value)}; {hint + ' ' if hint else ''}{allowed(names)}"


def _misfit(shape: ShapeSpec, value: Any, label: str, render: Render | None) -> str:
    errors = (shape.resolve(render) if render else Shape(shape.outline)).check(value)
    places = (f"{label}{'' if error.path.startswith('[') or not error.path else '.'}{error.path}" for error in errors)
    return "; ".join(f"{place}: {error.message}" for place, error in zip(places, errors, strict=True))


def _range(field: Field, before: str) -> str:
    return "" if field.lower is None else f"{before}{field.lower} to {field.upper}"
