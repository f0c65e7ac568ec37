"""Checks steps, each by a function for its verb, which returns what the step's id gives to later steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from skillrun.checker.absences import absent_step
from skillrun.checker.facts import denied, mentions
from skillrun.checker.interfaces import member_of
from skillrun.checker.names import REMEMBERS
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.each import check_each
from skillrun.checker.verbs.files import check_find, check_read, check_write
from skillrun.checker.verbs.flow import check_goto, check_repeat, check_run
from skillrun.checker.verbs.members import check_agent, check_panel
from skillrun.checker.verbs.questions import check_ask
from skillrun.checker.verbs.results import Types, check_kind
from skillrun.checker.verbs.values import check_decide, check_set
from skillrun.definitions.definitions import Step
from skillrun.definitions.verbs import VERBS
from skillrun.templates.expressions import Value
from skillrun.templates.records import FAILURE
from skillrun.types.types import ANY, NOTHING, Fact, Facts, Type, identifier, merged, record

MAY_BE_ABSENT: Final = ("default", "frontmatter", "material", "points", "with")


def check_steps(scope: Scope, steps: Iterable[Step]) -> None:
    ended: Step | None = None
    gained = NOTHING  # what a `stop` lets through, while nothing sets it anew
    for step in steps:
        if ended is not None:
            message = f"this is never reached: everything ends at the `stop` of line {ended.span.line}"
            hint = "give the `stop` a `when`"
            scope.problems.report(step.span, "unreachable", message, hint, "warning", ended.span)
        if step.verb != "set":  # steps in it may set a name and read it in its next pass
            gained = _kept(scope, gained, step)
        check_step(scope, step)
        gained = _kept(scope, gained, step)
        if step.verb == "stop" and step.when is not None and step.when.expression is not None:
            gained |= denied(step.when.expression) - scope.known
            scope.known |= gained
        ended = step if step.verb == "stop" and step.when is None else None


def _kept(scope: Scope, gained: Facts, step: Step) -> Facts:
    """What still holds of the facts that a `stop` has let through, when a step sets names."""
    names = {
        name for inner in step.walk() if inner.verb == "set" and inner.main is not None for name in inner.main.keys
    }
    stale = frozenset(each for each in gained if any(mentions(each, identifier(name)) for name in names))
    scope.known -= stale
    return gained - stale


def check_step(scope: Scope, step: Step) -> None:
    """Check a step and what stands in for it, and bind its id."""
    first = _claim_id(scope, step)
    with scope.under(step.when):
        shared = step.otherwise is not None and step.otherwise.id == step.id
        with scope.knowing(FAILURE.maybe() if shared else None):  # it may speak in the same section
            given = _checked(scope, step, prompted=first)
        breaker = scope.lookups.breaker(step.retry, step.place("retry"), scope.settings) if step.retry else {}
        depends = scope.depends
        if step.otherwise is not None:
            with scope.knowing(FAILURE), scope.under(step.otherwise.when):
                given = _either(step, given, step.otherwise, _checked(scope, step.otherwise))
        elif breaker.get("then") == "skip" and step.verb not in ("repeat", "goto"):
            depends = depends | _happened(step, "was answered")
    if step.id is not None and first:
        scope.absences |= absent_step(step, skips=breaker.get("then") == "skip", around=scope.guard)
    if step.id is not None and given is not None:
        given = given if first else ANY  # which of the two steps is meant, nobody knows
        scope.bind(step.id, given.maybe(depends) if depends and first else given)


def _checked(scope: Scope, step: Step, *, prompted: bool = True) -> Type | None:
    """Check the step's values and, where it is `prompted` by it, its section, and then what its verb asks for."""
    main = scope.needed(step.main, step.verb) if step.main is not None and step.verb != "set" else ANY
    extra, told = ({}, {}) if step.verb not in ("agent", "panel") else _member(main)
    scope.look_around(step.node.span, step.id, extra)
    beside = {
        name: scope.value(value, extra if name == "material" else {})
        if name in MAY_BE_ABSENT
        else scope.needed(value, name, told if name == "writes" else {})
        for name, value in step.values.items()
    }
    if step.main is not None:
        check_kind(scope, step.verb, VERBS[step.verb].main, step.main, main)
    for name, value in step.values.items():
        check_kind(scope, name, VERBS[step.verb].keys[name], value, beside[name])
    prompt = scope.prompts.get(step.id or "")
    if prompt is not None:
        scope.lookups.mention(prompt.name_span, "local", scope.homes.steps, identifier(prompt.name))
    if prompt is not None and prompted and step.verb in ("agent", "panel", "write"):
        (scope.printed if step.verb == "write" else scope.prompt)(prompt.template, extra)
    if "material" in beside:
        check_material(scope, step.values["material"], beside["material"])
    check = _CHECKS.get(step.verb)
    return check(scope, step, main, beside) if check is not None else None


def _member(main: Type) -> tuple[Types, Types]:
    """The member as its prompts see it, and as `writes` does."""
    member = member_of(main)
    return {"member": record({**member.fields, **REMEMBERS}, member.label)}, {"member": member}


def check_material(scope: Scope, value: Value, type_: Type) -> None:
    """Report a title that is none, and what is no text and not made of texts."""
    for title, entry in (value.entries or {}).items():
        if not title.strip() or "\n" in title:
            scope.report(value.keys[title], "title", "a title is one line of text", "write `Title: …`")
        elif "{{" in title or "{%" in title:
            hint = "write out what it is called; what it is, the value says"
            scope.report(value.keys[title], "title", "a title is not rendered", hint)
        if type_.kind == "record" and type_.fields[title].kind == "boolean":
            hint = "texts, numbers, lists, records and replies can be; put a condition into the section"
            scope.report(entry.span, "type", f"`{title}` is true or false, which is no material", hint)


def _claim_id(scope: Scope, step: Step) -> bool:
    """Whether no step before has the id."""
    if step.id is None:
        return True
    span = step.place("id")
    scope.lookups.mention(span, "local", scope.homes.steps, identifier(step.id))
    taken = scope.ids.setdefault(identifier(step.id), span)
    if taken is not span:
        message, hint = f"another step is called `{step.id}` already", f"it stands in line {taken.line}"
        scope.problems.report(span, "duplicate-id", message, hint, elsewhere=taken)
    return taken is span


def _happened(step: Step, how: str) -> Facts:
    return frozenset({Fact(event=f"{step.id} {how}")})


def _either(step: Step, given: Type | None, other: Step, stand_in: Type | None) -> Type | None:
    """What an id gives when either the step or the one that stands in for it ran."""
    if step.verb == "goto" or other.verb == "stop" or given is None:
        return given
    answered, failed = (_happened(step, how) for how in ("was answered", "failed"))
    if stand_in is None or given.kind != "record":
        return given.maybe(answered)
    fields = {name: type_.maybe(answered) for name, type_ in given.fields.items()}
    fields |= {name: type_.maybe(failed) for name, type_ in stand_in.fields.items()}
    both = given.fields.keys() & stand_in.fields.keys()
    fields |= {name: merged([given.fields[name], stand_in.fields[name]]) for name in both}
    return record(fields, given.label)


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
