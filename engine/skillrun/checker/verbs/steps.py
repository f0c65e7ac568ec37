"""Checks each step with the function for its verb, and binds the step's id for later steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from skillrun.checker.absences import absent_step
from skillrun.checker.facts import facts_if_false, mentions_name
from skillrun.checker.interfaces import member_type
from skillrun.checker.names import REMEMBERS
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.flow import check_each, check_goto, check_repeat, check_run
from skillrun.checker.verbs.members import check_agent, check_ask, check_panel
from skillrun.checker.verbs.results import Types, check_kind
from skillrun.checker.verbs.values import check_decide, check_find, check_read, check_set, check_write
from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import VERBS
from skillrun.templates.expressions import Value
from skillrun.templates.return_types import FAILURE
from skillrun.types.types import ANY, NO_FACTS, Fact, Facts, Type, identifier, merge_types, record

MAY_BE_ABSENT: Final = ("default", "frontmatter", "material", "points", "with")


def check_steps(scope: Scope, steps: Iterable[Step]) -> None:
    last_stop: Step | None = None
    stop_facts = NO_FACTS  # facts that hold after a `stop`, until a step sets a name that they mention
    for step in steps:
        if last_stop is not None:
            message = f"this step is never reached: the `stop` on line {last_stop.span.line} has no condition"
            hint = "add a `when` to the `stop`"
            scope.problems.report(step.span, "unreachable", message, hint, "warning", last_stop.span)
        if step.verb != "set":  # inner steps may set a name and read it in the next pass
            stop_facts = _drop_stale_facts(scope, stop_facts, step)
        check_step(scope, step)
        stop_facts = _drop_stale_facts(scope, stop_facts, step)
        if step.verb == "stop" and step.when is not None and step.when.expression is not None:
            stop_facts |= facts_if_false(step.when.expression) - scope.known_facts
            scope.known_facts |= stop_facts
        last_stop = step if step.verb == "stop" and step.when is None else None


def _drop_stale_facts(scope: Scope, stop_facts: Facts, step: Step) -> Facts:
    """Drop the facts in `stop_facts` that mention a name set by `step`. Return the remaining facts."""
    names = {name for inner in step.walk() for name in inner.assignments}
    stale = frozenset(each for each in stop_facts if any(mentions_name(each, name) for name in names))
    scope.known_facts -= stale
    return stop_facts - stale


def check_step(scope: Scope, step: Step) -> None:
    """Check a step and its `otherwise`, and bind its id."""
    first = True
    if step.id is not None:
        span = step.value_span("id")
        scope.lookups.add_reference(span, "local", scope.owners.steps, identifier(step.id))
        first_span = scope.ids.setdefault(identifier(step.id), span)
        first = first_span is span
        if not first:
            message, hint = f"another step already has the id `{step.id}`", f"it is on line {first_span.line}"
            scope.problems.report(span, "duplicate-id", message, hint, elsewhere=first_span)
    outer_reader, scope.reader = scope.reader, step.span
    with scope.assuming(step.when):
        shared = step.otherwise is not None and step.otherwise.id == step.id
        with scope.failure_in_scope(FAILURE.maybe() if shared else None):  # both steps may use the same section
            result_type = _check_body(scope, step, has_section=first)
        breaker = scope.lookups.breaker(step.retry, step.value_span("retry"), scope.settings) if step.retry else {}
        depends = scope.required_facts
        if step.otherwise is not None:
            with scope.failure_in_scope(FAILURE), scope.assuming(step.otherwise.when):
                scope.reader = step.otherwise.span
                result_type = _merge_fallback(step, result_type, step.otherwise, _check_body(scope, step.otherwise))
        if breaker.get("then") == "skip" and step.verb not in ("repeat", "goto"):
            depends = depends | _event_fact(step, "was answered")
    scope.reader = outer_reader
    if step.id is not None and first:
        scope.absences |= absent_step(step, skips=breaker.get("then") == "skip", condition=scope.guard)
    if step.id is not None and result_type is not None:
        result_type = result_type if first else ANY  # a duplicate id is ambiguous
        scope.bind(step.id, result_type.maybe(depends) if depends and first else result_type)


def _check_body(scope: Scope, step: Step, *, has_section: bool = True) -> Type | None:
    main = scope.infer_required_value(step.main, step.verb) if step.main is not None and step.verb != "set" else ANY
    prompt_names: Types = {}
    path_names: Types = {}
    if step.verb in ("agent", "panel"):
        member = member_type(main)
        prompt_names = {"member": record({**member.fields, **REMEMBERS}, member.label)}
        path_names = {"member": member}
    scope.record_view(step.node.span, step.id, prompt_names)
    value_types: dict[str, Type] = {}
    for name, value in step.values.items():
        if name in MAY_BE_ABSENT:
            value_types[name] = scope.infer_value(value, prompt_names if name == "material" else {})
        else:
            value_types[name] = scope.infer_required_value(value, name, path_names if name == "writes" else {})
    if step.main is not None:
        check_kind(scope, step.verb, VERBS[step.verb].main, step.main, main)
    for name, value in step.values.items():
        check_kind(scope, name, VERBS[step.verb].keys[name], value, value_types[name])
    prompt = scope.prompts.get(step.id or "")
    if prompt is not None:
        scope.lookups.add_reference(prompt.name_span, "local", scope.owners.steps, identifier(prompt.name))
    if prompt is not None and has_section and step.verb in ("agent", "panel", "write"):
        (scope.check_text if step.verb == "write" else scope.check_prompt)(prompt.template, prompt_names)
    if "material" in value_types:
        check_material(scope, step.values["material"], value_types["material"])
    check = _CHECKS.get(step.verb)
    return check(scope, step, main, value_types) if check is not None else None


def check_material(scope: Scope, value: Value, type_: Type) -> None:
    """Report invalid titles, and values that cannot become text."""
    for title, entry in (value.entries or {}).items():
        if not title.strip() or "\n" in title:
            scope.report(value.key_spans[title], "title", "a title must be one line of text", "write `Title: …`")
        elif "{{" in title or "{%" in title:
            hint = "write a fixed title, and put the template in the value"
            scope.report(value.key_spans[title], "title", "a title cannot contain a template", hint)
        if type_.kind == "record" and type_.fields[title].kind == "boolean":
            hint = "use text, a number, a list, a record or replies; put the condition in the section"
            scope.report(entry.span, "type", f"`{title}` is a boolean, which cannot be used as `material`", hint)


def _event_fact(step: Step, how: str) -> Facts:
    return frozenset({Fact(event=f"{step.id} {how}")})


def _merge_fallback(step: Step, result_type: Type | None, fallback: Step, fallback_type: Type | None) -> Type | None:
    """Return the type of a result that comes from either a step or its `otherwise`."""
    if step.verb == "goto" or fallback.verb == "stop" or result_type is None:
        return result_type
    answered, failed = (_event_fact(step, how) for how in ("was answered", "failed"))
    if fallback_type is None or result_type.kind != "record":
        return result_type.maybe(answered)
    fields = {name: type_.maybe(answered) for name, type_ in result_type.fields.items()}
    fields |= {name: type_.maybe(failed) for name, type_ in fallback_type.fields.items()}
    both = result_type.fields.keys() & fallback_type.fields.keys()
    fields |= {name: merge_types([result_type.fields[name], fallback_type.fields[name]]) for name in both}
    return record(fields, result_type.label)


_CHECKS: Final[Mapping[str, Callable[[Scope, Step, Type, Types], Type | None]]] = {
    "agent": check_agent,
    "panel": check_panel,
    "ask": check_ask,
    "read": check_read,
    "find": check_find,
    "write": check_write,
    "set": check_set,
    "decide": check_decide,
    "repeat": lambda scope, step, _, beside: check_repeat(scope, step, beside, check_steps),
    "each": lambda scope, step, main, _: check_each(scope, step, main, check_steps),
    "run": check_run,
    "goto": check_goto,
    "": lambda *_: ANY,  # a broken step
}
assert _CHECKS.keys() <= {*VERBS, ""}
