"""Checks the steps that ask members or the user: `agent`, `panel` and `ask`."""

from __future__ import annotations

from typing import Final

from skillrun.checker.absences import absent_outputs, find_open_question
from skillrun.checker.comparisons import KINDS
from skillrun.checker.interfaces import (
    check_duplicate_members,
    check_inputs,
    check_members,
    check_seats,
    record_input_references,
)
from skillrun.checker.names import POINTS
from skillrun.checker.program import CheckedProtocol
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import (
    Types,
    check_allowed_values,
    check_artifact,
    check_gather_shape,
    data_type,
    record_type,
)
from skillrun.definitions.definitions import Protocol, Step
from skillrun.library.lookups import UNKNOWN
from skillrun.syntax.diagnostics import near_miss
from skillrun.templates.return_types import ANSWER, DROPPED, QUESTION, REPLY
from skillrun.types.fields import Field
from skillrun.types.types import ANY, BOOLEAN, TEXT, Type, identifier, list_of, merge_types, record

_OWN_ANSWERS: Final = frozenset({"choices", "multiple", "other", "default"})  # keys that a single question can set


def check_agent(scope: Scope, step: Step, main: Type, value_types: Types) -> Type:
    check_members(scope, step, main)
    if step.main is not None and step.main.entries is not None:
        scope.report(step.main.span, "type", "expected a member or a list of members")
    check_duplicate_members(scope, step, main)
    check_artifact(scope, step)
    data = data_type(scope, step)
    check_gather_shape(scope, step)
    least, several = step.values.get("at_least"), main.kind == "list"
    filled = least is None or least.literal != 0  # whether at least one member must reply
    trailing_record = record_type(scope, step, value_types)
    if main.kind == "any":  # a list of members would make these values lists, too
        data = ANY if data is not None else None
        trailing_record = ANY if trailing_record is not None else None
    fields: dict[str, Type] = {"text": TEXT}
    if data is not None:
        fields["data"] = list_of(data, filled=filled) if several else data
    if trailing_record is not None:
        fields["record"] = list_of(trailing_record) if several else trailing_record.maybe()
    if "points" in value_types:
        fields["points"] = POINTS
    structured = {"data": data or ANY, "record": trailing_record or ANY, "points": POINTS}
    reply = record({**REPLY.fields, **{key: type_.maybe() for key, type_ in structured.items()}}, REPLY.label)
    fields["path"] = TEXT if "writes" in value_types else TEXT.maybe()
    fields["replies"] = list_of(reply, filled=filled)
    return record({**fields, "dropped": list_of(DROPPED), "degraded": BOOLEAN}, step.id or "agent")


def check_panel(scope: Scope, step: Step, main: Type, value_types: Types) -> Type:
    check_members(scope, step, main)
    data_type(scope, step)
    value, protocol_names = step.values.get("protocol"), value_types.get("protocol", ANY).values
    known = scope.lookups.library.names("skills/protocols")
    # if the name is computed, the protocol may never be called with this config
    settings = scope.settings if protocol_names is not None else UNKNOWN
    outputs: list[Type] = []
    callees: list[CheckedProtocol] = []
    inputs: dict[str, Field] = {}
    possible = known if protocol_names is None else map(str, protocol_names)
    for name in dict.fromkeys(possible) if value is not None else ():
        assert value is not None
        for span in scope.lookups.value_spans(value, name, scope.settings) if protocol_names is not None else ():
            scope.lookups.add_reference(span, "protocol", f"skills/protocols/{name}.md", name)
        if name in scope.protocols:
            scope.report(value.span, "cycle", f"the protocol `{name}` calls itself")
        elif name not in known:
            for span in scope.lookups.value_spans(value, name, scope.settings):
                scope.lookups.report_unknown(span, "protocol", name, known)
        elif (checked := scope.checker.check_protocol(name, settings, scope.protocols)) is not None:
            scope.callees_may_write |= checked.writes_artifacts
            outputs.append(record({**checked.outputs, "degraded": BOOLEAN}, step.id or "the panel"))
            callees.append(checked)
            description = f"the protocol `{name}`"
            scope.absences |= absent_outputs(step.id or "", description, checked.protocol.outputs, checked.outputs)
            record_input_references(scope, step, checked.protocol.inputs, f"skills/protocols/{name}.md")
            inputs |= {identifier(field.name): field for field in checked.protocol.inputs}
    scope.callees[step.span] = tuple(callees)
    owner_paths = tuple(f"skills/protocols/{checked.protocol.name}.md" for checked in callees)
    scope.owners.output_files[step.id or "the panel"] = owner_paths
    protocols = [checked.protocol for checked in callees]
    if protocol_names is not None and len(protocols) == len(protocol_names):
        check_seats(scope, step, main, protocols)
    reading = [checked.protocol.name for checked in callees if "task.*" in checked.reads]
    _warn_about_output_names(scope, protocols)
    if any(not protocol.seats.names for protocol in protocols):
        check_duplicate_members(scope, step, main)
    _check_task(scope, step, protocols, reading)
    if not outputs or value is None:
        return ANY
    if value.literal is not None:
        check_inputs(scope, step, inputs, f"the protocol `{value.literal}`", value_types.get("with", ANY))
        return merge_types(outputs)
    library = [protocol for protocol in map(scope.lookups.library.protocol, known) if protocol is not None]
    inputs |= {identifier(field.name): field for other in library for field in other.inputs}
    check_inputs(scope, step, inputs, "none of the protocols", value_types.get("with", ANY), all_of_them=False)
    fields = dict(merge_types(outputs).fields)  # also the outputs of all other protocols that the name might mean
    for output, expression in ((key, value) for other in library for key, value in other.outputs.items()):
        known_type = fields.setdefault(identifier(output), ANY.maybe())
        if known_type.values and isinstance(expression.literal, str):
            values = dict.fromkeys((*known_type.values, expression.literal))
            fields[identifier(output)] = known_type._replace(values=tuple(values))
    return merge_types(outputs)._replace(fields=fields)


def _check_task(scope: Scope, step: Step, protocols: list[Protocol], reading: list[str]) -> None:
    """Report a panel without a section if a protocol reads `task`, and a section that no protocol reads."""
    if reading and step.id is None:
        hint = "add an `id`, which names the section in the body"
        scope.report(step.span, "missing-id", f"`{step.verb}` needs an `id`", hint)
    elif reading and step.id not in scope.headings:
        hint = f"add `## {step.id}` to the body"
        scope.report(step.value_span("id"), "missing-section", f"`{step.id}` has no section", hint)
    elif protocols and not reading and (prompt := scope.prompts.get(step.id or "")) is not None:
        names = " or ".join(f"`{protocol.name}`" for protocol in protocols)
        message = f"the section `{step.id}` is not used: no prompt of the protocol {names} reads `task`"
        scope.problems.report(prompt.heading, "unused-section", message, severity="warning")


def _warn_about_output_names(scope: Scope, protocols: list[Protocol]) -> None:
    """Warn of similar output names in the protocols that a panel can use."""
    for protocol in protocols:
        others = {name: other.name for other in protocols for name in other.outputs if name not in protocol.outputs}
        for name, value in protocol.outputs.items():
            near = near_miss(name, others)
            if near and not all(name in other.outputs for other in protocols):
                other = f"`{near}` in the protocol `{others[near]}`"
                message = f"the output `{name}` is called {other}, and a panel can use either protocol"
                scope.problems.report(value.span, "near-miss", message, severity="warning")


def check_ask(scope: Scope, step: Step, main: Type, value_types: Types) -> Type:
    choices = value_types.get("choices", ANY).item or ANY
    default = value_types.get("default", ANY)
    if main.kind == "text" and "multiple" not in value_types and default.kind in {"list", "record"}:
        hint = "use one choice, or add `multiple: true`" if default.kind == "list" and choices.values else ""
        message = "`default` must be a single value, because the step asks one question"
        scope.report(step.values["default"].span, "type", message, hint)
    elif choices.values and "default" in value_types:
        chosen = default.item or ANY if default.kind == "list" else default
        check_allowed_values(scope, step.values["default"], chosen, ("", *choices.values), "the choices")
    if value_types.get("pause", ANY).values == ("exit",) and not value_types.keys() & {"form", "files"}:
        message, hint = "`pause: exit` needs files to wait for", "add `form:` (a file to fill in) or `files:`"
        scope.report(step.values["pause"].span, "missing-key", message, hint)
    if step.main is not None and step.main.is_computed and step.main.template is not None:
        question = main.item if main.kind == "list" and main.item is not None else main
        if question.kind in ("number", "boolean", "list"):
            hint = "expected text, a record with the field `text`, or a list of texts or records"
            scope.report(step.main.span, "type", f"a question cannot be {KINDS[question.kind]}", hint)
        elif question.kind == "record" and "text" not in question.fields:
            hint = "rename the field with the question to `text`: `| pick('id', text='…')`"
            scope.report(step.main.span, "missing-field", "the questions have no `text`", hint)
    return _ask_type(step, main, value_types, choices)


def _ask_type(step: Step, main: Type, value_types: Types, choices: Type) -> Type:
    """Return the result type of an `ask`; `choices` is the type of each choice."""
    answer_kinds = [choices.kind] if "choices" in value_types else []
    answer_kinds += [value_types["default"].kind] if "default" in value_types else []
    item = main.item if main.kind == "list" and main.item is not None and main.item.kind == "record" else QUESTION
    is_plain = main.kind == "text" or (item is not QUESTION and not item.fields.keys() & _OWN_ANSWERS)
    is_text = is_plain and "multiple" not in value_types and set(answer_kinds) <= {"text"}
    answer = TEXT if is_text else ANY
    if choices.values and "other" not in value_types:
        answer = answer._replace(values=choices.values, tunable=choices.tunable)
    answered = {**QUESTION.fields, **item.fields, **ANSWER, "answer": answer.maybe()}
    answered |= {"asked_at": TEXT.maybe()} if "enough" in value_types else {}
    first = answer if is_always_answered(step, main) else answer.maybe()
    fields = {"answers": list_of(record(answered, "the answer")), "answer": first, "notes": TEXT.maybe()}
    fields |= {"enough": BOOLEAN.maybe()} if "enough" in value_types else {}
    return record(fields, step.id or "ask")


def is_always_answered(step: Step, main: Type) -> bool:
    """Whether the step always asks, and the run always waits for an answer to the first question."""
    is_written = step.main is not None and bool(step.main.items or step.main.entries)
    is_one = main.unless is None and (main.kind == "text" or (main.kind == "record" and bool(main.fields)))
    is_open = not is_written and bool((main.fields or {}).keys() & {"default", "skip"})
    return "files" in step.values or ((is_written or is_one) and not is_open and find_open_question(step) is None)
