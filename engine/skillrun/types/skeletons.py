"""Formats a shape as a form to fill in, which is JSON with types in place of values. Small models can follow it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

WIDTH: Final = 240
_DEEPEST: Final = 12


def skeleton(schema: Mapping[str, Any], depth: int = 0) -> str:
    """Return a form such as `{"title": "string", "sure?": "integer 0..100, how sure"}`.

    A long record spans several lines.
    """
    if depth > _DEEPEST:
        return '"any"'
    if isinstance(fields := schema.get("properties"), Mapping):
        required = schema.get("required", ())
        names = {name: name if name in required else f"{name}?" for name in fields}
        parts = [f"{_to_json(names[name])}: {skeleton(rules, depth + 1)}" for name, rules in fields.items()]
        line = f"{{{', '.join(parts)}}}"
        if len(line) <= WIDTH and "\n" not in line:
            return line
        indent = "  " * (depth + 1)
        return "{\n" + ",\n".join(indent + part for part in parts) + "\n" + "  " * depth + "}"
    if schema.get("type") == "array":
        return f"[{skeleton(schema.get('items') or {}, depth)}]"
    return _to_json(scalar_form(schema))


def notes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the description of each list and record. The form cannot contain these descriptions."""
    for name, rules in (schema.get("properties") or {}).items():
        field_path = f"{path}.{name}".removeprefix(".")
        items = rules.get("items") if isinstance(rules.get("items"), Mapping) else None
        if rules.get("description") and (items is not None or "properties" in rules):
            yield field_path, rules["description"]
        yield from notes(items if items is not None else rules, field_path)


def scalar_form(schema: Mapping[str, Any]) -> str:
    """Return the form of a single value, such as `string, a description`."""
    words = schema.get("description", "")
    if choices := schema.get("enum"):
        kind = " | ".join(map(str, choices))
    else:
        kind = str(schema.get("type", "any"))
        if "minimum" in schema or "maximum" in schema:
            kind += f" {schema.get('minimum', '')}..{schema.get('maximum', '')}"
    return f"{kind}, {words}" if words else kind


def _to_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
