"""What is wrong with the cases of a project's workflows: those whose file or workflow has changed are looked at again.

Runs no case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skillrun.cases.checking import ready_case
from skillrun.cases.reading import CaseFile, case_files, is_case_file, is_meant, read_case
from skillrun.language.check.rechecking import CheckedPart
from skillrun.language.text.diagnostics import GivenUp, Problem, Problems, suggest
from skillrun.language.text.document import parse_document
from skillrun.language.text.reading import read_source, source_of
from skillrun.language.text.source import MAX_BYTES, Source, Span


class CheckedCase(NamedTuple):
    """A case as it was looked at: its text or the state of its file, the check of its workflow, and what is wrong."""

    stamp: object
    part: CheckedPart | None
    problems: tuple[Problem, ...]


@dataclass
class CheckedCases:
    """All cases of a project, each kept until something changes that it depends on."""

    project: Path
    cases: dict[Path, CheckedCase] = field(default_factory=dict)

    def problems(self, parts: Mapping[str, CheckedPart], unsaved: Mapping[Path, str]) -> Iterator[Problem]:
        """What is wrong with the cases of the workflows that were checked, and with cases of none."""
        cases: dict[Path, CheckedCase] = {}
        for file in self._files(unsaved):
            before, part = self.cases.get(file.path), parts.get(file.workflow)
            stamp = _stamp(file.path, unsaved)
            if before is None or before.stamp != stamp or before.part is not part:
                problems = tuple(self._check(file, part, list(parts), unsaved.get(file.path)))
                before = CheckedCase(stamp, part, problems)
            cases[file.path] = before
            yield from before.problems
        self.cases = cases

    def _files(self, unsaved: Mapping[Path, str]) -> Iterator[CaseFile]:
        """Those on the disk, and new ones."""
        files = {file.path: file for file in case_files(self.project)}
        for path in unsaved:
            if path.is_relative_to(self.project) and is_case_file(path.relative_to(self.project)):
                label = path.relative_to(self.project).as_posix()
                files[path] = CaseFile(path.parent.name, path.stem, path, label)
        yield from files.values()

    def _check(self, file: CaseFile, part: CheckedPart | None, known: list[str], text: str | None) -> Problems:
        problems = Problems()
        try:
            source = self._source(file, text, problems)
            document = parse_document(source, problems) if source is not None else None
        except GivenUp:
            return problems
        if document is None:
            return problems if part is not None else Problems()
        if part is None:
            problems = Problems()
            if is_meant(document):
                message = f"no workflow is called `{file.workflow}`, as the folder of this case is"
                hint = suggest(file.workflow, filter(None, known))
                problems.report(Span(document.source, 0), "unknown-workflow", message, hint)
            return problems
        case = read_case(file, document, problems, self.project)
        if case is not None and part.program is not None and not part.library.problems.errors:
            ready_case(case, part.program, self.project, problems)
        return problems

    def _source(self, file: CaseFile, text: str | None, problems: Problems) -> Source | None:
        if text is not None:
            return source_of(text.encode("utf-8", "replace"), file.path, file.label, problems, MAX_BYTES)
        return read_source(file.path, file.label, problems, inside=self.project)


def _stamp(path: Path, unsaved: Mapping[Path, str]) -> object:
    if path in unsaved:
        return unsaved[path]
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
