"""Checks test cases: their keys, and the inputs, phases, questions, models, files and folders that they name."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.extensions.testing.cases import (
    CASES_FOLDER,
    ROUND_PREFIX,
    Case,
    CaseFile,
    CaseReader,
    case_files,
    read_named_file,
)
from skillrun.extensions.testing.differences import MAX_PROMPTS_BYTES, RecordedPrompt, load_prompts
from skillrun.library.library import Library
from skillrun.library.lookups import Lookups
from skillrun.questions.prepared_answers import PreparedAnswers, check_answers
from skillrun.runtime.inputs import validate_inputs
from skillrun.syntax import source
from skillrun.syntax.diagnostics import ParsingStopped, Problem, Problems, UsageError, suggest
from skillrun.syntax.source import Span, to_plain

_NAMED: Final = re.compile(r"`([^`]+)`")
_BETWEEN: Final = re.compile(r"; (?=`)")  # between two input errors; each error starts with the name of an input
_KEYS_BY_ADDRESS: Final = {"prompt": "prompts", "calls": "calls"}


@dataclass(frozen=True)
class ReadyCase:
    """A checked case and the data needed to run it.

    `inputs` includes defaults. `files` has the texts of the files that `equals` names, keyed by name. `runs` is the
    folder of other runs that the run can read.
    """

    case: Case
    inputs: Mapping[str, Any]
    project: Path
    files: Mapping[str, str]
    runs: Path | None = None
    prompts: Sequence[RecordedPrompt] | None = None


def load_case(
    file: CaseFile, program: Program | None, project: Path, problems: Problems, text: str | None = None
) -> ReadyCase | None:
    """Return the case in a file, ready to run. If the case has errors, report them and return None.

    Without a program, the names in the case are not checked, and the result is None. If `text` is given, it replaces
    the content on disk.
    """
    document = file.document(problems, project, text)
    if document is None:
        return None
    ready = None
    try:
        case = CaseReader(file, project, problems).read_case(document)
        if program is not None:
            ready = _prepare_case(case, program, file.path.parent, project, problems)
    except ParsingStopped:
        return None
    return None if problems.has_errors else ready


def _prepare_case(case: Case, program: Program, folder: Path, project: Path, problems: Problems) -> ReadyCase:
    """Check the names in a case, and read the named files. File names are relative to `folder`."""
    folders: dict[str, Path] = {}
    for key, name in (("project", case.project), ("runs", case.runs)):
        place = folder / name
        if name and place.is_dir() and Path(os.path.realpath(place)).is_relative_to(Path(os.path.realpath(project))):
            folders[key] = place
        elif name:
            problems.report(case.span(key), "folder", f"the project has no folder {place}")
    if case.model and (wrong := Lookups(program.library).models.check_model(case.model)):
        problems.report(case.span("model"), wrong.code, wrong.message, wrong.hint)
    files = _check_expectations(case, program, folder, project, problems)
    for problem in check_answers(program, PreparedAnswers(case.answers)):
        problems.add(problem)
    prompts = None
    if case.prompts:
        span = case.span("prompts")
        content = read_named_file(folder / case.prompts, case.prompts, span, problems, project, MAX_PROMPTS_BYTES)
        try:
            prompts = load_prompts(content.text) if content is not None else None
        except ValueError as error:
            hint = "remove this line, or record the case again with `skillrun test --record RUN`"
            problems.report(span, "prompts", f"{case.prompts}: {error}", hint)
    project_folder = folders.get("project", project)
    inputs = _read_inputs(case, program, project_folder, problems)
    return ReadyCase(case, inputs, project_folder, files, folders.get("runs"), prompts)


def _check_expectations(
    case: Case, program: Program, folder: Path, project: Path, problems: Problems
) -> dict[str, str]:
    """Report unknown phases and rounds. Return the texts of the files under `equals`, keyed by the name of the file."""
    phases, most = program.workflow.phases, _most_rounds(program)
    texts: dict[str, str] = {}
    for expectation in case.expectations:
        kind, subject = expectation.kind, expectation.subject
        names = expectation.value if kind == "path" else (subject,) if kind in ("outputs", "flags") else ()
        for name in names:
            if name not in phases:
                span = case.front.key_span("expect", kind, name) or expectation.span
                message = f"`{case.workflow}` has no phase `{name}`"
                problems.report(span, "unknown-phase", message, suggest(name, phases))
        match = ROUND_PREFIX.match(subject) if kind in _KEYS_BY_ADDRESS else None
        if match is not None and not 1 <= int(match[1]) <= most:
            span = case.front.key_span("expect", _KEYS_BY_ADDRESS[kind], subject) or expectation.span
            message = f"`{case.workflow}` has no round {int(match[1])}"
            hint = f"the workflow has no `goto`, so remove `{match[0]}`" if most == 1 else f"the last round is {most}"
            problems.report(span, "unknown-round", message, hint if most < math.inf else "rounds are counted from 1")
        if expectation.test == "equals":
            name = expectation.value
            content = read_named_file(folder / name, name, expectation.span, problems, project)
            texts[name] = content.text if content is not None else ""
    return texts


def _most_rounds(program: Program) -> float:
    """Return the maximum number of rounds of a run; infinite if the `at_most` of a `goto` is not a literal number."""
    steps = [step for phase in program.phases.values() for step in phase.walk()]
    uses = program.workflow.phases.values()
    steps += [step for use in uses if use.otherwise is not None for step in use.otherwise.walk()]
    caps = [step.values.get("at_most") if step.retry is None else None for step in steps if step.verb == "goto"]
    written = [cap.literal if cap is not None else None for cap in caps]
    return 1 + sum(cap if isinstance(cap, int) else math.inf for cap in written)


def _read_inputs(case: Case, program: Program, project: Path, problems: Problems) -> dict[str, Any]:
    """Return the inputs of the case, including defaults, and report invalid inputs."""
    node = case.front.get("inputs")
    values: dict[str, Any] = to_plain(node) or {} if isinstance(node, source.Mapping) else {}
    known = [field.name for field in program.workflow.inputs]
    for name in values.keys() - set(known):
        message = f"`{case.workflow}` has no input `{name}`"
        problems.report(case.span("inputs", name), "unknown-input", message, suggest(name, known))
    try:
        given = {name: values[name] for name in values if name in known}
        return validate_inputs(program, given, project, confined=True)[0]
    except UsageError as error:
        for text in _BETWEEN.split(error.message):
            named = _NAMED.match(text)
            problems.report(case.span("inputs", named[1] if named else ""), "input", text, error.next_step)
    return {}


def check_cases(project: Path, library: Library, programs: Sequence[Program]) -> tuple[list[str], Iterator[Problem]]:
    """Return the labels of the project's case files, and the problems in the files, for `skillrun validate`.

    If the library has errors, the names in cases are not checked.
    """
    files = list(case_files(project))
    by_name: dict[str, Program | None] = {program.workflow.name: program for program in programs}
    workflows = library.names("workflows")
    if library.problems.has_errors:
        by_name = dict.fromkeys(workflows)
    for name in {file.workflow for file in files}.intersection(workflows) - by_name.keys():
        by_name[name] = check_workflow(library.fork(), name)  # a shipped workflow that the project does not change
    checked = (case_problems(file, workflows, by_name.get(file.workflow), project) for file in files)
    return [file.label for file in files], chain.from_iterable(checked)


def case_problems(
    file: CaseFile, workflows: Iterable[str], program: Program | None, project: Path, text: str | None = None
) -> Problems:
    """Return the problems of a case file. `program` and `text` are passed to `load_case`.

    If no workflow has the name of the file's folder, the file is checked only if it has keys of a case.
    """
    problems, names = Problems(), list(workflows)
    if file.workflow in names:
        load_case(file, program, project, problems, text)
        return problems
    document = file.document(problems, project, text)
    if document is None and file.label == CASES_FOLDER:
        return problems
    if document is None or not document.frontmatter.entries.keys() & {"expect", "replies"}:
        return Problems()
    message = f"the folder of this case is named `{file.workflow}`, but no workflow has this name"
    problems.report(Span(document.source, 0), "unknown-workflow", message, suggest(file.workflow, filter(None, names)))
    return problems
