"""Checks values against JSON Schema, with messages that a model or an author can act on.

This module does not know the shape notation. It imports `jsonschema` only when the first value is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property, partial, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Final

from skillrun.scoring import patterns
from skillrun.syntax.diagnostics import allowed_hint, did_you_mean
from skillrun.types.forms import find_placeholders

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

QUOTED_VALUE: Final = 200  # a path of a user fits
"""The maximum number of characters of a value that is quoted in a message."""

MAX_REFERENCES: Final = 20  # maximum length of a chain of `$ref`s
_DEFINITIONS: Final = ("$defs", "definitions")
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,300}(?:\.[0-9]{1,300})?")

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
    """One error in a value. `path` looks like `findings[2].severity`. It is empty for an error in the whole value."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True)
class DroppedValue:
    """A part that was dropped from a value. `text` is the JSON of the part."""

    path: str
    reason: str
    text: str


@dataclass(frozen=True, eq=False)
class Shape:
    """The shape of a value, given as a JSON Schema."""

    schema: dict[str, Any]

    def check(self, value: Any) -> list[ShapeError]:
        """Return all errors in the value, in order. The list is empty if the value is valid."""
        errors = (shape_error for error in self._validator.iter_errors(value) for shape_error in _describe_error(error))
        return list(dict.fromkeys(errors))

    def check_reply(self, value: Any) -> list[ShapeError]:
        """Return all errors in the value of a model's reply. A text that repeats the form is also an error."""
        repeated = (ShapeError(format_path(path), message) for path, message in self._placeholders(value))
        return [*self.check(value), *repeated]

    def normalize(self, value: Any) -> Any:
        """Correct unambiguous deviations from the schema, and return the corrected value.

        The letter case of enum values is corrected. Quoted numbers become numbers, and integers such as `3.0` become
        `3`. Optional fields that are null are dropped.
        """
        return _normalize(value, self.schema, self.schema)

    def drop_invalid(self, value: Any) -> tuple[Any, list[DroppedValue]]:
        """Remove invalid parts from the value of a reply. Return the remaining value and the removed parts.

        For each error of `check_reply`, remove the innermost extra field, optional field or list item that contains the
        error. An error outside such parts remains.
        """
        value, dropped = deepcopy(value), list[DroppedValue]()
        while invalid_parts := self._find_invalid_parts(value):
            for (*parent_path, place), reasons in invalid_parts.items():
                parent, reason = reduce(getitem, parent_path, value), "; ".join(dict.fromkeys(reasons))
                dropped.append(_drop((*parent_path, place), reason, parent[place]))
                del parent[place]
        return value, dropped[::-1]

    def trim_lists(self, value: Any) -> tuple[Any, list[DroppedValue]]:
        """Cut lists to their maximum length. Return the value and the items that were cut off."""
        dropped: list[DroppedValue] = []
        return _trim_lists(value, self.schema, self.schema, (), dropped), dropped

    def item_shape(self, name: str) -> Shape:
        """Return the shape of an item of the list `name`, with the definitions that the item may refer to."""
        rules = _resolve_rules(_child_rules(_child_rules(self.schema, name, self.schema), 0, self.schema), self.schema)
        return Shape({**{keyword: self.schema[keyword] for keyword in _DEFINITIONS if keyword in self.schema}, **rules})

    @property
    def accepts_lists(self) -> bool:
        """Whether the value may be a list."""
        kind: Any = self.schema.get("type", "object" if "properties" in self.schema else "")
        return bool(kind != "object")

    @cached_property
    def _validator(self) -> Validator:
        from referencing import Registry

        made: Validator = _validators()(self.schema, registry=Registry())  # an empty registry never fetches schemas
        return made

    def _placeholders(self, value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the path and the error message of each text that repeats the form."""
        resolve = partial(_resolve_rules, root=self.schema)
        for path in find_placeholders(value, resolve(self.schema), resolve):
            yield path, f"{quote_value(reduce(getitem, path, value))} repeats the form instead of filling it in"

    def _find_invalid_parts(self, value: Any) -> dict[tuple[Any, ...], list[str]]:
        """Return the reasons for dropping each invalid part, keyed by the part's path.

        No part contains another part. Deeper parts come first, and later items of a list come before earlier items.
        Dropping the parts in this order does not change the paths of the remaining parts.
        """
        places: dict[tuple[Any, ...], list[str]] = {}
        error: Any
        for error in self._validator.iter_errors(value):
            path = tuple(error.absolute_path)
            extra: list[Any] = []
            if error.validator == "additionalProperties" and error.validator_value is False:
                extra = [each for each in error.instance if each not in error.schema.get("properties", {})]
            reasons = [each.message for each in _describe_error(error)]
            if extra:  # one error per extra field, in the same order
                places.update({(*path, name): [why] for name, why in zip(extra, reasons, strict=True)})
            elif place := self._removable_path(path):
                places.setdefault(place, []).extend(reasons)
        for path, message in self._placeholders(value):
            if place := self._removable_path(path):
                places.setdefault(place, []).append(message)
        outermost = [path for path in places if not any(path[:n] in places for n in range(1, len(path)))]
        order = sorted(outermost, key=lambda p: (len(p), p[-1] if isinstance(p[-1], int) else -1), reverse=True)
        return {path: places[path] for path in order}

    def _removable_path(self, path: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the path of the innermost list item or optional field that contains `path`, or else ()."""
        rules_along_path = [self.schema]
        for part in path:
            rules_along_path.append(_child_rules(rules_along_path[-1], part, self.schema))
        for end in range(len(path), 0, -1):
            rules, name = _resolve_rules(rules_along_path[end - 1], self.schema), path[end - 1]
            if isinstance(name, int) or (name in rules.get("properties", {}) and name not in rules.get("required", ())):
                return path[:end]
        return ()


def quote_value(value: Any) -> str:
    """Return the value for use in a message: on one line, shortened and in backticks."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return f"`{text if len(text) <= QUOTED_VALUE else text[: QUOTED_VALUE - 1] + '…'}`"


@cache
def _validators() -> Any:
    """Return the class of the JSON Schema validator, which matches patterns in linear time."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def pattern(_: Any, wanted: str, instance: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not patterns.occurs(wanted, instance):
            yield ValidationError(f"{instance!r} does not match {wanted!r}")

    def least_length(_: Any, least: int, instance: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and _length(instance) < least:
            yield ValidationError(f"{instance!r} is too short")

    rules = {"pattern": pattern, "minLength": least_length}
    return extend(Draft202012Validator, rules)  # type: ignore[no-untyped-call]


def _length(value: Any) -> int:
    """Return the number of items or characters. A text of white space alone has none."""
    return 0 if isinstance(value, str) and not value.strip() else len(value)


def resolve_reference(schema: Any, reference: str) -> Any:
    """Return the part of a schema at a reference such as `#/$defs/name`, or None if there is no such part."""
    start, *parts = reference.split("/")
    rules = schema if start == "#" else None
    for part in parts:
        rules = rules.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(rules, dict) else None
    return rules


def _resolve_rules(rules: Any, root: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema with its `$ref` resolved, or an empty mapping if the part is not a mapping."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(rules, dict) or not isinstance(rules.get("$ref"), str):
            break
        rules = resolve_reference(root, rules["$ref"])
    return rules if isinstance(rules, dict) else {}


def _child_rules(rules: Any, part: Any, root: dict[str, Any]) -> Any:
    """Return the schema of the field `part` or, if `part` is an index, of a list's items."""
    known = _resolve_rules(rules, root)
    return known.get("items") if isinstance(part, int) else known.get("properties", {}).get(part)


def _normalize(value: Any, rules: Any, root: dict[str, Any]) -> Any:
    known = _resolve_rules(rules, root)
    if isinstance(value, list):
        return [_normalize(each, known.get("items"), root) for each in value]
    if isinstance(value, dict):
        fields, required = known.get("properties", {}), known.get("required", ())
        left_out = {name for name, each in value.items() if each is None and name in fields and name not in required}
        return {name: _normalize(each, fields.get(name), root) for name, each in value.items() if name not in left_out}
    kind, choices = known.get("type"), known.get("enum")
    if isinstance(value, str) and isinstance(choices, list):
        like = [each for each in choices if str(each).casefold() == value.strip().casefold()]
        return like[0] if value not in choices and len(like) == 1 else value
    if isinstance(value, str) and kind in ("integer", "number") and (number := _NUMBER.fullmatch(value.strip())):
        value = float(number[0]) if "." in number[0] else int(number[0])
    return int(value) if kind == "integer" and isinstance(value, float) and value.is_integer() else value


def _trim_lists(
    value: Any, rules: Any, root: dict[str, Any], path: tuple[Any, ...], dropped: list[DroppedValue]
) -> Any:
    known = _resolve_rules(rules, root)
    if isinstance(value, dict):
        fields = known.get("properties", {})
        return {name: _trim_lists(each, fields.get(name), root, (*path, name), dropped) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    most = known.get("maxItems", len(value))
    reason = f"at most {most} items are allowed"
    dropped += [_drop((*path, at), reason, each) for at, each in enumerate(value[most:], most)]
    return [_trim_lists(each, known.get("items"), root, (*path, at), dropped) for at, each in enumerate(value[:most])]


def _drop(path: tuple[Any, ...], reason: str, value: Any) -> DroppedValue:
    return DroppedValue(format_path(path), reason, json.dumps(value, ensure_ascii=False))


def _describe_error(error: Any) -> Iterator[ShapeError]:
    """Yield the errors of a `ValidationError`, with messages for the author of the value."""
    path = format_path(error.absolute_path)
    name = f"`{format_path(list(error.absolute_path)[-1:])}`" if path else "the value"
    given, limit = error.instance, error.validator_value
    match error.validator:
        case "required":
            for missing in (each for each in limit if each not in given):
                yield ShapeError(f"{path}.{missing}".removeprefix("."), f"`{missing}` is missing")
        case "additionalProperties" if limit is False:
            known = list(error.schema.get("properties", {}))
            for extra in (each for each in given if each not in known):
                hint = did_you_mean(extra, known) or allowed_hint(known)
                message = f"unknown field `{extra}`; {hint}".removesuffix("; ")
                yield ShapeError(f"{path}.{extra}".removeprefix("."), message)
        case "type":
            wanted = " or ".join(TYPES[each] for each in ([limit] if isinstance(limit, str) else limit))
            yield ShapeError(path, f"{name} is {quote_value(given)}; expected {wanted}")
        case "enum":
            yield ShapeError(path, f"{name} is {quote_value(given)}; {allowed_hint(map(str, limit))}")
        case "minimum" | "maximum":
            yield ShapeError(path, f"{name} is {quote_value(given)}; allowed: {_range(error.schema)}")
        case "minItems" | "maxItems" | "minLength" | "maxLength":
            what = "items" if error.validator.endswith("Items") else "characters"
            kind = error.validator[3:]
            limits = {"minimum": error.schema.get(f"min{kind}", 0), "maximum": error.schema.get(f"max{kind}")}
            yield ShapeError(path, f"{name} has {_length(given):,} {what}; allowed: {_range(limits)}")
        case _:
            yield ShapeError(path, f"{name}: {error.message[:300]}")


def _range(schema: Any) -> str:
    lower, upper = schema.get("minimum"), schema.get("maximum")
    if upper is None:
        return f"{lower} or more"
    return f"{upper} or less" if lower is None else f"{lower} to {upper}"


def format_path(parts: Any) -> str:
    """Format the parts of a path as `findings[2].severity`."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return written.removeprefix(".")
