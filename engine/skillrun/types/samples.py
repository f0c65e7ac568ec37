"""Generates sample values for a schema. The scripted model and dry runs use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import ceil, floor
from typing import Any, Final

from skillrun.types.schemas import resolve_reference

_DEEPEST: Final = 12
_SPAN: Final = 100
_SUBJECTS: Final = ("The request", "A caller", "The first step", "Every record", "This design", "The person", "A test")
_VERBS: Final = ("needs", "keeps", "names", "leaves out", "depends on", "settles", "repeats")
_OBJECTS: Final = (
    "a clear owner", "one open question", "the old limit", "its own file", "a second look", "less", "time",
)  # fmt: skip


@dataclass(frozen=True)
class SampleLimits:
    """Size limits: `least` and `most` items of a list without a length, and at most `sentences` sentences of a text."""

    least: int = 1
    most: int = 3
    sentences: int = 1


DEFAULT_LIMITS: Final = SampleLimits()
WIDE_LIMITS: Final = SampleLimits(least=0, most=12, sentences=8)


def sample(schema: Mapping[str, Any], seed: str, bounds: SampleLimits = DEFAULT_LIMITS) -> Any:
    """Return a value that fits the schema. The same seed gives the same value on every machine.

    With the default `bounds`, a text is one short sentence, and a list has one to three items if the schema does not
    limit its length. An optional field is present two times out of three. `pattern`, `allOf` and similar keywords are
    ignored.
    """
    return _Sampler(schema, bounds).value(schema, f"{seed}:", 0)


@dataclass(frozen=True)
class _Sampler:
    root: Mapping[str, Any]
    bounds: SampleLimits

    def value(self, schema: Any, place: str, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return _sentence(place)
        if "$ref" in schema:
            return self.value(resolve_reference(self.root, schema["$ref"]), place, depth + 1)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][_number(place, len(schema["enum"]))]
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self.value(options[_number(place, len(options)) if depth < _DEEPEST else -1], place, depth + 1)
        return self._sample_type(schema, place, depth)

    def _sample_type(self, schema: Mapping[str, Any], place: str, depth: int) -> Any:
        kind = schema.get("type") or (
            "object" if "properties" in schema else "array" if "items" in schema else "string"
        )
        match kind if isinstance(kind, str) else kind[0]:
            case "object":
                required = schema.get("required", ())
                return {
                    name: self.value(field, f"{place}.{name}", depth + 1)
                    for name, field in schema.get("properties", {}).items()
                    if name in required or (depth < _DEEPEST and _number(f"{place}?{name}", 3))
                }
            case "array":
                least = schema.get("minItems", 0 if depth >= _DEEPEST else self.bounds.least)
                most = max(least, min(schema.get("maxItems", self.bounds.most), max(self.bounds.most, least)))
                count = least + _number(f"{place}#", most - least + 1)
                return [self.value(schema.get("items"), f"{place}[{n}]", depth + 1) for n in range(count)]
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
        count = 1 + _number(f"{place}~", self.bounds.sentences)
        text = " ".join([_sentence(place), *(_sentence(f"{place}~{n}") for n in range(1, count))])
        while len(text) < schema.get("minLength", 0):
            text += " " + _sentence(place + text)
        return text[: schema.get("maxLength")]


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    """Return the minimum and maximum of a number.

    If the minimum is missing, it is 0, or 100 less than a negative maximum. If the maximum is missing, it is 100 more
    than the minimum.
    """
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
    """Return a number from 0 to `below` - 1 that depends only on `place`."""
    return int.from_bytes(sha256(place.encode("utf-8", "surrogatepass")).digest()[:8]) % max(1, below)
