"""What steps of several verbs have in common: what they are asked to give, where it is kept, what a value can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from skillrun.checker.comparisons import KINDS
from skillrun.checker.names import PHASE_RECORD
from skillrun.checker.scope import Scope
from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import OWN_FILES, Key
from skillrun.structured_output.record_schemas import ANSWERS, answers
from skillrun.structured_output.record_schemas import merged_schema as records_merged
from skillrun.structured_output.salvaging import list_field
from skillrun.syntax.diagnostics import suggest
from skillrun.templates.expressions import Value
from skillrun.types.json_schema import of_schema
from skillrun.types.types import ANY, Type, declared_at, identifier, record

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "list": ("list",), "boolean": ("boolean",), "integer": ("number", "text"), "number": ("number", "text"),
    "mapping": ("record", "map"),
}  # fmt: skip
Types = Mapping[str, Type]
"""The types of a step's values, by their keys."""


def data_type(scope: Scope, step: Step) -> Type | None:
    """The type of structured data, None where no shape asks for any; the templates inside its shape are checked."""
    label = (str(step.id), "data")
    if step.schema is not None:
        return of_schema(step.schema, label)
    spec = scope.lookups.spec(step.output)
    if spec is None:
        return None if step.output is None else ANY
    if spec.task and scope.place is not None:
        scope.report(spec.span, "shape", "only a protocol's step takes `task`", "write out the fields")
    for template in spec.templates:
        scope.infer(template)
    return ANY if spec.task else declared_at(spec.type, label)


def record_type(scope: Scope, step: Step, beside: Types) -> Type | None:
    """The type of the record that comes with a reply; None where none is asked for."""
    for key in ("record", "points"):
        if (step.record if key == "record" else key in beside) and (step.output or step.schema is not None):
            hint = "a structured reply has its own fields: leave `output` out, or put them there"
            scope.report(step.place(key), "two-forms", f"`{key}` comes with a reply that is text", hint)
            return ANY
    taken: dict[str, str] = {}
    outlines = []
    for part in step.record:
        if (spec := scope.lookups.shape_of(part)) is None:
            continue
        for name in spec.outline.get("properties", {}):
            if name == ANSWERS and "points" in beside:
                scope.report(part.span, "duplicate", f"`{name}` is where `points` are answered", "choose another name")
            elif identifier(name) in taken:
                scope.report(part.span, "duplicate", f"another part of `record` has `{name}` already")
            taken[identifier(name)] = name
        for template in spec.templates:
            scope.infer(template)
        outlines.append(spec.outline)
    if not outlines and "points" not in beside:
        return ANY if step.record else None
    ids = [answers()] if "points" in beside else []
    asked = of_schema(records_merged([*outlines, *ids]), (str(step.id), "record"))
    for part in step.record[:1]:
        kept = {name: type_ for name, type_ in PHASE_RECORD.fields.items() if name in asked.fields}
        scope.fit(part.span, asked, record(kept), f"the record of `{step.id}`")
    return asked


def check_gathered(scope: Scope, step: Step) -> None:
    """`invalid: gather` is for a shape whose only field is a list."""
    value = step.values.get("invalid")
    if value is None or value.literal != "gather":
        return
    spec = step.output.name and scope.lookups.library.text(step.output.name) if step.output is not None else None
    shape = spec.output if spec else step.output
    schema = step.schema if step.schema is not None else shape.outline if shape is not None else {}
    if not list_field(schema):
        hint = "write `output: {items(array): {…}}`, or `invalid: drop`"
        scope.report(value.span, "shape", "`gather` is for a reply that is one list of items", hint)


def check_kind(scope: Scope, name: str, key: Key, value: Value, type_: Type) -> None:
    """Report what a template gives for a key that takes another kind; what is written out has been looked at."""
    kinds = _KINDS.get(key.takes)
    if not value.computed:
        return
    if key.takes == "choice":
        check_among(scope, value, type_, key.values, f"what `{name}` can be")
    elif kinds is not None and type_.kind not in (*kinds, "any", "none"):
        scope.report(value.span, "type", f"`{name}` is {KINDS[type_.kind]}", f"expected {KINDS[kinds[0]]}")


def check_artifact(scope: Scope, step: Step) -> None:
    """Report an artifact outside the run's folder, or where the run keeps its own files."""
    path = step.artifact.literal if step.artifact is not None else None
    if step.artifact is None or not isinstance(path, str):
        return
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts:
        scope.report(step.artifact.span, "path", f"`{path}` is no place in the run's folder", "write `name.md`")
    elif parts[0] in OWN_FILES or parts[0].startswith("round-"):
        scope.report(step.artifact.span, "path", f"`{path}` belongs to the run itself", "choose another name")


def check_among(scope: Scope, value: Value, type_: Type, known: Iterable[Any], what: str) -> None:
    """Report what a value can be and must not: where it is written, in the value or in the config."""
    options = list(known)
    named = {each for each in options if isinstance(each, str)}
    for given in [
        each for each in type_.values or () if not (each in named if isinstance(each, str) else each in options)
    ]:
        for span in scope.lookups.places(value, given, scope.settings):
            scope.report(span, "choice", f"`{given}` is not among {what}", suggest(str(given), map(str, options)))
