"""Converts types to JSON Schema and back, and checks the JSON Schemas that authors write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from skillrun.scoring import patterns
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.expressions import RenderError, Template
from skillrun.templates.limits import TemplateError
from skillrun.types.samples import sample
from skillrun.types.schemas import Shape, format_path, quote_value, resolve_reference
from skillrun.types.types import ANY, BOOLEAN, INTEGER, NUMBER, TEXT, WORDS, Names, Path, Type, list_of, one_of, record

_PLAIN: Final = {"string": TEXT, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}


def type_from_schema(schema: Any, label: Path) -> Type:
    """Return the type of the data that a JSON Schema describes. Optional properties may be absent."""
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
    """Return the JSON Schema of a declared type. If `names` is None, enums with templates accept any text.

    Raises RenderError if a template cannot be rendered or yields no values.
    """
    schema = _rules(type_, names)
    if (words := type_.about) is not None:
        plain = names is None or words.is_constant
        schema["description"] = words.text.value if plain else words.render_text(names or {})
    return schema


def enum_values(type_: Type, names: Names | None) -> list[Any] | None:
    """Return the values of an enum. If `names` is None, return None for values from templates. Raises RenderError."""
    if (choices := type_.choices) is None:
        values = type_.values or ()
        if names is None and any(isinstance(each, Template) for each in values):
            return None
        return [each.render_text(names or {}) if isinstance(each, Template) else each for each in values]
    if names is None:
        return None
    result = choices.render(names)  # a list, or a mapping with the values as keys
    rendered = list(result) if isinstance(result, list | tuple | Mapping) else []
    if not rendered or not all(isinstance(each, str | int | float) for each in rendered):
        fault = TemplateError("the template yields no values to choose from", "it must yield a list")
        raise RenderError.at(choices.text.at(0), fault)
    return list(dict.fromkeys(rendered))


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


MAX_RULES: Final = 5_000  # per schema, counted after its `$ref`s are resolved
NOT_RULES: Final = ("$defs", "definitions", "enum", "const", "default", "examples")
LARGEST: Final = {"minLength": 100_000, "minItems": 1_000, "minProperties": 1_000}


def parse_json_schema(schema: Any) -> Shape:
    """Return the shape of a JSON Schema. Raises SkillrunError if the schema is invalid or refers to other files."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        raise SkillrunError(f"a JSON Schema must be a mapping, not {quote_value(schema)}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = f"`{format_path(error.absolute_path)}`: " if error.absolute_path else ""
        raise SkillrunError(f"this is not a valid JSON Schema: {place}{error.message}") from None
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)):
        if resolve_reference(schema, reference) is None:
            raise SkillrunError(f"`$ref` is {quote_value(reference)}, which does not exist in this schema")
    _check_rules(schema)
    try:
        sample(schema, "")
    except RecursionError:
        raise SkillrunError("this schema cannot be used: every valid value is infinitely deep") from None
    _check_patterns(schema)
    return Shape(schema)


def _check_rules(schema: dict[str, Any]) -> None:
    """Check the size of a schema, following each `$ref` once per path.

    Raises SkillrunError for too many rules, for a dynamic reference, and for a minimum that no reply can reach.
    """
    count = 0
    waiting: list[tuple[Any, tuple[str, ...]]] = [(schema, ())]
    while waiting:
        rules, followed = waiting.pop()
        if isinstance(rules, list):
            waiting += [(part, followed) for part in reversed(rules)]
            continue
        count += 1
        if count > MAX_RULES:
            message = f"with its `$ref`s resolved, it has more than {MAX_RULES:,} rules"
            raise SkillrunError(f"this schema cannot be used: {message}")
        if not isinstance(rules, dict):
            continue
        if "$dynamicRef" in rules or "$recursiveRef" in rules:
            raise SkillrunError("this schema cannot be used: `$dynamicRef` is not supported; use `$ref`")
        for key, most in LARGEST.items():
            if isinstance(rules.get(key), int) and rules[key] > most:
                message = f"`{key}` is {rules[key]}, which is more than the maximum of {most:,}"
                raise SkillrunError(f"this schema cannot be used: {message}")
        reference = rules.get("$ref")
        if isinstance(reference, str) and reference not in followed:
            waiting.append((resolve_reference(schema, reference), (*followed, reference)))
        waiting += [(part, followed) for key, part in reversed(rules.items()) if key not in NOT_RULES]


def _check_patterns(schema: Any) -> None:
    """Raise SkillrunError for an unsupported pattern, and for `patternProperties`."""
    if isinstance(schema, dict):
        if isinstance(schema.get("patternProperties"), dict):
            raise SkillrunError("this schema cannot be used: `patternProperties` is not supported; list the properties")
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and (reason := patterns.rejection_reason(pattern)):
            raise SkillrunError(f"this schema cannot be used: {reason}")
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for part in inner:
        _check_patterns(part)
