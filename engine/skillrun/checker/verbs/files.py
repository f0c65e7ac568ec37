"""Checks the steps that use files: `read`, `find` and `write`."""

from __future__ import annotations

from typing import Final

from skillrun.checker.comparisons import KINDS
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import Types, check_artifact, data_type
from skillrun.definitions.definitions import Step
from skillrun.syntax.source import Span
from skillrun.types.schemas import quote_value
from skillrun.types.types import ANY, TEXT, Type, list_of, record

WILDCARDS: Final = "*?["
_DOCUMENT: Final = record({"path": TEXT, "text": TEXT}, "the document")


def check_read(scope: Scope, step: Step, _: Type, __: Types) -> Type:
    _warn_of_missing_file(scope, step)
    data = data_type(scope, step)
    fields = {"text": TEXT, "files": list_of(TEXT), "documents": list_of(_DOCUMENT)}
    fields |= {} if data is None else {"data": data}
    return record(fields, step.id or "read")


def _warn_of_missing_file(scope: Scope, step: Step) -> None:
    """Warn if a file of the project requires another file of the project that does not exist.

    This is not an error, because the file may be created before the run.
    """
    origin, path, project = step.values.get("from"), step.main, scope.lookups.library.project
    if origin is None or origin.literal != "project" or path is None or not isinstance(name := path.literal, str):
        return
    is_optional = step.otherwise is not None or step.when is not None
    if is_optional or any(sign in name for sign in WILDCARDS) or not path.span.source.path.is_relative_to(project):
        return
    if not scope.lookups.library.has_project_file(name):
        message = f"the project has no file {quote_value(name)}"
        hint = "create it before a run, or add an `otherwise` that runs if it is missing"
        scope.problems.report(path.span, "missing-file", message, hint, "warning")


def check_find(scope: Scope, step: Step, main: Type, value_types: Types) -> Type:
    """Return the result type: three lists of the items and, if the step has `show`, the texts of the files."""
    item = main.item if main.kind == "list" and main.item is not None else ANY if main.kind == "any" else main
    if main.kind in ("number", "boolean", "record", "map") or item.kind in ("number", "boolean", "list"):
        hint = "expected a path, a list of paths, or a list of records with a `path`"
        scope.report(
            _main_span(step), "type", f"`find` takes paths, not {KINDS[_rejected_type(main, item).kind]}", hint
        )
    elif item.kind == "record" and "path" not in item.fields:
        scope.report(
            _main_span(step),
            "type",
            "the records passed to `find` have no `path`",
            "put the path in a field called `path`",
        )
    items = list_of(item.present()._replace(values=None))
    fields = {"found": items, "missing": items, "withheld": items}
    fields |= {"texts": list_of(_DOCUMENT), "left_out": list_of(TEXT)} if "show" in value_types else {}
    return record(fields, step.id or "find")


def _rejected_type(main: Type, item: Type) -> Type:
    return item if main.kind == "list" else main


def _main_span(step: Step) -> Span:
    return step.main.span if step.main is not None else step.span


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
        scope.check_record_fields(step.values["frontmatter"].span, value_types["frontmatter"], frontmatter_type, what)
    return record({"path": TEXT, "text": TEXT}, step.id or "write")
