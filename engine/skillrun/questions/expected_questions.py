"""What a workflow will ask, known before it runs: whether it needs a person, and whether prepared answers fit.

Goes by what the checker recorded. What stands under a condition that the inputs rule out is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from skillrun.checker.program import Ask, Nested, Program
from skillrun.checker.static_conditions import Foresight
from skillrun.definitions.step_paths import unmarked
from skillrun.questions.answers import Question, choices_of, default_of
from skillrun.questions.prepared_answers import Prepared, names_of
from skillrun.syntax.diagnostics import Problems


def refusal(program: Program, prepared: Prepared, inputs: Mapping[str, Any] | None = None) -> list[str]:
    """A line for each step that makes an unattended run of the program refuse; empty where nobody is needed.

    `inputs` are those of the run, with their defaults.
    """
    lines = []
    for ask in asks(program, inputs):
        if not _is_answered(ask, prepared):
            at = unmarked(ask.at)
            place = f"{ask.step.span.path}:{ask.step.span.line}: `{at}`"
            if ask.brings_files:
                lines.append(f"{place} waits for files that a person brings: run it without --unattended")
            else:
                one = f" (each time that it is asked; `{ask.at}` is for one)" if ask.at != at else ""
                hint = f"answer `{at}` in --answers FILE{one}, give the step a `default:`, or run without --unattended"
                lines.append(f"{place} asks a person: {hint}")
    return list(dict.fromkeys(lines))


def check_answers(program: Program, prepared: Prepared) -> Problems:
    """The prepared answers that are none of the choices, and names that no question has but one that is close."""
    problems = Problems()
    known: set[str] = set()
    for ask in asks(program):
        for question in questions_of(ask):
            known |= {*names_of(unmarked(ask.at), question)}
            if choices_of(question):
                prepared.check(unmarked(ask.at), question, problems)
    prepared.check_names(known, problems)
    return problems


def asks(program: Program, inputs: Mapping[str, Any] | None = None) -> Iterator[Ask]:
    """Every `ask` that a run of the program can come to, with these inputs or with any, by its address in the run."""
    return _in_program(program, "", Foresight({"inputs": inputs}) if inputs is not None else None)


def questions_of(ask: Ask) -> Iterator[Question]:
    """What is asked, as far as it is written out."""
    return (cast(Question, question) for question in ask.questions)


def _is_answered(ask: Ask, prepared: Prepared) -> bool:
    """Whether nobody has to be there for it."""
    if ask.has_default:
        return True
    if ask.brings_files:
        return False
    return all(
        default_of(question) is not None or prepared.has(unmarked(ask.at), question) for question in questions_of(ask)
    )


def _in_program(program: Program, prefix: str, inputs: Foresight | None) -> Iterator[Ask]:
    known = Foresight.of(program, inputs)
    for use in program.workflow.phases.values():
        if not known.rules_out(use.when):
            yield from _among(program.asks.get(use.name, ()), f"{prefix}{use.name}", known)


def _among(records: Iterable[Ask | Nested], at: str, known: Foresight) -> Iterator[Ask]:
    for record in records:
        if any(known.rules_out(condition) for condition in record.under):
            continue
        here = f"{at}{record.at}"
        if isinstance(record, Ask):
            yield replace(record, at=here)
            continue
        for entered in record.into:
            called = entered.workflow if isinstance(entered, Program) else entered.protocol
            given = known.handed_over(called.inputs, record.step.values.get("with"))
            if isinstance(entered, Program):
                yield from _in_program(entered, f"{here}/", given)
            else:
                names = {**known.names, **given.names}
                yield from _among(entered.asks, here, replace(given, names=names, varying=known.varying))
