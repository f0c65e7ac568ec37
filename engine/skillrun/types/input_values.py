"""What is given for declared fields: values checked against them, defaults and fallbacks filled in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from skillrun.templates.absent import Absent
from skillrun.types.fields import Field, coerce


def given_values(
    fields: Iterable[Field], given: Mapping[str, Any], names: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The values of declared fields, what is wrong with them, and warnings. `names` is what defaults may read."""
    fields = tuple(fields)
    known = {field.name for field in fields}
    values: dict[str, Any] = {}
    errors = [f"there is no input `{name}`" for name in given if name not in known]
    warnings: list[str] = []
    for field in fields:
        readable = {**names, "inputs": names.get("inputs", values)}
        if field.name in given:
            value = given[field.name]
        elif field.default is not None:
            value = field.default.evaluate(readable)
        elif field.required:
            errors.append(f"`{field.name}` is missing")
            continue
        else:
            continue
        if isinstance(value, Absent) or value is None:
            continue
        coerced = coerce(field, projected(field, value), readable)
        warnings.extend(coerced.warnings)
        if coerced.error:
            errors.append(coerced.error)
        else:
            values[field.name] = coerced.value
    return values, errors, warnings


def fallen_back(fields: Iterable[Field], given: dict[str, Any], names: Mapping[str, Any]) -> list[str]:
    """Put the `fallback` of a field in the place of a value that is not allowed any more; what is to be said of it."""
    told: list[str] = []
    for field in fields:
        if field.fallback is not None and given.get(field.name) is not None:
            coerced = coerce(field, given[field.name], {**names, "inputs": names.get("inputs", given)})
            if coerced.warnings and not coerced.error:
                given[field.name] = coerced.value
                told.extend(coerced.warnings)
    return told


def projected(field: Field, value: Any) -> Any:
    """The value with only the keys that the field's shape has: records may come with more than is kept."""
    properties = list(field.item.fields)
    if not properties:
        return value
    if isinstance(value, list):
        return [_projected(item, properties) for item in value]
    return _projected(value, properties)


def _projected(value: Any, properties: Collection[str]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: member for key, member in value.items() if key in properties and member is not None}
