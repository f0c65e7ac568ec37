"""Checks the steps that compute values or use files: `set`, `decide`, `read`, `find` and `write`."""

from __future__ import annotations

from typing import Final

from jinja2 import nodes

from skillrun.checker.comparisons import KINDS
from skillrun.checker.facts import facts_if_false
from skillrun.checker.interfaces import check_field_value
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import Types, check_allowed_values, check_artifact, data_type
from skillrun.definitions.definitions import Step
from skillrun.definitions.reader import RESERVED_NAMES
from skillrun.syntax.diagnostics import Suggestion, near_miss
from skillrun.templates.expressions import Template
from skillrun.types.schemas import quote_value
from skillrun.types.types import ANY, NO_FACTS, NUMBER, TEXT, Facts, Type, identifier, list_of, merge_types, record

WILDCARDS: Final = "*?["
_DOCUMENT: Final = record({"path": TEXT, "text": TEXT}, "the document")


def check_set(scope: Scope, step: Step, _: Type, __: Types) -> None:
    variables = scope.phase_context.workflow.state if scope.phase_context is not None else ()
    state = {identifier(variable.name): variable for variable in variables}
    entries, keys = (step.main.entries or {}, step.main.key_spans) if step.main is not None else ({}, {})
    for written, value in entries.items():
        type_, name = scope.infer_value(value), identifier(written)
        kind, owner_path = ("state", scope.owners.owner) if name in state else ("local", scope.owners.steps)
        scope.lookups.add_reference(keys[written], kind, owner_path, name)
        if scope.outer_names is not None and (name in state or name in scope.outer_names):
            what = f"state.{written}" if name in state else written
            hint = "an `each` sets names per item: choose another name, and read it from the result of the `each`"
            message = f"`{what}` is defined outside of the `each`, so it cannot be set here"
            scope.report(keys[written], "each", message, hint)
        elif name in state:
            expected = scope.names["state"].fields[name]
            if check_field_value(scope, state[name], value, type_):
                if expected.values:
                    check_allowed_values(scope, value, type_, expected.values, f"the values of `state.{written}`")
                what = f"the value for `state.{written}`"
                scope.check_record_fields(value.span, type_, expected, what, must_be_present=True)
        elif name in RESERVED_NAMES:
            scope.report(keys[written], "reserved", f"`{written}` is a reserved name", "choose another name")
        else:
            if name not in scope.names and (close := near_miss(name, state)):
                message = f"`{written}` is not declared in `state`, but a similar name is"
                scope.report(keys[written], "near-miss", message, Suggestion.of(written, close))
            scope.bind_local(name, type_)


def check_decide(scope: Scope, step: Step, _: Type, value_types: Types) -> Type:
    known = value_types["order"].values if "order" in value_types else None
    order = step.order or (tuple(known[0]) if known and isinstance(known[0], list) else ())
    values: list[Type] = []
    reasons = []
    failed: Facts = NO_FACTS
    for row in step.rows:
        with scope.assuming(row.when, failed):
            for value in (value for value in (row.then, row.at_least) if value is not None):
                values.append(scope.infer_required_value(value, "then"))
                if order and (value.literal is None or not step.order):  # literals are already checked
                    check_allowed_values(scope, value, values[-1], order, "the values in `order`")
            if row.because is not None:
                reasons.append(scope.infer_required_value(row.because, "because"))
        if row.when is not None and row.when.expression is not None and "order" not in value_types:
            failed |= facts_if_false(row.when.expression)
    certain = any(row.when is None for row in step.rows)
    chosen = merge_types(values)
    if order:
        chosen = chosen._replace(values=order, tunable=value_types["order"].tunable)
    because = TEXT if certain and len(reasons) == len(step.rows) else TEXT.maybe()
    return record({"value": chosen if certain else chosen.maybe(), "because": because}, step.id or "decide")


def check_read(scope: Scope, step: Step, main: Type, _: Types) -> Type:
    origin, path, library = step.values.get("from"), step.main, scope.lookups.library
    name = path.literal if path is not None else None
    if path is not None and origin is None and (main.form == "path" or _begins_with_path(scope, path.template)):
        message = "`read` looks in the run folder, and this path is one of the project or of another folder"
        scope.report(
            path.span, "read-path", message, "add `from: project`, which also finds paths given on the command line"
        )
    if path is not None and isinstance(name, str) and origin is not None and origin.literal == "project":
        is_required = step.otherwise is None and step.when is None and not any(sign in name for sign in WILDCARDS)
        is_own = path.span.source.path.is_relative_to(library.project)
        if is_required and is_own and not library.has_project_file(name):
            # not an error, because the file may be created before the run
            hint = "create the file before a run, or add an `otherwise` for a missing file"
            message = f"the project has no file {quote_value(name)}"
            scope.problems.report(path.span, "missing-file", message, hint, "warning")
    data = data_type(scope, step)
    fields = {"text": TEXT, "files": list_of(TEXT), "documents": list_of(_DOCUMENT)}
    fields |= {} if data is None else {"data": data}
    return record(fields, step.id or "read")


def _begins_with_path(scope: Scope, template: Template | None) -> bool:
    """Whether a template begins with an input of type `path`, as `{{ inputs.folder }}/*.md` does."""
    body = template.tree.body if template is not None else []
    match body[0].nodes[0] if body and isinstance(body[0], nodes.Output) else None:
        case nodes.Getattr(node=nodes.Name(name="inputs"), attr=name):
            field = scope.names["inputs"].fields.get(identifier(name))
            return field is not None and field.form == "path"
    return False


def check_find(scope: Scope, step: Step, main: Type, value_types: Types) -> Type:
    """Return the result type: three lists of the items and, if the step has `show`, the texts of the files."""
    item = main.item if main.kind == "list" and main.item is not None else ANY if main.kind == "any" else main
    span = step.main.span if step.main is not None else step.span
    if main.kind in ("number", "boolean", "record", "map") or item.kind in ("number", "boolean", "list"):
        hint = "expected a path, a list of paths, or a list of records with a `path`"
        rejected = item if main.kind == "list" else main
        scope.report(span, "type", f"`find` takes paths, not {KINDS[rejected.kind]}", hint)
    elif item.kind == "record" and "path" not in item.fields:
        message, hint = "the records passed to `find` have no `path`", "put the path in a field called `path`"
        scope.report(span, "type", message, hint)
    items = list_of(item.present()._replace(values=None))
    fields = {"found": items, "missing": items, "withheld": items}
    if item.kind == "record" and "lines" in item.fields:
        fields["past_end"] = list_of(record({**item.fields, "length": NUMBER}, "the place")).maybe()
    fields |= {"texts": list_of(_DOCUMENT), "left_out": list_of(TEXT)} if "show" in value_types else {}
    return record(fields, step.id or "find")


def check_write(scope: Scope, step: Step, _: Type, value_types: Types) -> Type:
    check_artifact(scope, step)
    for name in value_types["template"].values or () if "template" in value_types else ():
        text = scope.lookups.text(str(name), step.values["template"].span, "template")
        if text is not None:
            scope.check_text(text.template)
    frontmatter_type = data_type(scope, step)
    if step.output is not None and "frontmatter" not in step.values:
        hint = "add `frontmatter:`, or remove `shape`"
        scope.report(step.output.span, "missing-key", "`shape` describes the frontmatter, which is missing", hint)
    elif frontmatter_type is not None:
        what = f"the frontmatter of `{step.id or 'write'}`"
        span, given = step.values["frontmatter"].span, value_types["frontmatter"]
        scope.check_record_fields(span, given, frontmatter_type, what, must_be_present=True)
    return record({"path": TEXT, "text": TEXT}, step.id or "write")
