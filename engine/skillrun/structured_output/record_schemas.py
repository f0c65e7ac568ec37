"""Builds the schema of the record that accompanies a document, including the answers to points.

Handles only schemas and sample values; `checker` determines which fields are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

ANSWERS: Final = "answers"
ANSWER_STATES: Final = ("changed", "kept")


def merge_schemas(schemas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge record schemas into one with all their fields."""
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for part in schemas:
        schema["properties"] |= part.get("properties", {})
        schema["required"] += [name for name in part.get("required", ()) if name not in schema["required"]]
    return schema


def select_fields(schema: Mapping[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    """The record schema with only these fields."""
    properties = {name: rules for name, rules in schema["properties"].items() if name in names}
    return {**schema, "properties": properties, "required": [n for n in schema["required"] if n in properties]}


def answers_schema(ids: Iterable[str] | None = None) -> dict[str, Any]:
    """The schema of the field that answers points; without `ids`, the ids are only known during the run."""
    known = {"type": "string"} | ({} if ids is None else {"enum": list(ids)})
    fields = {"id": known, "done": {"type": "string", "enum": list(ANSWER_STATES)}, "how": {"type": "string"}}
    item = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return merge_schemas([{"properties": {ANSWERS: {"type": "array", "items": item}}, "required": [ANSWERS]}])


def answer_each_point(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a sample record in which every point is answered once."""
    item = schema.get("properties", {}).get(ANSWERS, {}).get("items", {}).get("properties", {})
    sample_answers = value.get(ANSWERS) if isinstance(value, dict) and item.keys() == {"id", "done", "how"} else None
    ids = item["id"].get("enum") if sample_answers is not None else None
    if not sample_answers or not ids:
        return value
    return {
        **value,
        ANSWERS: [{**sample_answers[number % len(sample_answers)], "id": id_} for number, id_ in enumerate(ids)],
    }
