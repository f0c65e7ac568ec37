"""What a caller gives: values checked against declared fields, defaults filled in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from skillrun.language.absent import Absent
from skillrun.language.fields import Field, coerce


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


def projected(field: Field, value: Any) -> Any:
    """The value with only the keys that the field's shape has: records may come with more than is kept."""
    properties = [name for name, _, _ in field.type.fields]
    if not properties:
        return value
    if isinstance(value, list):
        return [_projected(item, properties) for item in value]
    return _projected(value, properties)


def _projected(value: Any, properties: Collection[str]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: one for key, one in value.items() if key in properties and one is not None}
