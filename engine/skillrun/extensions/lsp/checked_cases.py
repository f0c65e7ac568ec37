"""Checks the test cases of a project, and rechecks a case only after its file or workflow has changed.

Runs no case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skillrun.checker.rechecking import CheckedPart
from skillrun.extensions.testing.case_reader import CaseFile, case_files, is_case_file
from skillrun.extensions.testing.problems import case_problems
from skillrun.syntax.diagnostics import Problem


class CheckedCase(NamedTuple):
    """A checked case: the stamp of its file or its unsaved text, the check of its workflow, and its problems."""

    stamp: object
    part: CheckedPart | None
    problems: tuple[Problem, ...]


@dataclass
class CheckedCases:
    """The checked cases of a project; a result is kept until something it depends on changes."""

    project: Path
    cases: dict[Path, CheckedCase] = field(default_factory=dict)

    def problems(self, parts: Mapping[str, CheckedPart], unsaved: Mapping[Path, str]) -> Iterator[Problem]:
        """Yield the problems of all cases, including those of unknown workflows."""
        cases: dict[Path, CheckedCase] = {}
        for file in self._files(unsaved):
            before, part = self.cases.get(file.path), parts.get(file.workflow)
            stamp = _stamp(file.path, unsaved)
            if before is None or before.stamp != stamp or before.part is not part:
                program = part.program if part is not None and not part.library.problems.has_errors else None
                problems = tuple(case_problems(file, parts, program, self.project, unsaved.get(file.path)))
                before = CheckedCase(stamp, part, problems)
            cases[file.path] = before
            yield from before.problems
        self.cases = cases

    def _files(self, unsaved: Mapping[Path, str]) -> Iterator[CaseFile]:
        """Yield the cases on disk and the new, unsaved ones."""
        files = {file.path: file for file in case_files(self.project)}
        for path in unsaved:
            if path.is_relative_to(self.project) and is_case_file(path.relative_to(self.project)):
                label = path.relative_to(self.project).as_posix()
                files[path] = CaseFile(path.parent.name, path.stem, path, label)
        yield from files.values()


def _stamp(path: Path, unsaved: Mapping[Path, str]) -> object:
    if path in unsaved:
        return unsaved[path]
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
