"""Checks `each` steps: their items, the names and files that inner steps use, and the result type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from jinja2 import nodes

from skillrun.checker.comparisons import KINDS
from skillrun.checker.scope import Scope
from skillrun.definitions.definitions import Step
from skillrun.syntax.diagnostics import suggest
from skillrun.templates.expressions import Value
from skillrun.types.types import ANY, BOOLEAN, TEXT, Type, identifier, list_of, record

ITEM_ID: Final = "id"
"""The field of the records in `.done` and `.failed` that identifies the item."""


def check_each(scope: Scope, step: Step, main: Type, check_steps: Callable[[Scope, Iterable[Step]], None]) -> Type:
    """Return the result type: the items that succeeded with their steps' results, and the items that failed."""
    item = (main.item or ANY).present()._replace(values=None) if main.kind == "list" else ANY
    name = identifier(step.item)
    _check_name(scope, step, name)
    _check_ids(scope, step, item)
    outer_names = {**scope.names, name: item}
    inner = replace(scope, names=dict(outer_names), loop="each", outer_names=frozenset(scope.names))
    check_steps(inner, step.steps)
    scope.callees_may_write |= inner.callees_may_write
    item_names = {name, *(identifier(bound) for bound in _bound_names(step))}
    for inner_step in (each for inside in step.steps for each in inside.walk()):
        for what in (inner_step.artifact, inner_step.values.get("form")):
            _check_distinct_path(scope, what, item_names, _item_expression(step, item))
        if inner_step.verb == "run":
            _check_run(scope, inner_step)
    scope.each_names.update(dict.fromkeys(map(identifier, _bound_names(step)), step.id or ""))
    result_types = {
        key: type_ for key, type_ in inner.names.items() if outer_names.get(key) is not type_ and key != "pass"
    }
    label = step.id or "each"
    done = record({**result_types, ITEM_ID: TEXT, name: item}, f"{label}.done")
    failed = record({ITEM_ID: TEXT, name: item, "reason": TEXT}, f"{label}.failed")
    return record({"done": list_of(done), "failed": list_of(failed), "degraded": BOOLEAN}, label)


def _check_name(scope: Scope, step: Step, name: str) -> None:
    """Report an item name that is already in use, and inner steps called `id`."""
    span = step.value_span("as")
    if name in scope.names or name in map(identifier, scope.local):
        hint = "choose another name for the item: `as: …`"
        scope.report(span, "duplicate-id", f"`{step.item}` is already defined", hint)
    for bound in _bound_names(step):
        if identifier(bound) == ITEM_ID:
            scope.report(
                scope.local.get(ITEM_ID, step.span),
                "reserved",
                f"`{ITEM_ID}` is reserved for the item's id",
                "choose another name",
            )


def _check_ids(scope: Scope, step: Step, item: Type) -> None:
    """Report a `by` that does not name a field of the items."""
    if step.by is None:
        return
    span = step.value_span("by")
    if item.kind == "record" and identifier(step.by) not in item.fields:
        scope.report(span, "unknown-field", f"the items have no `{step.by}`", suggest(step.by, sorted(item.fields)))
    elif item.kind in ("text", "number", "boolean"):
        scope.report(span, "type", f"`by` needs items that have fields; each item is {KINDS[item.kind]}", "remove `by`")


def _bound_names(step: Step) -> list[str]:
    """Return the names that the inner steps bind."""
    names = []
    for inner in (each for inside in step.steps for each in inside.walk()):
        if inner.id is not None:
            names.append(inner.id)
        if inner.verb == "set" and inner.main is not None:
            names += list(inner.main.entries or {})
        if inner.verb == "each":
            names.append(inner.item)
    return names


def _item_expression(step: Step, item: Type) -> str:
    """Return a template that identifies the item in a file name."""
    name = identifier(step.item)
    return f"{{{{ {f'{name} | slug' if item.kind == 'text' else f'{name}.{identifier(step.by or ITEM_ID)}'} }}}}"


def _check_distinct_path(scope: Scope, path: Value | None, item_names: set[str], item: str) -> None:
    """Report a path that is the same for every item."""
    if path is None or any(_reads_any(template.tree, item_names) for template in path.templates()):
        return
    written = path.template.text.value if path.template is not None else "name.md"
    stem, dot, end = written.rpartition(".")
    hint = f"include the item in the name, such as `{f'{stem}-{item}.{end}' if dot else f'{written}-{item}'}`"
    scope.report(path.span, "same-file", f"every item writes `{written}`", hint)


def _check_run(scope: Scope, run_step: Step) -> None:
    """Report a workflow that writes a file with a fixed path, because every item would write the same file."""
    program = (
        scope.checker.check_workflow(run_step.text)
        if run_step.text and not scope.checker.is_open(run_step.text)
        else None
    )
    for phase in program.phases.values() if program is not None else ():
        for step in phase.walk():
            path = step.artifact.literal if step.artifact is not None else None
            if isinstance(path, str):
                message = f"`{run_step.text}` writes `{path}` for every item"
                hint = f"compute the name from an input of `{run_step.text}`"
                scope.report(
                    run_step.main.span if run_step.main is not None else run_step.span, "same-file", message, hint
                )


def _reads_any(tree: nodes.Node, names: set[str]) -> bool:
    return any(node.name in names for node in tree.find_all(nodes.Name))
