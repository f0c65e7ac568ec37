"""Limits for the structured replies of a model that does not stop by itself. The limited schema accepts a part of what
the original accepts, so its replies are valid for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHARACTERS_PER_TOKEN = 1  # of the worst text of a small model; of ordinary English it is four
SHORTEST_TEXT = 40
_OVERHEAD = 8  # characters of a value's own punctuation and white space
_BOUNDED = frozenset({"enum", "const", "pattern"})
_SHORT_FORMATS = frozenset({"date", "time", "date-time", "uuid"})


@dataclass(frozen=True)
class Limits:
    longest_list: int
    longest_text: int


def limited(schema: dict[str, Any] | None, limits: Limits, max_tokens: int) -> dict[str, Any] | None:
    """The schema with `maxItems` and `maxLength` where it has none, so small that the longest reply fits `max_tokens`.

    Limits of the schema itself stay, even where they are too wide to fit.
    """
    if schema is None:
        return None
    room = max_tokens * CHARACTERS_PER_TOKEN
    lists, text = limits.longest_list, limits.longest_text
    while True:
        smaller: dict[str, Any] = _limited(schema, lists, text)
        if size(smaller) <= room or (text <= SHORTEST_TEXT and lists <= 1):
            return smaller
        if text > SHORTEST_TEXT:
            text = max(SHORTEST_TEXT, text * 2 // 3)
        else:
            lists, text = lists - 1, limits.longest_text


def size(schema: Any) -> int:
    """About how many characters the longest reply has; a text whose length the schema leaves open counts as 100."""
    if not isinstance(schema, Mapping):
        return _OVERHEAD
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if branches:
        return max(map(size, branches))
    if "enum" in schema:
        return max((len(str(value)) for value in schema["enum"]), default=0) + _OVERHEAD
    if schema.get("type") == "array":
        return _OVERHEAD + int(schema.get("maxItems", 100)) * size(schema.get("items", {}))
    if schema.get("type") == "string":
        return _OVERHEAD + int(schema.get("maxLength", 100))
    properties: Mapping[str, Any] = schema.get("properties", {})
    return _OVERHEAD + sum(len(name) + _OVERHEAD + size(value) for name, value in properties.items())


def _limited(schema: Any, lists: int, text: int) -> Any:
    if isinstance(schema, list):
        return [_limited(item, lists, text) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    smaller: dict[str, Any] = {
        key: {name: _limited(value, lists, text) for name, value in inner.items()}
        if key in {"properties", "$defs"} and isinstance(inner, Mapping)
        else inner
        if key in {"enum", "const", "default", "examples", "required"}
        else _limited(inner, lists, text)
        for key, inner in schema.items()
    }
    if smaller.get("type") == "array":
        smaller.setdefault("maxItems", max(lists, int(smaller.get("minItems", 0))))
    free = not _BOUNDED & set(smaller) and smaller.get("format") not in _SHORT_FORMATS
    if smaller.get("type") == "string" and free:
        smaller.setdefault("maxLength", max(text, int(smaller.get("minLength", 0))))
    return smaller
