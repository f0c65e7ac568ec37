"""Checks the keys of test cases, and the inputs, phases, questions, models and folders that the cases name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.extensions.testing.case_reader import CaseFile, case_files, looks_like_case, read_case
from skillrun.extensions.testing.cases import ROUND_PREFIX, Case
from skillrun.extensions.testing.recorded_prompts import MAX_PROMPTS_BYTES, RecordedPrompt, load_prompts
from skillrun.library.library import Library
from skillrun.library.lookups import Lookups
from skillrun.questions.prepared_answers import PreparedAnswers, check_answers
from skillrun.runtime.inputs import validate_inputs
from skillrun.syntax import source
from skillrun.syntax.diagnostics import ParsingStopped, Problem, Problems, UsageError, suggest
from skillrun.syntax.document import parse_document
from skillrun.syntax.reading import decode_source, read_source
from skillrun.syntax.source import MAX_BYTES, Source, Span, to_plain

_NAMED: Final = re.compile(r"`([^`]+)`")
_BETWEEN: Final = re.compile(r"; (?=`)")  # between two input errors; each error starts with the name of an input


@dataclass(frozen=True)
class ReadyCase:
    """A checked case with what it needs to run.

    `inputs` include defaults. `files` maps the files that `equals` names to their texts. `runs` is the folder of other
    runs that the run may read.
    """

    case: Case
    inputs: Mapping[str, Any]
    project: Path
    files: Mapping[str, str]
    runs: Path | None = None
    prompts: Sequence[RecordedPrompt] | None = None


def prepare_case(case: Case, program: Program, project: Path, problems: Problems) -> ReadyCase | None:
    """Return the case ready to run. If it has errors, report them at their positions and return None."""
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
    """Return the folder that a key names; None if the key is not set. If the folder is missing, report it."""
    name = str(getattr(case, key))
    place = folder / name
    if not name:
        return None
    if not place.is_dir() or not place.resolve().is_relative_to(project.resolve()):
        _report(case, problems, "folder", f"the project has no folder {place}", key)
        return None
    return place


def _prompts(case: Case, folder: Path, project: Path, problems: Problems) -> Sequence[RecordedPrompt] | None:
    """Return the recorded prompts of a case; None if the case names no file. An invalid file is reported."""
    if not case.prompts:
        return None
    file_problems = Problems()
    file = read_source(folder / case.prompts, case.prompts, file_problems, MAX_PROMPTS_BYTES, boundary=project)
    for problem in file_problems:
        _report(case, problems, problem.code, f"{case.prompts}: {problem.message}", "prompts", hint=problem.hint)
    try:
        return load_prompts(file.text) if file is not None else None
    except ValueError as error:
        hint = "remove this line, or record the case again with `skillrun test --record RUN`"
        _report(case, problems, "prompts", f"{case.prompts}: {error}", "prompts", hint=hint)
    return None


def _inputs(case: Case, program: Program, project: Path, problems: Problems) -> dict[str, Any]:
    """Return the inputs, including defaults. Invalid inputs are reported at their positions."""
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
    """Report address patterns that name a round that no run can reach."""
    most = _most_rounds(program)
    for expectation in case.expectations:
        match = ROUND_PREFIX.match(expectation.subject) if expectation.kind in _BY_ADDRESS else None
        if match is not None and not 1 <= int(match[1]) <= most:
            span = case.front.key_span("expect", _BY_ADDRESS[expectation.kind], expectation.subject) or expectation.span
            message = f"`{case.workflow}` has no round {int(match[1])}"
            hint = f"it has no `goto`, so remove `{match[0]}`" if most == 1 else f"its rounds are 1 to {most}"
            problems.report(span, "unknown-round", message, hint if most < math.inf else "rounds are counted from 1")


def _most_rounds(program: Program) -> float:
    """Return the maximum number of rounds of a run; infinite if the `at_most` of a `goto` is not a literal number."""
    steps = [step for phase in program.phases.values() for step in phase.walk()]
    uses = program.workflow.phases.values()
    steps += [step for use in uses if use.otherwise is not None for step in use.otherwise.walk()]
    caps = [step.values.get("at_most") if step.retry is None else None for step in steps if step.verb == "goto"]
    written = [cap.literal if cap is not None else None for cap in caps]
    return 1 + sum(cap if isinstance(cap, int) else math.inf for cap in written)


_BY_ADDRESS: Final = {"prompt": "prompts", "calls": "calls"}
_OF_PHASES: Final = ("outputs", "flags")


def _files(case: Case, folder: Path, project: Path, problems: Problems) -> dict[str, str]:
    """Return the texts of the files that `equals` names, keyed by name."""
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
    """Report a problem at the key with this path, or at the key's nearest parent that exists."""
    places = (case.front.key_span(*path[:length]) for length in range(len(path), 0, -1))
    span: Span = next((place for place in places if place is not None), case.span)
    problems.report(span, code, message, hint)


def check_cases(project: Path, library: Library, programs: Sequence[Program]) -> tuple[list[str], Iterator[Problem]]:
    """Return the labels of the project's case files, and the problems in the files, for `skillrun validate`.

    If the library has errors, the names in cases are not checked.
    """
    files = list(case_files(project))
    by_name = {} if library.problems.has_errors else {program.workflow.name: program for program in programs}
    workflows = library.names("workflows")
    problems = (
        problem for file in files for problem in case_problems(file, workflows, by_name.get(file.workflow), project)
    )
    return [file.label for file in files], problems


def case_problems(
    file: CaseFile, workflows: Iterable[str], program: Program | None, project: Path, text: str | None = None
) -> Problems:
    """Return the problems of a case file. If `text` is given, it is checked instead of the content on disk.

    Without a program, the names in the case are not checked. If no workflow has the name of the folder, only files that
    look like cases are checked.
    """
    problems, workflow_names = Problems(), list(workflows)
    try:
        source = _source(file, project, text, problems)
        document = parse_document(source, problems) if source is not None else None
    except ParsingStopped:
        return problems
    if document is None:
        return problems if file.workflow in workflow_names else Problems()
    if file.workflow not in workflow_names:
        problems = Problems()
        if looks_like_case(document):
            message = f"the folder of this case is named `{file.workflow}`, but no workflow has this name"
            hint = suggest(file.workflow, filter(None, workflow_names))
            problems.report(Span(document.source, 0), "unknown-workflow", message, hint)
        return problems
    case = read_case(file, document, problems, project)
    if case is not None and program is not None:
        prepare_case(case, program, project, problems)
    return problems


def _source(file: CaseFile, project: Path, text: str | None, problems: Problems) -> Source | None:
    if text is not None:
        return decode_source(text.encode("utf-8", "replace"), file.path, file.label, problems, MAX_BYTES)
    return read_source(file.path, file.label, problems, boundary=project)
