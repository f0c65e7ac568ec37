"""What is wrong with a case: with its text, its keys, and what it names of its workflow.

Runs no case.
"""

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
    """The check of `skillrun validate`: the project's case files, and their problems.

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
    """What is wrong with a case, whose text is given where it is not that of its file.

    What it names is looked up in the program, where one is given. A file in a folder that no workflow is named like is
    a case only where it looks like one.
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
            message = f"no workflow is called `{file.workflow}`, as the folder of this case is"
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
