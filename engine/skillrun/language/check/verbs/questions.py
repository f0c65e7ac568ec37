"""What is asked of a person: `ask`."""

from __future__ import annotations

from typing import Final

from skillrun.language.check.comparisons import KINDS
from skillrun.language.check.scope import Scope
from skillrun.language.check.verbs.results import Types, check_among
from skillrun.language.files.definitions import Step
from skillrun.language.templates.records import ANSWER, QUESTION
from skillrun.language.types.types import ANY, BOOLEAN, TEXT, Type, list_of, record

_OWN_ANSWERS: Final = frozenset({"choices", "multiple", "other", "default"})  # what a question may say for itself


def check_ask(scope: Scope, step: Step, main: Type, beside: Types) -> Type:
    choices = beside.get("choices", ANY).item or ANY
    if choices.values and "default" in beside:
        check_among(scope, step.values["default"], beside["default"], ("", *choices.values), "the choices")
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
