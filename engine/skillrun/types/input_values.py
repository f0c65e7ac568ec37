"""Resolves the values of declared fields: checks given values, and applies defaults and fallbacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from skillrun.templates.absent import Absent
from skillrun.types.fields import Field, coerce


def resolve_inputs(
    fields: Iterable[Field], given: Mapping[str, Any], names: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the values of declared fields, errors and warnings. Defaults may read `names`."""
    fields = tuple(fields)
    known = {field.name for field in fields}
    values: dict[str, Any] = {}
    errors = [f"there is no input `{name}`" for name in given if name not in known]
    warnings: list[str] = []
    for field in fields:
        names_in_scope = {**names, "inputs": names.get("inputs", values)}
        if field.name in given:
            value = given[field.name]
        elif field.default is not None:
            value = field.default.evaluate(names_in_scope)
        elif field.required:
            errors.append(f"`{field.name}` is missing")
            continue
        else:
            continue
        if isinstance(value, Absent) or value is None:
            continue
        coerced = coerce(field, keep_declared_keys(field, value), names_in_scope)
        warnings.extend(coerced.warnings)
        if coerced.error:
            errors.append(coerced.error)
        else:
            values[field.name] = coerced.value
    return values, errors, warnings


def apply_fallbacks(fields: Iterable[Field], values: dict[str, Any], names: Mapping[str, Any]) -> list[str]:
    """Replace values that are no longer allowed with the `fallback` of their fields; return the warnings."""
    warnings: list[str] = []
    for field in fields:
        if field.fallback is not None and values.get(field.name) is not None:
            coerced = coerce(field, values[field.name], {**names, "inputs": names.get("inputs", values)})
            if coerced.warnings and not coerced.error:
                values[field.name] = coerced.value
                warnings.extend(coerced.warnings)
    return warnings


def keep_declared_keys(field: Field, value: Any) -> Any:
    """The value with only the keys of the field's shape, because records may contain more."""
    properties = list(field.item.fields)
    if not properties:
        return value
    if isinstance(value, list):
        return [_keep_keys(item, properties) for item in value]
    return _keep_keys(value, properties)


def _keep_keys(value: Any, properties: Collection[str]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: member for key, member in value.items() if key in properties and member is not None}
