"""The schema of the record that comes with a document: one merged of several, and the answers to points in it.

Of schemas and made-up values alone; which of it is read is `check`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

ANSWERS: Final = "answers"
DONE: Final = ("changed", "kept")


def merged(schemas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One record with the fields of all."""
    found: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for one in schemas:
        found["properties"] |= one.get("properties", {})
        found["required"] += [name for name in one.get("required", ()) if name not in found["required"]]
    return found


def only(schema: Mapping[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    """The record with these fields alone."""
    properties = {name: one for name, one in schema["properties"].items() if name in names}
    return {**schema, "properties": properties, "required": [n for n in schema["required"] if n in properties]}


def answers(ids: Iterable[str] | None = None) -> dict[str, Any]:
    """The field in which an author answers points; without `ids` those that only the run knows."""
    known = {"type": "string"} | ({} if ids is None else {"enum": list(ids)})
    fields = {"id": known, "done": {"type": "string", "enum": list(DONE)}, "how": {"type": "string"}}
    item = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return merged([{"properties": {ANSWERS: {"type": "array", "items": item}}, "required": [ANSWERS]}])


def each_answered(value: Any, schema: Mapping[str, Any]) -> Any:
    """A made-up record in which every point is answered once."""
    item = schema.get("properties", {}).get(ANSWERS, {}).get("items", {}).get("properties", {})
    made = value.get(ANSWERS) if isinstance(value, dict) and item.keys() == {"id", "done", "how"} else None
    ids = item["id"].get("enum") if made is not None else None
    if not made or not ids:
        return value
    return {**value, ANSWERS: [{**made[number % len(made)], "id": one} for number, one in enumerate(ids)]}
