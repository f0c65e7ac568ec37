"""A valid value for a schema, decided by a seed alone: what the scripted model says and what a dry run walks with."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from math import ceil, floor
from typing import Any, Final

from skillrun.language.schemas import referred

MOST_ITEMS: Final = 3
_DEEPEST: Final = 12
_SPAN: Final = 100
_SUBJECTS: Final = ("The request", "A caller", "The first step", "Every record", "This design", "The person", "A test")
_VERBS: Final = ("needs", "keeps", "names", "leaves out", "depends on", "settles", "repeats")
_OBJECTS: Final = (
    "a clear owner",
    "one open question",
    "the old limit",
    "its own file",
    "a second look",
    "less",
    "time",
)


def sample(schema: Mapping[str, Any], seed: str) -> Any:
    """A value that fits the schema; the same for the same seed, on every machine.

    Lists have one to three items where the schema does not say otherwise, optional fields are there twice out of three
    times, texts are short sentences. `pattern`, `allOf` and the like are not looked at.
    """
    return _value(schema, schema, f"{seed}:", 0)


def _value(schema: Any, root: Mapping[str, Any], place: str, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return _sentence(place)
    if "$ref" in schema:
        return _value(referred(root, schema["$ref"]), root, place, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][_number(place, len(schema["enum"]))]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return _value(options[_number(place, len(options)) if depth < _DEEPEST else -1], root, place, depth + 1)
    return _typed(schema, root, place, depth)


def _typed(schema: Mapping[str, Any], root: Mapping[str, Any], place: str, depth: int) -> Any:
    kind = schema.get("type") or ("object" if "properties" in schema else "array" if "items" in schema else "string")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            required = schema.get("required", ())
            return {
                name: _value(field, root, f"{place}.{name}", depth + 1)
                for name, field in schema.get("properties", {}).items()
                if name in required or (depth < _DEEPEST and _number(f"{place}?{name}", 3))
            }
        case "array":
            least = schema.get("minItems", 0 if depth >= _DEEPEST else 1)
            most = max(least, min(schema.get("maxItems", MOST_ITEMS), max(MOST_ITEMS, least)))
            count = least + _number(f"{place}#", most - least + 1)
            return [_value(schema.get("items"), root, f"{place}[{n}]", depth + 1) for n in range(count)]
        case "integer":
            lower, upper = _bounds(schema)
            return ceil(lower) + _number(place, floor(upper) - ceil(lower) + 1)
        case "number":
            lower, upper = _bounds(schema)
            return min(upper, max(lower, round(lower + (upper - lower) * _number(place, 101) / 100, 4)))
        case "boolean":
            return bool(_number(place, 2))
        case "null":
            return None
    text = _sentence(place)
    while len(text) < schema.get("minLength", 0):
        text += " " + _sentence(place + text)
    return text[: schema.get("maxLength")]


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    """The least and the greatest number allowed; where one is open, a hundred away from the other or from 0."""
    lower = schema.get("minimum", schema.get("exclusiveMinimum", None))
    upper = schema.get("maximum", schema.get("exclusiveMaximum", None))
    if lower is None:
        lower = 0 if upper is None or upper >= 0 else upper - _SPAN
    if upper is None:
        upper = lower + _SPAN
    step = 1 if schema.get("type") == "integer" else (upper - lower) / 100
    return lower + step * ("exclusiveMinimum" in schema), upper - step * ("exclusiveMaximum" in schema)


def _sentence(place: str) -> str:
    words = (words[_number(place + words[0], len(words))] for words in (_SUBJECTS, _VERBS, _OBJECTS))
    return f"{' '.join(words)}."


def _number(place: str, below: int) -> int:
    """A number from 0 to below - 1 that the place alone decides."""
    return int.from_bytes(sha256(place.encode("utf-8", "surrogatepass")).digest()[:8]) % max(1, below)
