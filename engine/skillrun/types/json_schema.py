"""Converts between types and JSON Schema, which is sent to models and other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from skillrun.templates.expressions import RenderError, Template
from skillrun.templates.limits import TemplateError
from skillrun.types.types import (
    ANY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    WORDS,
    Lazy,
    Names,
    Path,
    Type,
    list_of,
    one_of,
    record,
)

_PLAIN: Final = {"string": TEXT, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}


def type_from_schema(schema: Any, label: Path) -> Type:
    """The type of data that a JSON Schema describes; optional properties may be absent."""
    if not isinstance(schema, Mapping):
        return ANY
    kind = schema.get("type")
    properties = schema.get("properties")
    if kind == "object" and isinstance(properties, Mapping) and properties:
        required = set(schema.get("required") or ())
        fields = {name: type_from_schema(inner, (*label, name)) for name, inner in properties.items()}
        return record({name: type_ if name in required else type_.maybe() for name, type_ in fields.items()}, label)
    if kind == "array":
        return list_of(type_from_schema(schema.get("items"), (*label, "[]")))
    if isinstance(choices := schema.get("enum"), list):
        return one_of(choices)
    plain, least, most = _PLAIN.get(str(kind), ANY), schema.get("minimum"), schema.get("maximum")
    if plain.kind == "number" and isinstance(least, int | float) and isinstance(most, int | float):
        return plain._replace(bounds=(least, most))
    return plain


def to_json_schema(type_: Type, names: Names | None) -> dict[str, Any]:
    """The JSON Schema of a declared type; without `names`, values from templates are omitted.

    Raises RenderError when a template yields no values.
    """
    schema = _rules(type_, names)
    if (words := type_.about) is not None:
        plain = names is None or words.is_constant
        schema["description"] = words.text.value if plain else words.render_text(names or {})
    return schema


def enum_values(type_: Type, names: Names | None) -> list[Any] | None:
    """The values of an enum; None if they require `names`. Raises RenderError if its template yields no values."""
    if type_.choices is not None:
        return _render_choices(type_.choices, names) if names is not None else None
    values = type_.values or ()
    if names is None and any(isinstance(each, Template) for each in values):
        return None
    return [each.render_text(names or {}) if isinstance(each, Template) else each for each in values]


def _render_choices(choices: Lazy, names: Names) -> list[Any]:
    """Render the values of an enum: a list, or the keys of a mapping. Raises RenderError."""
    result = choices.render(names)
    values = list(result) if isinstance(result, list | tuple | Mapping) else []
    if not values or not all(isinstance(each, str | int | float) for each in values):
        fault = TemplateError("the template yields no values to choose from", "it must yield a list")
        raise RenderError.at(choices.text.at(0), fault)
    return list(dict.fromkeys(values))


def _rules(type_: Type, names: Names | None) -> dict[str, Any]:
    if type_.word == "enum":
        choices = enum_values(type_, names)
        if choices is not None and not all(isinstance(each, str) for each in choices):
            return {"enum": choices}
        return {"type": "string"} | ({} if choices is None else {"enum": choices})
    match type_.kind:
        case "any":
            return {}
        case "list":
            items = to_json_schema(type_.item, names) if type_.item is not None else {}
            return {"type": "array", "items": items} | _between("minItems", type_.length, "maxItems")
        case "record":
            return {
                "type": "object",
                "properties": {name: to_json_schema(inner, names) for name, inner in type_.fields.items()},
                "required": [name for name, inner in type_.fields.items() if inner.unless is None],
                "additionalProperties": False,
            }
        case "number":
            return {"type": type_.word} | _between("minimum", type_.bounds, "maximum")
    return {"type": WORDS[type_.kind]} | _between("minLength", type_.length, "maxLength")


def _between(least: str, limits: tuple[float, float] | None, most: str) -> dict[str, Any]:
    return {} if limits is None else {least: limits[0], most: limits[1]}
