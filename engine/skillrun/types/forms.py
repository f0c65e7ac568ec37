"""Formats a shape as a form to fill in: JSON with types in place of values. Small models can follow it.

This module also finds texts in a reply that repeat the form, such as `string`, instead of filling it in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

Path = tuple[str | int, ...]
Resolve = Callable[[Any], Mapping[str, Any]]
Repetition = Literal["description", "name", ""]

WIDTH: Final = 240
_DEEPEST: Final = 12
MIN_DESCRIPTION_WORDS: Final = 3
"""A placeholder repeats at least this many words of its description. A shorter text may be a real value."""
ABOUT_TYPES: Final = re.compile(r"type|kind|format|schema|class", re.IGNORECASE)
"""Matches names and descriptions of fields about types. In such a field, `string` may be a real value."""
PUNCTUATION: Final = " .,;:!?…'\"‘’“”`"


def skeleton(schema: Mapping[str, Any], depth: int = 0) -> str:
    """Return a form such as `{"title": "string", "sure?": "integer 0..100, how sure"}`.

    A long record spans several lines.
    """
    if depth > _DEEPEST:
        return '"any"'
    if isinstance(fields := schema.get("properties"), Mapping):
        required = schema.get("required", ())
        names = {name: name if name in required else f"{name}?" for name in fields}
        parts = [
            f"{json.dumps(names[name], ensure_ascii=False)}: {skeleton(rules, depth + 1)}"
            for name, rules in fields.items()
        ]
        line = f"{{{', '.join(parts)}}}"
        if len(line) <= WIDTH and "\n" not in line:
            return line
        indent = "  " * (depth + 1)
        return "{\n" + ",\n".join(indent + part for part in parts) + "\n" + "  " * depth + "}"
    if schema.get("type") == "array":
        return f"[{skeleton(schema.get('items') or {}, depth)}]"
    return json.dumps(scalar_form(schema), ensure_ascii=False)


def notes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the description of each list and record. The form has no place for these descriptions."""
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


def find_placeholders(
    value: Any, rules: Mapping[str, Any], resolve: Resolve, path: Path = (), name: str = ""
) -> Iterator[Path]:
    """Yield the path of each text that repeats the description, type or name of its field.

    A text that is only the name or type may be a real value. In a record, it is a placeholder if all other texts of the
    record are placeholders. In a list, it is a placeholder if all other single-word items are placeholders. `rules` is
    the schema of the value, and `resolve` resolves the references in a part of the schema.
    """
    repetitions: dict[Any, Repetition] = {}  # of the texts of one record or list
    if isinstance(value, Mapping):
        properties = rules.get("properties") or {}
        inner = {key: resolve(properties.get(key)) for key in value}
        for key, each in value.items():
            if _is_text(each, inner[key]):
                repetitions[key] = _repetition(each, str(key), inner[key])
        is_real_value = "" in repetitions.values()  # next to any other text, a name or type is a real value
        parts = [(key, each, inner[key], str(key)) for key, each in value.items()]
    elif isinstance(value, list):
        items = resolve(rules.get("items"))
        for at, each in enumerate(value):
            if _is_text(each, items):
                repetitions[at] = _repetition(each, name, items, str(rules.get("description", "")))
        # only a text of one word counts: a type may be a real value among words, but not among sentences
        is_real_value = any(not repeats and len(value[at].split()) == 1 for at, repeats in repetitions.items())
        parts = [(at, each, items, name) for at, each in enumerate(value)]
    else:
        if not path and _is_text(value, rules) and _repetition(value, "", rules) == "description":
            yield path
        return
    for key, repeats in repetitions.items():
        if repeats == "description" or (repeats == "name" and not is_real_value):
            yield (*path, key)
    for key, each, part_rules, part_name in parts:
        yield from find_placeholders(each, part_rules, resolve, (*path, key), part_name)


def _repetition(value: str, name: str, rules: Mapping[str, Any], of_list: str = "") -> Repetition:
    """Return what a text repeats: the description of its field or list, or only the field's name or type.

    A text such as `string, a description` counts as a description. A text may repeat only the beginning of a
    description.
    """
    text, kind = _normalize_text(value), _normalize_text(str(rules.get("type", "any")))
    descriptions = tuple(filter(None, (str(rules.get("description", "")), of_list)))
    if text.startswith(f"{kind}, ") and _normalize_text(scalar_form(rules)).startswith(text):
        return "description"
    count = len(text.split())
    for known in map(_normalize_text, descriptions):
        is_repeated = text == known or (known.startswith(text) and count > len(known.split()) / 2)
        if count >= MIN_DESCRIPTION_WORDS and is_repeated:
            return "description"
    if text == kind:
        return "" if any(map(ABOUT_TYPES.search, (name, *descriptions))) else "name"
    return "name" if name and text == _normalize_text(name) else ""


def _is_text(value: Any, rules: Mapping[str, Any]) -> bool:
    """Whether a value is a text that the schema does not restrict to fixed values."""
    return isinstance(value, str) and "enum" not in rules and "const" not in rules


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split()).strip(PUNCTUATION)
