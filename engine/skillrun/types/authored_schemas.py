"""JSON Schema that an author wrote: refused where it is none, or where no reply could be held against it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from skillrun.scoring import patterns
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.samples import sample
from skillrun.types.schemas import Shape, format_path, quote_value, resolve_reference

MAX_RULES: Final = 5_000  # of a schema, with its `$ref`s followed
LARGEST: Final = {"minLength": 100_000, "minItems": 1_000, "minProperties": 1_000}


def parse_json_schema(schema: Any) -> Shape:
    """The shape that a JSON Schema states. Raises SkillrunError when it is none or refers to other files."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        raise SkillrunError(f"a JSON Schema is a mapping, not {quote_value(schema)}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = format_path(error.absolute_path)
        raise SkillrunError(f"this is no JSON Schema: {f'`{place}`: ' if place else ''}{error.message}") from None
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)):
        if resolve_reference(schema, reference) is None:
            raise SkillrunError(f"`$ref` is {quote_value(reference)}; it names nothing in this schema")
    if _count_rules(schema, schema, ()) > MAX_RULES:
        raise SkillrunError(
            f"this schema cannot be used: with its `$ref`s followed it has more than {MAX_RULES:,} rules"
        )
    try:
        sample(schema, "")
    except RecursionError:
        raise SkillrunError("this schema cannot be used: no value that fits it has an end") from None
    for pattern in _patterns(schema):
        if reason := patterns.rejection_reason(pattern):
            raise SkillrunError(f"this schema cannot be used: {reason}")
    return Shape(schema)


def _count_rules(rules: Any, root: dict[str, Any], followed: tuple[str, ...]) -> int:
    """How many rules a schema has with every `$ref` followed once on each way, as far as it matters.

    Raises SkillrunError for more than a reply can hold, and for what is resolved elsewhere.
    """
    if isinstance(rules, list):
        return _sum(_count_rules(part, root, followed) for part in rules)
    if not isinstance(rules, dict):
        return 1
    if "$dynamicRef" in rules or "$recursiveRef" in rules:
        raise SkillrunError("this schema cannot be used: `$dynamicRef` is not offered; write `$ref`")
    for key, most in LARGEST.items():
        if isinstance(rules.get(key), int) and rules[key] > most:
            raise SkillrunError(
                f"this schema cannot be used: `{key}` is {rules[key]}, and a reply holds at most {most:,}"
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
    """The sum, or as soon as it is more than matters, that."""
    total = 0
    for size in sizes:
        total += size
        if total > MAX_RULES:
            break
    return total


def _patterns(schema: Any) -> Iterator[str]:
    """Every pattern of a schema. Raises SkillrunError for names of fields by pattern, which are not offered."""
    if isinstance(schema, dict):
        if isinstance(schema.get("patternProperties"), dict):
            raise SkillrunError("this schema cannot be used: `patternProperties` is not offered; name the properties")
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for part in inner:
        yield from _patterns(part)
