"""Whether what a case names is there: inputs, phases, questions, models, folders. Makes of it what can be run.

Reads the workflow's program; runs nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.extensions.testing.cases import ROUND_PREFIX, Case
from skillrun.extensions.testing.recorded_prompts import MAX_PROMPTS_BYTES, RecordedPrompt, load_prompts
from skillrun.library.lookups import Lookups
from skillrun.questions.expected_questions import check_answers
from skillrun.questions.prepared_answers import PreparedAnswers
from skillrun.runtime.inputs import validate_inputs
from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problems, UsageError, suggest
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import Span, to_plain

_NAMED: Final = re.compile(r"`([^`]+)`")
_BETWEEN: Final = re.compile(r"; (?=`)")  # two errors, each of which begins with a name


@dataclass(frozen=True)
class ReadyCase:
    """A case that can be run: with the workflow's inputs, the folder that it takes for the project, the texts of the
    files that something is to be equal to, where other runs are, and the prompts that it was recorded with."""

    case: Case
    inputs: Mapping[str, Any]
    project: Path
    files: Mapping[str, str]
    runs: Path | None = None
    prompts: Sequence[RecordedPrompt] | None = None


def prepare_case(case: Case, program: Program, project: Path, problems: Problems) -> ReadyCase | None:
    """The case with what it names; None where something of it is not there, which is reported at its place."""
    before = len(problems)
    folder = project / "tests" / case.workflow
    project_folder = _folder(case, "project", folder, project, problems) or project
    runs = _folder(case, "runs", folder, project, problems)
    if case.model and (wrong := Lookups(program.library).models.check_model(case.model)):
        _report(case, problems, wrong.code, wrong.message, "model", hint=wrong.hint)
    _check_phases(case, program, problems)
    _check_rounds(case, program, problems)
    for problem in check_answers(program, PreparedAnswers(case.answers)):
        problems.add(problem)
    files = _files(case, folder, project, problems)
    prompts = _prompts(case, folder, project, problems)
    inputs = _inputs(case, program, project_folder, problems)
    if len(problems) != before and problems.has_errors:
        return None
    return ReadyCase(case, inputs, project_folder, files, runs, prompts)


def _folder(case: Case, key: str, folder: Path, project: Path, problems: Problems) -> Path | None:
    """The folder that a key names; None where it names none, or one that is not there, which is reported."""
    name = str(getattr(case, key))
    place = folder / name
    if not name:
        return None
    if not place.is_dir() or not place.resolve().is_relative_to(project.resolve()):
        _report(case, problems, "folder", f"there is no folder {place} in the project", key)
        return None
    return place


def _prompts(case: Case, folder: Path, project: Path, problems: Problems) -> Sequence[RecordedPrompt] | None:
    """The prompts that a case was recorded with; None where it names none."""
    if not case.prompts:
        return None
    file_problems = Problems()
    file = read_source(folder / case.prompts, case.prompts, file_problems, MAX_PROMPTS_BYTES, boundary=project)
    for problem in file_problems:
        _report(case, problems, problem.code, f"{case.prompts}: {problem.message}", "prompts", hint=problem.hint)
    try:
        return load_prompts(file.text) if file is not None else None
    except ValueError as error:
        hint = "`skillrun test --record RUN` writes such a file; without this line none is needed"
        _report(case, problems, "prompts", f"{case.prompts}: {error}", "prompts", hint=hint)
    return None


def _inputs(case: Case, program: Program, project: Path, problems: Problems) -> dict[str, Any]:
    """The inputs with their defaults; what is wrong with one is told where it stands."""
    node = case.front.get("inputs")
    values: dict[str, Any] = to_plain(node) or {} if isinstance(node, source.Mapping) else {}
    known = [field.name for field in program.workflow.inputs]
    for name in values.keys() - set(known):
        message = f"`{case.workflow}` has no input `{name}`"
        _report(case, problems, "unknown-input", message, "inputs", name, hint=suggest(name, known))
    try:
        return validate_inputs(program, {name: values[name] for name in values if name in known}, project)[0]
    except UsageError as error:
        for text in _BETWEEN.split(error.message):
            named = _NAMED.match(text)
            _report(case, problems, "input", text, "inputs", named[1] if named else "", hint=error.next_step)
    return {}


def _check_phases(case: Case, program: Program, problems: Problems) -> None:
    phases = program.workflow.phases
    for expectation in case.expectations:
        named = (
            expectation.value
            if expectation.kind == "path"
            else (expectation.subject,)
            if expectation.kind in _OF_PHASES
            else ()
        )
        for name in named:
            if name not in phases:
                message = f"`{case.workflow}` has no phase `{name}`"
                span = case.front.key_span("expect", expectation.kind, name) or expectation.span
                problems.report(span, "unknown-phase", message, suggest(name, phases))


def _check_rounds(case: Case, program: Program, problems: Problems) -> None:
    """The rounds that patterns for addresses name are ones that there can be."""
    most = _most_rounds(program)
    for expectation in case.expectations:
        match = ROUND_PREFIX.match(expectation.subject) if expectation.kind in _BY_ADDRESS else None
        if match is not None and not 1 <= int(match[1]) <= most:
            span = case.front.key_span("expect", _BY_ADDRESS[expectation.kind], expectation.subject) or expectation.span
            message = f"`{case.workflow}` has no round {int(match[1])}"
            hint = f"nothing in it goes back (`goto`): leave out `{match[0]}`" if most == 1 else f"it has 1 to {most}"
            problems.report(span, "unknown-round", message, hint if most < math.inf else "they are counted from 1")


def _most_rounds(program: Program) -> float:
    """How many rounds a run can have, where that is written out."""
    steps = [step for phase in program.phases.values() for step in phase.walk()]
    uses = program.workflow.phases.values()
    steps += [step for use in uses if use.otherwise is not None for step in use.otherwise.walk()]
    caps = [step.values.get("at_most") if step.retry is None else None for step in steps if step.verb == "goto"]
    written = [cap.literal if cap is not None else None for cap in caps]
    return 1 + sum(cap if isinstance(cap, int) else math.inf for cap in written)


_BY_ADDRESS: Final = {"prompt": "prompts", "calls": "calls"}
_OF_PHASES: Final = ("outputs", "flags")


def _files(case: Case, folder: Path, project: Path, problems: Problems) -> dict[str, str]:
    """The texts of the files that `equals` names."""
    texts: dict[str, str] = {}
    for expectation in case.expectations:
        if expectation.test == "equals":
            file_problems = Problems()
            file = read_source(folder / expectation.value, expectation.value, file_problems, boundary=project)
            for problem in file_problems:
                problems.report(expectation.span, problem.code, f"{expectation.value}: {problem.message}", problem.hint)
            texts[expectation.value] = file.text if file is not None else ""
    return texts


def _report(case: Case, problems: Problems, code: str, message: str, *path: str, hint: str = "") -> None:
    """Report what is wrong at the key that the path leads to, or at the nearest above it that is there."""
    places = (case.front.key_span(*path[:length]) for length in range(len(path), 0, -1))
    span: Span = next((place for place in places if place is not None), case.span)
    problems.report(span, code, message, hint)
