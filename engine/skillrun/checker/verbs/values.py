"""Checks the steps that compute values: `set` and `decide`."""

from __future__ import annotations

from skillrun.checker.facts import facts_if_false
from skillrun.checker.interfaces import check_field_value
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import Types, check_allowed_values
from skillrun.definitions.definitions import Step
from skillrun.definitions.reader import RESERVED_NAMES
from skillrun.syntax.diagnostics import Suggestion, near_miss
from skillrun.types.types import NO_FACTS, TEXT, Facts, Type, identifier, merge_types, record


def check_set(scope: Scope, step: Step, _: Type, __: Types) -> None:
    state = (
        {identifier(variable.name): variable for variable in scope.phase_context.workflow.state}
        if scope.phase_context is not None
        else {}
    )
    entries, keys = (step.main.entries or {}, step.main.key_spans) if step.main is not None else ({}, {})
    for written, value in entries.items():
        type_, name = scope.infer_value(value), identifier(written)
        kind, owner_path = ("state", scope.owners.owner) if name in state else ("local", scope.owners.steps)
        scope.lookups.add_reference(keys[written], kind, owner_path, name)
        if scope.outer_names is not None and (name in state or name in scope.outer_names):
            what = f"state.{written}" if name in state else written
            hint = "an `each` sets names per item: choose another name, and read it from the result of the `each`"
            scope.report(
                keys[written], "each", f"`{what}` is defined outside of the `each`, so it cannot be set here", hint
            )
        elif name in state:
            expected = scope.names["state"].fields[name]
            if check_field_value(scope, state[name], value, type_):
                if expected.values:
                    check_allowed_values(scope, value, type_, expected.values, f"the values of `state.{written}`")
                scope.check_record_fields(value.span, type_, expected, f"the value for `state.{written}`")
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
