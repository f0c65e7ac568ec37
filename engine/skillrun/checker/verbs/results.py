"""Checks that several verbs share: structured results, artifacts, and the types and values of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from skillrun.checker.comparisons import KINDS
from skillrun.checker.names import PHASE_RECORD
from skillrun.checker.scope import Scope
from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import ENGINE_FILES, Key
from skillrun.structured_output.salvaging import find_list_field
from skillrun.structured_output.trailing_record import ANSWERS, answers_schema
from skillrun.structured_output.trailing_record import merge_schemas as records_merged
from skillrun.syntax.diagnostics import suggest
from skillrun.templates.expressions import Value
from skillrun.types.json_schema import type_from_schema
from skillrun.types.types import ANY, Type, identifier, label_type, record

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "list": ("list",), "boolean": ("boolean",), "integer": ("number", "text"), "number": ("number", "text"),
    "mapping": ("record", "map"),
}  # fmt: skip
Types = Mapping[str, Type]
"""Maps each key of a step to the type of its value."""


def data_type(scope: Scope, step: Step) -> Type | None:
    """Return the type of `.data`; None if the step has no shape. Also checks the templates in the shape."""
    label = (str(step.id), "data")
    if step.schema is not None:
        return type_from_schema(step.schema, label)
    spec = scope.lookups.resolve_shape(step.output)
    if spec is None:
        return None if step.output is None else ANY
    if spec.is_task and scope.phase_context is not None:
        scope.report(spec.span, "shape", "`task` is allowed only in the steps of a protocol", "list the fields")
    for template in spec.templates:
        scope.infer(template)
    return ANY if spec.is_task else label_type(spec.type, label)


def record_type(scope: Scope, step: Step, value_types: Types) -> Type | None:
    """Return the type of the record that follows a reply; None if the step requests no record."""
    for key in ("record", "points"):
        if (step.record if key == "record" else key in value_types) and (step.output or step.schema is not None):
            hint = "remove `output`, or move the fields into it"
            scope.report(step.value_span(key), "two-forms", f"`{key}` cannot be combined with a structured reply", hint)
            return ANY
    used_names: dict[str, str] = {}
    outlines = []
    for part in step.record:
        if (spec := scope.lookups.record_shape(part)) is None:
            continue
        for name in spec.static_schema.get("properties", {}):
            if name == ANSWERS and "points" in value_types:
                message = f"`{name}` is reserved for the answers to `points`"
                scope.report(part.span, "duplicate", message, "choose another name")
            elif identifier(name) in used_names:
                scope.report(part.span, "duplicate", f"another part of `record` already has `{name}`")
            used_names[identifier(name)] = name
        for template in spec.templates:
            scope.infer(template)
        outlines.append(spec.static_schema)
    if not outlines and "points" not in value_types:
        return ANY if step.record else None
    ids = [answers_schema()] if "points" in value_types else []
    asked = type_from_schema(records_merged([*outlines, *ids]), (str(step.id), "record"))
    for part in step.record[:1]:
        summary_fields = {name: type_ for name, type_ in PHASE_RECORD.fields.items() if name in asked.fields}
        scope.check_record_fields(part.span, asked, record(summary_fields), f"the record of `{step.id}`")
    return asked


def check_gather_shape(scope: Scope, step: Step) -> None:
    """Report a step that sets `invalid: gather` if its shape is not a single list."""
    value = step.values.get("invalid")
    if value is None or value.literal != "gather":
        return
    spec = step.output.name and scope.lookups.library.text(step.output.name) if step.output is not None else None
    shape = spec.output if spec else step.output
    schema = step.schema if step.schema is not None else shape.static_schema if shape is not None else {}
    if not find_list_field(schema):
        hint = "write `output: {items(array): {…}}`, or `invalid: drop`"
        scope.report(value.span, "shape", "`gather` needs an output whose only field is a list", hint)


def check_kind(scope: Scope, name: str, key: Key, value: Value, type_: Type) -> None:
    """Report a computed value whose kind does not fit its key. Literals have already been checked."""
    kinds = _KINDS.get(key.kind)
    if not value.is_computed:
        return
    if key.kind == "choice":
        check_allowed_values(scope, value, type_, key.values, f"the values of `{name}`")
    elif kinds is not None and type_.kind not in (*kinds, "any", "none"):
        scope.report(value.span, "type", f"`{name}` is {KINDS[type_.kind]}", f"expected {KINDS[kinds[0]]}")


def check_artifact(scope: Scope, step: Step) -> None:
    """Report an artifact if its path is outside the run's folder or used by the run itself."""
    path = step.artifact_path
    if step.artifact is None or path is None:
        return
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts:
        message = f"`{path}` is not a path inside the run's folder"
        scope.report(step.artifact.span, "path", message, "use a relative path, such as `name.md`")
    elif parts[0] in ENGINE_FILES or parts[0].startswith("round-"):
        scope.report(step.artifact.span, "path", f"`{path}` belongs to the run itself", "choose another name")


def check_allowed_values(scope: Scope, value: Value, type_: Type, known: Iterable[Any], what: str) -> None:
    """Report each possible value that is not in `known`, at its place in the step or in the config."""
    options = list(known)
    allowed_texts = {each for each in options if isinstance(each, str)}
    for given in type_.values or ():
        if given in allowed_texts if isinstance(given, str) else given in options:
            continue
        for span in scope.lookups.value_spans(value, given, scope.settings):
            hint = suggest(str(given), map(str, options))
            scope.report(span, "choice", f"`{given}` is not one of {what}", hint)
