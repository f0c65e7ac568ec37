"""Checks the steps that repeat or call other steps: `repeat`, `each`, `goto` and `run`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from skillrun.checker.comparisons import KINDS
from skillrun.checker.interfaces import check_inputs, record_input_references
from skillrun.checker.lints import is_unchanging_loop
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import Types
from skillrun.definitions.definitions import Step
from skillrun.syntax.diagnostics import Problems, Suggestion, suggest
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
ITEM_ID: Final = "id"
"""In the records of `.done` and `.failed`, the field that identifies the item."""
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
    # a first pass, whose problems are discarded, collects the names that the steps bind
    trial_names = {**scope.names, "pass": _pass_type(NONE)}
    trial_scope = replace(scope, problems=Problems.without_limit(), names=trial_names, ids=dict(scope.ids))
    check_steps(trial_scope, step.steps)
    bound = _bound_types(trial_scope, outer_names)
    for name in bound.keys() & outer_names.keys():
        scope.names[name] = merge_types([outer_names[name], bound[name]])
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


def _bound_types(scope: Scope, outer_names: Types) -> Types:
    return {name: type_ for name, type_ in scope.names.items() if outer_names.get(name) is not type_ and name != "pass"}


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
    earlier = place.workflow.ancestors(place.phase) | {place.phase}
    if step.main is not None:
        scope.lookups.add_reference(step.main.span, "phase", scope.owners.owner, target)
    if step.main is not None and target in place.workflow.phases and target not in earlier:
        message = f"`{target}` does not come before `{place.phase}`"
        scope.report(step.main.span, "goto", message, f"choose `{place.phase}` itself, or a phase that it follows")
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
        number = Suggestion.of(literal, str(_NUMBERS.index(literal) + 1))
        scope.report(value.span, "type", f"`at_most` is `{literal}`", number)
    elif isinstance(literal, str) and not literal.isdigit():
        scope.lookups.breaker(literal, value.span, scope.settings)
    elif literal is not None and (isinstance(literal, bool | list | dict | float) or int(literal) < 1):
        scope.report(value.span, "type", f"`at_most` is `{literal}`", hint)
    elif literal is None:
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


def check_each(scope: Scope, step: Step, main: Type, check_steps: CheckSteps) -> Type:
    """Return the result type: the successful items with the results of their steps, and the failed items."""
    item = (main.item or ANY).present()._replace(values=None) if main.kind == "list" else ANY
    name = identifier(step.item)
    if name in scope.names or name in map(identifier, scope.local):
        hint = "choose another name for the item: `as: …`"
        scope.report(step.value_span("as"), "duplicate-id", f"`{step.item}` is already defined", hint)
    inner_steps = [inner for nested in step.steps for inner in nested.walk()]
    bound_names: set[str] = set()
    for inner_step in inner_steps:
        bound_names |= inner_step.assignments.keys()
        bound_names |= {identifier(inner_step.id)} if inner_step.id is not None else set()
        bound_names |= {identifier(inner_step.item)} if inner_step.verb == "each" else set()
    if ITEM_ID in bound_names:
        place, message = scope.local.get(ITEM_ID, step.span), f"`{ITEM_ID}` is reserved for the item's id"
        scope.report(place, "reserved", message, "choose another name")
    _check_ids(scope, step, item)
    outer_names = {**scope.names, name: item}
    inner_scope = replace(scope, names=dict(outer_names), loop="each", outer_names=frozenset(scope.names))
    check_steps(inner_scope, step.steps)
    scope.callees_may_write |= inner_scope.callees_may_write
    id_expression = f"{name} | slug" if item.kind == "text" else f"{name}.{identifier(step.by or ITEM_ID)}"
    for inner_step in inner_steps:
        for path in (inner_step.artifact, inner_step.values.get("form")):
            if path is not None and not any(each.mentions_any(name, *bound_names) for each in path.templates()):
                _report_shared_path(scope, path, f"{{{{ {id_expression} }}}}")
        if inner_step.verb == "run":
            _check_written_files(scope, inner_step)
    scope.each_names.update(dict.fromkeys(bound_names, step.id or ""))
    label = step.id or "each"
    done = record({**_bound_types(inner_scope, outer_names), ITEM_ID: TEXT, name: item}, f"{label}.done")
    failed = record({ITEM_ID: TEXT, name: item, "reason": TEXT}, f"{label}.failed")
    return record({"done": list_of(done), "failed": list_of(failed), "degraded": BOOLEAN}, label)


def _check_ids(scope: Scope, step: Step, item: Type) -> None:
    """Report a `by` that does not name a field of the items."""
    if step.by is None:
        return
    span = step.value_span("by")
    if item.kind == "record" and identifier(step.by) not in item.fields:
        scope.report(span, "unknown-field", f"the items have no `{step.by}`", suggest(step.by, sorted(item.fields)))
    elif item.kind in ("text", "number", "boolean"):
        scope.report(span, "type", f"`by` needs items that have fields; each item is {KINDS[item.kind]}", "remove `by`")


def _report_shared_path(scope: Scope, path: Value, item: str) -> None:
    """Report a path that is the same for every item; `item` is a template that identifies the item."""
    written = path.template.text.value if path.template is not None else "name.md"
    stem, dot, end = written.rpartition(".")
    hint = f"include the item in the name: `{f'{stem}-{item}.{end}' if dot else f'{written}-{item}'}`"
    scope.report(path.span, "same-file", f"every item writes `{written}`", hint)


def _check_written_files(scope: Scope, step: Step) -> None:
    """Report a `run` in an `each` if its workflow writes a file whose path is the same for every item."""
    checker, name = scope.checker, step.text
    program = checker.check_workflow(name) if name and not checker.is_open(name) else None
    for phase in program.phases.values() if program is not None else ():
        for path in (inner.artifact_path for inner in phase.walk()):
            if path is not None:
                span = step.main.span if step.main is not None else step.span
                hint = f"compute the path from an input of `{name}`"
                scope.report(span, "same-file", f"`{name}` writes `{path}` for every item", hint)
