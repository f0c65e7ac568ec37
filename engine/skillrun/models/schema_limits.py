"""Limits the structured replies of a model that does not stop by itself. The limited schema accepts a subset of what
the original accepts, so its replies are valid for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STEPS = [(items, characters) for items in (4, 3, 2, 1) for characters in (400, 270, 180, 120, 80, 40)]
"""Limits for items of a list and characters of a text, where the schema has none; the first that fit are used."""
_OVERHEAD = 8  # characters of punctuation and white space per value


def limit_schema(schema: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """Return the schema with missing `maxItems` and `maxLength` added, so that the longest reply fits `max_tokens` at
    one token per character, the worst case of a small model. Existing limits stay."""
    smaller = schema
    for items, characters in STEPS:
        smaller = _apply_limits(schema, items, characters)
        if max_reply_length(smaller) <= max_tokens:
            break
    return smaller


def max_reply_length(schema: Any) -> int:
    """Estimate the characters of the longest reply; a text of unlimited length counts as 100."""
    if not isinstance(schema, Mapping):
        return _OVERHEAD
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if branches:
        return max(map(max_reply_length, branches))
    if "enum" in schema:
        return max((len(str(value)) for value in schema["enum"]), default=0) + _OVERHEAD
    if schema.get("type") == "array":
        return _OVERHEAD + int(schema.get("maxItems", 100)) * max_reply_length(schema.get("items", {}))
    if schema.get("type") == "string":
        return _OVERHEAD + int(schema.get("maxLength", 100))
    properties: Mapping[str, Any] = schema.get("properties", {})
    return _OVERHEAD + sum(len(name) + _OVERHEAD + max_reply_length(value) for name, value in properties.items())


def _apply_limits(schema: Any, items: int, characters: int) -> Any:
    if isinstance(schema, list):
        return [_apply_limits(item, items, characters) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    smaller: dict[str, Any] = {}
    for key, inner in schema.items():
        if key in {"properties", "$defs"}:
            smaller[key] = {name: _apply_limits(value, items, characters) for name, value in inner.items()}
        else:
            values = key in {"enum", "const", "default", "examples", "required"}
            smaller[key] = inner if values else _apply_limits(inner, items, characters)
    if schema.get("type") == "array":
        smaller.setdefault("maxItems", max(items, schema.get("minItems", 0)))
    elif schema.get("type") == "string":
        smaller.setdefault("maxLength", max(characters, schema.get("minLength", 0)))
    return smaller
