"""Checks `ask` steps."""

from __future__ import annotations

from typing import Final

from skillrun.checker.absences import find_open_question
from skillrun.checker.comparisons import KINDS
from skillrun.checker.scope import Scope
from skillrun.checker.verbs.results import Types, check_allowed_values
from skillrun.definitions.definitions import Step
from skillrun.templates.records import ANSWER, QUESTION
from skillrun.types.types import ANY, BOOLEAN, TEXT, Type, list_of, record

_OWN_ANSWERS: Final = frozenset({"choices", "multiple", "other", "default"})  # keys that a single question can set


def check_ask(scope: Scope, step: Step, main: Type, value_types: Types) -> Type:
    choices = value_types.get("choices", ANY).item or ANY
    default = value_types.get("default", ANY)
    if main.kind == "text" and "multiple" not in value_types and default.kind in {"list", "record"}:
        hint = "use one choice, or add `multiple: true`" if default.kind == "list" and choices.values else ""
        scope.report(
            step.values["default"].span,
            "type",
            "`default` must be a single value, because the step asks one question",
            hint,
        )
    elif choices.values and "default" in value_types:
        chosen = default.item or ANY if default.kind == "list" else default
        check_allowed_values(scope, step.values["default"], chosen, ("", *choices.values), "the choices")
    if value_types.get("pause", ANY).values == ("exit",) and not value_types.keys() & {"form", "files"}:
        message, hint = "`pause: exit` needs files to wait for", "add `form:` (a file to fill in) or `files:`"
        scope.report(step.values["pause"].span, "missing-key", message, hint)
    _check_questions(scope, step, main)
    answer_kinds = [choices.kind] if "choices" in value_types else []
    answer_kinds += [value_types["default"].kind] if "default" in value_types else []
    item = main.item if main.kind == "list" and main.item is not None and main.item.kind == "record" else QUESTION
    is_plain = main.kind == "text" or (item is not QUESTION and not item.fields.keys() & _OWN_ANSWERS)
    is_text = is_plain and "multiple" not in value_types and set(answer_kinds) <= {"text"}
    answer = TEXT if is_text else ANY
    if choices.values and "other" not in value_types:
        answer = answer._replace(values=choices.values, tunable=choices.tunable)
    answered = {**QUESTION.fields, **item.fields, **ANSWER, "answer": answer.maybe()}
    first = answer if is_always_answered(step, main) else answer.maybe()
    fields = {"answers": list_of(record(answered, "the answer")), "answer": first, "notes": TEXT.maybe()}
    fields |= {"enough": BOOLEAN.maybe()} if "enough" in value_types else {}
    return record(fields, step.id or "ask")


def is_always_answered(step: Step, main: Type) -> bool:
    """Whether the step always asks and also stops the run until the first question is answered."""
    is_written = step.main is not None and bool(step.main.items or step.main.entries)
    is_one = main.unless is None and (main.kind == "text" or (main.kind == "record" and bool(main.fields)))
    is_open = not is_written and bool((main.fields or {}).keys() & {"default", "skip"})
    return "files" in step.values or ((is_written or is_one) and not is_open and find_open_question(step) is None)


def _check_questions(scope: Scope, step: Step, main: Type) -> None:
    """Report a computed value that cannot be a question."""
    asked = main.item if main.kind == "list" and main.item is not None else main
    if step.main is None or not step.main.is_computed or step.main.template is None:
        return
    if asked.kind in ("number", "boolean", "list"):
        hint = "expected text, a record with a `text`, or a list of these"
        scope.report(step.main.span, "type", f"a question cannot be {KINDS[asked.kind]}", hint)
    elif asked.kind == "record" and "text" not in asked.fields:
        hint = "rename the field with the question to `text`: `| pick('id', text='…')`"
        scope.report(step.main.span, "missing-field", "the questions have no `text`", hint)
