"""What is set and decided without asking anybody: `set` and `decide`."""

from __future__ import annotations

from skillrun.checker.facts import denied
from skillrun.checker.interfaces import check_fits
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import Types, check_among
from skillrun.definitions.definitions import Step
from skillrun.definitions.reader import OWN_NAMES
from skillrun.syntax.diagnostics import Suggestion, close_to
from skillrun.types.types import NOTHING, TEXT, Facts, Type, identifier, merged, record


def check_set(scope: Scope, step: Step, _: Type, __: Types) -> None:
    state = (
        {identifier(variable.name): variable for variable in scope.place.workflow.state}
        if scope.place is not None
        else {}
    )
    entries, keys = (step.main.entries or {}, step.main.keys) if step.main is not None else ({}, {})
    for written, value in entries.items():
        type_, name = scope.value(value), identifier(written)
        kind, home = ("state", scope.homes.owner) if name in state else ("local", scope.homes.steps)
        scope.lookups.mention(keys[written], kind, home, name)
        if scope.outside is not None and (name in state or name in scope.outside):
            what = f"state.{written}" if name in state else written
            hint = "what is set for an item stays with it: take another name, and read it from what the `each` gives"
            scope.report(keys[written], "each", f"`{what}` is there outside of the `each`", hint)
        elif name in state:
            expected = scope.names["state"].fields[name]
            if check_fits(scope, state[name], value, type_):
                if expected.values:
                    check_among(scope, value, type_, expected.values, f"the values of `state.{written}`")
                scope.fit(value.span, type_, expected, f"what `state.{written}` is set to")
        elif name in OWN_NAMES:
            scope.report(keys[written], "reserved", f"`{written}` is the language's own name", "choose another")
        else:
            if name not in scope.names and (close := close_to(name, state)):
                message = f"`{written}` is not declared in `state`, but it is close to a name that is"
                scope.report(keys[written], "near-miss", message, Suggestion.of(written, close))
            scope.bind_local(name, type_)


def check_decide(scope: Scope, step: Step, _: Type, beside: Types) -> Type:
    known = beside["order"].values if "order" in beside else None
    order = step.order or (tuple(known[0]) if known and isinstance(known[0], list) else ())
    values: list[Type] = []
    reasons = []
    failed: Facts = NOTHING
    for row in step.rows:
        with scope.under(row.when, failed):
            for value in (value for value in (row.then, row.at_least) if value is not None):
                values.append(scope.needed(value, "then"))
                if order and (value.literal is None or not step.order):  # what is written out has been looked at
                    check_among(scope, value, values[-1], order, "what `order` lists")
            if row.because is not None:
                reasons.append(scope.needed(row.because, "because"))
        if row.when is not None and row.when.expression is not None and "order" not in beside:
            failed |= denied(row.when.expression)
    certain = any(row.when is None for row in step.rows)
    chosen = merged(values)
    if order:
        chosen = chosen._replace(values=order, tunable=beside["order"].tunable)
    because = TEXT if certain and len(reasons) == len(step.rows) else TEXT.maybe()
    return record({"value": chosen if certain else chosen.maybe(), "because": because}, step.id or "decide")
