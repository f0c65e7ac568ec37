"""Checks one step: a function for each verb, which returns what the step's id gives to later steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from skillrun.language.check.comparisons import KINDS
from skillrun.language.check.contracts import (
    check_given,
    check_literal,
    check_members,
    check_seats,
    check_twice,
    member_of,
)
from skillrun.language.check.each import check_each
from skillrun.language.check.facts import denied
from skillrun.language.check.habits import changes_nothing
from skillrun.language.check.names import PHASE_RECORD, REMEMBERS, replies_type
from skillrun.language.check.program import CheckedProtocol
from skillrun.language.check.scope import Scope
from skillrun.language.files.definitions import Protocol, Step
from skillrun.language.files.kinds import OWN_FILES, VERBS
from skillrun.language.files.reader import OWN_NAMES
from skillrun.language.library.lookups import UNKNOWN
from skillrun.language.replies.gathering import list_field
from skillrun.language.replies.record_schemas import ANSWERS, answers
from skillrun.language.replies.record_schemas import merged as records_merged
from skillrun.language.templates.expressions import Value
from skillrun.language.templates.records import ANSWER, FAILURE, QUESTION
from skillrun.language.text.diagnostics import close_to, suggest
from skillrun.language.text.source import Span
from skillrun.language.types.converting import of_schema
from skillrun.language.types.fields import Field
from skillrun.language.types.types import (
    ANY,
    BOOLEAN,
    NONE,
    NOTHING,
    NUMBER,
    TEXT,
    Fact,
    Facts,
    Type,
    declared_at,
    identifier,
    list_of,
    merged,
    record,
)

MAY_BE_ABSENT: Final = ("default", "frontmatter", "material", "points", "with")
Types = Mapping[str, Type]
_DOCUMENT: Final = record({"path": TEXT, "text": TEXT}, "the document")
_EARLIER_PASS: Final[Facts] = frozenset({Fact(event="a pass before this one")})


def check_steps(scope: Scope, steps: Iterable[Step]) -> None:
    ended: Step | None = None
    for step in steps:
        if ended is not None:
            message = f"this is never reached: everything ends at the `stop` of line {ended.span.line}"
            scope.problems.report(step.span, "unreachable", message, "give the `stop` a `when`", "warning")
        check_step(scope, step)
        ended = step if step.verb == "stop" and step.when is None else None


def check_step(scope: Scope, step: Step) -> None:
    """Check a step and what stands in for it, and bind its id."""
    first = _claim_id(scope, step)
    with scope.under(step.when):
        shared = step.otherwise is not None and step.otherwise.id == step.id
        with scope.knowing(FAILURE.maybe() if shared else None):  # it may speak in the same section
            found = _checked(scope, step, prompted=first)
        breaker = scope.lookups.breaker(step.retry, step.place("retry"), scope.settings) if step.retry else {}
        depends = scope.depends
        if step.otherwise is not None:
            with scope.knowing(FAILURE), scope.under(step.otherwise.when):
                found = _either(step, found, step.otherwise, _checked(scope, step.otherwise))
        elif breaker.get("then") == "skip" and step.verb not in ("repeat", "goto"):
            depends = depends | _happened(step, "was answered")
    if step.id is not None and found is not None:
        found = found if first else ANY  # which of the two steps is meant, nobody knows
        scope.bind(step.id, found.maybe(depends) if depends and first else found)


def _checked(scope: Scope, step: Step, *, prompted: bool = True) -> Type | None:
    """Check the step's values and, where it is `prompted` by it, its section, and then what its verb asks for."""
    main = scope.needed(step.main, step.verb) if step.main is not None and step.verb != "set" else ANY
    extra, told = ({}, {}) if step.verb not in ("agent", "panel") else _member(main)
    beside = {
        name: scope.value(value, extra if name == "material" else {})
        if name in MAY_BE_ABSENT
        else scope.needed(value, name, told if name == "writes" else {})
        for name, value in step.values.items()
    }
    prompt = scope.prompts.get(step.id or "")
    if prompt is not None and prompted and step.verb in ("agent", "panel", "write"):
        (scope.printed if step.verb == "write" else scope.prompt)(prompt.template, extra)
    if "material" in beside:
        check_material(scope, step.values["material"], beside["material"])
    check = _CHECKS.get(step.verb)
    return check(scope, step, main, beside) if check is not None else None


def _member(main: Type) -> tuple[Types, Types]:
    """The member as its prompts see it, and as `writes` does."""
    one = member_of(main)
    return {"member": record({**one.fields, **REMEMBERS}, one.label)}, {"member": one}


def check_material(scope: Scope, value: Value, found: Type) -> None:
    """Report a title that is none, and what is no text and not made of texts."""
    for title, one in (value.entries or {}).items():
        if not title.strip() or "\n" in title:
            scope.report(value.keys[title], "title", "a title is one line of text", "write `Title: …`")
        elif "{{" in title or "{%" in title:
            hint = "write out what it is called; what it is, the value says"
            scope.report(value.keys[title], "title", "a title is not rendered", hint)
        if found.kind == "record" and found.fields[title].kind == "boolean":
            hint = "texts, numbers, lists, records and replies can be; put a condition into the section"
            scope.report(one.span, "type", f"`{title}` is true or false, which is no material", hint)


def _claim_id(scope: Scope, step: Step) -> bool:
    """Whether no step before has the id."""
    if step.id is None:
        return True
    span = step.place("id")
    taken = scope.ids.setdefault(identifier(step.id), span)
    if taken is not span:
        hint = f"it stands in line {taken.line}"
        scope.report(span, "duplicate-id", f"another step is called `{step.id}` already", hint)
    return taken is span


def _happened(step: Step, how: str) -> Facts:
    return frozenset({Fact(event=f"{step.id} {how}")})


def _either(step: Step, found: Type | None, other: Step, stand_in: Type | None) -> Type | None:
    """What an id gives when either the step or the one that stands in for it ran."""
    if step.verb == "goto" or other.verb == "stop" or found is None:
        return found
    answered, failed = (_happened(step, how) for how in ("was answered", "failed"))
    if stand_in is None or found.kind != "record":
        return found.maybe(answered)
    fields = {name: one.maybe(answered) for name, one in found.fields.items()}
    fields |= {name: one.maybe(failed) for name, one in stand_in.fields.items()}
    both = found.fields.keys() & stand_in.fields.keys()
    fields |= {name: merged([found.fields[name], stand_in.fields[name]]) for name in both}
    return record(fields, found.label)


def _among(scope: Scope, value: Value, one: Type, known: Iterable[Any], what: str) -> None:
    """Report what a value can be and must not: where it is written, in the value or in the config."""
    options = list(known)
    named = {each for each in options if isinstance(each, str)}
    for given in [
        each for each in one.values or () if not (each in named if isinstance(each, str) else each in options)
    ]:
        for span in scope.lookups.places(value, given, scope.settings):
            scope.report(span, "choice", f"`{given}` is not among {what}", suggest(str(given), map(str, options)))


def _artifact(scope: Scope, step: Step) -> None:
    """Report an artifact outside the run's folder, or where the run keeps its own files."""
    path = step.artifact.literal if step.artifact is not None else None
    if step.artifact is None or not isinstance(path, str):
        return
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts:
        scope.report(step.artifact.span, "path", f"`{path}` is no place in the run's folder", "write `name.md`")
    elif parts[0] in OWN_FILES or parts[0].startswith("round-"):
        scope.report(step.artifact.span, "path", f"`{path}` belongs to the run itself", "choose another name")


def _shaped(scope: Scope, step: Step) -> Type | None:
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


def _attached(scope: Scope, step: Step, beside: Types) -> Type | None:
    """The type of the record that comes with a reply; None where none is asked for."""
    for key in ("record", "points"):
        if (step.record if key == "record" else key in beside) and (step.output or step.schema is not None):
            hint = "a structured reply has its own fields: leave `output` out, or put them there"
            scope.report(step.place(key), "two-forms", f"`{key}` comes with a reply that is text", hint)
            return ANY
    given = beside.get("points", ANY)
    if given.kind not in ("any", "list", "none"):
        scope.report(step.values["points"].span, "type", f"`points` is {KINDS[given.kind]}", "write a list")
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
    found = of_schema(records_merged([*outlines, *ids]), (str(step.id), "record"))
    for part in step.record[:1]:
        kept = {name: one for name, one in PHASE_RECORD.fields.items() if name in found.fields}
        scope.fit(part.span, found, record(kept), f"the record of `{step.id}`")
    return found


def _agent(scope: Scope, step: Step, main: Type, beside: Types) -> Type:
    check_members(scope, step, main)
    if step.main is not None and step.main.entries is not None:
        scope.report(step.main.span, "type", "expected a member or a list of members")
    check_twice(scope, step, main)
    _artifact(scope, step)
    data = _shaped(scope, step)
    _check_gathered(scope, step)
    least = step.values.get("at_least")
    filled = least is None or least.literal != 0
    if data is not None and main.kind == "any":
        data = ANY  # nobody knows whether it is a list
    attached, several = _attached(scope, step, beside), main.kind == "list"
    if attached is not None and main.kind == "any":
        attached = ANY
    found = replies_type(
        data, step.id or "agent", several=several, filled=filled, attached=attached, points="points" in beside
    )
    return found._replace(fields={**found.fields, "path": TEXT}) if "writes" in beside else found


def _check_gathered(scope: Scope, step: Step) -> None:
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


def _panel(scope: Scope, step: Step, main: Type, beside: Types) -> Type:
    check_members(scope, step, main)
    _shaped(scope, step)
    value, named = step.values.get("protocol"), beside.get("protocol", ANY).values
    known = scope.lookups.library.names("skills/protocols")
    settings = scope.settings if named is not None else UNKNOWN  # whether it is called with this config is not sure
    outputs: list[Type] = []
    entered: list[CheckedProtocol] = []
    inputs: dict[str, Field] = {}
    for name in dict.fromkeys(known if named is None else map(str, named)) if value is not None else ():
        assert value is not None
        if name in scope.protocols:
            scope.report(value.span, "cycle", f"the protocol `{name}` calls itself")
        elif name not in known:
            for span in scope.lookups.places(value, name, scope.settings):
                scope.lookups.unknown(span, "protocol", name, known)
        elif (found := scope.reached.protocol(name, settings, scope.protocols)) is not None:
            scope.writes_elsewhere |= found.writes
            outputs.append(record({**found.outputs, "degraded": BOOLEAN}, step.id or "the panel"))
            entered.append(found)
            inputs |= {identifier(one.name): one for one in found.protocol.inputs}
            if named is not None and len(named) == 1:
                check_seats(scope, step, main, found.protocol)
    scope.entered[step.span] = tuple(entered)
    protocols = [one.protocol for one in entered]
    reading = [one.protocol.name for one in entered if one.reads_task]
    _warn_of_names(scope, protocols)
    if any(not one.seats.names for one in protocols):
        check_twice(scope, step, main)
    _check_task(scope, step, protocols, reading)
    if not outputs or value is None:
        return ANY
    if value.literal is not None:
        check_given(scope, step, inputs, f"the protocol `{value.literal}`", beside.get("with", ANY))
        return merged(outputs)
    library = [one for one in map(scope.lookups.library.protocol, known) if one is not None]
    inputs |= {identifier(one.name): one for other in library for one in other.inputs}
    check_given(scope, step, inputs, "none of the protocols", beside.get("with", ANY), all_of_them=False)
    return _of_any(merged(outputs), library)


def _check_task(scope: Scope, step: Step, protocols: list[Protocol], reading: list[str]) -> None:
    """A panel has a section where a protocol of it reads its task, and none that nobody reads."""
    if reading and step.id is None:
        hint = "the id names its section in the body"
        scope.report(step.span, "missing-id", f"`{step.verb}` needs an `id`", hint)
    elif reading and step.id not in scope.headings:
        scope.report(
            step.place("id"), "missing-section", f"`{step.id}` has no section", f"add `## {step.id}` to the body"
        )
    elif protocols and not reading and (prompt := scope.prompts.get(step.id or "")) is not None:
        names = " or ".join(f"`{one.name}`" for one in protocols)
        message = f"nobody reads the section `{step.id}`: the protocol {names} has no `task` in its prompts"
        scope.problems.report(prompt.heading, "unused-section", message, severity="warning")


def _of_any(found: Type, library: list[Protocol]) -> Type:
    """What a panel gives whose protocol is computed: also the outputs of protocols that are not chosen today."""
    fields = dict(found.fields)
    for name, value in ((identifier(name), value) for other in library for name, value in other.outputs.items()):
        mine = fields.setdefault(name, ANY.maybe())
        if mine.values and isinstance(value.literal, str):
            fields[name] = mine._replace(values=tuple(dict.fromkeys((*mine.values, value.literal))))
    return found._replace(fields=fields)


def _warn_of_names(scope: Scope, protocols: list[Protocol]) -> None:
    """Warn of outputs that protocols for one panel spell differently."""
    for one in protocols:
        others = {name: other.name for other in protocols for name in other.outputs if name not in one.outputs}
        for name, value in one.outputs.items():
            near = close_to(name, others)
            if near and not all(name in other.outputs for other in protocols):
                message = f"`{name}` is called `{near}` in the protocol `{others[near]}`, and a panel may seat either"
                scope.problems.report(value.span, "near-miss", message, severity="warning")


_OWN_ANSWERS: Final = frozenset({"choices", "multiple", "other", "default"})  # what a question may say for itself


def _ask(scope: Scope, step: Step, main: Type, beside: Types) -> Type:
    choices = beside.get("choices", ANY).item or ANY
    if choices.values and "default" in beside:
        _among(scope, step.values["default"], beside["default"], ("", *choices.values), "the choices")
    elif main.kind == "text" and "multiple" not in beside and beside.get("default", ANY).kind in {"list", "record"}:
        scope.report(step.values["default"].span, "type", "the answer to one question is one value")
    if beside.get("pause", ANY).values == ("exit",) and not beside.keys() & {"form", "files"}:
        message, hint = "`pause: exit` does not say what is waited for", "add `form:`, a file to fill in, or `files:`"
        scope.report(step.values["pause"].span, "missing-key", message, hint)
    levels = beside.get("confidence", ANY)
    if levels.kind not in ("any", "list"):
        hint = "write `[certain, likely, guess]`, from the most to the least"
        scope.report(step.values["confidence"].span, "type", f"`confidence` is {KINDS[levels.kind]}", hint)
    given = [choices.kind] if "choices" in beside else []
    given += [beside["default"].kind] if "default" in beside else []
    item = main.item if main.kind == "list" and main.item is not None and main.item.kind == "record" else QUESTION
    is_plain = main.kind == "text" or (item is not QUESTION and not item.fields.keys() & _OWN_ANSWERS)
    is_text = is_plain and "multiple" not in beside and set(given) <= {"text"}
    answer = (TEXT if is_text else ANY).maybe()
    if choices.values and "other" not in beside:
        answer = answer._replace(values=choices.values, tunable=choices.tunable)
    answered = {**QUESTION.fields, **item.fields, **ANSWER, "answer": answer}
    fields = {"answers": list_of(record(answered, "the answer")), "answer": answer, "notes": TEXT.maybe()}
    fields |= {"enough": BOOLEAN.maybe()} if "enough" in beside else {}
    return record(fields, step.id or "ask")


def _read(scope: Scope, step: Step, _: Type, __: Types) -> Type:
    data = _shaped(scope, step)
    fields = {"text": TEXT, "files": list_of(TEXT), "documents": list_of(_DOCUMENT)}
    fields |= {} if data is None else {"data": data}
    return record(fields, step.id or "read")


def _find(scope: Scope, step: Step, main: Type, beside: Types) -> Type:
    """The items that it is given, in three lists; the texts of files, where they are asked for."""
    item = main.item if main.kind == "list" and main.item is not None else ANY if main.kind == "any" else main
    if main.kind in ("number", "boolean", "record", "map") or item.kind in ("number", "boolean", "list"):
        hint = "a path, a list of paths, or a list of records with a `path`"
        scope.report(_place(step), "type", f"`find` takes paths, not {KINDS[_wrong(main, item).kind]}", hint)
    elif item.kind == "record" and "path" not in item.fields:
        scope.report(_place(step), "type", "the records that `find` is given have no `path`", "name the field `path`")
    found = list_of(item.present()._replace(values=None))
    fields = {"found": found, "missing": found, "withheld": found}
    fields |= {"texts": list_of(_DOCUMENT), "left_out": list_of(TEXT)} if "show" in beside else {}
    return record(fields, step.id or "find")


def _wrong(main: Type, item: Type) -> Type:
    return item if main.kind == "list" else main


def _place(step: Step) -> Span:
    return step.main.span if step.main is not None else step.span


def _write(scope: Scope, step: Step, _: Type, beside: Types) -> Type:
    _artifact(scope, step)
    for name in beside["template"].values or () if "template" in beside else ():
        text = scope.lookups.text(str(name), step.values["template"].span, "template")
        if text is not None:
            scope.printed(text.template)
    wanted = _shaped(scope, step)
    if step.output is not None and "frontmatter" not in step.values:
        hint = "add `frontmatter:`, or leave `shape` out"
        scope.report(step.output.span, "missing-key", "`shape` is that of the frontmatter, and there is none", hint)
    elif wanted is not None:
        what = f"the frontmatter of `{step.id or 'write'}`"
        scope.fit(step.values["frontmatter"].span, beside["frontmatter"], wanted, what)
    return record({"path": TEXT, "text": TEXT}, step.id or "write")


def _set(scope: Scope, step: Step, _: Type, __: Types) -> None:
    state = {identifier(one.name): one for one in scope.place.workflow.state} if scope.place is not None else {}
    entries, keys = (step.main.entries or {}, step.main.keys) if step.main is not None else ({}, {})
    for written, value in entries.items():
        one, name = scope.value(value), identifier(written)
        if scope.outside is not None and (name in state or name in scope.outside):
            what = f"state.{written}" if name in state else written
            hint = "what is set for an item stays with it: take another name, and read it from what the `each` gives"
            scope.report(keys[written], "each", f"`{what}` is there outside of the `each`", hint)
        elif name in state:
            expected = scope.names["state"].fields[name]
            if check_literal(scope, state[name], value) and expected.values:
                _among(scope, value, one, expected.values, f"the values of `state.{written}`")
            scope.fit(value.span, one, expected, f"what `state.{written}` is set to")
        elif name in OWN_NAMES:
            scope.report(keys[written], "reserved", f"`{written}` is the language's own name", "choose another")
        else:
            if name not in scope.names and (close := close_to(name, state)):
                message = f"`{written}` is not declared in `state`, but it is close to a name that is"
                scope.report(keys[written], "near-miss", message, f"did you mean `{close}`?")
            scope.bind_local(name, one)


def _decide(scope: Scope, step: Step, _: Type, beside: Types) -> Type:
    known = beside["order"].values if "order" in beside else None
    order = step.order or (tuple(known[0]) if known and isinstance(known[0], list) else ())
    values: list[Type] = []
    reasons = []
    failed: Facts = NOTHING
    for row in step.rows:
        with scope.under(row.when, failed):
            for value in (one for one in (row.then, row.at_least) if one is not None):
                values.append(scope.needed(value, "then"))
                if order and (value.literal is None or not step.order):  # what is written out has been looked at
                    _among(scope, value, values[-1], order, "what `order` lists")
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


def _repeat(scope: Scope, step: Step, _: Type, beside: Types) -> Type:
    found = record({"times": NUMBER, "exhausted": BOOLEAN}, step.id or "repeat")
    if step.until is None and "at_most" not in beside:
        check_steps(scope, step.steps)
        return found
    _cap(scope, step, beside.get("at_most", ANY))
    outer, loop, before = scope.names.pop("pass", None), scope.loop, dict(scope.names)
    scope.loop = "repeat"
    trial = scope.trial({"pass": _pass(NONE)})
    check_steps(trial, step.steps)
    bound = {name: one for name, one in trial.names.items() if before.get(name) is not one and name != "pass"}
    scope.names |= {name: merged([before[name], one]) for name, one in bound.items() if name in before}
    previous = record({name: one.maybe(_EARLIER_PASS) for name, one in bound.items()}, "pass.previous")
    scope.names["pass"] = _pass(previous)
    check_steps(scope, step.steps)
    scope.condition(step.until)
    sections = [scope.prompts[one.id].template for one in step.walk() if one.id and one.id in scope.prompts]
    if not scope.problems.errors and changes_nothing(step.steps, [*sections, *scope.around]):
        hint = "let a section read `pass.previous`, or what the loop sets"
        scope.problems.report(step.span, "same-again", "each pass asks the same again", hint, "warning")
    scope.loop = loop
    scope.names.pop("pass")
    if outer is not None:
        scope.names["pass"] = outer
    return found


def _pass(previous: Type) -> Type:
    return record({"index": NUMBER, "previous": previous.maybe(_EARLIER_PASS)}, "pass")


def _cap(scope: Scope, step: Step, given: Type) -> None:
    """Check `at_most`, and that something ends what goes round."""
    value = step.values.get("at_most")
    literal = value.literal if value is not None else None
    hint = "a whole number of at least 1, or the name of a breaker"
    if value is None:
        if step.retry is None:
            scope.report(step.span, "unbounded", f"a `{step.verb}` needs `at_most`", hint)
    elif isinstance(literal, str) and not literal.isdigit():
        scope.lookups.breaker(literal, value.span, scope.settings)
    elif literal is not None and (isinstance(literal, bool | list | dict | float) or int(literal) < 1):
        scope.report(value.span, "type", f"`at_most` is `{literal}`", hint)
    elif literal is None:
        _computed_cap(scope, value, given, hint)


def _computed_cap(scope: Scope, value: Value, given: Type, hint: str) -> None:
    """Check what a template gives as a cap: where nobody knows which text, that it may be no breaker's name."""
    if given.kind in ("list", "record", "map", "boolean"):
        scope.report(value.span, "type", f"`at_most` is {KINDS[given.kind]}", hint)
    elif given.kind == "text" and given.values is None:
        message = "`at_most` is a text that nobody knows before the run"
        scope.problems.report(value.span, "type", message, f"{hint}; `| int` reads one from a text", "warning")
    for name in given.values or ():
        if isinstance(name, str) and not name.isdigit():
            for span in scope.lookups.places(value, name, scope.settings):
                scope.lookups.breaker(name, span, scope.settings)


def _run(scope: Scope, step: Step, _: Type, beside: Types) -> Type:
    scope.writes_elsewhere = True
    if step.main is None or not step.text:
        return ANY
    library = scope.lookups.library
    if library.locate(f"workflows/{step.text}.md") is None:
        scope.lookups.unknown(step.main.span, "workflow", step.text, library.names("workflows"))
        return ANY
    if scope.reached.is_open(step.text):
        scope.report(step.main.span, "cycle", f"the workflow `{step.text}` runs itself")
        return ANY
    program = scope.reached.workflow(step.text)
    if program is None:
        return ANY
    scope.entered[step.span] = (program,)
    inputs = {identifier(one.name): one for one in program.workflow.inputs}
    check_given(scope, step, inputs, f"the workflow `{step.text}`", beside.get("with", ANY))
    return record(dict.fromkeys(program.workflow.outputs, ANY.maybe()), step.id or step.text)


def _goto(scope: Scope, step: Step, _: Type, beside: Types) -> None:
    place, target = scope.place, step.text
    if place is None:
        hint = "let the phase do it, from the protocol's outputs"
        scope.report(step.span, "goto", "a protocol cannot go back to a phase", hint)
        return
    if scope.loop:
        hint = "set a name in the loop and go back after it"
        if scope.loop == "each":
            hint = "go back after it, by what its id gives"
        scope.report(step.span, "goto", f"`goto` does not stand inside `{scope.loop}`", hint)
    earlier = place.earlier | {place.phase}
    if step.main is not None and target in place.workflow.phases and target not in earlier:
        message = f"`{target}` is not earlier than `{place.phase}`"
        scope.report(step.main.span, "goto", message, "go back to a phase that this one follows, or to itself")
    elif step.main is not None and target and target not in earlier:
        scope.lookups.unknown(step.main.span, "phase", target, sorted(earlier))
    _cap(scope, step, beside.get("at_most", ANY))


_CHECKS: Final[Mapping[str, Callable[[Scope, Step, Type, Types], Type | None]]] = {
    "agent": _agent,
    "panel": _panel,
    "ask": _ask,
    "read": _read,
    "find": _find,
    "write": _write,
    "set": _set,
    "decide": _decide,
    "repeat": _repeat,
    "each": lambda scope, step, main, _: check_each(scope, step, main, check_steps),
    "run": _run,
    "goto": _goto,
    "": lambda *_: ANY,  # a broken step
}
assert _CHECKS.keys() <= {*VERBS, ""}
