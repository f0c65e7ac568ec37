"""Validates JSON Schemas written by authors, and rejects those that a reply cannot be checked against."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from skillrun.scoring import patterns
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.samples import sample
from skillrun.types.schemas import Shape, format_path, quote_value, resolve_reference

MAX_RULES: Final = 5_000  # per schema, with its `$ref`s resolved
LARGEST: Final = {"minLength": 100_000, "minItems": 1_000, "minProperties": 1_000}


def parse_json_schema(schema: Any) -> Shape:
    """Return the shape of a JSON Schema. Raises SkillrunError if it is invalid or refers to other files."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        raise SkillrunError(f"a JSON Schema must be a mapping, not {quote_value(schema)}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = format_path(error.absolute_path)
        raise SkillrunError(
            f"this is not a valid JSON Schema: {f'`{place}`: ' if place else ''}{error.message}"
        ) from None
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)):
        if resolve_reference(schema, reference) is None:
            raise SkillrunError(f"`$ref` is {quote_value(reference)}, which does not exist in this schema")
    if _count_rules(schema, schema, ()) > MAX_RULES:
        raise SkillrunError(
            f"this schema cannot be used: with its `$ref`s resolved, it has more than {MAX_RULES:,} rules"
        )
    try:
        sample(schema, "")
    except RecursionError:
        raise SkillrunError("this schema cannot be used: every valid value is infinitely deep") from None
    for pattern in _patterns(schema):
        if reason := patterns.rejection_reason(pattern):
            raise SkillrunError(f"this schema cannot be used: {reason}")
    return Shape(schema)


def _count_rules(rules: Any, root: dict[str, Any], followed: tuple[str, ...]) -> int:
    """Count the rules of a schema, following each `$ref` once per path, up to the limit.

    Raises SkillrunError for sizes beyond what a reply can hold, and for dynamic references.
    """
    if isinstance(rules, list):
        return _sum(_count_rules(part, root, followed) for part in rules)
    if not isinstance(rules, dict):
        return 1
    if "$dynamicRef" in rules or "$recursiveRef" in rules:
        raise SkillrunError("this schema cannot be used: `$dynamicRef` is not supported; use `$ref`")
    for key, most in LARGEST.items():
        if isinstance(rules.get(key), int) and rules[key] > most:
            raise SkillrunError(
                f"this schema cannot be used: `{key}` is {rules[key]}, but a reply can have at most {most:,}"
            )
    inner = [
        value
        for key, value in rules.items()
        if key not in ("$defs", "definitions", "enum", "const", "default", "examples")
    ]
    total = 1 + _sum(_count_rules(part, root, followed) for part in inner)
    reference = rules.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        total += _count_rules(resolve_reference(root, reference), root, (*followed, reference))
    return total


def _sum(sizes: Iterable[int]) -> int:
    """Return the sum; stop adding once it exceeds the limit."""
    total = 0
    for size in sizes:
        total += size
        if total > MAX_RULES:
            break
    return total


def _patterns(schema: Any) -> Iterator[str]:
    """Yield every pattern of a schema. Raises SkillrunError for `patternProperties`, which is not supported."""
    if isinstance(schema, dict):
        if isinstance(schema.get("patternProperties"), dict):
            raise SkillrunError("this schema cannot be used: `patternProperties` is not supported; list the properties")
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for part in inner:
        yield from _patterns(part)
