"""Checks cases without running them: their syntax, their keys, and the names that they use from their workflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from skillrun.checker.program import Program
from skillrun.extensions.testing.case_reader import CaseFile, case_files, looks_like_case, read_case
from skillrun.extensions.testing.checking import prepare_case
from skillrun.library.library import Library
from skillrun.syntax.diagnostics import ParsingStopped, Problem, Problems, suggest
from skillrun.syntax.document import parse_document
from skillrun.syntax.reading import decode_source, read_source
from skillrun.syntax.source import MAX_BYTES, Source, Span


def check_cases(project: Path, library: Library, programs: Sequence[Program]) -> tuple[list[str], Iterator[Problem]]:
    """Return the project's case files and their problems, for `skillrun validate`.

    The names in a case are checked only if the library has no errors.
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
    """Return the problems of a case; `text` replaces the content of its file.

    Names are checked only with a program. In a folder without a workflow of the same name, only files that look like
    cases are checked.
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
