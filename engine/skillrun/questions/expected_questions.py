"""Finds the questions of a workflow before it runs, to tell whether the run needs a user and whether prepared answers
are valid.

Uses the questions that the checker recorded. Leaves out questions whose condition cannot be true with the inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from skillrun.checker.program import NestedCall, Program, QuestionStep
from skillrun.checker.static_conditions import StaticConditions
from skillrun.definitions.definitions import strip_markers
from skillrun.questions.answers import Question, choices_of, default_of
from skillrun.questions.prepared_answers import PreparedAnswers, answer_keys
from skillrun.syntax.diagnostics import Problems


def unanswerable_questions(
    program: Program, prepared: PreparedAnswers, inputs: Mapping[str, Any] | None = None
) -> list[str]:
    """Return a line for each step that prevents an unattended run of the program. Empty if no user is needed.

    `inputs` contains the inputs of the run, including defaults.
    """
    lines = []
    for ask in iterate_asks(program, inputs):
        if not _is_answered(ask, prepared):
            address = strip_markers(ask.address)
            place = f"{ask.step.span.path}:{ask.step.span.line}: `{address}`"
            if ask.waits_for_files:
                lines.append(f"{place} waits for files from the user: run without --unattended")
            else:
                one = f" (answers it every time; `{ask.address}` answers it once)" if ask.address != address else ""
                hint = f"answer `{address}` in --answers FILE{one}, "
                hint += "add a `default:` to the step, or run without --unattended"
                lines.append(f"{place} asks the user: {hint}")
    return list(dict.fromkeys(lines))


def check_answers(program: Program, prepared: PreparedAnswers) -> Problems:
    """Report prepared answers that are not among the choices, and unknown names that resemble a known one."""
    problems = Problems()
    known: set[str] = set()
    for ask in iterate_asks(program):
        for question in questions_of(ask):
            known |= {*answer_keys(strip_markers(ask.address), question)}
            if choices_of(question):
                prepared.check_question(strip_markers(ask.address), question, problems)
    prepared.check_names(known, problems)
    return problems


def iterate_asks(program: Program, inputs: Mapping[str, Any] | None = None) -> Iterator[QuestionStep]:
    """Yield every `ask` that a run can reach, with its address in the run. If `inputs` are given, steps that they rule
    out are left out."""
    return _asks_in_program(program, "", StaticConditions({"inputs": inputs}) if inputs is not None else None)


def questions_of(ask: QuestionStep) -> Iterator[Question]:
    """Yield the questions that the step contains literally."""
    return (cast(Question, question) for question in ask.questions)


def _is_answered(ask: QuestionStep, prepared: PreparedAnswers) -> bool:
    """Whether the step needs no user."""
    if ask.has_default:
        return True
    if ask.waits_for_files:
        return False
    return all(
        default_of(question) is not None or prepared.has_answer(strip_markers(ask.address), question)
        for question in questions_of(ask)
    )


def _asks_in_program(program: Program, prefix: str, inputs: StaticConditions | None) -> Iterator[QuestionStep]:
    conditions = StaticConditions.for_program(program, inputs)
    for use in program.workflow.phases.values():
        if not conditions.rules_out(use.when):
            yield from _asks_in_records(program.question_steps.get(use.name, ()), f"{prefix}{use.name}", conditions)


def _asks_in_records(
    records: Iterable[QuestionStep | NestedCall], prefix: str, conditions: StaticConditions
) -> Iterator[QuestionStep]:
    for record in records:
        if any(conditions.rules_out(condition) for condition in record.conditions):
            continue
        address = f"{prefix}{record.address}"
        if isinstance(record, QuestionStep):
            yield replace(record, address=address)
            continue
        for target in record.callees:
            called = target.workflow if isinstance(target, Program) else target.protocol
            inputs = conditions.for_inputs(called.inputs, record.step.values.get("with"))
            if isinstance(target, Program):
                yield from _asks_in_program(target, f"{address}/", inputs)
            else:
                names = {**conditions.names, **inputs.names}
                yield from _asks_in_records(
                    target.question_steps,
                    address,
                    replace(inputs, names=names, mode_dependent_keys=conditions.mode_dependent_keys),
                )
