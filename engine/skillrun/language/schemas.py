"""Checking values against JSON Schema, in messages that a model or an author can act on.

Knows nothing of how authors write shapes; `jsonschema` is imported when the first value is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Final

from skillrun.language.diagnostics import SkillrunError, allowed, did_you_mean

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

SHOWN_VALUE: Final = 60
"""Characters of a value that a message shows."""

TYPES: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


@dataclass(frozen=True)
class ShapeError:
    """One thing that is wrong with a value; `path` is like `findings[2].severity`, empty for the whole."""

    path: str
    message: str


@dataclass(frozen=True, eq=False)
class Shape:
    """What a value has to look like, as JSON Schema."""

    schema: dict[str, Any]

    @staticmethod
    def from_schema(schema: Any) -> Shape:
        """The shape an author wrote as JSON Schema. Raises SkillrunError when it is none or refers to other files."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        if not isinstance(schema, dict):
            raise SkillrunError(f"a JSON Schema is a mapping, not {shown(schema)}")
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            place = _path(error.absolute_path)
            raise SkillrunError(f"this is no JSON Schema: {f'`{place}`: ' if place else ''}{error.message}") from None
        for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)):
            if referred(schema, reference) is None:
                raise SkillrunError(f"`$ref` is {shown(reference)}; it names nothing in this schema")
        return Shape(schema)

    def check(self, value: Any) -> list[ShapeError]:
        """Everything that is wrong with the value, in its order; empty when it fits."""
        found = (wrong for error in self._validator.iter_errors(value) for wrong in _described(error))
        return list(dict.fromkeys(found))

    def prune(self, value: Any) -> tuple[Any, int]:
        """The value without the list items that do not fit, and how many were dropped."""
        value, dropped = deepcopy(value), 0
        while bad := self._bad_items(value):
            for *way, place in sorted(bad, key=lambda path: (len(path), path[-1]), reverse=True):
                del reduce(getitem, way, value)[place]
                dropped += 1
        return value, dropped

    @cached_property
    def _validator(self) -> Validator:
        from jsonschema import Draft202012Validator
        from referencing import Registry

        return Draft202012Validator(self.schema, registry=Registry())  # this one fetches nothing

    def _bad_items(self, value: Any) -> set[tuple[Any, ...]]:
        """The paths of the innermost list items in which something is wrong; none within another of them."""
        found: set[tuple[Any, ...]] = set()
        for error in self._validator.iter_errors(value):
            path = tuple(error.absolute_path)
            end = next((n for n in range(len(path), 0, -1) if isinstance(path[n - 1], int)), 0)
            if end:
                found.add(path[:end])
        return {path for path in found if not any(path[:n] in found for n in range(1, len(path)))}


def shown(value: Any) -> str:
    """A value for a message, in backticks, shortened."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return f"`{text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + '…'}`"


def referred(schema: Any, reference: str) -> Any:
    """What `#/$defs/name` names in a schema; None for what it does not have."""
    start, *parts = reference.split("/")
    found = schema if start == "#" else None
    for part in parts:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _described(error: Any) -> Iterator[ShapeError]:
    """A `ValidationError` in the words of whoever wrote the value."""
    path = _path(error.absolute_path)
    name = f"`{_path(list(error.absolute_path)[-1:])}`" if path else "the value"
    given, limit = error.instance, error.validator_value
    match error.validator:
        case "required":
            for missing in (each for each in limit if each not in given):
                yield ShapeError(f"{path}.{missing}".removeprefix("."), f"`{missing}` is missing")
        case "additionalProperties" if limit is False:
            known = list(error.schema.get("properties", {}))
            for extra in (each for each in given if each not in known):
                hint = did_you_mean(extra, known) or allowed(known)
                yield ShapeError(
                    f"{path}.{extra}".removeprefix("."), f"unknown field `{extra}`; {hint}".removesuffix("; ")
                )
        case "type":
            wanted = " or ".join(TYPES[each] for each in ([limit] if isinstance(limit, str) else limit))
            yield ShapeError(path, f"{name} is {shown(given)}; expected {wanted}")
        case "enum":
            yield ShapeError(path, f"{name} is {shown(given)}; {allowed(map(str, limit))}")
        case "minimum" | "maximum":
            yield ShapeError(path, f"{name} is {shown(given)}; allowed: {_range(error.schema)}")
        case _:
            yield ShapeError(path, f"{name}: {error.message[:300]}")


def _range(schema: Any) -> str:
    lower, upper = schema.get("minimum"), schema.get("maximum")
    if upper is None:
        return f"{lower} or more"
    return f"{upper} or less" if lower is None else f"{lower} to {upper}"


def _path(parts: Any) -> str:
    """`findings[2].severity` for the parts of a path."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return written.removeprefix(".")
