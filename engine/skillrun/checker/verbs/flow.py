"""Checks the steps that repeat or call other steps: `repeat`, `goto` and `run`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from jinja2 import nodes

from skillrun.checker.comparisons import KINDS
from skillrun.checker.interfaces import check_inputs, record_input_references
from skillrun.checker.lints import is_unchanging_loop
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import Types
from skillrun.definitions.definitions import Step
from skillrun.syntax.diagnostics import Suggestion, suggest
from skillrun.templates.expressions import Value
from skillrun.types.types import (
    ANY,
    BOOLEAN,
    NONE,
    NUMBER,
    TEXT,
    Fact,
    Facts,
    Type,
    identifier,
    list_of,
    merge_types,
    record,
)

_EARLIER_PASS: Final[Facts] = frozenset({Fact(event="a pass before this one")})
_NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
CheckSteps = Callable[[Scope, Iterable[Step]], None]


def check_repeat(scope: Scope, step: Step, value_types: Types, check_steps: CheckSteps) -> Type:
    result_type = record({"times": NUMBER, "exhausted": BOOLEAN}, step.id or "repeat")
    if step.until is None and "at_most" not in value_types:
        check_steps(scope, step.steps)
        return result_type
    _check_cap(scope, step, value_types.get("at_most", ANY))
    outer, loop, outer_names = scope.names.pop("pass", None), scope.loop, dict(scope.names)
    scope.loop = "repeat"
    trial_scope = scope.trial_scope({"pass": _pass_type(NONE)})
    check_steps(trial_scope, step.steps)
    bound = {
        name: type_
        for name, type_ in trial_scope.names.items()
        if outer_names.get(name) is not type_ and name != "pass"
    }
    scope.names |= {
        name: merge_types([outer_names[name], type_]) for name, type_ in bound.items() if name in outer_names
    }
    previous = record({name: type_.maybe(_EARLIER_PASS) for name, type_ in bound.items()}, "pass.previous")
    scope.names["pass"] = _pass_type(previous)
    check_steps(scope, step.steps)
    scope.check_condition(step.until)
    sections = [scope.prompts[inner.id].template for inner in step.walk() if inner.id and inner.id in scope.prompts]
    if not scope.problems.has_errors and is_unchanging_loop(step.steps, [*sections, *scope.shared_templates]):
        hint = "read `pass.previous`, or a name that the loop sets, in a section"
        scope.problems.report(step.span, "same-again", "every pass sends the same requests", hint, "warning")
    scope.loop = loop
    scope.names.pop("pass")
    if outer is not None:
        scope.names["pass"] = outer
    return result_type


def _pass_type(previous: Type) -> Type:
    return record({"index": NUMBER, "previous": previous.maybe(_EARLIER_PASS)}, "pass")


def check_goto(scope: Scope, step: Step, _: Type, value_types: Types) -> None:
    place, target = scope.phase_context, step.text
    if place is None:
        hint = "use `goto` in the phase, based on the protocol's outputs"
        scope.report(step.span, "goto", "a protocol cannot go back to a phase", hint)
        return
    if scope.loop:
        hint = "set a name in the loop, and use `goto` after the loop"
        if scope.loop == "each":
            hint = "use `goto` after the `each`, based on its result"
        scope.report(step.span, "goto", f"`goto` is not allowed inside `{scope.loop}`", hint)
    earlier = place.earlier | {place.phase}
    if step.main is not None:
        scope.lookups.add_reference(step.main.span, "phase", scope.owners.owner, target)
    if step.main is not None and target in place.workflow.phases and target not in earlier:
        message = f"`{target}` does not come before `{place.phase}`"
        scope.report(step.main.span, "goto", message, "choose a phase that this one follows, or this phase itself")
    elif step.main is not None and target and target not in earlier:
        scope.lookups.report_unknown(step.main.span, "phase", target, sorted(earlier))
    _check_cap(scope, step, value_types.get("at_most", ANY))


def _check_cap(scope: Scope, step: Step, given: Type) -> None:
    """Check `at_most`, which is required unless a breaker limits the loop."""
    value = step.values.get("at_most")
    literal = value.literal if value is not None else None
    hint = "expected a whole number of at least 1, or the name of a breaker"
    if value is None:
        if step.retry is None:
            scope.report(step.span, "unbounded", f"a `{step.verb}` needs `at_most`", hint)
    elif literal in _NUMBERS and literal not in scope.settings.part("breakers"):
        scope.report(
            value.span, "type", f"`at_most` is `{literal}`", Suggestion.of(literal, str(_NUMBERS.index(literal) + 1))
        )
    elif isinstance(literal, str) and not literal.isdigit():
        scope.lookups.breaker(literal, value.span, scope.settings)
    elif literal is not None and (isinstance(literal, bool | list | dict | float) or int(literal) < 1):
        scope.report(value.span, "type", f"`at_most` is `{literal}`", hint)
    elif literal is None:
        _check_computed_cap(scope, value, given, hint)


def _check_computed_cap(scope: Scope, value: Value, given: Type, hint: str) -> None:
    """Check a computed `at_most`: its type, and the breakers that it can name."""
    if given.kind in ("list", "record", "map", "boolean"):
        scope.report(value.span, "type", f"`at_most` is {KINDS[given.kind]}", hint)
    elif given.kind == "text" and given.values is None:
        message = "`at_most` is text that is known only during the run"
        scope.problems.report(value.span, "type", message, f"{hint}; `| int` converts text to a number", "warning")
    for name in given.values or ():
        if isinstance(name, str) and not name.isdigit():
            for span in scope.lookups.value_spans(value, name, scope.settings):
                scope.lookups.breaker(name, span, scope.settings)


def check_run(scope: Scope, step: Step, _: Type, value_types: Types) -> Type:
    scope.callees_may_write = True
    if step.main is None or not step.text:
        return ANY
    library = scope.lookups.library
    scope.lookups.add_reference(step.main.span, "workflow", f"workflows/{step.text}.md", step.text)
    if library.locate(f"workflows/{step.text}.md") is None:
        scope.lookups.report_unknown(step.main.span, "workflow", step.text, library.names("workflows"))
        return ANY
    if scope.checker.is_open(step.text):
        scope.report(step.main.span, "cycle", f"the workflow `{step.text}` runs itself")
        return ANY
    program = scope.checker.check_workflow(step.text)
    if program is None:
        return ANY
    scope.callees[step.span] = (program,)
    scope.owners.output_files[step.id or step.text] = (f"workflows/{step.text}.md",)
    record_input_references(scope, step, program.workflow.inputs, f"workflows/{step.text}.md")
    inputs = {identifier(field.name): field for field in program.workflow.inputs}
    check_inputs(scope, step, inputs, f"the workflow `{step.text}`", value_types.get("with", ANY))
    return record(dict.fromkeys(program.workflow.outputs, ANY.maybe()), step.id or step.text)


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
