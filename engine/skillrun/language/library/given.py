"""What a caller gives: values checked against declared fields, defaults filled in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skillrun.language.library.lookups import Lookups
from skillrun.language.templates.absent import Absent
from skillrun.language.types.fields import Field, MemberError, coerce, parse_member

if TYPE_CHECKING:
    from skillrun.language.check.program import Program
    from skillrun.language.library.library import Library


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


def unknown_names(program: Program, inputs: Mapping[str, Any]) -> list[str]:
    """What is wrong with the members and models that the inputs of a workflow name."""
    lookups = Lookups(program.library)
    errors = []
    for field, written in _named(program, inputs):
        is_model = field.item.word == "model"
        wrong = [lookups.models.wrong(written)] if is_model else lookups.wrong_member(written)
        errors += [f"`{field.name}` is `{written}`: {one.message}; {one.hint}" for one in wrong if one is not None]
    for field in program.workflow.inputs:
        if field.array and field.item.word == "member":
            for written, times in Counter(inputs.get(field.name) or ()).items():
                if times > 1:
                    errors.append(f"`{field.name}` has `{written}` twice; a variant or a model tells members apart")
    if not errors and any(problem.severity == "error" for problem in program.library.problems):
        errors.append("a role that an input names cannot be read: `skillrun validate` shows why")
    return errors


def models_in(program: Program, inputs: Mapping[str, Any]) -> list[str]:
    """The names of models that the inputs of a workflow ask for: as they are, and those of members and their roles."""
    found = []
    for field, written in _named(program, inputs):
        found += [written] if field.item.word == "model" else model_of(program.library, written)
    return list(dict.fromkeys(found))


def model_of(library: Library, written: Any) -> list[str]:
    """The name of a member's model; none where there is no such member."""
    try:
        member = parse_member(written)
    except MemberError:
        return []
    role = library.role(member.role)
    return [member.model or role.model] if role is not None else []


def _named(program: Program, inputs: Mapping[str, Any]) -> Iterator[tuple[Field, str]]:
    """Each member and model that an input names, with its field."""
    for field in program.workflow.inputs:
        value = inputs.get(field.name) if field.item.word in ("member", "model") else None
        yield from ((field, one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


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
    return {key: one for key, one in value.items() if key in properties and one is not None}
